"""Accountant of Gaussian differential privacy: exact for everything purely Gaussian.

A Gaussian release whose noise has standard deviation ``z`` times the norm bound of one record's
contribution is ``mu``-GDP with ``mu = m / z``, in any dimension, where ``m`` is
``relation.multiple``: replacing a record moves a sum by twice the bound. Adaptive composition is
``sqrt(sum mu_t^2)``-GDP, with equality for the worst data, so nothing is lost.

Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
Theorem 2.7 and Corollary 3.3).
"""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_trade_off
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.spec import Relation

__all__ = ["GaussianDP"]

_ROUNDING = 2.0**-50  # relative; division, two roots, one hypot: below 4 units of 2^-53


class GaussianDP:
    """Compositions of ``GaussianDpEvent``, under every relation.

    Formal guarantee
    ----------------
    ``mu``-GDP under ``relation``, with the ``mu`` of ``distance(event, relation).upper``; the
    lower ends belong to data sets whose differing record contributes the full norm in one and
    the same direction to every release.
    """

    name = "Gaussian DP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether every leaf is a Gaussian release with ``noise_multiplier >= 0``."""
        return all(
            isinstance(leaf, dp.GaussianDpEvent) and leaf.noise_multiplier >= 0.0
            for leaf, _ in leaves(event)
        )

    def distance(self, event: dp.DpEvent, relation: Relation) -> Interval:
        """``mu`` of the whole composition; infinite if one release has no noise."""
        parts = ((float(leaf.noise_multiplier), count) for leaf, count in leaves(event))
        mu = math.hypot(
            *(relation.multiple / z * math.sqrt(k) if z > 0.0 else math.inf for z, k in parts)
        )
        return Interval(mu * (1.0 - _ROUNDING), mu * (1.0 + _ROUNDING))

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """The exact ``epsilon`` at ``delta``, up to rounding."""
        mu = self.distance(event, relation)
        return Interval(
            gaussian_epsilon(delta, mu.lower).lower, gaussian_epsilon(delta, mu.upper).upper
        )

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """The exact ``delta`` at ``epsilon``, up to rounding."""
        mu = self.distance(event, relation)
        return Interval(
            gaussian_delta(epsilon, mu.lower).lower, gaussian_delta(epsilon, mu.upper).upper
        )

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """``G_mu(alphas)``, rounded down."""
        return gaussian_trade_off(alphas, self.distance(event, relation).upper)
