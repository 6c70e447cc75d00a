"""Accountant of Gaussian differential privacy: exact for everything purely Gaussian.

Adaptive composition of ``mu_t``-GDP releases is ``sqrt(sum mu_t^2)``-GDP, with equality for the
worst data, so nothing is lost.

Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
Theorem 2.7 and Corollary 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_trade_off
from privopt.privacy.numbers import Interval
from privopt.privacy.releases import Shift, asked
from privopt.spec import Relation

# Relative: a division, two roots, a product and hypot are below 5 units of 2^-53 among normal
# numbers; noise near the largest float64 makes up to three of the results subnormal, 4 units each.
_ROUNDING = 2.0**-49
_MAX_FLOAT = math.nextafter(math.inf, 0.0)


@dataclass(frozen=True)
class GaussianDP:
    """Compositions of Gaussian releases, and of what amounts to them (``Release.shifts``).

    Formal guarantee
    ----------------
    ``mu``-GDP under ``relation``, with the ``mu`` of ``distance(event, relation).upper``; the
    lower ends belong to data sets whose differing record contributes the full norm in one and
    the same direction to every release, in the first step of every largest tree.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> releases = dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 4)
    >>> round(GaussianDP().distance(releases, Relation.REPLACE_ONE).upper, 6)
    2.0
    """

    name = "Gaussian DP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return _shifts(event, relation) is not None

    def distance(self, event: dp.DpEvent, relation: Relation) -> Interval:
        """``mu`` of the whole composition; infinite if one release has no noise."""
        shifts = _shifts(event, relation) or []
        mu = math.hypot(*(each.distance for each in shifts))
        if any(each.noise == 0.0 and each.times for each in shifts):
            return Interval(math.inf, math.inf)
        return Interval(min(mu, _MAX_FLOAT) * (1.0 - _ROUNDING), mu * (1.0 + _ROUNDING))

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        mu = self.distance(event, relation)
        return Interval(
            gaussian_epsilon(delta, mu.lower).lower, gaussian_epsilon(delta, mu.upper).upper
        )

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        mu = self.distance(event, relation)
        return Interval(
            gaussian_delta(epsilon, mu.lower).lower, gaussian_delta(epsilon, mu.upper).upper
        )

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        return gaussian_trade_off(alphas, self.distance(event, relation).upper)


def _shifts(event: dp.DpEvent, relation: Relation) -> list[Shift] | None:
    """The Gaussian releases that a composition amounts to; None if it is none."""
    found = asked(event, lambda release: release.shifts(relation))
    if found is None:
        return None
    return [each._replace(times=each.times * count) for shifts, count in found for each in shifts]
