"""What the first-order algorithms share: their bricks as parameters, and their run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import optax
from jax import Array

from privopt.arguments import positive_number
from privopt.convex import (
    Average,
    AverageAfterStep,
    FirstOrder,
    Last,
    Output,
    PolynomialAverage,
    StepSizes,
    Update,
    checked_output,
)
from privopt.core import Run
from privopt.spec import ProblemClass
from privopt.theory import ALL_RECORDS, Moments, OutputRule, StepRule, descent_numbers

__all__ = [
    "Params",
    "Secret",
    "Static",
    "descent",
    "is_plain",
    "output_rule",
    "recorded",
    "run",
    "step_rule",
]

SGD = Update.of(optax.sgd)

_OUTPUTS: Mapping[OutputRule, type[Output]] = {
    OutputRule.AVERAGE: Average,
    OutputRule.AVERAGE_AFTER_STEP: AverageAfterStep,
    OutputRule.WEIGHTED_AVERAGE: PolynomialAverage,
    OutputRule.LAST: Last,
}


class Params(NamedTuple):
    """A gradient oracle, and the method that asks it."""

    mechanism: Any
    descent: FirstOrder


class Static(NamedTuple):
    """Shape of a run."""

    dim: int


class Secret(NamedTuple):
    """The last iterate. The guarantee covers it too."""

    last: Array


def run(static: Static, params: Params, objective: Any, key: Array) -> Run:
    """The method on the device, from the problem's start."""
    start = objective.start(static.dim)
    oracle = params.mechanism.bind(objective, key)
    found = params.descent.minimise(oracle, objective.constraint, start, key)
    return Run(found.output, Secret(found.last), found.path)


def descent(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    moments: Moments | None = ALL_RECORDS,
    step_size: float | StepSizes | None = None,
    update: Any = None,
    output: Output | None = None,
    record: int = 0,
) -> FirstOrder:
    """The method with theory's step sizes and output where none are given.

    Plain descent: those of :func:`privopt.theory.descent_numbers`. Another update: ``R/sqrt(d T)``,
    the step with which coordinates that move by one step size each wander ``R`` far, and the last
    iterate; that is no theorem's.

    Raises
    ------
    ValueError
        If a step size is needed and none follows from public facts, or ``update`` is no optimiser
        or ``output`` no rule.
    """
    if update is not None and not isinstance(update, Update):
        update = Update.of(update)
    if step_size is not None and not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    if update is None or (update.factory is optax.sgd and not update.numbers):
        numbers = descent_numbers(
            problem_class,
            steps=steps,
            noise_std=noise_std,
            moments=moments or ALL_RECORDS,
            step_rule=None if step_size is None else step_rule(step_size),
            output=None if output is None else output_rule(output),
        )
        step_size = step_size or StepSizes(*numbers.step_rule)
        output = output or _OUTPUTS[numbers.output]()
    elif step_size is None:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        step_size = StepSizes.constant(problem_class.radius / math.sqrt(problem_class.dim * steps))
    output = checked_output(output or Last())
    return FirstOrder(steps, step_size, update or SGD, output, recorded(record))


def output_rule(output: Output) -> OutputRule | None:
    """The theorems' name of an output, if they have one."""
    if isinstance(output, PolynomialAverage) and output.power != 1.0:
        return None
    return next((rule for rule, kind in _OUTPUTS.items() if isinstance(output, kind)), None)


def step_rule(sizes: StepSizes) -> StepRule:
    """Step sizes as the four numbers of a theorem."""
    return StepRule(*map(float, (sizes.scale, sizes.power, sizes.offset, sizes.decay)))


def is_plain(update: Update) -> bool:
    """Whether an update is that of projected gradient descent."""
    return update.factory is optax.sgd and not update.numbers and not update.options


def recorded(count: Any) -> int:
    """How many points of the path: an integer from 0 to 10,000, or ValueError."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10_000:
        raise ValueError(f"record must be an integer from 0 to 10000, got {count!r}")
    return count
