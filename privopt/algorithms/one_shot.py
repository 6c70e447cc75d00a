"""What the algorithms share that ask once: their numbers, what they require, their minimisers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.algorithms.choices import Static
from privopt.convex import EmpiricalRisk
from privopt.core import Algorithm, Plan
from privopt.spec import Budget, ProblemClass

SMOOTHING_SHARE = 0.01
"""Of what noise costs: what the bias of Moreau envelopes may add."""


class Params(NamedTuple):
    """Numbers of a run: those of its mechanism."""

    mechanism: Any


def planned(
    algorithm: Algorithm,
    problem_class: ProblemClass,
    budget: Budget,
    mechanism: Any,
    declared: object = None,
) -> Plan:
    """The plan of one release."""
    params, static = Params(mechanism), Static(problem_class.dim)
    return Plan(algorithm, problem_class, budget, params, static, declared)


class Secret(NamedTuple):
    """The minimiser before noise."""

    minimiser: Array


def check_gaussian(noise: str | None, budget: Budget) -> None:
    """ValueError where Gaussian noise is asked for at ``delta = 0``."""
    if noise == "gaussian" and budget.delta == 0.0:
        raise ValueError("delta must be positive for noise='gaussian', got 0.0")


def require_convex_lipschitz(algorithm: str, problem_class: ProblemClass) -> None:
    """For methods whose very guarantee rests on convexity and ``L``: ValueError without them."""
    if not problem_class.convex:
        raise ValueError(
            f"convex must be True for {algorithm}, got False: its guarantee rests on convexity, "
            "while those of gradient methods (dp_gd, dp_sgd) hold for any loss"
        )
    if math.isinf(problem_class.lipschitz):
        raise ValueError(
            f"lipschitz must be declared for {algorithm}, got inf: its guarantee rests on it, "
            "and no clip norm stands in for it"
        )


def envelope_width(problem_class: ProblemClass, width: float) -> float:
    """A width of Moreau envelopes, but at most ``4/L^2``.

    The cap keeps every loss of slope at most 1 and curvature at most 1/4 (the logistic) within
    the smoothness ``1/h`` that the solver counts on, envelope or not.
    """
    return min(width, 4.0 / problem_class.lipschitz**2)


def minimiser_of(query: Any, objective: EmpiricalRisk, centre: Array, *tilt: Array) -> Array:
    """What the solver of a query finds; the public centre where that is not finite."""
    found = query.minimiser_of(objective)(centre, *tilt)
    return jnp.where(jnp.isfinite(found).all(), found, centre)
