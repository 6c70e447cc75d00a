"""Additive noise for one answer: Gaussian, Laplace and norm-Laplace mechanisms.

Scales are rounded up to float32, so that the device adds noise of exactly the accounted scale.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, Self, TypeVar

import jax
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, NoOpDpEvent
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from privopt import random
from privopt.arguments import answering, check_fields, shown
from privopt.mechanisms.calibration import check_calibration, drawable, noise_multiplier
from privopt.mechanisms.queries import BoundedQuery, L1BoundedQuery
from privopt.privacy import gaussian_noise_multiplier, pure_event, pure_noise_multiplier, round_up
from privopt.records import check_answer
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation

Query = TypeVar("Query", bound=BoundedQuery | L1BoundedQuery)


class _AdditiveNoise(NamedTuple, Generic[Query]):
    """Mechanism ``query(data) + scale z``. Subclasses define the law of ``z``."""

    query: Query
    scale: float

    def draw(self, key: Array, dim: int, dtype: DTypeLike) -> Array:
        """Sample the noise, shape ``(dim,)``."""
        return release("noise", self.scale * self._sample(key, dim, dtype))

    @classmethod
    def _calibration_sensitivity(cls, query: Query, budget: Budget) -> float:
        check_calibration(query, budget, cls._norm())
        return cls(query, 0.0)._record_sensitivity(budget.relation)

    def _record_sensitivity(self, relation: Relation) -> float:
        """Return the per-record sensitivity, as dp-accounting defines it."""
        query = answering("query", self.query, [self._norm()])
        sensitivity: float = getattr(query, self._norm())(relation)
        return sensitivity / Relation(relation).multiple

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of one release."""
        check_fields("mechanism", self)
        noise = noise_multiplier(self.scale, self._record_sensitivity(relation))
        return self._event(noise, relation) if noise < math.inf else NoOpDpEvent()

    def add_noise(self, key: Array, answer: Pytree) -> Pytree:
        """Return the release of ``answer``, the array or pytree of floats that ``query`` returned.

        The noise is sampled in the dtype of the answer, as one vector in the order of its arrays.
        """
        jax.tree.map(lambda leaf: check_answer(leaf, "answer"), answer)
        vector, unravel = ravel_pytree(answer)
        return release("answer", unravel(vector + self.draw(key, vector.size, vector.dtype)))

    @staticmethod
    def _norm() -> str:
        """Return the name of the sensitivity that calibrates the noise."""
        return "sensitivity"

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        raise NotImplementedError

    @staticmethod
    def _sample(key: Array, dim: int, dtype: DTypeLike) -> Array:
        raise NotImplementedError


class GaussianNoise(_AdditiveNoise[Query]):
    """Noise ``N(0, sigma^2 I)``, ``scale = sigma``."""

    __slots__ = ()

    def noise_norm(self, dim: int) -> float:
        """Return the upper bound ``sigma sqrt(d)`` on ``E |z|``."""
        return self.scale * math.sqrt(dim)

    def noise_square(self, dim: int) -> float:
        """Return ``E |z|^2 = sigma^2 d``."""
        return self.scale**2 * dim

    @staticmethod
    def _sample(key: Array, dim: int, dtype: DTypeLike) -> Array:
        return random.normal(key, (dim,), dtype)


class NormLaplaceNoise(_AdditiveNoise[Query]):
    """Noise with density proportional to ``exp(-|z|_2 / beta)``, ``scale = beta``.

    The direction is uniform, the radius ``Gamma(shape d, scale beta)``.
    """

    __slots__ = ()

    def noise_norm(self, dim: int) -> float:
        """Return ``E |z| = d beta``."""
        return self.scale * dim

    def noise_square(self, dim: int) -> float:
        """Return ``E |z|^2 = d (d + 1) beta^2``."""
        return dim * (dim + 1.0) * self.scale**2

    @staticmethod
    def _sample(key: Array, dim: int, dtype: DTypeLike) -> Array:
        return random.norm_laplace(key, dim, dtype)


class GaussianMechanism(GaussianNoise[Query]):
    """Gaussian mechanism ``query(data) + N(0, sigma^2 I)``, ``scale = sigma``.

    Formal guarantee
    ----------------
    ``s/sigma``-Gaussian DP under each relation, ``s = query.sensitivity(relation)``. The
    calibration charges the truncation of the noise at ``draws.NORMAL_REACH`` scales to ``delta``.

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
        """Return the mechanism with the least noise for ``compositions`` releases.

        ValueError if ``budget.delta`` is 0, or at most the cost of the truncated noise tails.
        """
        record_sensitivity = cls._calibration_sensitivity(query, budget)
        noise = gaussian_noise_multiplier(drawable(budget), compositions=compositions)
        return cls(query, round_up(noise * record_sensitivity))

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        del relation
        return GaussianDpEvent(noise)


class LaplaceMechanism(_AdditiveNoise[Query]):
    """Laplace mechanism ``query(data) + z``: independent ``z_j``, ``E |z_j| = b``, ``scale = b``.

    Formal guarantee
    ----------------
    ``s/b``-DP under each relation, ``s = query.l1_sensitivity(relation)`` over all coordinates.
    The event is that of Laplace noise on a scalar of sensitivity ``s``. It dominates the release
    of a vector of l1 sensitivity ``s`` (proved in ``privopt.privacy.mechanisms.laplace``).

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
        """Return the mechanism with the least noise for one release within ``budget.epsilon``.

        ``budget.delta`` is not spent. No noise is added if the sensitivity is 0. ValueError if the
        sensitivity is infinite under ``budget.relation``.
        """
        record_sensitivity = cls._calibration_sensitivity(query, budget)
        if not math.isfinite(record_sensitivity):
            raise ValueError(
                f"query must have a finite l1 sensitivity under {budget.relation}, "
                f"got {shown(record_sensitivity)}"
            )
        products = 1.0 + 2.0**-50  # rounding of two products
        return cls(query, round_up(pure_noise_multiplier(budget) * record_sensitivity * products))

    def noise_norm(self, dim: int) -> float:
        """Return the upper bound ``b sqrt(2d)`` on ``E |z|_2``."""
        return self.scale * math.sqrt(2.0 * dim)

    def noise_square(self, dim: int) -> float:
        """Return ``E |z|^2 = 2 d b^2``."""
        return 2.0 * self.scale**2 * dim

    @staticmethod
    def _norm() -> str:
        return "l1_sensitivity"

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        del relation
        return LaplaceDpEvent(noise)

    @staticmethod
    def _sample(key: Array, dim: int, dtype: DTypeLike) -> Array:
        return random.laplace(key, (dim,), dtype)


class NormLaplaceMechanism(NormLaplaceNoise[Query]):
    """Mechanism ``query(data) + z``, density of ``z`` proportional to ``exp(-|z|_2 / beta)``.

    This is not Laplace noise per coordinate. ``scale`` is ``beta``.

    Formal guarantee
    ----------------
    ``s/beta``-DP under each relation, ``s = query.sensitivity(relation)``, by the triangle
    inequality for ``|z|_2``. The event is the randomised-response pair that dominates every
    mechanism of this epsilon. Source: Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1.

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
        """Return the mechanism with the least noise for one release within ``budget.epsilon``.

        The margin covers the probability in the event, a float64 next to 1/2. It resolves epsilon
        to ``2^-50`` and is rounded up.
        """
        record_sensitivity = cls._calibration_sensitivity(query, budget)
        margin = 1.0 + 1e-11 + 2.0**-49 / budget.epsilon
        return cls(query, round_up(pure_noise_multiplier(budget) * record_sensitivity * margin))

    def _event(self, noise: float, relation: Relation) -> DpEvent:
        if noise == 0.0:
            return NonPrivateDpEvent()
        return pure_event(
            self._record_sensitivity(relation) * Relation(relation).multiple / self.scale
        )


def classic_gaussian_scale(query: BoundedQuery, budget: Budget) -> float:
    """Return the classic scale ``sigma = s sqrt(2 ln(1.25/delta)) / epsilon``: a baseline.

    It is larger than the scale of ``GaussianMechanism.calibrated`` (by 30 per cent at ``(1,
    1e-5)``). ``GaussianMechanism(query, classic_gaussian_scale(query, budget))`` has the exact
    event of it.

    Formal guarantee
    ----------------
    ``(epsilon, delta)``-DP under ``budget.relation`` for ``epsilon <= 1``. Beyond some ``epsilon``
    (8.4 at ``delta = 1e-5``) the scale is too small. ValueError if ``budget.epsilon`` exceeds 1,
    or ``budget.delta`` is 0. Source: Dwork and Roth, "The algorithmic foundations of differential
    privacy", 2014, Theorem A.1 (for ``epsilon < 1``).
    """
    check_calibration(query, budget, "sensitivity")
    epsilon, delta = budget.epsilon, budget.delta
    if epsilon > 1.0:
        raise ValueError(f"epsilon must not exceed 1 for the classic formula, got {shown(epsilon)}")
    if delta == 0.0:
        raise ValueError(f"delta must be positive for Gaussian noise, got {shown(delta)}")
    spread = math.sqrt(2.0 * math.log(1.25 / drawable(budget).delta)) / epsilon
    return round_up(query.sensitivity(budget.relation) * spread)
