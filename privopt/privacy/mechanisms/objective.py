"""Objective perturbation: a shifted half of a Gaussian pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import dp_accounting as dp
import numpy as np
from scipy.special import erf, log_ndtr, ndtri

from privopt.privacy.events import ObjectivePerturbationDpEvent
from privopt.privacy.mechanisms.base import MAX_DISTANCE, MIN_DISTANCE, UP, Curve, Release
from privopt.privacy.numbers import Array, U
from privopt.privacy.pairs import (
    EVERYTHING,
    NOTHING,
    Bins,
    DiscretePair,
    GaussianPair,
    Pair,
    normal_masses,
)
from privopt.spec import Relation

_MIN_SPREAD_RATIO = 1e-7  # spread over shift; float64 does not resolve closer losses


@dataclass(frozen=True)
class ObjectivePerturbation(
    Release, event=ObjectivePerturbationDpEvent, parameters=("noise_multiplier", "jacobian")
):
    """The minimiser of an objective with a random linear term, for generalised linear losses."""

    noise: float
    jacobian: float

    def pair(self, relation: Relation) -> Pair | None:
        shift = relation.multiple
        if self.noise * MAX_DISTANCE < shift or self.jacobian > MAX_DISTANCE:
            return replace(EVERYTHING, exact=self.noise == 0.0)
        if math.isinf(self.noise):
            rest = math.exp(-self.jacobian)
            constant = DiscretePair((0.0, 1.0), (1.0 - rest, rest), exact=False)
            return constant if self.jacobian else NOTHING
        if shift / self.noise < MIN_DISTANCE:
            return None
        return ObjectivePair(shift / self.noise, self.jacobian)

    def renyi(self, relation: Relation) -> Curve:
        s = relation.multiple / self.noise if self.noise > 0.0 else math.inf
        return partial(_divergence, s, self.jacobian)

    def exported(self, relation: Relation) -> dp.DpEvent:
        return ObjectivePerturbationDpEvent(self.noise / relation.multiple, self.jacobian)


@dataclass(frozen=True)
class ObjectivePair(Pair):
    """``P`` has the loss ``U = c + s^2 / 2 + s |Z|``, ``Z ~ N(0, 1)``, for ``c >= 0``, ``s > 0``.

    ``Q`` has the mass ``E e^-U``, tilted from ``P``, and its remaining mass where ``P`` has none.

    Formal guarantee
    ----------------
    Dominates every mechanism with a loss ``L`` under its first law of at most some ``U`` of this
    distribution: for every ``gamma > 0``, including ``gamma < 1``,

        H_gamma(P || Q) = E (1 - gamma e^-U)_+ >= E (1 - gamma e^-L)_+,

    and the right side is the mechanism's own divergence. Objective perturbation is an example, in
    both orders of neighbours: ``c`` is the ``jacobian`` of ``ObjectivePerturbationDpEvent``, ``s``
    its ``s'``. Proof and sources: :ref:`Accountants, Theorem 14 <theory-accountants-14>`.
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
        """Return twice the normal masses at ``(edges - c) / s -+ s / 2``, right of the peak.

        Under ``Q``, ``e^-U phi(z) = e^-c phi(z + s)``.
        """
        s = self._spread
        points = (edges - self.c) / s - 0.5 * s
        point_error = 8 * U * ((np.abs(edges) + self.c) / s + s)
        point_error[points < -point_error] = 0.0
        points, point_error = (np.append(0.0, x) for x in (np.maximum(points, 0.0), point_error))
        p, p_error = normal_masses(points, point_error)
        q, q_error = normal_masses(points + s, point_error + 4 * U * s)
        least = 2.0 * math.exp(-self.c)
        return Bins(
            2.0 * p[1:],
            least * q[1:],
            2.0 * p_error[1:],
            least * (q_error[1:] + 8 * U * (1.0 + self.c) * q[1:]),
        )

    @property
    def _spread(self) -> float:
        """``s``, or a larger value of sufficient accuracy: ``U`` increases with it."""
        return max(self.s, _MIN_SPREAD_RATIO * self.c)


def _divergence(s: float, c: float, orders: Array) -> Array:
    """Return ``ln E e^((alpha - 1) U) / (alpha - 1)``; ``E e^(t |Z|) = 2 e^(t^2 / 2) Phi(t)``."""
    power = orders - 1.0
    folded = np.log1p(erf(power * s / math.sqrt(2.0)) * UP) / power
    return np.asarray((c + 0.5 * s * s * orders + folded) * UP)
