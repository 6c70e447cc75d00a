"""The Laplace mechanism: pure differential privacy, coordinate by coordinate."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

from dp_accounting import DpEvent, LaplaceDpEvent, NoOpDpEvent
from jax import Array

from privopt import draws
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.multiplier import multiplier
from privopt.mechanisms.queries import L1BoundedQuery
from privopt.privacy import pure_noise_multiplier, round_up
from privopt.release import release
from privopt.spec import Budget, Relation

__all__ = ["LaplaceMechanism"]

Query = TypeVar("Query", bound=L1BoundedQuery)

_ROUNDING = 2.0**-50  # relative; of two products


class LaplaceMechanism(NamedTuple, Generic[Query]):
    """``query(data) + z``, every coordinate of ``z`` Laplace of scale ``b``.

    ``E|z_j| = b``, ``P(|z_j| > t b) = e^-t``.

    Attributes
    ----------
    query : L1BoundedQuery
        What is asked, with its sensitivity ``s`` in the l1 norm: *all* coordinates that one
        record touches count.
    scale : float
        ``b``, representable in float32 so that the device adds noise of exactly this scale.

    Formal guarantee
    ----------------
    ``s/b``-DP under each relation, ``s = query.l1_sensitivity(relation)``. The event is that of
    Laplace noise on a *scalar* that moves by ``s``, which dominates a vector whose l1 norm
    moves by ``s`` (proved in ``privopt.privacy.releases.laplace``).
    Source: Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data
    analysis", TCC 2006.

    Examples
    --------
    >>> from privopt.mechanisms import ClippedGradient
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = LaplaceMechanism.calibrated(ClippedGradient(1.0, 1000.0, dim=4), budget)
    >>> round(mechanism.scale, 5)
    0.004
    """

    query: Query
    scale: float

    @classmethod
    def calibrated(cls, query: Query, budget: Budget) -> LaplaceMechanism[Query]:
        """The least noise with which one release stays within ``budget.epsilon``.

        ``budget.delta`` is not spent. A query that no record can move gets no noise.

        Raises
        ------
        ValueError
            If the query has no finite sensitivity under ``budget.relation``.
        """
        check_calibration(query, budget, "l1_sensitivity")
        contribution = query.l1_sensitivity(budget.relation) / budget.relation.multiple
        if not math.isfinite(contribution):
            raise ValueError(
                f"query must have a finite l1 sensitivity under {budget.relation}, "
                f"got {contribution!r}"
            )
        return cls(query, round_up(pure_noise_multiplier(budget) * contribution * (1 + _ROUNDING)))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        moved = self.query.l1_sensitivity(relation) / Relation(relation).multiple
        noise = multiplier(self.scale, moved)
        return LaplaceDpEvent(noise) if noise < math.inf else NoOpDpEvent()

    def add_noise(self, key: Array, answer: Array) -> Array:
        """The release; ``answer`` is what ``query`` gave, noise is drawn in its dtype."""
        noise = release("noise", self.scale * draws.laplace(key, answer.shape, answer.dtype))
        return release("answer", answer + noise)

    def noise_norm(self, dim: int) -> float:
        """Upper bound ``b sqrt(2d)`` on ``E |z|``, the Euclidean norm."""
        return self.scale * math.sqrt(2.0 * dim)

    def noise_square(self, dim: int) -> float:
        """``E |z|^2 = 2 d b^2``."""
        return 2.0 * self.scale**2 * dim
