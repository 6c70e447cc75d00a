"""The Euclidean-norm Laplace mechanism: pure differential privacy for a vector."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent
from jax import Array

from privopt import draws
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.multiplier import multiplier
from privopt.mechanisms.queries import BoundedQuery
from privopt.privacy import pure_event, pure_noise_multiplier, round_up
from privopt.release import release
from privopt.spec import Budget, Relation

__all__ = ["NormLaplaceMechanism"]

Query = TypeVar("Query", bound=BoundedQuery)


class NormLaplaceMechanism(NamedTuple, Generic[Query]):
    """``query(data) + z`` with density of ``z`` proportional to ``exp(-|z|_2 / beta)``.

    The direction is uniform, the radius ``Gamma(shape d, scale beta)``, ``E|z| = d beta``. This
    is not Laplace noise per coordinate.

    Attributes
    ----------
    query : BoundedQuery
        What is asked, with its sensitivity ``s``.
    scale : float
        ``beta``, representable in float32.

    Formal guarantee
    ----------------
    ``s/beta``-DP under each relation, by the triangle inequality for ``|z|_2``. The event is the
    randomised-response pair that dominates every mechanism of that epsilon.
    Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1.

    Examples
    --------
    >>> from privopt.mechanisms import ClippedGradient
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = NormLaplaceMechanism.calibrated(ClippedGradient(1.0, 1000.0, dim=4), budget)
    >>> round(mechanism.scale, 5), round(mechanism.noise_norm(4), 5)
    (0.002, 0.008)
    """

    query: Query
    scale: float

    @classmethod
    def calibrated(cls, query: Query, budget: Budget) -> NormLaplaceMechanism[Query]:
        """The least noise with which one release stays within ``budget.epsilon``.

        A hair more than that: the event's probability, a float64 next to 1/2, resolves epsilon
        to ``2^-50`` and is rounded to the safe side.
        """
        check_calibration(query, budget, "sensitivity")
        contribution = query.sensitivity(budget.relation) / budget.relation.multiple
        margin = 1.0 + 1e-11 + 2.0**-49 / budget.epsilon
        return cls(query, round_up(pure_noise_multiplier(budget) * contribution * margin))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        sensitivity = self.query.sensitivity(relation)
        noise = multiplier(self.scale, sensitivity)
        if noise == math.inf:
            return NoOpDpEvent()
        return pure_event(sensitivity / self.scale) if noise > 0.0 else NonPrivateDpEvent()

    def add_noise(self, key: Array, answer: Array) -> Array:
        """The release; ``answer`` has shape ``(dim,)``, noise is drawn in its dtype."""
        drawn = draws.norm_laplace(key, answer.shape[-1], answer.dtype)
        return release("answer", answer + release("noise", self.scale * drawn))

    def noise_norm(self, dim: int) -> float:
        """``E |z| = d beta``."""
        return self.scale * dim

    def noise_square(self, dim: int) -> float:
        """``E |z|^2 = d (d + 1) beta^2``."""
        return self.scale**2 * dim * (dim + 1)
