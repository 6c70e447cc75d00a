"""Noise scaled to the smooth sensitivity of the data at hand.

The local sensitivity is not private, and noise scaled to it would give it away. Its smooth bound

    S_beta(D) = max_k e^(-beta k) max_{d(D, D') <= k} LS(D')

changes by a factor of at most ``e^beta`` between neighbours, so that noise of scale ``c S_beta``
hides both the answer and its own scale. A query never answers less
than a public floor: a constant changes by no factor at all, and a scale of zero would be certainty.

Source: Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling in private data
analysis", STOC 2007.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.arguments import check_fields, shown
from privopt.mechanisms.calibration import check_calibration, drawable, require_public_size
from privopt.privacy import approximate_event, round_down, round_up
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable

_MARGIN = 1.0 + 2.0**-40  # relative; of a handful of elementary functions
_SLACK = 2.0**-18  # by which round-off lets ``ln S_beta`` change beyond ``beta``
_ROUND_OFF = 1.0 + 2.0**-21  # relative; of ``S_beta`` and its product with ``c``, in float32


class SmoothQuery(Protocol):
    """A query on data sets of a public size that knows its smooth sensitivity."""

    def answer(self, records: Array) -> Array:
        """The answer on ``records``, of shape ``()``."""

    def smooth_sensitivity(self, records: Array, smoothness: float | Array) -> Array:
        """``S_beta`` with ``beta = smoothness`` under ``replace_one``; secret, shape ``()``.

        Not below a positive number that is the same for all data, unless nothing can move the
        answer. Its logarithm changes by ``beta + 2^-18`` at most, round-off included.
        """


class SmoothLaplaceMechanism(NamedTuple):
    """``query(data) + c S_beta(data) Laplace``: approximate differential privacy.

    ``smoothness`` is ``beta`` and ``scale`` is ``c >= 2``, both representable in float32.

    Formal guarantee
    ----------------
    ``(2/c, 2 e^(-1/(c beta)))``-DP under ``replace_one``: ``c = 2/epsilon`` and
    ``beta = epsilon/(2 ln(2/delta))``, less ``2^-18`` for round-off. Proved for ``epsilon <= 1``,
    and false for some larger ones, so these are refused. Source: Nissim, Raskhodnikova and Smith
    2007.

    Examples
    --------
    >>> from privopt.statistics import Median
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> mechanism = SmoothLaplaceMechanism.calibrated(Median.of(0.0, 2.0), budget)
    >>> round(mechanism.smoothness, 3), round(mechanism.scale, 3)
    (0.034, 2.0)
    """

    query: SmoothQuery
    smoothness: float
    scale: float

    @classmethod
    def calibrated(cls, query: SmoothQuery, budget: Budget) -> SmoothLaplaceMechanism:
        """``beta`` and ``c`` with which one release stays within ``budget``.

        Its relation must be ``replace_one``, its delta positive, its epsilon at most 1 and not so
        small that round-off takes all of ``beta``.
        """
        check_calibration(query, budget, "smooth_sensitivity")
        require_public_size(budget.relation, "smooth sensitivity")
        if budget.epsilon > 1.0:
            raise ValueError(
                f"epsilon must not exceed 1 for smooth Laplace noise, got {shown(budget.epsilon)}"
            )
        if budget.delta == 0.0:
            raise ValueError(
                f"delta must be positive for smooth Laplace noise, got {shown(budget.delta)}"
            )
        scale = round_up(2.0 / resolvable(budget.epsilon) * _ROUND_OFF)
        delta = drawable(budget, 1).delta
        smoothness = 1.0 / (scale * math.log(2.0 / delta)) / _MARGIN - _SLACK
        if not smoothness > 0.0:
            raise ValueError(
                "epsilon must be above 2^-17 ln(2/delta) for smooth Laplace noise, "
                f"got {shown(budget.epsilon)} with delta {shown(budget.delta)}"
            )
        return cls(query, round_down(smoothness), scale)

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of one release; none is private for ``c < 2``."""
        check_fields("mechanism", self)
        require_public_size(relation, "smooth sensitivity")
        if self.scale < 2.0 * _ROUND_OFF:
            return pure_release(math.inf)
        delta = 2.0 * math.exp(-1.0 / (self.scale * (self.smoothness + _SLACK))) * _MARGIN
        if delta >= 1.0:
            return pure_release(math.inf)
        return approximate_event(2.0 * _ROUND_OFF / self.scale, delta)

    def release(self, key: Array, records: Array) -> Array:
        """Return the noisy answer, shape ``()``, in the floating dtype of ``records``."""
        spread = self.query.smooth_sensitivity(records, self.smoothness)
        answer = self.query.answer(records)
        noise = release("noise", draws.laplace(key, (), answer.dtype))
        return release("answer", answer + self.scale * spread * noise)
