"""Discrete noise for production releases, sampled exactly by a cryptographic generator.

The other mechanisms sample floating-point noise from a key, which is reproducible. Here an answer
is rounded to a lattice with a power of two as its spacing, and integer noise is added. No bit of a
release is outside of the guarantee, and the noise cannot be sampled again. OpenDP samples the noise
(``pip install 'privopt[release]'``), with a seed from the operating system. One answer gives one
release; there are no traced values, and no experiment uses this module.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent, ZCDpEvent

from privopt.arguments import (
    answering,
    check_fields,
    positive_integer,
    positive_number,
    real,
    shown,
)
from privopt.privacy import calibrate, pure_event
from privopt.spec import Budget, Relation

if TYPE_CHECKING:
    from privopt.mechanisms.queries import BoundedQuery, L1BoundedQuery

__all__ = ["DiscreteGaussianMechanism", "DiscreteLaplaceMechanism"]

_FINER = 10  # a spacing is 2^-10 of the sensitivity or less, so rounding costs a thousandth
_LARGEST = 2**52  # float64 represents all integers up to this one
_UP = 1.0 + 2.0**-40  # exceeds the rounding error of a few products
_NON_PRIVATE = NonPrivateDpEvent()


class _LatticeNoise(NamedTuple):
    """Lattice noise ``spacing (round(answer/spacing) + z)``; ``scale`` is in spacings."""

    query: BoundedQuery | L1BoundedQuery
    scale: float
    spacing: float
    dim: int

    @classmethod
    def calibrated(
        cls,
        query: BoundedQuery | L1BoundedQuery,
        budget: Budget,
        *,
        dim: int,
        spacing: float | None = None,
    ) -> Self:
        """Return the least noise for which one release of ``dim`` numbers is within ``budget``.

        ``spacing`` is a public power of two. By default rounding adds at most a thousandth to the
        sensitivity.
        """
        positive_integer("dim", dim)
        bare = cls(query, 0.0, 1.0, dim)
        sensitivity = bare._sensitivity(budget.relation)
        if not math.isfinite(sensitivity):
            raise ValueError(f"query must have a finite {cls._norm()}, got {shown(sensitivity)}")
        if spacing is None:
            spacing = 2.0 ** (math.frexp(sensitivity / cls._roundings(dim))[1] - 1 - _FINER)
        noise = cls._noise(budget)
        distance = bare._replace(spacing=spacing)._lattice_sensitivity(budget.relation)
        scale = noise * distance * _UP
        if scale > _LARGEST:
            raise ValueError(f"spacing must be at least the noise over 2^52, got {shown(spacing)}")
        return cls(query, scale, spacing, dim)

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of one release; ``ValueError`` for invalid fields."""
        distance = self._lattice_sensitivity(relation)
        if distance == 0.0:
            return NoOpDpEvent()
        return self._event(distance / self.scale) if self.scale > 0.0 else _NON_PRIVATE

    def release(self, answer: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the release of the answer of ``query``: multiples of ``spacing``, of its shape.

        The release is random and cannot be repeated. The ``restore`` of a query with a public
        centre, such as ``BoundedMean.restore``, applies to the release. ``ValueError`` if the
        answer does not have ``dim`` numbers or a field has an invalid value, ``ImportError``
        without OpenDP.
        """
        self._check()
        vector = np.asarray(answer, np.float64)
        if vector.size != self.dim:
            raise ValueError(f"answer must have dim = {self.dim} numbers, got {vector.size}")
        with np.errstate(all="ignore"):  # a warning would depend on the answer
            steps = np.clip(np.nan_to_num(np.rint(vector / self.spacing)), -_LARGEST, _LARGEST)
        noisy = self._sampler()(steps.astype(np.int64).ravel().tolist())
        return self.spacing * np.array(noisy, np.float64).reshape(vector.shape)

    def _sensitivity(self, relation: Relation) -> float:
        sensitivity: float = getattr(self.query, self._norm())(relation)
        return sensitivity

    def _check(self) -> None:
        """Check the fields, which ``_replace`` may have changed."""
        answering("query", self.query, [self._norm()])
        check_fields("mechanism.query", self.query)
        positive_integer("dim", self.dim)
        if math.frexp(positive_number("spacing", self.spacing))[0] != 0.5:
            raise ValueError(f"spacing must be a power of two, got {shown(self.spacing)}")
        if not 0.0 <= real("scale", self.scale) <= _LARGEST:
            raise ValueError(f"scale must lie in [0, 2^52], got {shown(self.scale)}")

    def _lattice_sensitivity(self, relation: Relation) -> float:
        """Return the sensitivity of the rounded integers: each is rounded by at most a half."""
        self._check()
        sensitivity = self._sensitivity(relation) / self.spacing
        return (sensitivity + self._roundings(self.dim)) * _UP if sensitivity > 0.0 else 0.0

    @staticmethod
    def _norm() -> str:
        raise NotImplementedError

    @staticmethod
    def _roundings(dim: int) -> float:
        """Return the norm of ``dim`` ones."""
        raise NotImplementedError

    @staticmethod
    def _noise(budget: Budget) -> float:
        """Return the scale divided by the sensitivity."""
        raise NotImplementedError

    @staticmethod
    def _event(loss: float) -> DpEvent:
        """Return the privacy event for the sensitivity divided by the scale."""
        raise NotImplementedError

    def _sampler(self) -> Any:
        raise NotImplementedError


class DiscreteGaussianMechanism(_LatticeNoise):
    """Discrete Gaussian noise on a lattice: ``spacing (round(answer/spacing) + z)``.

    Each ``z_j`` has the law ``P(z) ~ exp(-z^2/(2 scale^2))``.

    Formal guarantee
    ----------------
    ``(m^2/(2 scale^2))``-zCDP under each relation, with ``m = s/spacing + sqrt(dim)`` and ``s =
    query.sensitivity(relation)``. Source: Canonne, Kamath and Steinke, "The discrete Gaussian for
    differential privacy", NeurIPS 2020, Theorem 4, applied to each coordinate.

    Examples
    --------
    >>> from privopt.statistics import BoundedMean
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> mean = BoundedMean.of(0.0, 80.0, size=1000)
    >>> mechanism = DiscreteGaussianMechanism.calibrated(mean, budget, dim=1)
    >>> mechanism.spacing, round(mechanism.scale * mechanism.spacing, 2)
    (6.103515625e-05, 0.36)
    """

    __slots__ = ()

    @staticmethod
    def _norm() -> str:
        return "sensitivity"

    @staticmethod
    def _roundings(dim: int) -> float:
        return math.sqrt(dim)

    @staticmethod
    def _noise(budget: Budget) -> float:
        if budget.delta == 0.0:
            raise ValueError("delta must be positive for Gaussian noise, got 0.0")
        return calibrate(lambda noise: ZCDpEvent(0.5 / noise**2) if noise else _NON_PRIVATE, budget)

    @staticmethod
    def _event(loss: float) -> DpEvent:
        return ZCDpEvent(0.5 * loss**2 * (1.0 + 2.0**-50))

    def _sampler(self) -> Any:
        dp = _opendp()
        return dp.m.make_gaussian(*_integers(dp, dp.l2_distance(T=float)), scale=self.scale)


class DiscreteLaplaceMechanism(_LatticeNoise):
    """Discrete Laplace noise on a lattice: ``spacing (round(answer/spacing) + z)``.

    Each ``z_j`` has the law ``P(z) ~ exp(-|z|/scale)``.

    Formal guarantee
    ----------------
    ``m/scale``-DP under each relation, with ``m = s/spacing + dim`` and ``s =
    query.l1_sensitivity(relation)``. Source: Ghosh, Roughgarden and Sundararajan, "Universally
    utility-maximizing privacy mechanisms", STOC 2009; vectors by the triangle inequality.

    Examples
    --------
    >>> from privopt.statistics import BoundedMean
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mean = BoundedMean.of(0.0, 80.0, size=1000)
    >>> mechanism = DiscreteLaplaceMechanism.calibrated(mean, budget, dim=1)
    >>> round(mechanism.scale * mechanism.spacing, 4)
    0.0801
    """

    __slots__ = ()

    @staticmethod
    def _norm() -> str:
        return "l1_sensitivity"

    @staticmethod
    def _roundings(dim: int) -> float:
        return float(dim)

    @staticmethod
    def _noise(budget: Budget) -> float:
        return 1.0 / budget.epsilon

    @staticmethod
    def _event(loss: float) -> DpEvent:
        return pure_event(loss * (1.0 + 2.0**-50))

    def _sampler(self) -> Any:
        dp = _opendp()
        return dp.m.make_laplace(*_integers(dp, dp.l1_distance(T="i64")), scale=self.scale)


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError("a real release needs OpenDP: pip install 'privopt[release]'") from None
    dp.enable_features("contrib")
    return dp


def _integers(dp: Any, metric: Any) -> tuple[Any, Any]:
    return dp.vector_domain(dp.atom_domain(T="i64")), metric
