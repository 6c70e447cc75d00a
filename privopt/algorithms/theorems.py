"""What theory says of descent along private gradients: default steps and numbers, and the rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privopt.algorithms.choices import (
    chosen_output,
    is_plain,
    moments_of,
    output_rule,
    step_rule,
)
from privopt.arguments import count
from privopt.convex import Average, L1L2Ball, Output, StepSizes, average_after_step, last_iterate
from privopt.core import Plan
from privopt.mechanisms import (
    AllRecords,
    Batches,
    ClippedGradient,
    FixedSizeBatches,
    IndependentNoise,
    Noise,
    PrivateGradient,
)
from privopt.privacy import Sampler, gaussian_mu
from privopt.spec import Budget, Norm, ProblemClass
from privopt.theory import (
    ALL_RECORDS,
    GIVEN_STEPS,
    DefaultSteps,
    Exponents,
    Moments,
    Rate,
    StepRule,
    biased_descent_step_size,
    descent_batch,
    descent_rate,
    descent_steps,
    inexact_descent_step_size,
    no_rate,
    projected_descent_rate,
    projected_descent_steps,
    projected_gradient,
)


def horizon(
    problem_class: ProblemClass,
    budget: Budget,
    query: ClippedGradient,
    steps: int | None,
    *,
    moments: Moments | None = ALL_RECORDS,
    output: Output | str | None = None,
    projected: bool = False,
) -> DefaultSteps:
    """``T``, given or that of :func:`privopt.theory.descent_steps`, and how it moves with the axes.

    The fewer steps of the smooth theorem only with an output that it speaks of; other updates than
    plain descent, of which no theorem speaks, take as many. Where full gradients are ``projected``
    onto the sparse body, ``T`` at the least bound for those.
    """
    if steps is not None:
        return DefaultSteps(count("steps", steps), GIVEN_STEPS)
    noise = one_step_noise(query, budget)
    if projected:
        smooth = problem_class.smoothness is not None
        return DefaultSteps(
            projected_descent_steps(
                problem_class, one_step_noise=noise, clip=query.clip, smooth=smooth
            )
        )
    return descent_steps(
        problem_class,
        one_step_noise=noise,
        clip=Norm.L2.bound(query.clip, query.norm, query.dim),
        moments=moments or ALL_RECORDS,
        plain=moments is not None
        and math.isfinite(problem_class.lipschitz)
        and chosen_output(output) in (None, last_iterate(), average_after_step()),
    )


def one_step_noise(query: ClippedGradient, budget: Budget) -> float:
    """``sigma_1``: what a single full gradient would need within the budget."""
    return query.sensitivity(budget.relation) / gaussian_mu(budget.epsilon, budget.delta)


def least_batch(
    problem_class: ProblemClass,
    budget: Budget,
    query: ClippedGradient,
    steps: int | None,
    sampler: str | Batches,
) -> float:
    """What :func:`privopt.theory.descent_batch` asks of batches; 0 where steps are given."""
    if steps is not None or sampler not in (Sampler.POISSON, Sampler.WITHOUT_REPLACEMENT):
        return 0.0
    return descent_batch(problem_class, one_step_noise=one_step_noise(query, budget))


def projected_numbers(
    problem_class: ProblemClass, mechanism: PrivateGradient
) -> tuple[float | StepSizes, Output]:
    """Step size and output of a theorem on gradients projected onto the sparse body.

    Smooth losses and all records: ``1/(H + e sqrt(T)/R)`` and the average after each step, with
    ``e`` the error of one gradient. Else ``R/(L sqrt(T + 1))`` and the average of all points.
    """
    steps, clip = int(mechanism.steps), mechanism.query.clip
    error, square = projected_gradient(problem_class, noise_std=float(mechanism.scale), clip=clip)
    if problem_class.smoothness is not None and isinstance(mechanism.batches, AllRecords):
        step = inexact_descent_step_size(problem_class, steps=steps, error=error.value)
        return step, average_after_step()
    step = biased_descent_step_size(problem_class, steps=steps, second_moment=square.value)
    return step, Average()


def rate_of(plan: Plan, powers: Exponents | None = None) -> Rate:
    """Of the theorem that covers a plan's private gradient and method.

    ``powers`` are those of a default number of steps that is not :func:`horizon`'s.
    """
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    if mechanism.post is not None:
        return _projected_rate(plan)
    moments = moments_of(mechanism.batches, facts.n)
    reason = unmoving(params) or unknown_noise(mechanism.noise, mechanism.steps)
    if reason:
        return no_rate(reason)
    noise = mechanism.noise
    return descent_rate(
        facts,
        steps=mechanism.steps,
        step_rule=step_rule(method.step_sizes),
        output=output_rule(method.output),
        noise_std=0.0 if noise is None else mechanism.scale * math.sqrt(noise.variance),
        moments=moments,
        steps_powers=steps_powers(plan, moments) if powers is None else powers,
        clipped=mechanism.query.changes(facts),
        plain=is_plain(method.update),
    )


def _projected_rate(plan: Plan) -> Rate:
    """What theory says of descent along gradients that are projected, and so biased."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    query, batches, known = mechanism.query, mechanism.batches, mechanism.post
    rule, smooth = step_rule(method.step_sizes), method.output == average_after_step()
    reason = unmoving(params) or obstacle(facts, mechanism.noise, batches)
    sparse = facts.sparsity is not None and math.isfinite(query.clip)
    if not sparse or known != L1L2Ball.of(query.clip, facts.sparsity or 1):
        reason = "gradients are projected onto a set that may not hold their mean"
    elif query.changes(facts) or math.isinf(facts.lipschitz):
        reason = "gradients are clipped below the Lipschitz constant"
    elif not is_plain(method.update):
        reason = "the update is not plain descent"
    elif not mechanism.scale > 0.0:
        reason = "the theorem is for noise"
    elif not reason and rule != StepRule(rule.scale):
        reason = "no theorem for these step sizes with projected gradients"
    elif not reason and not (
        method.output == Average() or (smooth and isinstance(batches, AllRecords))
    ):
        reason = "no theorem for this output with projected gradients"
    if reason:
        return no_rate(reason)
    default = horizon(facts, plan.budget, query, None, projected=True)
    return projected_descent_rate(
        facts,
        steps=mechanism.steps,
        noise_std=mechanism.scale if mechanism.noise is not None else 0.0,
        clip=query.clip,
        step_size=rule.scale,
        smooth=smooth,
        steps_powers=steps_powers(plan, moments_of(batches, facts.n), default),
    )


def obstacle(problem_class: ProblemClass, noise: Noise | str | None, batches: Batches) -> str:
    """Why no theorem covers projected gradients; empty if one may."""
    if not isinstance(noise, IndependentNoise | None) or getattr(noise, "variance", 1.0) != 1.0:
        return "the noise of steps is not independent and normal"
    if not isinstance(batches, AllRecords | FixedSizeBatches):
        return "batches are not of a fixed size, so that their means may leave the body"
    if not problem_class.convex:
        return "the losses are not convex"
    return "the set is not bounded" if math.isinf(problem_class.radius) else ""


def unmoving(params: Any) -> str:
    """Return the reason why no step is taken, or an empty string."""
    if params.mechanism.steps < 1:
        return "no step is taken"
    sizes = params.descent.step_sizes
    return "" if sizes is None or sizes.scale > 0.0 else "the step size is not positive"


def unknown_noise(noise: Noise | None, steps: int) -> str:
    """Why the theorems of fresh noise say nothing of this one; empty if they do."""
    if noise is not None and getattr(noise, "variance", None) is None:
        return "the noise does not say its variance"
    if isinstance(noise, IndependentNoise | None):
        return ""
    found = noise.factorisation(steps)
    fresh = found.band == 1 and np.array_equal(found.variances(), np.arange(1.0, steps + 1.0))
    return "" if fresh else "the noise of steps is not independent"


def steps_powers(
    plan: Plan,
    moments: Moments | None,
    *others: DefaultSteps,
    problem_class: ProblemClass | None = None,
) -> Exponents:
    """How ``T`` moves with the axes: as a default does, where it is one; else it is given.

    The output may have been chosen before ``T``, or after it.
    """
    params: Any = plan.params
    mechanism, method = params
    defaults = [
        horizon(
            problem_class or plan.problem_class, plan.budget, mechanism.query, None,
            moments=moments, output=output,
        )
        for output in (None, method.output)
    ]  # fmt: skip
    found = (each.powers for each in (*others, *defaults) if each.steps == mechanism.steps)
    return next(found, GIVEN_STEPS)
