"""Laplace noise for a bounded l1 sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import dp_accounting as dp
import numpy as np

from privopt.privacy.mechanisms.base import (
    MAX_DISTANCE,
    MIN_DISTANCE,
    UP,
    Concentration,
    Curve,
    LargestLoss,
    Release,
    round_up_cost,
)
from privopt.privacy.numbers import SMALLEST, Array, U
from privopt.privacy.pairs import (
    EVERYTHING,
    NOTHING,
    Bins,
    Pair,
    add_atoms,
    exponential_bins,
)
from privopt.privacy.renyi_moments import psi
from privopt.spec import Relation

_ROUNDING = 2.0**-49  # relative, for a handful of float operations


@dataclass(frozen=True)
class Laplace(Release, event=dp.LaplaceDpEvent, parameters=("noise_multiplier",)):
    """Noise of scale ``b``, divided by the l1 norm bound of one record."""

    noise: float
    additive = True

    def loss(self, relation: Relation) -> LargestLoss:
        # m / b; with probability 1/2 the noise is on the side of the true value
        if math.isinf(self.noise):
            return LargestLoss(0.0, 0.0, 0.5)
        if self.noise == 0.0:
            return LargestLoss(math.inf, math.inf, 1.0)
        most = Fraction(relation.multiple) / Fraction(self.noise)
        return LargestLoss(
            most, min(relation.multiple / self.noise, math.nextafter(math.inf, 0.0)), 0.5
        )

    def pair(self, relation: Relation) -> Pair | None:
        mu = relation.multiple / self.noise if self.noise > 0.0 else math.inf
        if 0.0 < mu < MIN_DISTANCE:
            return None
        if mu > MAX_DISTANCE:
            return replace(EVERYTHING, exact=self.noise == 0.0)
        return LaplacePair(mu) if mu > 0.0 else NOTHING

    def renyi(self, relation: Relation) -> Curve:
        return partial(
            laplace_divergence, relation.multiple / self.noise if self.noise > 0.0 else math.inf
        )

    def zcdp(self, relation: Relation) -> Concentration:
        """Return ``rho = t + e^-t - 1`` with ``t = m / b``, the divergence at order one.

        Proof: :ref:`Accountants, Theorem 7 <theory-accountants-7>`.
        """
        t = round_up_cost(self.loss(relation).most)
        if t in (0.0, math.inf):
            return Concentration(t)
        direct = t + math.expm1(-t) + 2.0**-50 * t
        rho = min(direct, t * t * (0.5 - t / 6.0 + t * t / 24.0))
        return Concentration(max(rho * (1.0 + _ROUNDING), SMALLEST))

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent:
        return dp.LaplaceDpEvent(self.noise / (size * UP))

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.LaplaceDpEvent(self.noise / relation.multiple)


@dataclass(frozen=True)
class LaplacePair(Pair):
    """``P = Lap(mu, 1)`` against ``Q = Lap(0, 1)``, for finite ``mu > 0``; its own reverse.

    Under ``P`` the loss is ``mu`` with probability 1/2 and ``-mu`` with ``e^-mu / 2``. Between them
    it has the density ``e^((l - mu) / 2) / 4``.

    Formal guarantee
    ----------------
    Dominates Laplace noise on a *vector* whose l1 norm changes by at most ``mu``, too. Proof:
    :ref:`Accountants, Theorem 12 <theory-accountants-12>`.
    """

    mu: float
    symmetric = True

    def range(self) -> tuple[float, float]:
        return -self.mu, self.mu

    def losses(self, tail: float, count: int) -> Array:
        inner = np.linspace(-self.mu, self.mu, count) * (1.0 - 1e-9)
        return np.concatenate([[-self.mu], inner, [self.mu]])

    def bins(self, edges: Array) -> Bins:
        edge_error = 4 * U * (1.0 + self.mu)
        p, q, p_error, q_error = exponential_bins(edges, self.mu, 2.0, edge_error)
        add_atoms(p, q, edges, self.mu, 0.5, 0.5 * np.exp(-self.mu))
        return Bins(p, q, p_error + 8 * U * p, q_error + 8 * U * q, blur=4 * U * (1 + self.mu))


def laplace_divergence(t: float, orders: Array) -> Array:
    """Return ``D_alpha`` of Laplace noise for a shift of ``t`` scales, equal in both orders.

    ``(alpha - 1) D = ln[alpha e^((alpha-1)t) + (alpha-1) e^(-alpha t)] - ln(2 alpha - 1)``. Near
    zero it is computed without cancellation, with ``psi(x) = e^x - 1 - x``, as
    ``ln(1 + [alpha psi((alpha-1)t) + (alpha-1) psi(-alpha t)] / (2 alpha - 1))``.

    Source: Mironov 2017 (arXiv:1702.07476), Proposition 6.
    """
    if t == 0.0 or math.isinf(t):
        return np.full_like(orders, t)
    t *= 1.0 + 2 * U
    power = orders - 1.0
    x = np.minimum(power * t, 500.0)
    slack = U * (64.0 + 8.0 * orders * t)
    above_one = (orders * psi(x) + power * psi(-orders * t)) / (2.0 * orders - 1.0)
    near = np.log1p(above_one * (1.0 + slack))
    # ln(alpha / (2 alpha - 1)) < 0; the ratio of the two exponentials is at most e^(-alpha t).
    far = power * t + np.log(orders / (2.0 * orders - 1.0)) + np.exp(-orders * t) + slack
    divergence = np.where(power * t < 500.0, near, far) / power * (1.0 + 8 * U)
    return np.maximum(np.minimum(divergence, t), SMALLEST)
