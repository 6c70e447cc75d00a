"""Descent along private gradients: a plan, from query to method, and its run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.algorithms.choices import (
    OUTPUTS,
    PLAIN,
    Batching,
    Static,
    body_of_gradients,
    chosen_output,
    clipped_gradient,
    is_plain,
    moments_of,
    output_rule,
    recorded,
    require_delta,
    step_rule,
)
from privopt.algorithms.theorems import horizon, least_batch, obstacle, projected_numbers
from privopt.arguments import positive_number, shown
from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    FirstOrder,
    Iterates,
    Oracle,
    Output,
    StepSizes,
    Update,
    last_iterate,
)
from privopt.core import Algorithm, Execution, Plan, Run, Steps, whole
from privopt.mechanisms import (
    AllRecords,
    Batches,
    Noise,
    PrivateGradient,
    VarianceReducedGradient,
    noise_of,
)
from privopt.release import Pytree
from privopt.spec import Budget, Norm, ProblemClass
from privopt.theory import ALL_RECORDS, descent_numbers


class Params(NamedTuple):
    """A private gradient, and the method that asks it."""

    mechanism: PrivateGradient | VarianceReducedGradient
    descent: FirstOrder


class Secret(NamedTuple):
    """The last iterate, which the guarantee covers too, and what the observer made of the run."""

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
    """Return the calibrated query, batches, steps and noise that the arguments of a plan describe.

    Other updates than ``plain`` descent take no fewer steps for losses that are strongly convex:
    their step sizes do not follow from the curvature.
    """
    require_delta(algorithm, budget)
    query = clipped_gradient(problem_class, clip, clipping, clip_norm)
    body = body_of_gradients(post, problem_class, query)
    least = least_batch(problem_class, budget, query, steps, sampler)
    batching = Batching.of(problem_class, batch_size, rate, sampler, capacity, cycle, least)
    full = isinstance(batching.sampler, AllRecords)
    default = horizon(
        problem_class if plain else replace(problem_class, strong_convexity=0.0),
        budget, query, steps, moments=batching.moments, output=output,
        projected=full and post == "sparse" and not obstacle(problem_class, noise, AllRecords()),
    )  # fmt: skip
    batches = batching.batches(budget, default.steps)
    added = noise_of(noise, default.steps)
    return PrivateGradient.calibrated(query, budget, default.steps, batches, added, body)


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
    """Return the plan of a method on ``mechanism``, with the step sizes and output of theory.

    Plain descent takes those of :func:`privopt.theory.descent_numbers`, or those of
    :func:`projected_numbers` for gradients that are ``sparse`` by projection. Another update takes
    the last iterate and steps ``R/sqrt(d T)`` in linear decay, with which coordinates that move by
    one step size per step end about ``R/sqrt(3)`` away from the start. No theorem covers these. An
    optimiser that has its own step sizes takes none. ``gradient_mapping`` is that of
    :class:`privopt.convex.FirstOrder`.
    """
    steps = int(mechanism.steps)
    if update.has_step_sizes and step_size is not None:
        raise ValueError(
            "step_size must be left out beside update, an optimiser with its own step sizes, got "
            f"{shown(step_size)}: give a factory to set it, such as update=Update.of(optax.adam)"
        )
    given = step_size is not None or output is not None or not is_plain(update)
    if sparse and not given:
        assert isinstance(mechanism, PrivateGradient)
        if not obstacle(problem_class, mechanism.noise, mechanism.batches):
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
        wander = problem_class.radius / math.sqrt(problem_class.dim * steps)
        step_size = StepSizes.linear_decay(wander)
    method = FirstOrder(
        step_size, update, output or last_iterate(), *recorded(record, steps), gradient_mapping
    )
    params, static = Params(mechanism, method), Static(problem_class.dim)
    return Plan(algorithm, problem_class, budget, params, static, declared)


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
IN_STEPS: dict[str, Any] = {
    "mechanism": PrivateGradient,
    "run": run,
    "steps": steps,
    "step_count": step_count,
    "rows": rows,
}
"""Arguments of :class:`privopt.core.Algorithm` that all first-order algorithms share."""
