"""Projected (sub)gradient descent with averaging: the non-private twin of DP-GD."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import NonPrivateDpEvent
from jax import Array

from privopt.algorithms.choices import positive_integer, positive_number
from privopt.core import Algorithm, Plan, Run
from privopt.mechanisms import ClippedGradient
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate, noisy_descent, noisy_descent_step_size

__all__ = ["GRADIENT_DESCENT", "DescentSecret", "averaged_descent"]


class Params(NamedTuple):
    """Numbers of a run."""

    query: ClippedGradient
    steps: int
    step_size: float


class Static(NamedTuple):
    """Shape of a run."""

    dim: int


class DescentSecret(NamedTuple):
    """Un-noised facts: the last iterate, and the norm of the true gradient at the release."""

    last: Array
    gradient_norm: Array


def averaged_descent(
    oracle: Callable[[Array, Array], Array],
    constraint: Any,
    start: Array,
    *,
    steps: Array | int,
    step_size: Array | float,
) -> tuple[Array, Array]:
    """``w_{t+1} = Proj(w_t - eta g(t, w_t))``; returns the mean of ``w_1..w_T`` and ``w_{T+1}``.

    A step that is not finite goes back to ``start``: a fixed, public point instead of an
    exception, which would itself be a release.
    """

    def step(t: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, mean = state
        mean = mean + (point - mean) / jnp.asarray(t + 1, point.dtype)
        moved = constraint.project(point - step_size * oracle(t, point))
        return jnp.where(jnp.isfinite(moved).all(), moved, start), mean

    last, mean = jax.lax.fori_loop(0, steps, step, (start, jnp.zeros_like(start)))
    return mean, last


def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | None = None,
) -> Plan:
    """Plan averaged projected gradient descent without noise.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
        Ignored, taken so that twins are planned alike.
    steps : int, optional
        ``T``; default ``n``.
    step_size : float, optional
        ``eta``; default ``R / (L sqrt T)``.

    Formal guarantee
    ----------------
    None: epsilon is infinite.

    Rate
    ----
    ``R L / sqrt T`` for convex Lipschitz losses (:func:`privopt.theory.noisy_descent`).
    """
    steps = problem_class.n if steps is None else positive_integer("steps", steps)
    if step_size is None:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        step_size = noisy_descent_step_size(problem_class, steps=steps, noise_scale=0.0)
    step_size = positive_number("step_size", step_size)
    upper = noisy_descent(problem_class, steps=steps, step_size=step_size, noise_scale=0.0)
    return Plan(
        algorithm=GRADIENT_DESCENT,
        problem_class=problem_class,
        budget=budget,
        params=Params(ClippedGradient.of(problem_class, math.inf), steps, step_size),
        static=Static(problem_class.dim),
        guarantee=Guarantee(NonPrivateDpEvent(), budget.relation),
        rate=Rate(
            theorem="E F(w) - F* <= R L / sqrt(T)",
            source="Zinkevich 2003, Theorem 1",
            upper=upper,
            lower=0.0,
            exponents={"n": 0.0, "dim": 0.0, "epsilon": 0.0},
            regime="fixed T",
        ),
    )


def run(static: Static, params: Params, objective: Any, key: Array) -> Run:
    """The descent on the device; ``key`` is unused."""
    del key
    start = objective.constraint.centre_point(static.dim, objective.dtype)
    gradient = params.query.bind(objective)
    mean, last = averaged_descent(
        lambda _, point: gradient(point),
        objective.constraint,
        start,
        steps=params.steps,
        step_size=params.step_size,
    )
    return Run(mean, DescentSecret(last, jnp.linalg.norm(gradient(mean))))


GRADIENT_DESCENT = Algorithm(
    name="gradient_descent",
    summary="projected gradient descent, averaged: no noise, no privacy",
    plan=plan,
    run=run,
    private=False,
)
