"""Noise added to one answer: Gaussian, Laplace in every coordinate, and Laplace in the norm.

Scales are rounded up to float32, so that the device adds noise of exactly the accounted scale.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, Self, TypeVar

import jax
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, NoOpDpEvent
from jax import Array
from jax.flatten_util import ravel_pytree

from privopt import draws
from privopt.arguments import answering, check_fields, shown
from privopt.mechanisms.calibration import check_calibration, drawable, noise_multiplier
from privopt.mechanisms.queries import BoundedQuery, L1BoundedQuery
from privopt.privacy import (
    gaussian_noise_multiplier,
    pure_event,
    pure_noise_multiplier,
    round_up,
)
from privopt.records import check_answer
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation

Query = TypeVar("Query", bound=BoundedQuery | L1BoundedQuery)


class _AdditiveNoise(NamedTuple, Generic[Query]):
    """``query(data) + scale z``. A subclass has the law of ``z``: ``_drawn`` and its ``_event``."""

    query: Query
    scale: float

    @classmethod
    def _contribution(cls, query: Query, budget: Budget) -> float:
        check_calibration(query, budget, cls._norm())
        return cls(query, 0.0)._moved(budget.relation)

    def _moved(self, relation: Relation) -> float:
        """Return the bound on the contribution of one record, as dp-accounting defines it."""
        query = answering("query", self.query, [self._norm()])
        sensitivity: float = getattr(query, self._norm())(relation)
        return sensitivity / Relation(relation).multiple

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of one release."""
        check_fields("mechanism", self)
        noise = noise_multiplier(self.scale, self._moved(relation))
        return self._event(noise, relation) if noise < math.inf else NoOpDpEvent()

    def add_noise(self, key: Array, answer: Pytree) -> Pytree:
        """Return the release of ``answer``, the array or pytree of floats that ``query`` returned.

        The noise is drawn in the dtype of the answer, as one vector in the order of its leaves.
        """
        jax.tree.map(lambda leaf: check_answer(leaf, "answer"), answer)
        vector, unravel = ravel_pytree(answer)
        noise = release("noise", self.scale * self._drawn(key, vector))
        return release("answer", unravel(vector + noise))

    @staticmethod
    def _norm() -> str:
        """The sensitivity that the query is asked for."""
        return "sensitivity"

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        raise NotImplementedError

    @staticmethod
    def _drawn(key: Array, like: Array) -> Array:
        raise NotImplementedError


class GaussianMechanism(_AdditiveNoise[Query]):
    """``query(data) + N(0, sigma^2 I)``, ``scale = sigma``.

    Formal guarantee
    ----------------
    ``s/sigma``-Gaussian DP under each relation, ``s = query.sensitivity(relation)``. The
    calibration charges to ``delta`` that the draws end at ``draws.NORMAL_REACH`` scales.

    Examples
    --------
    >>> from privopt.mechanisms import ClippedGradient
    >>> budget = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> mechanism = GaussianMechanism.calibrated(ClippedGradient(1.0, 1000.0, dim=5), budget)
    >>> round(mechanism.scale, 5)
    0.00746
    """

    __slots__ = ()

    @classmethod
    def calibrated(cls, query: Query, budget: Budget, *, compositions: int = 1) -> Self:
        """The least noise with which ``compositions`` releases stay within ``budget``.

        ValueError if ``budget.delta`` is 0, which no Gaussian noise meets, or no larger than what
        the ends of drawn noise may cost.
        """
        contribution = cls._contribution(query, budget)
        noise = gaussian_noise_multiplier(drawable(budget), compositions=compositions)
        return cls(query, round_up(noise * contribution))

    def noise_norm(self, dim: int) -> float:
        """Upper bound ``sigma sqrt(d)`` on ``E |z|``."""
        return self.scale * math.sqrt(dim)

    def noise_square(self, dim: int) -> float:
        """``E |z|^2 = sigma^2 d``."""
        return self.scale**2 * dim

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        del relation
        return GaussianDpEvent(noise)

    @staticmethod
    def _drawn(key: Array, like: Array) -> Array:
        return draws.normal(key, like.shape, like.dtype)


class LaplaceMechanism(_AdditiveNoise[Query]):
    """``query(data) + z``, every coordinate of ``z`` Laplace of scale ``b``: ``E|z_j| = b``.

    Formal guarantee
    ----------------
    ``s/b``-DP under each relation, ``s = query.l1_sensitivity(relation)``, which counts *all*
    coordinates that one record touches. The event is that of Laplace noise on a *scalar* that
    moves by ``s``, which dominates a vector whose l1 norm moves by ``s`` (proved in
    ``privopt.privacy.releases.laplace``).
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

    __slots__ = ()

    @classmethod
    def calibrated(cls, query: Query, budget: Budget) -> Self:
        """The least noise with which one release stays within ``budget.epsilon``.

        ``budget.delta`` is not spent. A query that no record can move gets no noise. ValueError if
        the query has no finite sensitivity under ``budget.relation``.
        """
        contribution = cls._contribution(query, budget)
        if not math.isfinite(contribution):
            raise ValueError(
                f"query must have a finite l1 sensitivity under {budget.relation}, "
                f"got {shown(contribution)}"
            )
        products = 1.0 + 2.0**-50  # the rounding of two
        return cls(query, round_up(pure_noise_multiplier(budget) * contribution * products))

    def noise_norm(self, dim: int) -> float:
        """Upper bound ``b sqrt(2d)`` on ``E |z|``, the Euclidean norm."""
        return self.scale * math.sqrt(2.0 * dim)

    def noise_square(self, dim: int) -> float:
        """``E |z|^2 = 2 d b^2``."""
        return 2.0 * self.scale**2 * dim

    @staticmethod
    def _norm() -> str:
        return "l1_sensitivity"

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        del relation
        return LaplaceDpEvent(noise)

    @staticmethod
    def _drawn(key: Array, like: Array) -> Array:
        return draws.laplace(key, like.shape, like.dtype)


class NormLaplaceMechanism(_AdditiveNoise[Query]):
    """``query(data) + z`` with density of ``z`` proportional to ``exp(-|z|_2 / beta)``.

    The direction is uniform, the radius ``Gamma(shape d, scale beta)``. This is not Laplace noise
    per coordinate.

    Formal guarantee
    ----------------
    ``s/beta``-DP under each relation, ``s = query.sensitivity(relation)``, by the triangle
    inequality for ``|z|_2``. The event is the randomised-response pair that dominates every
    mechanism of that epsilon.
    Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1.

    Examples
    --------
    >>> from privopt.mechanisms import ClippedGradient
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = NormLaplaceMechanism.calibrated(ClippedGradient(1.0, 1000.0, dim=4), budget)
    >>> round(mechanism.scale, 5), round(mechanism.noise_norm(4), 5)
    (0.002, 0.008)
    """

    __slots__ = ()

    @classmethod
    def calibrated(cls, query: Query, budget: Budget) -> Self:
        """The least noise with which one release stays within ``budget.epsilon``.

        The margin is for the event's probability, a float64 next to 1/2: it resolves epsilon to
        ``2^-50`` and is rounded to the safe side.
        """
        contribution = cls._contribution(query, budget)
        margin = 1.0 + 1e-11 + 2.0**-49 / budget.epsilon
        return cls(query, round_up(pure_noise_multiplier(budget) * contribution * margin))

    def noise_norm(self, dim: int) -> float:
        """``E |z| = d beta``."""
        return self.scale * dim

    def noise_square(self, dim: int) -> float:
        """``E |z|^2 = d (d + 1) beta^2``."""
        return self.scale**2 * dim * (dim + 1)

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        if noise == 0.0:
            return NonPrivateDpEvent()
        return pure_event(self._moved(relation) * Relation(relation).multiple / self.scale)

    @staticmethod
    def _drawn(key: Array, like: Array) -> Array:
        return draws.norm_laplace(key, like.size, like.dtype)


def classic_gaussian_scale(query: BoundedQuery, budget: Budget) -> float:
    """The textbook's ``sigma = s sqrt(2 ln(1.25/delta)) / epsilon``: a baseline, never the default.

    Larger than what ``GaussianMechanism.calibrated`` adds (by 30 per cent at ``(1, 1e-5)``).
    ``GaussianMechanism(query, classic_gaussian_scale(query, budget))`` adds it, with the exact
    event of that noise.

    Formal guarantee
    ----------------
    ``(epsilon, delta)``-DP under ``budget.relation`` for ``epsilon <= 1``; beyond some
    ``epsilon`` (8.4 at ``delta = 1e-5``) the formula adds too little. ValueError if
    ``budget.epsilon`` exceeds 1, or ``budget.delta`` is 0.
    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorem
    A.1 (for ``epsilon < 1``).
    """
    check_calibration(query, budget, "sensitivity")
    epsilon, delta = budget.epsilon, budget.delta
    if epsilon > 1.0:
        raise ValueError(f"epsilon must not exceed 1 for the classic formula, got {shown(epsilon)}")
    if delta == 0.0:
        raise ValueError(f"delta must be positive for Gaussian noise, got {shown(delta)}")
    spread = math.sqrt(2.0 * math.log(1.25 / drawable(budget).delta)) / epsilon
    return round_up(query.sensitivity(budget.relation) * spread)
