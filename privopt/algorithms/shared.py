"""Helpers shared by several algorithms: shapes, one-shot plans and checks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from privopt.arguments import member, shown
from privopt.convex import EmpiricalRisk
from privopt.core import Algorithm, Plan
from privopt.mechanisms import GaussianMechanism, NormLaplaceMechanism
from privopt.mechanisms.calibration import drawable
from privopt.spec import Budget, ProblemClass

SMOOTHING_SHARE = 0.01
"""Bias of Moreau envelopes relative to the cost of noise."""


MODES = ("tight", "paper")
"""Least noise of our accountant, or the published noise."""


class Static(NamedTuple):
    """Shape of a run."""

    dim: int


class OneShotParams(NamedTuple):
    """Parameters of a one-shot method: its mechanism."""

    mechanism: Any


def planned(
    algorithm: Algorithm,
    problem_class: ProblemClass,
    budget: Budget,
    mechanism: Any,
) -> Plan:
    """Return the plan of a one-shot method."""
    params, static = OneShotParams(mechanism), Static(problem_class.dim)
    return Plan(algorithm, problem_class, budget, params, static)


def least_bound(plans: Iterable[Plan]) -> Plan:
    """Return the plan with the smallest bound; the first of several."""
    return min(plans, key=lambda plan: plan.rate.upper)


class MinimiserSecret(NamedTuple):
    """The minimiser before noise."""

    minimiser: Float[Array, " d"]


def require_delta(algorithm: str, budget: Budget) -> None:
    """Check that ``delta`` is positive, as Gaussian noise requires."""
    if budget.delta == 0.0:
        raise ValueError(
            f"delta must be positive for the Gaussian noise of {algorithm}, got "
            f"{shown(budget.delta)}"
        )


NoiseKind: TypeAlias = type[GaussianMechanism[Any]] | type[NormLaplaceMechanism[Any]]
"""A kind of noise, by its norm."""

_KINDS: dict[str, NoiseKind] = {
    "gaussian": GaussianMechanism,
    "norm_laplace": NormLaplaceMechanism,
}


def noise_kinds(noise: str | None, budget: Budget) -> list[NoiseKind]:
    """Return the kind of noise with this name; without a name, all kinds for the budget."""
    if noise is not None:
        member("noise", noise, _KINDS)
        check_gaussian(noise, budget)
        return [_KINDS[noise]]
    gaussian = permits_gaussian(budget)
    return [kind for name, kind in _KINDS.items() if gaussian or name != "gaussian"]


def permits_gaussian(budget: Budget) -> bool:
    """Return True if ``delta`` is positive and not too small for Gaussian noise, as computed."""
    try:
        return drawable(budget).delta > 0.0
    except ValueError:
        return False


def check_gaussian(noise: str | None, budget: Budget) -> None:
    """Check that ``delta`` is positive if the noise is Gaussian."""
    if noise == "gaussian" and budget.delta == 0.0:
        raise ValueError("delta must be positive for noise='gaussian', got 0.0")


def require_convex_lipschitz(algorithm: str, problem_class: ProblemClass) -> None:
    """Check convexity and a finite ``L``, on which the guarantee of the method depends."""
    if not problem_class.convex:
        raise ValueError(
            f"convex must be True for {algorithm}, got False: its guarantee needs convexity; "
            "the guarantees of gradient methods (dp_gd, dp_sgd) hold for any loss"
        )
    if math.isinf(problem_class.lipschitz):
        raise ValueError(
            f"lipschitz must be declared for {algorithm}, got inf: its guarantee needs it, "
            "and a clip norm cannot replace it"
        )


def envelope_width(problem_class: ProblemClass, width: float) -> float:
    """Return the width ``h`` of Moreau envelopes, at most ``4/L^2``.

    With this limit, every loss of slope at most 1 and curvature at most 1/4 (the logistic loss) has
    smoothness at most ``1/h``, as the solver assumes, with or without an envelope.
    """
    return min(width, 4.0 / problem_class.lipschitz**2)


def minimiser_of(
    query: Any, objective: EmpiricalRisk, centre: Float[Array, " d"], *tilt: Float[Array, " d"]
) -> Float[Array, " d"]:
    """Return the minimiser of a query, or the public centre if it is not finite."""
    minimiser = query.minimiser_of(objective)(centre, *tilt)
    return jnp.where(jnp.isfinite(minimiser).all(), minimiser, centre)
