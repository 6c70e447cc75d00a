"""Default hyperparameters and rates of descent plans, from the theorems."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optax

from privopt.arguments import count
from privopt.convex import (
    Average,
    L1L2Ball,
    Output,
    RandomIterate,
    StepSizes,
    Update,
    average_after_step,
    checked_output,
    last_iterate,
    polynomial_average,
    projected_leader,
)
from privopt.core import Plan
from privopt.mechanisms import (
    AllRecords,
    Batches,
    ClippedGradient,
    FixedSizeBatches,
    IndependentNoise,
    Noise,
    PoissonBatches,
    PrivateGradient,
)
from privopt.privacy import Sampler, gaussian_mu
from privopt.spec import Budget, Norm, ProblemClass
from privopt.theory import (
    ALL_RECORDS,
    GIVEN_STEPS,
    BatchMoments,
    DefaultSteps,
    Exponents,
    OutputRule,
    Rate,
    StepRule,
    batch_moments,
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

_ROUND_OFF = 1e-6  # relative, of a rate of inclusion
PLAIN = Update.of(optax.sgd)
"""Plain descent."""

OUTPUTS: dict[OutputRule, Output] = {
    OutputRule.AVERAGE: Average(),
    OutputRule.AVERAGE_AFTER_STEP: average_after_step(),
    OutputRule.WEIGHTED_AVERAGE: polynomial_average(),
    OutputRule.RANDOM_ITERATE: RandomIterate(),
    OutputRule.LAST: last_iterate(),
}
"""Output rules by their names in the theorems."""


def is_plain(update: Update) -> bool:
    """Return True for ``w - eta g``, with step sizes of the run."""
    return update == PLAIN


def needs_mapping(update: Update) -> bool:
    """Return True unless the update is exact for gradients on a set: descent, and the leader."""
    return not is_plain(update) and update.origin is not projected_leader


def chosen_output(output: Output | str | None) -> Output | None:
    """Return the output rule for an object or a name in :class:`privopt.theory.OutputRule`."""
    if isinstance(output, str):
        return OUTPUTS[OutputRule.named("output", output)]
    return None if output is None else checked_output(output)


def output_rule(output: Output) -> OutputRule | None:
    """Return the name of an output in the theorems, or None."""
    return next((name for name, rule in OUTPUTS.items() if rule == output), None)


def step_rule(sizes: StepSizes | None) -> StepRule:
    """Return step sizes as a rule of the theorems: 0 for an optimiser that has its own.

    No theorem covers such an optimiser.
    """
    if sizes is None:
        return StepRule(0.0)
    return StepRule(*map(float, (sizes.scale, sizes.power, sizes.offset, sizes.decay)))


def moments_of(batches: Batches, n: int) -> BatchMoments | None:
    """Return the moments of a batch gradient, or None if it may be biased for ``n`` records."""
    if type(batches) is AllRecords:
        return ALL_RECORDS
    match batches:
        case PoissonBatches(rate=rate, batch_size=size, most=most):
            unbiased = most >= n >= size and math.isclose(rate * n, size, rel_tol=_ROUND_OFF)
            return batch_moments(Sampler.POISSON, n=n, batch_size=size) if unbiased else None
        case FixedSizeBatches(batch_size=size, n=total) if total == n:
            return batch_moments(Sampler.WITHOUT_REPLACEMENT, n=n, batch_size=size)
    return None


def one_step_noise(query: ClippedGradient, budget: Budget) -> float:
    """Return ``sigma_1``, the noise of a single full gradient within the budget."""
    return query.sensitivity(budget.relation) / gaussian_mu(budget.epsilon, budget.delta)


def least_batch(
    problem_class: ProblemClass,
    budget: Budget,
    query: ClippedGradient,
    steps: int | None,
    sampler: str | Batches,
) -> float:
    """Return the smallest batch of :func:`privopt.theory.descent_batch`; 0 for given steps."""
    if steps is not None or sampler not in (Sampler.POISSON, Sampler.WITHOUT_REPLACEMENT):
        return 0.0
    return descent_batch(problem_class, one_step_noise=one_step_noise(query, budget))


def default_steps(
    problem_class: ProblemClass,
    budget: Budget,
    query: ClippedGradient,
    steps: int | None,
    *,
    moments: BatchMoments | None = ALL_RECORDS,
    output: Output | str | None = None,
    projected: bool = False,
) -> DefaultSteps:
    """Return the number of steps ``T`` and its exponents: ``steps``, or the default of theory.

    The default is :func:`privopt.theory.descent_steps`. Its smaller value for smooth losses applies
    only to plain descent with an output that the theorem covers. For full gradients ``projected``
    onto the sparse set it is the minimiser of their bound.
    """
    if steps is not None:
        return DefaultSteps(count("steps", steps), GIVEN_STEPS)
    noise = one_step_noise(query, budget)
    if projected:
        smooth = problem_class.smoothness is not None
        return DefaultSteps(
            projected_descent_steps(
                problem_class, one_step_noise=noise, clip_norm=query.clip_norm, smooth=smooth
            )
        )
    return descent_steps(
        problem_class,
        one_step_noise=noise,
        clip_norm=Norm.L2.bound(query.clip_norm, query.norm, query.dim),
        moments=moments or ALL_RECORDS,
        plain=moments is not None
        and math.isfinite(problem_class.lipschitz)
        and chosen_output(output) in (None, last_iterate(), average_after_step()),
    )


def projected_numbers(
    problem_class: ProblemClass, mechanism: PrivateGradient
) -> tuple[float | StepSizes, Output]:
    """Return step size and output of a theorem for gradients projected onto the sparse set.

    Smooth losses and all records: ``1/(H + e sqrt(T)/R)``, with the error ``e`` of one gradient,
    and the average after each step. Otherwise ``R/(L sqrt(T + 1))`` and the average of all points.
    """
    steps, clip_norm = int(mechanism.steps), mechanism.query.clip_norm
    error, square = projected_gradient(
        problem_class, noise_std=float(mechanism.scale), clip_norm=clip_norm
    )
    if problem_class.smoothness is not None and isinstance(mechanism.batches, AllRecords):
        step = inexact_descent_step_size(problem_class, steps=steps, error=error.value)
        return step, average_after_step()
    step = biased_descent_step_size(problem_class, steps=steps, second_moment=square.value)
    return step, Average()


def descent_rate_of(plan: Plan) -> Rate:
    """Return the rate of the theorem that covers the private gradient and method of a plan."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    if mechanism.post is not None:
        return _projected_rate(plan)
    reason = no_step(params) or unmet_noise_assumption(mechanism.noise, mechanism.steps)
    if reason:
        return no_rate(reason)
    noise = mechanism.noise
    return descent_rate(
        facts,
        steps=mechanism.steps,
        step_rule=step_rule(method.step_sizes),
        output=output_rule(method.output),
        noise_std=0.0 if noise is None else mechanism.scale * math.sqrt(noise.variance),
        moments=moments_of(mechanism.batches, facts.n),
        steps_powers=steps_exponents(plan),
        clipped=mechanism.query.changes(facts),
        plain=is_plain(method.update),
    )


def steps_exponents(plan: Plan) -> Exponents:
    """Return the exponents of ``T``: those of the declared default, or those of a given ``T``."""
    params: Any = plan.params
    match plan.declared:
        case DefaultSteps(steps=steps, powers=exponents) if steps == params.mechanism.steps:
            return exponents
    return GIVEN_STEPS


def _projected_rate(plan: Plan) -> Rate:
    """Return the rate of descent with projected, hence biased, gradients."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    query, batches, post = mechanism.query, mechanism.batches, mechanism.post
    rule, smooth = step_rule(method.step_sizes), method.output == average_after_step()
    reason = no_step(params) or unmet_projection_assumption(facts, mechanism.noise, batches)
    sparse = facts.sparsity is not None and math.isfinite(query.clip_norm)
    if not sparse or post != L1L2Ball.of(query.clip_norm, facts.sparsity or 1):
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
    return projected_descent_rate(
        facts,
        steps=mechanism.steps,
        noise_std=mechanism.scale if mechanism.noise is not None else 0.0,
        clip_norm=query.clip_norm,
        step_size=rule.scale,
        smooth=smooth,
        steps_powers=steps_exponents(plan),
    )


def no_step(params: Any) -> str:
    """Return the reason why no step is taken, or an empty string."""
    if params.mechanism.steps < 1:
        return "no step is taken"
    sizes = params.descent.step_sizes
    return "" if sizes is None or sizes.scale > 0.0 else "the step size is not positive"


def unmet_noise_assumption(noise: Noise | None, steps: int) -> str:
    """Return the unmet assumption of the theorems for independent noise, or an empty string."""
    if noise is not None and getattr(noise, "variance", None) is None:
        return "the variance of the noise is unknown"
    if isinstance(noise, IndependentNoise | None):
        return ""
    factorisation = noise.factorisation(steps)
    variances = np.arange(1.0, steps + 1.0)
    independent = factorisation.band == 1 and np.array_equal(factorisation.variances(), variances)
    return "" if independent else "the noise of steps is not independent"


def unmet_projection_assumption(
    problem_class: ProblemClass, noise: Noise | str | None, batches: Batches
) -> str:
    """Return the unmet assumption of the theorems for projected gradients, or an empty string."""
    if not isinstance(noise, IndependentNoise | None) or getattr(noise, "variance", 1.0) != 1.0:
        return "the noise of steps is not independent and normal"
    if not isinstance(batches, AllRecords | FixedSizeBatches):
        return "batches are not of a fixed size, so that their means may leave the set"
    if not problem_class.convex:
        return "the losses are not convex"
    return "the set is not bounded" if math.isinf(problem_class.radius) else ""
