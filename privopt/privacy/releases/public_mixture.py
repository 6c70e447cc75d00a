"""A release that a public coin chooses: mixtures in disjoint copies.

The loss of the whole has the mixture of the laws of the losses (``PublicMixtureDpEvent``). Hence,
with ``D_k`` the divergences of order ``alpha`` of the events,

    D_alpha = ln [sum_k p_k e^((alpha - 1) D_k)] / (alpha - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import dp_accounting as dp
import numpy as np

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.leaves import leaves
from privopt.privacy.numbers import SMALLEST, total
from privopt.privacy.pairs import Array, Bins, Pair
from privopt.privacy.parameters import coin
from privopt.privacy.releases.composition import (
    asked,
    composed_loss,
    grouped,
    renyi_curve,
    renyi_orders,
)
from privopt.privacy.releases.gaussian import one_release
from privopt.privacy.releases.release import (
    Concentration,
    Cost,
    Curve,
    Loss,
    Release,
    complete,
    round_up_cost,
)
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64
_ROUNDING = 2.0**-49  # relative, for a handful of float operations
_MAX_EXPONENT = 500.0  # larger ones are summed in log space; what exceeds one is then everything
_REVEALED = dp.GaussianDpEvent(0.0)
_MIN_LOSSES = 40  # of each side, however many sides there are


@dataclass(frozen=True)
class PublicMixture(Release, event=PublicMixtureDpEvent):
    """``events[k]`` with probability ``weights[k] > 0``, and ``k`` itself.

    What is asked of a side is asked of it as a composition; a pair it has if it is one release.
    ``leaves`` has taken out what the sides share. A sample of a mixture is the mixture of the
    samples, and is to be said so.
    """

    events: tuple[dp.DpEvent, ...]
    weights: tuple[float, ...]
    samples = False

    @classmethod
    def read(cls, event: PublicMixtureDpEvent) -> PublicMixture | None:
        events, law = event.events, coin(event.probabilities)
        if law is None or not isinstance(events, list | tuple):
            return None
        if len(events) != len(law[0]) or not all(isinstance(each, dp.DpEvent) for each in events):
            return None
        told = (_REVEALED if _reveals(each) else each for each in events)
        sides = zip((*told, _REVEALED), (*law[0], law[1]), strict=True)
        return cls(*zip(*((each, share) for each, share in sides if share > 0.0), strict=True))

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        releases = complete(map(one_release, self.events)) or []
        found = complete(release.pairs(relation) for release in releases)
        if not found:
            return None
        removed = MixedPair.of([pair for pair, _ in found], self.weights)
        if all(first is second for first, second in found):
            return removed, removed
        return removed, MixedPair.of([pair for _, pair in found], self.weights)

    def grouped(self, size: int, relation: Relation) -> PublicMixtureDpEvent | None:
        sides = complete(grouped(each, size, relation) for each in self.events)
        return None if sides is None else PublicMixtureDpEvent(tuple(sides), self.weights)

    def orders(self) -> tuple[float, ...]:
        return tuple(order for each in self.events for order in renyi_orders(each))

    def renyi(self, relation: Relation) -> Curve | None:
        curves = complete(renyi_curve(each, relation) for each in self.events)
        return None if curves is None else partial(mixed_divergence, curves, self.weights)

    def zcdp(self, relation: Relation) -> Concentration | None:
        # D_alpha of the mixture is at most the largest of its sides
        ask = partial(asked, question=lambda release: release.zcdp(relation))
        sides = complete(map(ask, self.events))
        if sides is None:
            return None

        def most(cost: Callable[[Concentration], Cost]) -> float:
            sums = [total((round_up_cost(cost(each)), n) for each, n in side) for side in sides]
            return max(sums) * (1.0 + _ROUNDING)

        return Concentration(most(lambda each: each.rho), most(lambda each: each.xi))

    def loss(self, relation: Relation) -> Loss | None:
        sides = complete(composed_loss(each, relation) for each in self.events)
        if sides is None:
            return None
        (worst, log_typical), share = max(
            zip(sides, self.weights, strict=True), key=lambda each: each[0][0].lower
        )
        typical = share * math.exp(log_typical) * (1.0 - _ROUNDING)
        return Loss(max(side.upper for side, _ in sides), worst.lower, typical)


def _reveals(event: dp.DpEvent) -> bool:
    """Whether a part of it is not private at all."""
    return any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in leaves(event))


def mixed_divergence(curves: Sequence[Curve], weights: Sequence[float], orders: Array) -> Array:
    """``ln [sum_k p_k e^((alpha - 1) D_k)] / (alpha - 1)``, from above.

    Summed is what exceeds one, so that small divergences keep their digits.
    """
    rate = orders - 1.0
    divergences = [curve(orders) for curve in curves]
    exponents = [rate * each for each in divergences]
    top = np.max(exponents, axis=0)
    near = top <= _MAX_EXPONENT
    reach = np.where(np.isfinite(top), top, 0.0)
    above_one, scaled = np.zeros_like(orders), np.zeros_like(orders)
    for exponent, share in zip(exponents, weights, strict=True):
        above_one += share * np.expm1(np.where(near, exponent, 0.0))
        scaled += share * np.exp(exponent - reach, where=np.isfinite(top), out=np.ones_like(top))
    slack = _U * (16.0 + 2.0 * len(weights) + 4.0 * reach)
    moment = np.where(near, np.log1p(above_one * (1.0 + slack)), top + np.log(scaled) + 4.0 * slack)
    told = np.max(divergences, axis=0) > 0.0
    return np.asarray(np.where(told, np.maximum(moment * (1.0 + 8 * _U) / rate, SMALLEST), 0.0))


@dataclass(frozen=True)
class MixedPair(Pair):
    """``P = sum_k w_k P_k`` against ``Q = sum_k w_k Q_k``, in disjoint copies.

    Formal guarantee
    ----------------
    ``H_gamma(P || Q) = sum_k w_k H_gamma(P_k || Q_k)``: dominates a public choice among releases
    that the pairs ``(P_k, Q_k)`` dominate, and is attained where one pair of neighbours attains
    them all.
    """

    parts: tuple[Pair, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair], weights: Sequence[float]) -> Pair:
        """The mixture, with equal pairs taken together."""
        shares: dict[Pair, float] = {}
        for pair, share in zip(pairs, weights, strict=True):
            shares[pair] = shares.get(pair, 0.0) + share
        if len(shares) == 1:
            return next(iter(shares))
        return cls(tuple(shares), tuple(shares.values()))

    @property
    def attained(self) -> Pair | None:
        parts = complete(part.attained for part in self.parts)
        return None if parts is None else MixedPair.of(parts, self.weights)

    def infinite(self) -> tuple[float, float]:
        masses = [part.infinite() for part in self.parts]
        p, q = (
            math.fsum(share * mass for share, mass in zip(self.weights, of_one, strict=True))
            for of_one in zip(*masses, strict=True)
        )
        return min(p, 1.0), min(q, 1.0)

    def range(self) -> tuple[float, float]:
        smallest, largest = zip(*(part.range() for part in self.parts), strict=True)
        return min(smallest), max(largest)

    def losses(self, tail: float, count: int) -> Array:
        each = max(_MIN_LOSSES, count // len(self.parts))
        return np.unique(np.concatenate([part.losses(tail, each) for part in self.parts]))

    def bins(self, edges: Array) -> Bins:
        p, q, p_error, q_error = np.zeros((4, edges.size + 1))
        blur = 0.0
        for part, share in zip(self.parts, self.weights, strict=True):
            bins = part.bins(edges)
            p += share * bins.p
            q += share * bins.q
            p_error += share * bins.p_error
            q_error += share * bins.q_error
            blur = max(blur, bins.blur)
        unit = (len(self.parts) + 8) * _U
        return Bins(p, q, p_error + unit * p, q_error + unit * q, blur)

    def reverse(self) -> Pair:
        reverses = tuple(part.reverse() for part in self.parts)
        return self if reverses == self.parts else MixedPair.of(reverses, self.weights)
