"""What the first-order algorithms share: their bricks as parameters, their run, their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from privopt.algorithms.choices import moments_of
from privopt.algorithms.one_shot import Static
from privopt.arguments import count, positive_number
from privopt.convex import (
    Average,
    AverageAfterStep,
    EmpiricalRisk,
    FirstOrder,
    Iterates,
    Last,
    Oracle,
    Output,
    PolynomialAverage,
    RandomIterate,
    StepSizes,
    Update,
    checked_output,
)
from privopt.core import Execution, Plan, Run, Steps, whole
from privopt.mechanisms import (
    Batches,
    ClippedGradient,
    IndependentNoise,
    Noise,
    PrivateGradient,
    VarianceReducedGradient,
)
from privopt.privacy import Sampler, gaussian_mu
from privopt.release import Pytree
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    ALL_RECORDS,
    GIVEN_STEPS,
    DefaultSteps,
    Moments,
    OutputRule,
    Powers,
    Rate,
    StepRule,
    descent_batch,
    descent_numbers,
    descent_rate,
    descent_steps,
    no_rate,
)

Optimiser: TypeAlias = (
    Update | optax.GradientTransformation | Callable[..., optax.GradientTransformation]
)

_RULES: dict[OutputRule, Output] = {
    OutputRule.AVERAGE: Average(),
    OutputRule.AVERAGE_AFTER_STEP: AverageAfterStep(),
    OutputRule.WEIGHTED_AVERAGE: PolynomialAverage(),
    OutputRule.RANDOM_ITERATE: RandomIterate(),
    OutputRule.LAST: Last(),
}
_MAX_RECORDED = 10_000


class Params(NamedTuple):
    """A private gradient, and the method that asks it."""

    mechanism: PrivateGradient | VarianceReducedGradient
    descent: FirstOrder


class Secret(NamedTuple):
    """The last iterate, which the guarantee covers too, and what the observer made of the run."""

    last: Array
    observed: Pytree


def steps(
    static: Static, params: Params, objective: EmpiricalRisk, key: Array, execution: Execution
) -> Steps:
    """The method on the device, from the problem's start."""
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
    """The steps of a method on an oracle."""
    start, observer = objective.start(static.dim), execution.observer
    descent = method.of(oracle, objective.constraint, start, key, observer, objective)
    return Steps(
        descent.steps, descent.init, descent.until, lambda state: run_of(descent.ends(state))
    )


def run_of(found: Iterates) -> Run:
    """What is released of a run, and what is not."""
    return Run(found.output, Secret(found.last, found.observed), found.path)


def rows(
    static: Static, params: Params, key: Array, t: Array, records: Array | int
) -> tuple[Array, Array]:
    """Who takes part in step ``t``."""
    del static
    assert isinstance(params.mechanism, PrivateGradient)
    batches = params.mechanism.batches
    if batches.block == 0:
        if not isinstance(records, int):
            raise ValueError("counts must be None for the rows of all records, got multiplicities")
        return jnp.arange(records), jnp.ones(records, bool)
    rows, taken = params.mechanism.draws_of(key, records)(t // batches.block)
    return rows[t % batches.block], taken[t % batches.block]


def step_count(static: Static, params: Params) -> int:
    """``T``."""
    del static
    return int(params.mechanism.steps)


run = whole(steps)
IN_STEPS: dict[str, Any] = {"run": run, "steps": steps, "step_count": step_count, "rows": rows}
"""What a record of a first-order algorithm says of its runs."""


def horizon(
    problem_class: ProblemClass,
    budget: Budget,
    query: ClippedGradient,
    steps: int | None,
    *,
    moments: Moments | None = ALL_RECORDS,
    output: Output | str | None = None,
) -> DefaultSteps:
    """``T``, given or that of :func:`privopt.theory.descent_steps`, and how it moves with the axes.

    The fewer steps of the smooth theorem only with an output that it speaks of; other updates than
    plain descent, of which no theorem speaks, take as many.
    """
    if steps is not None:
        return DefaultSteps(count("steps", steps), GIVEN_STEPS)
    return descent_steps(
        problem_class,
        one_step_noise=one_step_noise(query, budget),
        clip=query.clip,
        moments=moments or ALL_RECORDS,
        plain=moments is not None
        and math.isfinite(problem_class.lipschitz)
        and chosen_output(output) in (None, Last(), AverageAfterStep()),
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


def first_order(
    problem_class: ProblemClass,
    mechanism: PrivateGradient | VarianceReducedGradient,
    *,
    moments: Moments | None = ALL_RECORDS,
    step_size: float | StepSizes | None = None,
    update: Optimiser | None = None,
    output: Output | str | None = None,
    record: int | str = 0,
) -> FirstOrder:
    """The method that asks ``mechanism``, with theory's numbers where none are given.

    Plain descent takes those of :func:`privopt.theory.descent_numbers`. Another update takes steps
    ``R/sqrt(d T)`` in linear decay, with which coordinates that move by one step size each wander
    ``R/sqrt(3)`` far, and the last iterate; that is no theorem's.

    Raises
    ------
    ValueError
        If a step size is needed and none follows from public facts, ``update`` is no optimiser,
        ``output`` no rule, or ``record`` neither a count nor ``"all"``.
    """
    update, steps = checked_update(update), int(mechanism.steps)
    if step_size is not None and not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    output = chosen_output(output)
    if is_plain(update):
        numbers = descent_numbers(
            problem_class,
            steps=steps,
            noise_std=mechanism.scale,
            moments=moments or ALL_RECORDS,
            step_rule=None if step_size is None else step_rule(step_size),
            output=None if output is None else output_rule(output),
        )
        step_size = step_size or StepSizes(*numbers.step_rule)
        output = output or _RULES[numbers.output]
    elif step_size is None:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        wander = problem_class.radius / math.sqrt(problem_class.dim * steps)
        step_size = StepSizes.linear_decay(wander)
    return FirstOrder(step_size, update, output or Last(), *recorded(record, steps))


def step_rule(sizes: StepSizes) -> StepRule:
    """Step sizes as the four numbers of a theorem."""
    return StepRule(*map(float, (sizes.scale, sizes.power, sizes.offset, sizes.decay)))


def output_rule(output: Output) -> OutputRule | None:
    """The theorems' name of an output, if they have one."""
    return next((name for name, rule in _RULES.items() if rule == output), None)


def chosen_output(output: Output | str | None) -> Output | None:
    """An output rule, or that of a theorem by its name (:class:`privopt.theory.OutputRule`)."""
    if isinstance(output, str):
        return _RULES[OutputRule.named("output", output)]
    return None if output is None else checked_output(output)


def checked_update(update: Optimiser | None) -> Update:
    """The update of an optimiser; that of plain descent for None."""
    if isinstance(update, Update):
        return update
    return Update.of(optax.sgd if update is None else update)


def is_plain(update: Update) -> bool:
    """Whether it is ``w - eta g`` and nothing else."""
    return update.factory is optax.sgd and not update.numbers and not update.options


def recorded(record: int | str, steps: int) -> tuple[int, bool]:
    """How many points of the path, and whether after every step: a count, or ``"all"``."""
    if record == "all":
        if steps > _MAX_RECORDED:
            raise ValueError(
                f"record must be a number for more than {_MAX_RECORDED} steps, got 'all' for "
                f"{steps}"
            )
        return steps, True
    if isinstance(record, bool) or not isinstance(record, int) or not 0 <= record <= _MAX_RECORDED:
        raise ValueError(
            f"record must be 'all' or an integer from 0 to {_MAX_RECORDED}, got {record!r}"
        )
    return record, False


def rate_of(plan: Plan, powers: Powers | None = None) -> Rate:
    """What :func:`privopt.theory.descent_rate` says of a plan's private gradient and method.

    ``powers`` are those of a default number of steps that is not :func:`horizon`'s.
    """
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
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


def unmoving(params: Any) -> str:
    """Why the method goes nowhere; empty if it goes somewhere."""
    if params.mechanism.steps < 1:
        return "no step is taken"
    return "" if params.descent.step_sizes.scale > 0.0 else "the step size is not positive"


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
) -> Powers:
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
