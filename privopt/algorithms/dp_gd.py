"""DP-GD: full-batch gradient descent with Gaussian noise, averaged."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import SelfComposedDpEvent
from jax import Array

from privopt.algorithms.choices import positive_integer, positive_number
from privopt.algorithms.gradient_descent import DescentSecret, Static, averaged_descent
from privopt.core import Algorithm, Plan, Run
from privopt.mechanisms import ClippedGradient, GaussianMechanism
from privopt.privacy import Guarantee, gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    Rate,
    erm_lower_bound,
    gaussian_dp_advantage,
    noise_limited_steps,
    noisy_descent,
    noisy_descent_step_size,
)

__all__ = ["DP_GD"]


class Params(NamedTuple):
    """Numbers of a run."""

    mechanism: GaussianMechanism
    steps: int
    step_size: float


def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | None = None,
    clip: float | None = None,
) -> Plan:
    """Plan DP-GD: ``w_{t+1} = Proj(w_t - eta (grad F(w_t) + z_t))``, ``z_t ~ N(0, sigma^2 I)``.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz; finite ``radius`` unless ``step_size`` is given.
    budget : Budget
        ``delta > 0``.
    steps : int, optional
        ``T``; default ``ceil(n^2 mu^2 / (4 d))`` (replace-one), after which noise, not
        optimisation, is the larger error, and at most a million. Fewer steps cost accuracy, never
        privacy.
    step_size : float, optional
        ``eta``; default ``R / (G sqrt T)``, ``G^2 = L^2 + d sigma^2``.
    clip : float, optional
        ``C``, per-example clip norm; default ``L``, at which nothing is clipped.

    Formal guarantee
    ----------------
    ``sigma`` is set so that ``T`` adaptive releases of the clipped mean gradient, of sensitivity
    ``s = 2C/n`` (``replace_one``) or ``C/n`` (``zero_out``, ``add_or_remove_one``), are
    ``s sqrt(T) / sigma``-Gaussian DP within ``budget``. It covers all iterates, and holds for
    every data set and loss: clipping enforces the sensitivity.

    Rate
    ----
    ``E F(w) - F* <= R G / sqrt T = L R sqrt(1/T + 4 d / (n mu)^2)`` (replace-one), at most
    ``2 sqrt 2  L R sqrt(d) / (n mu)`` at the default ``T``. Valid at ``clip >= L``; for smaller
    ``clip`` no rate is claimed.

    Source: Bassily, Smith and Thakurta 2014, Theorem 2.4, with exact Gaussian accounting
    (Dong, Roth and Su 2022, arXiv Theorem 2.7 and Corollary 3.3) in place of their composition.
    """
    query = ClippedGradient.of(
        problem_class, None if clip is None else positive_number("clip", clip)
    )
    if budget.delta == 0.0:
        raise ValueError("delta must be positive for the Gaussian noise of dp_gd, got 0.0")
    mu = gaussian_mu(budget.epsilon, budget.delta)
    if steps is None:
        one_step_noise = query.sensitivity(budget.relation) / mu
        ratio = math.sqrt(problem_class.dim) * one_step_noise / problem_class.lipschitz
        steps = noise_limited_steps(ratio)
    steps = positive_integer("steps", steps)
    mechanism = GaussianMechanism.calibrated(query, budget, compositions=steps)
    if step_size is None:
        if math.isinf(problem_class.radius):
            raise ValueError("step_size must be given where radius is infinite, got None")
        step_size = noisy_descent_step_size(problem_class, steps=steps, noise_scale=mechanism.scale)
    step_size = positive_number("step_size", step_size)
    rate = _rate(problem_class, budget, mu, query, steps, step_size, mechanism.scale)
    return Plan(
        algorithm=DP_GD,
        problem_class=problem_class,
        budget=budget,
        params=Params(mechanism, steps, step_size),
        static=Static(problem_class.dim),
        guarantee=Guarantee(
            SelfComposedDpEvent(mechanism.event(budget.relation), steps), budget.relation
        ),
        rate=rate,
    )


def _rate(
    problem_class: ProblemClass,
    budget: Budget,
    mu: float,
    query: ClippedGradient,
    steps: int,
    step_size: float,
    noise_scale: float,
) -> Rate:
    clipped = query.clip < problem_class.lipschitz * (1.0 - 1e-6)
    upper = math.inf
    if not clipped:
        upper = noisy_descent(
            problem_class, steps=steps, step_size=step_size, noise_scale=noise_scale
        )
    advantage = gaussian_dp_advantage(mu, budget.relation)
    return Rate(
        theorem="E F(w) - F* <= R G / sqrt(T), G^2 = L^2 + d sigma^2 (order L R sqrt(d)/(n mu))",
        source="Bassily, Smith and Thakurta 2014, Theorem 2.4 and Theorem 5.3",
        upper=upper,
        lower=erm_lower_bound(problem_class, advantage=advantage),
        exponents={"n": -1.0, "dim": 0.5, "epsilon": -1.0},
        regime="T >= n^2 mu^2 / (4 d), sqrt(d) <= n mu",
        tight_on="linear",
    )


def run(static: Static, params: Params, objective: Any, key: Array) -> Run:
    """DP-GD on the device. Noise of step ``t`` comes from ``fold_in(key, t)``."""
    start = objective.constraint.centre_point(static.dim, objective.dtype)
    gradient = params.mechanism.query.bind(objective)

    def noisy_gradient(t: Array, point: Array) -> Array:
        return params.mechanism.add_noise(jax.random.fold_in(key, t), gradient(point))

    mean, last = averaged_descent(
        noisy_gradient,
        objective.constraint,
        start,
        steps=params.steps,
        step_size=params.step_size,
    )
    return Run(mean, DescentSecret(last, jnp.linalg.norm(gradient(mean))))


DP_GD = Algorithm(
    name="dp_gd",
    summary="full-batch gradient descent with Gaussian noise, averaged",
    plan=plan,
    run=run,
)
