"""What the first-order algorithms share: their bricks as parameters, and their run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import optax
from jax import Array

from privopt.arguments import positive_number
from privopt.convex import (
    Average,
    FirstOrder,
    Last,
    Output,
    PolynomialAverage,
    StepSizes,
    Update,
    checked_output,
)
from privopt.core import Execution, Run
from privopt.spec import ProblemClass
from privopt.theory import (
    last_of_noisy_descent,
    noisy_descent,
    noisy_descent_step_size,
    noisy_strongly_convex_descent,
)

__all__ = ["Bound", "Params", "Secret", "Static", "descent", "descent_bound", "recorded", "run"]

SGD = Update.of(optax.sgd)


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


class Bound(NamedTuple):
    """What a theorem says of a method."""

    upper: float
    theorem: str
    source: str


def run(static: Static, params: Params, objective: Any, key: Array, execution: Execution) -> Run:
    """The method on the device, from the problem's start."""
    del execution
    start = objective.start(static.dim)
    oracle = params.mechanism.bind(objective, key)
    found = params.descent.minimise(oracle, objective.constraint, start, key)
    return Run(found.output, Secret(found.last), found.path)


def descent(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_scale: float,
    sampling: float = 1.0,
    step_size: float | StepSizes | None = None,
    update: Any = None,
    output: Output | None = None,
    record: int = 0,
) -> FirstOrder:
    """The method with theory's step sizes and output where none are given.

    Convex losses: constant steps ``R/(G sqrt T)`` and the average. Strongly convex ones: ``2/(m (t
    + 1))`` and weights in proportion to ``t``. Another update than plain descent: ``R/sqrt(d T)``,
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
    plain = update is None or (update.factory is optax.sgd and not update.numbers)
    curved = problem_class.strong_convexity > 0.0
    if step_size is None and plain and curved:
        step_size = StepSizes.strongly_convex(problem_class.strong_convexity)
    elif step_size is None:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        step_size = problem_class.radius / math.sqrt(problem_class.dim * steps)
        if plain:
            step_size = noisy_descent_step_size(
                problem_class, steps=steps, noise_scale=noise_scale, sampling=sampling
            )
    if not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    if output is None:
        output = Last() if not plain else PolynomialAverage() if curved else Average()
    return FirstOrder(steps, step_size, update or SGD, checked_output(output), recorded(record))


def recorded(count: Any) -> int:
    """How many points of the path: an integer from 0 to 10,000, or ValueError."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10_000:
        raise ValueError(f"record must be an integer from 0 to 10000, got {count!r}")
    return count


def descent_bound(
    problem_class: ProblemClass,
    method: FirstOrder,
    *,
    noise_scale: float,
    clipped: bool,
    sampling: float = 1.0,
) -> Bound:
    """The theorem that covers this method, or an infinite bound with the reason.

    ``sampling`` is ``E |g|^2/L^2`` of the unbiased gradients, noise apart; 1 for full batches.
    """
    steps, sizes = int(method.steps), method.step_sizes
    output, update = method.output, method.update

    def nothing(reason: str) -> Bound:
        return Bound(math.inf, f"none: {reason}", "no theorem covers it")

    if not problem_class.convex:
        return nothing("the losses are not convex")
    if clipped or math.isinf(problem_class.lipschitz):
        return nothing("gradients are clipped below the Lipschitz constant")
    if update.factory is not optax.sgd or update.numbers or update.options:
        return nothing("the update is not plain descent")
    if math.isinf(problem_class.radius):
        return nothing("the set is not bounded")
    constant = sizes.power == sizes.decay == 0.0
    if constant and isinstance(output, Average):
        upper = noisy_descent(
            problem_class,
            steps=steps,
            step_size=float(sizes.scale),
            noise_scale=noise_scale,
            sampling=sampling,
        )
        return Bound(
            upper,
            "E F(w) - F* <= R G / sqrt(T), G^2 = L^2 + d sigma^2 (order L R sqrt(d)/(n mu))",
            "Bassily, Smith and Thakurta 2014, Theorem 2.4 and Theorem 5.3",
        )
    modulus = problem_class.strong_convexity
    polynomial = isinstance(output, PolynomialAverage) and output.power == 1.0
    if modulus > 0.0 and polynomial and sizes == StepSizes.strongly_convex(modulus):
        return Bound(
            noisy_strongly_convex_descent(
                problem_class, steps=steps, noise_scale=noise_scale, sampling=sampling
            ),
            "E F(w) - F* <= 2 G^2 / (m (T + 1)), G^2 = L^2 + d sigma^2",
            "Lacoste-Julien, Schmidt and Bach 2012",
        )
    inverse_root = sizes.power == 0.5 and sizes.offset == sizes.decay == 0.0
    if inverse_root and isinstance(output, Last):
        upper = last_of_noisy_descent(
            problem_class,
            steps=steps,
            scale=float(sizes.scale),
            noise_scale=noise_scale,
            sampling=sampling,
        )
        return Bound(
            upper,
            "E F(w) - F* <= (D^2/c + c G^2) (2 + ln T) / sqrt(T)",
            "Shamir and Zhang 2013, Theorem 2",
        )
    return nothing("no theorem for these step sizes with this output")
