"""What is measured of a run: a registry, which is the one place to add a quantity.

Names are those of ``Rate.quantity``: a bound is compared with what it speaks of and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from privopt.core import Run
from privopt.problems import Problem
from privopt.theory import Rate

__all__ = ["QUANTITIES", "Quantity", "Reference", "quantity_of"]


class Reference(NamedTuple):
    """What a quantity is measured from, and how far that may lie above the true optimum."""

    value: float
    gap: float


class Quantity(NamedTuple):
    """A quantity that theorems bound.

    Attributes
    ----------
    name, label : str
        In rates and tables, and at an axis of a figure.
    known : callable
        ``problem -> bool``: whether it can be measured there.
    measure : callable
        ``(problem, run) -> array`` of one number a run, in float64.
    reference : callable
        ``problem -> Reference``: what ``measure`` has subtracted already.
    """

    name: str
    label: str
    known: Callable[[Problem], bool]
    measure: Callable[[Problem, Run], NDArray[np.float64] | float]
    reference: Callable[[Problem], Reference]


def _risk(name: str, label: str) -> Quantity:
    """An excess risk, over the certified optimum of the problem."""
    return Quantity(
        name=f"{name} risk",
        label=label,
        known=lambda problem: problem.measures == name,
        measure=lambda problem, run: problem.excess_risk(run.released),
        reference=lambda problem: Reference(
            float(problem.reference.value), float(problem.reference.gap)
        ),
    )


def _gradient_norm(problem: Problem, run: Run) -> NDArray[np.float64]:
    """``|grad F(w)|`` of every released point."""
    with jax.enable_x64(True):
        risk = problem.objective.astype(jnp.float64)
        points = jnp.asarray(run.released, jnp.float64)
        rows = points.reshape(-1, problem.problem_class.dim)
        norms = jax.lax.map(lambda point: jnp.linalg.norm(jax.grad(risk.value)(point)), rows)
        return np.asarray(norms)


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        _risk("empirical", "excess risk"),
        _risk("population", "excess population risk"),
        Quantity(
            name="gradient norm",
            label="norm of the gradient",
            known=lambda problem: problem.start is None,
            measure=_gradient_norm,
            reference=lambda problem: Reference(0.0, 0.0),
        ),
    )
}
"""By name."""


def quantity_of(problem: Problem, rate: Rate) -> Quantity:
    """What is measured there: what the rate speaks of, else the risk of the problem.

    Of a rate that speaks of something else nothing can be refuted or borne out.
    """
    spoken_of = QUANTITIES.get(rate.quantity)
    if spoken_of is not None and spoken_of.known(problem):
        return spoken_of
    return next(each for each in QUANTITIES.values() if each.known(problem))
