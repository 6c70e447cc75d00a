"""First-order methods: planning, defaults of theory, rate and run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.algorithms.choices import (
    OUTPUTS,
    PLAIN,
    Batching,
    Static,
    chosen_output,
    clipped_gradient,
    gradient_set,
    is_plain,
    moments_of,
    output_rule,
    recorded,
    require_delta,
    step_rule,
)
from privopt.arguments import count, positive_number, shown
from privopt.convex import (
    Average,
    ConstraintSet,
    EmpiricalRisk,
    FirstOrder,
    Iterates,
    L1L2Ball,
    Oracle,
    Output,
    StepSizes,
    Update,
    average_after_step,
    last_iterate,
)
from privopt.core import Algorithm, Execution, Plan, Run, Steps, whole
from privopt.mechanisms import (
    AllRecords,
    Batches,
    ClippedGradient,
    FixedSizeBatches,
    IndependentNoise,
    Noise,
    PrivateGradient,
    VarianceReducedGradient,
    noise_of,
)
from privopt.privacy import Sampler, gaussian_mu
from privopt.release import Pytree
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
    descent_numbers,
    descent_rate,
    descent_steps,
    inexact_descent_step_size,
    no_rate,
    projected_descent_rate,
    projected_descent_steps,
    projected_gradient,
)


class Params(NamedTuple):
    """A private gradient and the method that uses it."""

    mechanism: PrivateGradient | VarianceReducedGradient
    descent: FirstOrder


class Secret(NamedTuple):
    """The last iterate, which the guarantee also covers, and the result of the observer."""

    last: Array
    observed: Pytree


def private_gradient(
    algorithm: str,
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None,
    clip: float | None,
    clip_norm: Norm | str,
    clipping: str = "norm",
    batch_size: float | None = None,
    rate: float | None = None,
    sampler: str | Batches,
    capacity: int | None = None,
    cycle: int | None = None,
    noise: Noise | str | None,
    post: ConstraintSet | str | None = None,
    output: Output | str | None = None,
    plain: bool = True,
) -> PrivateGradient:
    """Return the calibrated private gradient for the arguments of a plan.

    Strong convexity reduces the default number of steps only for ``plain`` descent, because the
    step sizes of other updates do not depend on the curvature.
    """
    require_delta(algorithm, budget)
    query = clipped_gradient(problem_class, clip, clipping, clip_norm)
    body = gradient_set(post, problem_class, query)
    least = least_batch(problem_class, budget, query, steps, sampler)
    batching = Batching.of(problem_class, batch_size, rate, sampler, capacity, cycle, least)
    full = isinstance(batching.sampler, AllRecords)
    default = default_steps(
        problem_class if plain else replace(problem_class, strong_convexity=0.0),
        budget, query, steps, moments=batching.moments, output=output,
        projected=full and post == "sparse"
        and not unmet_projection_assumption(problem_class, noise, AllRecords()),
    )  # fmt: skip
    batches = batching.batches(budget, default.steps)
    sequence = noise_of(noise, default.steps)
    return PrivateGradient.calibrated(query, budget, default.steps, batches, sequence, body)


def descend(
    algorithm: Algorithm,
    problem_class: ProblemClass,
    budget: Budget,
    mechanism: PrivateGradient | VarianceReducedGradient,
    *,
    step_size: float | StepSizes | None = None,
    update: Update = PLAIN,
    output: Output | str | None = None,
    record: int | str = 0,
    sparse: bool = False,
    gradient_mapping: bool = False,
    declared: object = None,
) -> Plan:
    """Return the plan of a method on ``mechanism``, with step sizes and output of theory.

    Plain descent uses :func:`privopt.theory.descent_numbers`, or :func:`projected_numbers` if its
    gradients are ``sparse`` by projection. Other updates return the last iterate and use steps
    ``R/sqrt(d T)`` in linear decay. If every coordinate changes by one step size per step, the
    iterate moves about ``R/sqrt(3)`` in total. No theorem covers these updates. An optimiser with
    its own step sizes needs none. See :class:`privopt.convex.FirstOrder` for ``gradient_mapping``.
    """
    steps = int(mechanism.steps)
    if update.has_step_sizes and step_size is not None:
        raise ValueError(
            "step_size must be left out with update, an optimiser with its own step sizes, got "
            f"{shown(step_size)}: give a factory to set it, such as update=Update.of(optax.adam)"
        )
    default = step_size is None and output is None and is_plain(update)
    if sparse and default:
        assert isinstance(mechanism, PrivateGradient)
        if not unmet_projection_assumption(problem_class, mechanism.noise, mechanism.batches):
            step_size, output = projected_numbers(problem_class, mechanism)
    if step_size is not None and not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    output = chosen_output(output)
    if is_plain(update):
        numbers = descent_numbers(
            problem_class,
            steps=steps,
            noise_std=mechanism.scale,
            moments=moments_of(mechanism.batches, problem_class.n) or ALL_RECORDS,
            step_rule=None if step_size is None else step_rule(step_size),
            output=None if output is None else output_rule(output),
        )
        step_size = step_size or StepSizes(*numbers.step_rule)
        output = output or OUTPUTS[numbers.output]
    elif step_size is None and not update.has_step_sizes:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        per_coordinate = problem_class.radius / math.sqrt(problem_class.dim * steps)
        step_size = StepSizes.linear_decay(per_coordinate)
    method = FirstOrder(
        step_size, update, output or last_iterate(), *recorded(record, steps), gradient_mapping
    )
    params, static = Params(mechanism, method), Static(problem_class.dim)
    return Plan(algorithm, problem_class, budget, params, static, declared)


def steps(
    static: Static, params: Params, objective: EmpiricalRisk, key: Array, execution: Execution
) -> Steps:
    """Return the steps of the method on the device, from the problem's start."""
    assert isinstance(params.mechanism, PrivateGradient)
    oracle = params.mechanism.oracle(objective, key, execution.microbatch)
    return steps_of(params.descent, oracle, static, objective, key, execution)


def steps_of(
    method: FirstOrder,
    oracle: Oracle,
    static: Static,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
) -> Steps:
    """Return the steps of a method with an oracle."""
    start, observer = objective.start(static.dim), execution.observer
    descent = method.of(oracle, objective.constraint, start, key, observer, objective)
    return Steps(
        descent.steps, descent.init, descent.until, lambda state: run_of(descent.ends(state))
    )


def run_of(iterates: Iterates) -> Run:
    """Split the result of a method into release, secret and path."""
    return Run(iterates.output, Secret(iterates.last, iterates.observed), iterates.path)


def rows(
    static: Static, params: Params, key: Array, t: Array, records: Array | int
) -> tuple[Array, Array]:
    """Return the indices and the mask of the records in batch ``t``."""
    del static
    assert isinstance(params.mechanism, PrivateGradient)
    batches = params.mechanism.batches
    if batches.block == 0:
        if not isinstance(records, int):
            raise ValueError("counts must be None for the rows of all records, got multiplicities")
        return jnp.arange(records), jnp.ones(records, bool)
    rows, mask = params.mechanism.draws_of(key, records)(t // batches.block)
    return rows[t % batches.block], mask[t % batches.block]


def step_count(static: Static, params: Params) -> int:
    """Return ``T``."""
    del static
    return int(params.mechanism.steps)


def default_steps(
    problem_class: ProblemClass,
    budget: Budget,
    query: ClippedGradient,
    steps: int | None,
    *,
    moments: Moments | None = ALL_RECORDS,
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


def projected_numbers(
    problem_class: ProblemClass, mechanism: PrivateGradient
) -> tuple[float | StepSizes, Output]:
    """Return step size and output of a theorem for gradients projected onto the sparse set.

    Smooth losses and all records: ``1/(H + e sqrt(T)/R)``, with the error ``e`` of one gradient,
    and the average after each step. Otherwise ``R/(L sqrt(T + 1))`` and the average of all points.
    """
    steps, clip = int(mechanism.steps), mechanism.query.clip
    error, square = projected_gradient(problem_class, noise_std=float(mechanism.scale), clip=clip)
    if problem_class.smoothness is not None and isinstance(mechanism.batches, AllRecords):
        step = inexact_descent_step_size(problem_class, steps=steps, error=error.value)
        return step, average_after_step()
    step = biased_descent_step_size(problem_class, steps=steps, second_moment=square.value)
    return step, Average()


def rate_of(plan: Plan, powers: Exponents | None = None) -> Rate:
    """Return the rate of the theorem that covers the private gradient and method of a plan.

    ``powers`` are the exponents of a default number of steps other than :func:`default_steps`.
    """
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    if mechanism.post is not None:
        return _projected_rate(plan)
    moments = moments_of(mechanism.batches, facts.n)
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
        moments=moments,
        steps_powers=steps_powers(plan, moments) if powers is None else powers,
        clipped=mechanism.query.changes(facts),
        plain=is_plain(method.update),
    )


def _projected_rate(plan: Plan) -> Rate:
    """Return the rate of descent with projected, hence biased, gradients."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    query, batches, post = mechanism.query, mechanism.batches, mechanism.post
    rule, smooth = step_rule(method.step_sizes), method.output == average_after_step()
    reason = no_step(params) or unmet_projection_assumption(facts, mechanism.noise, batches)
    sparse = facts.sparsity is not None and math.isfinite(query.clip)
    if not sparse or post != L1L2Ball.of(query.clip, facts.sparsity or 1):
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
    default = default_steps(facts, plan.budget, query, None, projected=True)
    return projected_descent_rate(
        facts,
        steps=mechanism.steps,
        noise_std=mechanism.scale if mechanism.noise is not None else 0.0,
        clip=query.clip,
        step_size=rule.scale,
        smooth=smooth,
        steps_powers=steps_powers(plan, moments_of(batches, facts.n), default),
    )


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


def steps_powers(
    plan: Plan,
    moments: Moments | None,
    *others: DefaultSteps,
    problem_class: ProblemClass | None = None,
) -> Exponents:
    """Return the exponents of ``T``: those of a default, if ``T`` equals it, else of a given ``T``.

    Defaults without and with the output of the plan are compared.
    """
    params: Any = plan.params
    mechanism, method = params
    defaults = [
        default_steps(
            problem_class or plan.problem_class, plan.budget, mechanism.query, None,
            moments=moments, output=output,
        )
        for output in (None, method.output)
    ]  # fmt: skip
    powers = (each.powers for each in (*others, *defaults) if each.steps == mechanism.steps)
    return next(powers, GIVEN_STEPS)


run = whole(steps)
IN_STEPS: dict[str, Any] = {
    "mechanism": PrivateGradient,
    "run": run,
    "steps": steps,
    "step_count": step_count,
    "rows": rows,
}
"""Arguments of :class:`privopt.core.Algorithm` shared by all first-order algorithms."""
