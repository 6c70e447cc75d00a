"""Accountant of Gaussian differential privacy: exact for everything purely Gaussian.

A Gaussian release whose noise has standard deviation ``z`` times the norm bound of one record's
contribution is ``mu``-GDP with ``mu = m / z``, in any dimension, where ``m`` is
``relation.multiple``: replacing a record moves a sum by twice the bound. Adaptive composition is
``sqrt(sum mu_t^2)``-GDP, with equality for the worst data, so nothing is lost. In a binary tree
over ``T`` steps a record is part of at most ``floor(log2 T) + 1`` completed nodes, and the first
record of that many, so the tree is as many Gaussian releases.

Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
Theorem 2.7 and Corollary 3.3); for trees, Kairouz, McMahan, Song, Thakkar, Thakurta and Xu,
"Practical and private (deep) learning without sampling or shuffling", ICML 2021
(arXiv:2103.00039).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_trade_off
from privopt.privacy.interval import Interval
from privopt.privacy.leaves import leaves
from privopt.privacy.parameters import is_noise, is_rate, tree_nodes
from privopt.privacy.sums import root
from privopt.spec import Relation

__all__ = ["GaussianDP"]

# Relative: a division, two roots, a product and hypot are below 5 units of 2^-53 among normal
# numbers; noise near the largest float64 makes up to three of the results subnormal, 4 units each.
_ROUNDING = 2.0**-49
_LARGEST = math.nextafter(math.inf, 0.0)
_SURE = (0.0, 1.0)  # sampling rates that leave nothing to chance


@dataclass(frozen=True)
class GaussianDP:
    """Compositions of Gaussian releases, and of what amounts to them.

    - ``GaussianDpEvent``, under every relation;
    - ``SingleEpochTreeAggregationDpEvent`` under ``zero_out`` and ``replace_one``: each record
      takes part in one step of one tree, so the largest tree counts, once. (Under
      ``add_or_remove_one`` the records behind the one removed move up into other steps, and
      nothing is claimed.)
    - ``PoissonSampledDpEvent`` at rate exactly one, which is no sampling, or zero, which is no
      release, around compositions of the former.

    Formal guarantee
    ----------------
    ``mu``-GDP under ``relation``, with the ``mu`` of ``distance(event, relation).upper``; the
    lower ends belong to data sets whose differing record contributes the full norm in one and
    the same direction to every release, in the first step of every largest tree.
    """

    name = "Gaussian DP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether every leaf is one of these, with noise multipliers and counts that make sense."""
        return _releases(event, relation) is not None

    def distance(self, event: dp.DpEvent, relation: Relation) -> Interval:
        """``mu`` of the whole composition; infinite if one release has no noise."""
        releases = _releases(event, relation) or []
        mu = math.hypot(*(_distance(z, count, relation.multiple) for z, count in releases))
        if any(z == 0.0 and count for z, count in releases):
            return Interval(math.inf, math.inf)
        return Interval(min(mu, _LARGEST) * (1.0 - _ROUNDING), mu * (1.0 + _ROUNDING))

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


def _releases(event: dp.DpEvent, relation: Relation) -> list[tuple[float, int]] | None:
    """Noise multipliers and how many such releases a record enters; None: not understood."""
    releases: list[tuple[float, int]] = []
    for leaf, count in leaves(event):
        match leaf:
            case dp.GaussianDpEvent(noise_multiplier=z) if is_noise(z):
                releases.append((float(z), count))
            case dp.SingleEpochTreeAggregationDpEvent(noise_multiplier=z, step_counts=steps) if (
                is_noise(z) and relation is not Relation.ADD_OR_REMOVE_ONE
            ):
                nodes = tree_nodes(steps)
                if nodes is None:
                    return None
                releases.append((float(z), count * nodes))
            case dp.PoissonSampledDpEvent(sampling_probability=rate, event=inner) if (
                is_rate(rate) and rate in _SURE
            ):
                inside = _releases(inner, relation)
                if inside is None:
                    return None
                if rate == 1.0:
                    releases.extend((z, count * k) for z, k in inside)
            case _:
                return None
    return releases


def _distance(z: float, count: int, multiple: int) -> float:
    if count == 0 or math.isinf(z):
        return 0.0
    return multiple / z * root(count) if z > 0.0 else math.inf
