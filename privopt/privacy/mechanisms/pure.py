"""Releases with one or two parameters: pure, concentrated, of one Rényi order, of bounded range.

``RandomizedResponseDpEvent`` with noise ``p`` and ``k`` buckets describes the pair of output
distributions itself. Its loss ``ln(1 + (1 - p) k / p)`` therefore holds under every relation.
dp-accounting agrees for ``replace_one``. Under ``zero_out`` it lets a null record answer uniformly,
which costs less, and under ``add_or_remove_one`` it does not support the event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import dp_accounting as dp
import numpy as np

from privopt.privacy.events import BoundedRangeDpEvent, RenyiDpEvent
from privopt.privacy.mechanisms.base import (
    MAX_DISTANCE,
    MIN_DISTANCE,
    UP,
    Concentration,
    Curve,
    LargestLoss,
    Release,
    pure_pair,
)
from privopt.privacy.numbers import SMALLEST, Array, U, half_square, is_count, is_noise, is_rate
from privopt.privacy.pairs import (
    EVERYTHING,
    NOTHING,
    Bins,
    DiscretePair,
    Pair,
    PurePair,
    exponential_bins,
)
from privopt.privacy.renyi_moments import swapped_divergence
from privopt.spec import Relation

_MIN_PROBABILITY = 1e-300  # below, floats have fewer digits


@dataclass(frozen=True)
class Concentrated(Release, event=dp.ZCDpEvent, parameters=("rho", "xi")):
    """``D_alpha <= xi + rho alpha``; with ``rho = 0`` any ``xi``-DP release, ``pure_event``."""

    rho: float
    xi: float
    neutral = True

    def loss(self, relation: Relation) -> LargestLoss | None:
        if self.rho > 0.0:
            return None
        return LargestLoss(self.xi, self.xi, 1.0 / (1.0 + math.exp(-self.xi)))

    def pair(self, relation: Relation) -> Pair | None:
        return None if self.rho > 0.0 else pure_pair(self.xi)

    def renyi(self, relation: Relation) -> Curve | None:
        return self._divergence if self.rho > 0.0 else super().renyi(relation)

    def zcdp(self, relation: Relation) -> Concentration | None:
        return Concentration(self.rho, self.xi) if self.rho > 0.0 else super().zcdp(relation)

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent | None:
        """Return ``(size^2 rho, size (1 + 1/2 + ... + 1/size) xi)`` for ``rho > 0``.

        Source: Bun and Steinke, TCC 2016 (arXiv:1605.02065), Proposition 27.
        """
        if self.rho == 0.0:
            return super().grouped(size, relation)
        harmonic = math.fsum(1.0 / i for i in range(1, size + 1))
        return dp.ZCDpEvent(self.rho * size * size * UP, self.xi * size * harmonic * UP)

    def _divergence(self, orders: Array) -> Array:
        return (self.xi + self.rho * orders) * UP


@dataclass(frozen=True)
class NoRelease(Release, event=dp.NoOpDpEvent):
    """No release."""

    neutral = True

    def loss(self, relation: Relation) -> LargestLoss:
        return LargestLoss(0.0)


@dataclass(frozen=True)
class NonPrivateRelease(Release, event=dp.NonPrivateDpEvent):
    """A release that reveals everything."""

    neutral = True

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()

    def pair(self, relation: Relation) -> Pair:
        return EVERYTHING


@dataclass(frozen=True)
class OneOrder(Release, event=RenyiDpEvent):
    """``D_order <= divergence`` under every relation; larger orders are unknown."""

    order: float
    divergence: float
    samples = False
    neutral = True

    @classmethod
    def read(cls, event: RenyiDpEvent) -> OneOrder | None:
        order, divergence = event.order, event.divergence
        if not (is_noise(order) and 1.0 < float(order) < math.inf and is_noise(divergence)):
            return None
        return cls(float(order), float(divergence))

    def orders(self) -> tuple[float, ...]:
        return (self.order,)

    def renyi(self, relation: Relation) -> Curve:
        return partial(_step, self.order, self.divergence)


def _step(order: float, divergence: float, orders: Array) -> Array:
    return np.where(orders <= order, divergence, math.inf if divergence > 0.0 else 0.0)


@dataclass(frozen=True)
class RandomisedResponse(Release, event=dp.RandomizedResponseDpEvent):
    """The true bucket with probability ``1 - noise``, otherwise a uniform one of ``buckets``."""

    noise: float
    buckets: int

    @classmethod
    def read(cls, event: dp.RandomizedResponseDpEvent) -> RandomisedResponse | None:
        noise, buckets = event.noise_parameter, event.num_buckets
        valid = is_rate(noise) and is_count(buckets) and buckets >= 2
        return cls(float(noise), int(buckets)) if valid else None

    def loss(self, relation: Relation) -> LargestLoss:
        # ln(1 + (1 - p) k / p), of the true bucket
        loss = response_loss(self.noise, self.buckets)
        typical = (1.0 - self.noise) + self.noise / self.buckets
        return LargestLoss(loss * (1.0 + 2.0**-50), loss, typical)

    def pair(self, relation: Relation) -> Pair:
        if self.buckets == 2 and MIN_DISTANCE < self.noise < 1.0:
            return pure_pair(response_loss(self.noise, 2))
        return response_pair(self.noise, self.buckets)

    def renyi(self, relation: Relation) -> Curve:
        return partial(response_divergence, self.noise, self.buckets)


def response_loss(noise: float, buckets: int) -> float:
    """Return the loss ``ln(1 + (1 - p) k / p)`` of randomised response, to a relative ``2^-50``."""
    if noise == 0.0:
        return math.inf
    odds = (1.0 - noise) * (buckets / noise)
    if odds < 1e300:
        return math.log1p(odds)
    return math.log((1.0 - noise) * buckets) - math.log(noise)


def response_pair(noise: float, buckets: int) -> DiscretePair:
    """Return the pair of the true bucket and the neighbour's, each with probability ``1 - noise``.

    Otherwise one of ``buckets`` is drawn uniformly. The other buckets have loss zero. Noise below
    the range of floats counts as none.
    """
    other = noise / buckets if noise / buckets > _MIN_PROBABILITY else 0.0
    true = (1.0 - noise) + other
    rest = noise - 2.0 * other if buckets > 2 else 0.0
    outcomes = [(other, true), (rest, rest), (true, other)]
    p, q = zip(*((a, b) for a, b in outcomes if a > 0.0 or b > 0.0), strict=True)
    return DiscretePair(p, q, exact=other > 0.0 or noise == 0.0)


def response_divergence(p: float, k: int, orders: Array) -> Array:
    """Return ``D_alpha`` of ``k`` buckets and noise ``p``, exact up to rounding.

    The outcomes ``1 - p + p/k`` and ``p/k`` are exchanged, so both orders agree.
    """
    if p in (0.0, 1.0):
        return np.full_like(orders, math.inf if p == 0.0 else 0.0)
    rare, common = p / k, 1.0 - p + p / k
    if rare < 1e-290:
        return np.full_like(orders, (math.log(k) - math.log(p)) * (1.0 + 8 * U))
    loss = response_loss(p, k)
    return swapped_divergence(loss, math.log(rare), math.log(common), -(1.0 - p) / common, orders)


_MIN_SPAN = 1e-12  # smaller spans are below the resolution of a mesh


@dataclass(frozen=True)
class BoundedRange(Release, event=BoundedRangeDpEvent, parameters=("epsilon",)):
    """Losses that span at most ``span``, under every relation: the exponential mechanism."""

    span: float
    neutral = True

    def loss(self, relation: Relation) -> LargestLoss:
        # At most the span; two outcomes with the losses +-span / 2 have half of it
        half = 0.5 * self.span
        return LargestLoss(self.span, half, 1.0 / (1.0 + math.exp(-half)))

    def pair(self, relation: Relation) -> Pair:
        if self.span > MAX_DISTANCE:
            return replace(EVERYTHING, exact=math.isinf(self.span))
        return BoundedRangePair.of(self.span) if self.span > 0.0 else NOTHING

    def renyi(self, relation: Relation) -> Curve:
        return partial(bounded_range_divergence, self.span)

    def zcdp(self, relation: Relation) -> Concentration:
        return Concentration(Fraction(self.span) ** 2 / 8 if self.span < math.inf else math.inf)

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent:
        return BoundedRangeDpEvent(self.span * size * UP)  # spans add up


@dataclass(frozen=True)
class BoundedRangePair(Pair):
    """Losses between ``-r`` and ``r`` with ``P(L > x) = (1 - e^((x - r)/2)) / (1 - e^-r)``.

    ``r = span`` is finite and positive. ``L`` has the law of ``-L`` under ``Q``. The pair is its
    own reverse: its density is ``e^(x/2)`` under ``P`` and ``e^(-x/2)`` under ``Q``, up to a
    constant.

    Formal guarantee
    ----------------
    Dominates every release with losses that span at most ``r``: it is the envelope of all pairs of
    two outcomes with losses ``t`` and ``t - r``. The lower bound uses ``t = r / 2`` in every step,
    which is asymptotically the worst. Proof: :ref:`Accountants, Theorem 13
    <theory-accountants-13>`.

    Source: Dong, Durfee and Rogers 2020 (arXiv:1909.13830), for the two outcomes.
    """

    span: float
    symmetric = True

    @classmethod
    def of(cls, span: float) -> BoundedRangePair:
        """Return the pair at ``span``, or at the smallest span that a mesh resolves."""
        return cls(max(span, _MIN_SPAN))

    @property
    def attained(self) -> Pair | None:
        return PurePair.of(0.5 * self.span).attained

    def range(self) -> tuple[float, float]:
        return -self.span, self.span

    def losses(self, tail: float, count: int) -> Array:
        return np.linspace(-self.span, self.span, count)

    def bins(self, edges: Array) -> Bins:
        whole, edge_error = -math.expm1(-self.span), 4 * U * self.span
        p, q, p_error, q_error = exponential_bins(edges, self.span, whole, edge_error)
        unit = 8 * U * (2.0 + self.span)
        return Bins(p, q, p_error + unit * p, q_error + unit * q, blur=4 * U * self.span)


def bounded_range_divergence(span: float, orders: Array) -> Array:
    """Return ``D_alpha`` of any release with losses that span at most ``epsilon``.

    With ``A = 1 - e^(-alpha epsilon)``, ``B = e^-epsilon - e^(-alpha epsilon)`` and
    ``e^t = (alpha - 1) A / (alpha B)`` it is the smallest of ``epsilon``,
    ``alpha epsilon^2 / 8`` and

        t + ln[A / (alpha (1 - e^-epsilon))] / (alpha - 1).

    Source: :ref:`Accountants, Theorem 13 <theory-accountants-13>`.
    """
    if span == 0.0 or span > 1e100:
        return np.full_like(orders, span)
    power = orders - 1.0
    smooth = np.maximum(orders * (0.25 * half_square(span)) * (1.0 + 8 * U), SMALLEST)
    a, b = -np.expm1(-orders * span), -np.expm1(-power * span)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        t = span + np.log(power) - np.log(orders) + np.log(a) - np.log(b)
        rest = (np.log(a) - np.log(orders) - math.log(-math.expm1(-span))) / power
        size = (span + np.log1p(orders) + np.abs(np.log(a))) * (1.0 + 1.0 / power)
        size += np.abs(np.log(power)) + np.abs(np.log(b)) + abs(math.log(span)) / power
        exact = t + rest + 32 * U * (size + 1.0)
    exact = np.where(np.isnan(exact), math.inf, exact)
    return np.asarray(np.minimum(np.minimum(exact, smooth), span * (1.0 + 8 * U)))
