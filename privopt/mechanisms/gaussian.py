"""The Gaussian mechanism."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

from dp_accounting import DpEvent, GaussianDpEvent, NoOpDpEvent
from jax import Array
from jax.flatten_util import ravel_pytree

from privopt import draws
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.events import drawable
from privopt.mechanisms.multiplier import multiplier
from privopt.mechanisms.queries import BoundedQuery
from privopt.privacy import gaussian_noise_multiplier, round_up
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation

__all__ = ["GaussianMechanism", "classic_gaussian_scale"]

Query = TypeVar("Query", bound=BoundedQuery)


class GaussianMechanism(NamedTuple, Generic[Query]):
    """``query(data) + N(0, sigma^2 I)``.

    Attributes
    ----------
    query : BoundedQuery
        What is asked, with its sensitivity ``s``.
    scale : float
        ``sigma``, representable in float32 so that the device adds noise of exactly this scale.

    Formal guarantee
    ----------------
    ``s/sigma``-Gaussian DP under each relation, ``s = query.sensitivity(relation)``; the event
    states it in the convention of dp-accounting, noise over the bound on one record's
    contribution.

    Examples
    --------
    >>> from privopt.mechanisms import ClippedGradient
    >>> budget = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> mechanism = GaussianMechanism.calibrated(ClippedGradient(1.0, 1000.0, dim=5), budget)
    >>> round(mechanism.scale, 5)
    0.00746
    """

    query: Query
    scale: float

    @classmethod
    def calibrated(
        cls, query: Query, budget: Budget, *, compositions: int = 1
    ) -> GaussianMechanism[Query]:
        """The least noise with which ``compositions`` releases stay within ``budget``.

        Raises
        ------
        ValueError
            If ``budget.delta`` is 0, which no Gaussian noise meets, or no larger than what the
            ends of drawn noise may cost.
        """
        check_calibration(query, budget, "sensitivity")
        noise = gaussian_noise_multiplier(drawable(budget), compositions=compositions)
        contribution = query.sensitivity(budget.relation) / budget.relation.multiple
        return cls(query, round_up(noise * contribution))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        moved = self.query.sensitivity(relation) / Relation(relation).multiple
        noise = multiplier(self.scale, moved)
        return GaussianDpEvent(noise) if noise < math.inf else NoOpDpEvent()

    def add_noise(self, key: Array, answer: Pytree) -> Pytree:
        """The release; ``answer`` is what ``query`` gave, an array or a pytree of one dtype.

        The noise of a pytree is drawn as one vector, in the order of the leaves: no key is split,
        and one generator is compiled however many leaves there are. It ends at
        ``draws.NORMAL_REACH`` scales, which the calibration has charged to ``delta``.
        """
        vector, unravel = ravel_pytree(answer)
        noise = release("noise", self.scale * draws.normal(key, vector.shape, vector.dtype))
        return release("answer", unravel(vector + noise))

    def noise_norm(self, dim: int) -> float:
        """Upper bound ``sigma sqrt(d)`` on ``E |z|``."""
        return self.scale * math.sqrt(dim)

    def noise_square(self, dim: int) -> float:
        """``E |z|^2 = sigma^2 d``."""
        return self.scale**2 * dim


def classic_gaussian_scale(query: BoundedQuery, budget: Budget) -> float:
    """The textbook's ``sigma = s sqrt(2 ln(1.25/delta)) / epsilon``: a baseline, never the default.

    Larger than what ``GaussianMechanism.calibrated`` adds (by 30 per cent at ``(1, 1e-5)``).
    ``GaussianMechanism(query, classic_gaussian_scale(query, budget))`` adds it, with the exact
    event of that noise.

    Formal guarantee
    ----------------
    ``(epsilon, delta)``-DP under ``budget.relation`` for ``epsilon <= 1``; beyond some
    ``epsilon`` (8.4 at ``delta = 1e-5``) the formula adds too little.
    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorem
    A.1 (for ``epsilon < 1``).

    Raises
    ------
    ValueError
        If ``budget.epsilon`` exceeds 1, or ``budget.delta`` is 0.

    Examples
    --------
    >>> from privopt.mechanisms import ClippedGradient
    >>> budget = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> round(classic_gaussian_scale(ClippedGradient(1.0, 1000.0, dim=5), budget), 5)
    0.00969
    """
    check_calibration(query, budget, "sensitivity")
    epsilon, delta = budget.epsilon, budget.delta
    if epsilon > 1.0:
        raise ValueError(f"epsilon must not exceed 1 for the classic formula, got {epsilon!r}")
    if delta == 0.0:
        raise ValueError(f"delta must be positive for Gaussian noise, got {delta!r}")
    spread = math.sqrt(2.0 * math.log(1.25 / drawable(budget).delta)) / epsilon
    return round_up(query.sensitivity(budget.relation) * spread)
