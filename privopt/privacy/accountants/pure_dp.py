"""Accountant of pure differential privacy: randomised response, Laplace noise, their sums.

Every ``epsilon_0``-DP release is a post-processing of randomised response on one bit with the
same ``epsilon_0``. Composition adds: ``E = sum epsilon_0`` (basic composition), and

    delta(epsilon) <= (e^E - e^epsilon)_+ / (1 + e^E).

From below, test whether *every* release came out most typical of the true data: with
probability ``h`` (the product of single probabilities) it does, with loss exactly ``E``, hence
``delta(epsilon) >= h (1 - e^(epsilon - E))_+``. The two meet for one bit, where
``h = 1 / (1 + e^-E)``, and at ``delta = 0`` for every composition.

Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", IEEE
Trans. Inf. Theory 2017 (arXiv:1311.0776, proof of Theorem 3.3, for domination); Dwork and Roth,
"The algorithmic foundations of differential privacy", 2014, Theorems 3.6 and 3.16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import Interval
from privopt.privacy.releases import composed_loss
from privopt.spec import Relation

_ROUNDING = 2.0**-48  # relative; a handful of operations, each within a unit or two of 2^-53


@dataclass(frozen=True)
class PureDP:
    """Compositions of releases with a largest loss (``Release.loss``), and selections among such.

    Formal guarantee
    ----------------
    ``E``-DP under ``relation``, with ``E`` the sum over all releases, rounded up.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0), 3)
    >>> round(PureDP().epsilon(releases, Relation.ADD_OR_REMOVE_ONE, 0.0).upper, 6)
    0.75
    """

    name = "pure DP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return composed_loss(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        loss, log_typical = _compose(event, relation)
        log_delta = math.log(delta) * (1.0 - _ROUNDING) if delta > 0.0 else -math.inf
        lower = upper = 0.0
        if delta == 0.0:
            lower = loss.lower
        elif log_delta < log_typical:
            missed = math.exp(log_delta - log_typical)
            lower = max(0.0, loss.lower * (1.0 - _ROUNDING) + math.log1p(-missed))
        spent = delta * (1.0 + math.exp(-loss.upper)) * (1.0 - _ROUNDING)
        if spent < 1.0:
            upper = max(0.0, loss.upper * (1.0 + _ROUNDING) + math.log1p(-spent))
        return Interval(lower, upper)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        loss, log_typical = _compose(event, relation)
        lower = upper = 0.0
        if epsilon < loss.lower:
            lower = -math.exp(log_typical) * math.expm1(epsilon - loss.lower)
        if epsilon < loss.upper:
            upper = -math.expm1(epsilon - loss.upper) / (1.0 + math.exp(-loss.upper))
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        loss = _compose(event, relation)[0].upper
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steep = np.where(alphas > 0.0, 1.0 - np.exp(loss) * alphas - _ROUNDING, 1.0)
            flat = np.nextafter(np.exp(-loss) * (1.0 - alphas) * (1.0 - _ROUNDING), -1.0)
        return np.asarray(np.maximum(np.maximum(steep, flat), 0.0))


def _compose(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float]:
    both = composed_loss(event, relation)
    assert both is not None, "asked about an event that is not supported"
    return both
