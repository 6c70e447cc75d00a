"""The Gibbs law of a risk: the exponential mechanism over a convex set, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dp_accounting import DpEvent, GaussianDpEvent
from jax import Array

from privopt.convex import Draw, sample_log_concave
from privopt.mechanisms.events import drawable
from privopt.mechanisms.queries import ClippedRisk
from privopt.privacy import gaussian_noise_multiplier, pure_event, round_up
from privopt.spec import Budget, Relation

__all__ = ["GibbsMechanism"]


class GibbsMechanism(NamedTuple):
    """A draw from the density proportional to ``exp(-k (F(w) + (m/2) |w - c|^2))`` on ``W``.

    Attributes
    ----------
    query : ClippedRisk
        ``F``, whose difference between neighbours is ``G``-Lipschitz and so of range ``2 R G``.
    scale : float
        ``1/k``, the temperature, in units of ``F``; representable in float32.
    regularisation : float
        ``m >= 0``; ``c`` is the centre of the constraint set.

    Formal guarantee
    ----------------
    With ``m = 0``: ``2 R G k``-DP under each relation, ``G = query.sensitivity(relation)``. The
    density ratio of neighbours is ``exp(k (F' - F))`` over its own mean, so only the range of
    ``F' - F`` counts, and a constant between ``F`` and ``F'`` does not. With ``m > 0``:
    ``G sqrt(k/m)``-Gaussian DP, if every loss is convex; attained by linear losses without
    constraint, where the draws are Gaussians of variance ``1/(k m)`` whose means differ by
    ``G/m``.

    Source: McSherry and Talwar 2007, Theorem 6, through the range; Gopi, Lee and Liu 2022,
    "Private convex optimization via exponential mechanism" (COLT).
    """

    query: Any
    scale: float
    regularisation: float

    @classmethod
    def pure(cls, query: ClippedRisk, budget: Budget) -> GibbsMechanism:
        """The lowest temperature within ``budget.epsilon``, without a regulariser.

        A hair above ``range/epsilon``, since the event resolves epsilon to ``2^-50`` and is rounded
        to the safe side.
        """
        margin = 1.0 + 1e-11 + 2.0**-49 / budget.epsilon
        return cls(query, round_up(query.range(budget.relation) / budget.epsilon * margin), 0.0)

    @classmethod
    def regularised(
        cls, query: ClippedRisk, budget: Budget, regularisation: float
    ) -> GibbsMechanism:
        """The lowest temperature within ``budget``: ``1/k = G^2/(m mu^2)``.

        Raises
        ------
        ValueError
            If ``budget.delta`` is 0.
        """
        regularisation = round_up(regularisation)
        noise = gaussian_noise_multiplier(drawable(budget)) / budget.relation.multiple  # 1 / mu
        width = query.sensitivity(budget.relation) * noise
        return cls(query, round_up(width**2 / regularisation * (1.0 + 1e-12)), regularisation)

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        if self.regularisation == 0.0:
            return pure_event(self.query.range(relation) / self.scale)
        spread = math.sqrt(self.scale * self.regularisation) * (1.0 - 2.0**-50)
        return GaussianDpEvent(relation.multiple * spread / self.query.sensitivity(relation))

    def draw(self, key: Array, objective: Any, *, dim: int) -> Draw:
        """The release with its diagnostics, exact; ``dim`` at most 3."""
        constraint = objective.constraint
        centre = constraint.centre_point(dim, objective.dtype)
        potential = self.potential(objective, centre)
        return sample_log_concave(key, potential, constraint, dim=dim, radius=self.query.radius)

    def potential(self, objective: Any, centre: Array) -> Callable[[Array], tuple[Array, Array]]:
        """``w -> k (F(w) + (m/2) |w - c|^2)``, up to a constant, and its gradient."""
        risk = self.query.bind(objective, centre)

        def potential(point: Array) -> tuple[Array, Array]:
            value, gradient = risk(point)
            away = point - centre
            value = value + 0.5 * self.regularisation * (away @ away)
            return value / self.scale, (gradient + self.regularisation * away) / self.scale

        return potential
