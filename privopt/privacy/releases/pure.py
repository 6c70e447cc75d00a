"""Releases known by one or two numbers: pure, concentrated, of one Rényi order, one bucket of k.

``RandomizedResponseDpEvent`` with noise ``p`` and ``k`` buckets names the pair of output
distributions itself, so that its loss ``ln(1 + (1 - p) k / p)`` holds under every relation.
(dp-accounting agrees for ``replace_one``; under ``zero_out`` it lets a null record answer
uniformly, which costs less, and under ``add_or_remove_one`` it does not answer.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import dp_accounting as dp
import numpy as np

from privopt.privacy.events import RenyiDpEvent
from privopt.privacy.pairs import EVERYTHING, Array, DiscretePair, Pair
from privopt.privacy.parameters import is_count, is_noise, is_rate
from privopt.privacy.releases.release import (
    MIN_DISTANCE,
    UP,
    Concentration,
    Curve,
    Loss,
    Release,
    pure_pair,
)
from privopt.privacy.renyi.moment import swapped
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64
_MIN_PROBABILITY = 1e-300  # below, floats have fewer digits


@dataclass(frozen=True)
class Concentrated(Release, event=dp.ZCDpEvent, numbers=("rho", "xi")):
    """``D_alpha <= xi + rho alpha``; with ``rho = 0`` any ``xi``-DP release, ``pure_event``."""

    rho: float
    xi: float

    def loss(self, relation: Relation) -> Loss | None:
        if self.rho > 0.0:
            return None
        return Loss(self.xi, self.xi, 1.0 / (1.0 + math.exp(-self.xi)))

    def pair(self, relation: Relation) -> Pair | None:
        return None if self.rho > 0.0 else pure_pair(self.xi)

    def renyi(self, relation: Relation) -> Curve | None:
        return partial(self._divergence) if self.rho > 0.0 else super().renyi(relation)

    def zcdp(self, relation: Relation) -> Concentration | None:
        return Concentration(self.rho, self.xi) if self.rho > 0.0 else super().zcdp(relation)

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent | None:
        """``(size^2 rho, size (1 + 1/2 + ... + 1/size) xi)`` where ``rho > 0``.

        Source: Bun and Steinke, TCC 2016 (arXiv:1605.02065), Proposition 27.
        """
        if self.rho == 0.0:
            return super().grouped(size, relation)
        harmonic = math.fsum(1.0 / i for i in range(1, size + 1))
        return dp.ZCDpEvent(self.rho * size * size * UP, self.xi * size * harmonic * UP)

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.ZCDpEvent(self.rho, self.xi)

    def _divergence(self, orders: Array) -> Array:
        return (self.xi + self.rho * orders) * UP


@dataclass(frozen=True)
class NoRelease(Release, event=dp.NoOpDpEvent):
    """Nothing was released."""

    def loss(self, relation: Relation) -> Loss:
        return Loss(0.0)

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.NoOpDpEvent()


@dataclass(frozen=True)
class NonPrivate(Release, event=dp.NonPrivateDpEvent):
    """Everything was released."""

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()

    def pair(self, relation: Relation) -> Pair:
        return EVERYTHING

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()


@dataclass(frozen=True)
class OneOrder(Release, event=RenyiDpEvent):
    """``D_order <= divergence`` under every relation, and nothing of larger orders."""

    order: float
    divergence: float
    samples = False

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

    def exported(self, relation: Relation) -> RenyiDpEvent:
        return RenyiDpEvent(self.order, self.divergence)


def _step(order: float, divergence: float, orders: Array) -> Array:
    return np.where(orders <= order, divergence, math.inf if divergence > 0.0 else 0.0)


@dataclass(frozen=True)
class RandomisedResponse(Release, event=dp.RandomizedResponseDpEvent):
    """The truth with probability ``1 - noise``, else one of ``buckets`` at random."""

    noise: float
    buckets: int

    @classmethod
    def read(cls, event: dp.RandomizedResponseDpEvent) -> RandomisedResponse | None:
        noise, buckets = event.noise_parameter, event.num_buckets
        known = is_rate(noise) and is_count(buckets) and buckets >= 2
        return cls(float(noise), int(buckets)) if known else None

    def loss(self, relation: Relation) -> Loss:
        # ln(1 + (1 - p) k / p), of the true bucket
        loss = response_loss(self.noise, self.buckets)
        typical = (1.0 - self.noise) + self.noise / self.buckets
        return Loss(loss * (1.0 + 2.0**-50), loss, typical)

    def pair(self, relation: Relation) -> Pair:
        if self.buckets == 2 and MIN_DISTANCE < self.noise < 1.0:
            return pure_pair(response_loss(self.noise, 2))
        return response_pair(self.noise, self.buckets)

    def renyi(self, relation: Relation) -> Curve:
        return partial(response_divergence, self.noise, self.buckets)


def response_loss(noise: float, buckets: int) -> float:
    """The loss ``ln(1 + (1 - p) k / p)`` of randomised response, to a relative ``2^-50``."""
    if noise == 0.0:
        return math.inf
    odds = (1.0 - noise) * (buckets / noise)
    if odds < 1e300:
        return math.log1p(odds)
    return math.log((1.0 - noise) * buckets) - math.log(noise)


def response_pair(noise: float, buckets: int) -> DiscretePair:
    """The true bucket and the neighbour's, each kept with probability ``1 - noise``.

    Otherwise one of ``buckets`` is drawn at random; those that are neither have loss zero. Noise
    that floats hardly describe counts as none.
    """
    other = noise / buckets if noise / buckets > _MIN_PROBABILITY else 0.0
    true = (1.0 - noise) + other
    rest = noise - 2.0 * other if buckets > 2 else 0.0
    outcomes = [(other, true), (rest, rest), (true, other)]
    p, q = zip(*((a, b) for a, b in outcomes if a > 0.0 or b > 0.0), strict=True)
    return DiscretePair(p, q, exact=other > 0.0 or noise == 0.0)


def response_divergence(p: float, k: int, orders: Array) -> Array:
    """``D_alpha`` of ``k`` buckets and noise ``p`` between two buckets, exact up to rounding.

    The outcomes ``1 - p + p/k`` and ``p/k`` change places, so both orders agree.
    """
    if p in (0.0, 1.0):
        return np.full_like(orders, math.inf if p == 0.0 else 0.0)
    rare, common = p / k, 1.0 - p + p / k
    if rare < 1e-290:
        return np.full_like(orders, (math.log(k) - math.log(p)) * (1.0 + 8 * _U))
    loss = response_loss(p, k)
    return swapped(loss, math.log(rare), math.log(common), -(1.0 - p) / common, orders)
