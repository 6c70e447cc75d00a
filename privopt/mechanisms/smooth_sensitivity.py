"""Noise scaled to the smooth sensitivity of the data at hand.

The local sensitivity is not private, and noise scaled to it would give it away. Its smooth bound

    S_beta(D) = max_k e^(-beta k) max_{d(D, D') <= k} LS(D')

changes by a factor of at most ``e^beta`` between neighbours, so that noise of scale ``c S_beta``
hides both the answer and its own scale. ``beta`` belongs to the law of the noise: each law spends
a part of the budget on the change of scale and the rest on the shift.

Source: Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling in private data
analysis", STOC 2007.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.mechanisms.events import (
    approximate_release,
    drawable,
    pure_release,
    require_public_size,
    resolvable,
)
from privopt.privacy import round_down, round_up
from privopt.spec import Budget, Relation

__all__ = ["SmoothCauchyMechanism", "SmoothLaplaceMechanism", "SmoothQuery"]

_MARGIN = 1.0 + 2.0**-40  # relative; of a handful of elementary functions


class SmoothQuery(Protocol):
    """A query on data sets of a public size that knows its smooth sensitivity."""

    def answer(self, records: Array) -> Array:
        """The answer on ``records``, of shape ``()``."""

    def smooth_sensitivity(self, records: Array, smoothness: Any) -> Array:
        """``S_beta`` with ``beta = smoothness`` under ``replace_one``; secret, shape ``()``."""


class SmoothCauchyMechanism(NamedTuple):
    """``query(data) + c S_beta(data) Cauchy``: pure differential privacy.

    The noise has no mean and no variance: report medians.

    Attributes
    ----------
    query : SmoothQuery
    smoothness : float
        ``beta``, representable in float32.
    scale : float
        ``c``, representable in float32.

    Formal guarantee
    ----------------
    ``beta + 2 asinh(1/(2c))``-DP under ``replace_one``. At scale ``s`` the Cauchy density is
    ``s/(pi (s^2 + z^2))``: a factor ``e^(+-beta)`` of ``s`` changes its logarithm by at most
    ``beta``, a shift by ``S = s/c`` by at most ``2 asinh(1/(2c))``. Half of ``epsilon`` for each
    gives ``beta = epsilon/2`` and ``c = 1/(2 sinh(epsilon/4)) < 2/epsilon``; the source has
    ``epsilon/6`` and ``6/epsilon``.
    """

    query: Any
    smoothness: float
    scale: float

    @classmethod
    def calibrated(cls, query: SmoothQuery, budget: Budget) -> SmoothCauchyMechanism:
        """``beta`` and ``c`` with which one release stays within ``budget.epsilon``.

        ``budget.delta`` is not spent.

        Raises
        ------
        ValueError
            If ``budget.relation`` is not ``replace_one``, or ``budget.epsilon`` exceeds 700.
        """
        require_public_size(budget.relation, "smooth sensitivity")
        if budget.epsilon > 700.0:
            raise ValueError(f"epsilon must not exceed 700, got {budget.epsilon!r}")
        epsilon = resolvable(budget.epsilon)
        smoothness = round_down(0.5 * epsilon)
        scale = 0.5 / math.sinh(0.5 * (epsilon - smoothness)) * _MARGIN
        return cls(query, smoothness, round_up(scale))

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy.

        Raises
        ------
        ValueError
            If ``relation`` is not ``replace_one``.
        """
        require_public_size(relation, "smooth sensitivity")
        if self.scale == 0.0:
            return pure_release(math.inf)
        return pure_release(self.smoothness + 2.0 * math.asinh(0.5 / self.scale))

    def release(self, key: Array, records: Array) -> Array:
        """The noisy answer, shape ``()``, in the dtype of ``records``."""
        noise = draws.cauchy(key, (), records.dtype)
        return _released(self, records, noise)


class SmoothLaplaceMechanism(NamedTuple):
    """``query(data) + c S_beta(data) Laplace``: lighter tails, approximate differential privacy.

    Attributes
    ----------
    query : SmoothQuery
    smoothness : float
        ``beta``, representable in float32.
    scale : float
        ``c >= 2``, representable in float32.

    Formal guarantee
    ----------------
    ``(2/c, 2 e^(-1/(c beta)))``-DP under ``replace_one``: ``c = 2/epsilon`` and
    ``beta = epsilon/(2 ln(2/delta))``. Proved for ``epsilon <= 1``, and false for some larger
    ones, so these are refused. Source: Nissim, Raskhodnikova and Smith 2007.
    """

    query: Any
    smoothness: float
    scale: float

    @classmethod
    def calibrated(cls, query: SmoothQuery, budget: Budget) -> SmoothLaplaceMechanism:
        """``beta`` and ``c`` with which one release stays within ``budget``.

        Raises
        ------
        ValueError
            If ``budget.relation`` is not ``replace_one``, ``budget.epsilon`` exceeds 1, or
            ``budget.delta`` is 0.
        """
        require_public_size(budget.relation, "smooth sensitivity")
        if budget.epsilon > 1.0:
            raise ValueError(
                f"epsilon must not exceed 1 for smooth Laplace noise, got {budget.epsilon!r}"
            )
        if budget.delta == 0.0:
            raise ValueError(
                f"delta must be positive for smooth Laplace noise, got {budget.delta!r}; "
                "for pure differential privacy use SmoothCauchyMechanism"
            )
        scale = round_up(2.0 / resolvable(budget.epsilon))
        smoothness = round_down(1.0 / (scale * math.log(2.0 / drawable(budget, 1).delta)) / _MARGIN)
        return cls(query, smoothness, scale)

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy; nothing is claimed of ``c < 2``.

        Raises
        ------
        ValueError
            If ``relation`` is not ``replace_one``.
        """
        require_public_size(relation, "smooth sensitivity")
        if self.scale < 2.0:
            return pure_release(math.inf)
        delta = 2.0 * math.exp(-1.0 / (self.scale * self.smoothness)) * _MARGIN
        return approximate_release(2.0 / self.scale, min(delta, 1.0))

    def release(self, key: Array, records: Array) -> Array:
        """The noisy answer, shape ``()``, in the dtype of ``records``."""
        noise = draws.laplace(key, (), records.dtype)
        return _released(self, records, noise)


def _released(
    mechanism: SmoothCauchyMechanism | SmoothLaplaceMechanism, records: Array, noise: Array
) -> Array:
    query = mechanism.query
    spread = query.smooth_sensitivity(records, mechanism.smoothness)
    return query.answer(records) + mechanism.scale * spread * noise
