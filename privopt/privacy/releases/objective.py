"""Objective perturbation: a shifted half of a Gaussian pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import dp_accounting as dp
import numpy as np
from scipy.special import erf, log_ndtr, ndtri

from privopt.privacy.events import ObjectivePerturbationDpEvent
from privopt.privacy.pairs import (
    EVERYTHING,
    NOTHING,
    Array,
    Bins,
    DiscretePair,
    GaussianPair,
    Pair,
)
from privopt.privacy.pairs.gaussian import normal_masses
from privopt.privacy.releases.release import MAX_DISTANCE, MIN_DISTANCE, UP, Curve, Release
from privopt.spec import Relation

__all__ = [
    "ObjectivePair",
    "ObjectivePerturbation",
]

_U = 2.0**-53  # unit roundoff of float64
_ROUNDING = 2.0**-50  # relative; eight units of it
_MIN_SPREAD_RATIO = 1e-7  # spread over shift: closer losses float64 does not tell apart


@dataclass(frozen=True)
class ObjectivePerturbation(
    Release, event=ObjectivePerturbationDpEvent, numbers=("noise_multiplier", "jacobian")
):
    """The minimiser of an objective with a random linear term; generalised linear losses."""

    noise: float
    jacobian: float

    def pair(self, relation: Relation) -> Pair | None:
        moved = relation.multiple
        if self.noise * MAX_DISTANCE < moved or self.jacobian > MAX_DISTANCE:
            return replace(EVERYTHING, exact=self.noise == 0.0)
        if math.isinf(self.noise):
            rest = math.exp(-self.jacobian)
            alone = DiscretePair((0.0, 1.0), (1.0 - rest, rest), exact=False)
            return alone if self.jacobian else NOTHING
        if moved / self.noise < MIN_DISTANCE:
            return None
        return ObjectivePair(moved / self.noise, self.jacobian)

    def renyi(self, relation: Relation) -> Curve:
        s = relation.multiple / self.noise if self.noise > 0.0 else math.inf
        return partial(_divergence, s, self.jacobian)

    def exported(self, relation: Relation) -> dp.DpEvent:
        return ObjectivePerturbationDpEvent(self.noise / relation.multiple, self.jacobian)


@dataclass(frozen=True)
class ObjectivePair(Pair):
    """``P`` has the loss ``U = c + s^2 / 2 + s |Z|``, ``Z ~ N(0, 1)``, for ``c >= 0``, ``s > 0``.

    ``Q`` has the mass ``E e^-U`` tilted from it, and the rest where ``P`` has none.

    Formal guarantee
    ----------------
    Dominates every mechanism whose loss ``L`` under its first law is at most some ``U`` of this
    distribution: for every ``gamma > 0``, below one too,

        H_gamma(P || Q) = E (1 - gamma e^-U)_+ >= E (1 - gamma e^-L)_+,

    the right side being the mechanism's own divergence. ``ObjectivePerturbationDpEvent`` tells
    why objective perturbation is one, in both orders of neighbours.
    """

    s: float
    c: float

    @property
    def attained(self) -> Pair | None:
        # A linear loss, for which the minimiser is a Gaussian mechanism
        return GaussianPair(self.s)

    def infinite(self) -> tuple[float, float]:
        # 1 - E e^-U = 1 - 2 e^-c Phi(-s) of Q
        return 0.0, -math.expm1(math.log(2.0) + float(log_ndtr(-self._spread)) - self.c)

    def losses(self, tail: float, count: int) -> Array:
        # Equally spaced, from c + s^2 / 2 to c + s^2 / 2 + s z, 2 Phi(-z) = tail
        s = self._spread
        return self.c + s * (0.5 * s + np.linspace(0.0, -float(ndtri(0.5 * tail)), count))

    def bins(self, edges: Array) -> Bins:
        """Twice the normal masses at ``(edges - c) / s -+ s / 2``, right of the peak.

        Under ``Q``, ``e^-U phi(z) = e^-c phi(z + s)``.
        """
        s = self._spread
        points = (edges - self.c) / s - 0.5 * s
        moved = 8 * _U * ((np.abs(edges) + self.c) / s + s)
        moved[points < -moved] = 0.0
        points, moved = (np.append(0.0, x) for x in (np.maximum(points, 0.0), moved))
        p, p_error = normal_masses(points, moved)
        q, q_error = normal_masses(points + s, moved + 4 * _U * s)
        least = 2.0 * math.exp(-self.c)
        return Bins(
            2.0 * p[1:],
            least * q[1:],
            2.0 * p_error[1:],
            least * (q_error[1:] + 8 * _U * (1.0 + self.c) * q[1:]),
        )

    @property
    def _spread(self) -> float:
        """``s``, or what is safely more: ``U`` increases with it."""
        return max(self.s, _MIN_SPREAD_RATIO * self.c)


def _divergence(s: float, c: float, orders: Array) -> Array:
    """``ln E e^((alpha - 1) U) / (alpha - 1)``, of which ``E e^(t |Z|) = 2 e^(t^2 / 2) Phi(t)``."""
    power = orders - 1.0
    folded = np.log1p(erf(power * s / math.sqrt(2.0)) * UP) / power
    return np.asarray((c + 0.5 * s * s * orders + folded) * UP)
