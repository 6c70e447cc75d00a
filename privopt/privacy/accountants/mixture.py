"""Accountants for one public mixture and for groups of records.

Every guarantee evaluates them as well. They do not support compositions and are not in
``ACCOUNTANTS``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np

from privopt.privacy.accountants.exact import Accountant, GaussianDP, NonPrivate, PureDP
from privopt.privacy.accountants.renyi import Renyi
from privopt.privacy.amplification import group_privacy
from privopt.privacy.events import GroupDpEvent
from privopt.privacy.mechanisms.base import release_of
from privopt.privacy.mechanisms.mixtures import PublicMixture
from privopt.privacy.numbers import Array, Interval, bisect, intersection, next_up
from privopt.privacy.renyi import envelope
from privopt.spec import Relation

_ROUNDING = 2.0**-50  # relative, of a sum of positive numbers
_CLOSED: tuple[Accountant, ...] = (NonPrivate(), GaussianDP(), PureDP())
_MAX_EPSILON = 1e9
_REVEALED = dp.GaussianDpEvent(0.0)
_BEYOND = 1e-12  # of delta: largest probability of losses above the steepest line of a curve
_MAX_LINE = 50.0
_LINES = 64  # of a curve


@dataclass(frozen=True)
class Mixture:
    """``delta(epsilon) = sum_k p_k delta_k(epsilon)`` of one ``PublicMixtureDpEvent``.

    The branches may be any events that ``NonPrivate``, ``GaussianDP``, ``PureDP`` or ``Renyi``
    support, and such mixtures. Releases with one known Rényi divergence can therefore be branches,
    and an ``(epsilon, delta)``-DP release has exactly its ``epsilon`` at its ``delta``.
    """

    name = "public mixture"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        mixture = release_of(event)
        return isinstance(mixture, PublicMixture) and all(
            any(each.supports(side, relation) for each in (*_CLOSED, Renyi(), self))
            for side in mixture.events
        )

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        # The inverse of delta; at the revealed probability, the largest loss of the other branches
        revealed = [share for side, share in _branches(event) if side == _REVEALED]
        if (revealed or [0.0]) == [delta]:
            others = [side for side, _ in _branches(event) if side != _REVEALED]
            intervals = [self._best(side, relation, "epsilon", 0.0) for side in others]
            return Interval(
                max(each.lower for each in intervals), max(each.upper for each in intervals)
            )
        if math.fsum(revealed) * (1.0 if len(revealed) == 1 else 1.0 - _ROUNDING) > delta:
            return Interval(math.inf, math.inf)

        def sufficient(epsilon: float) -> bool:
            return self.delta(event, relation, epsilon).upper <= delta

        def insufficient(epsilon: float) -> bool:
            return self.delta(event, relation, epsilon).lower > delta

        largest = 1.0
        while largest < _MAX_EPSILON and not sufficient(largest):
            largest *= 2.0
        upper = bisect(sufficient, largest, 0.0) if sufficient(largest) else math.inf
        return Interval(
            bisect(insufficient, 0.0, min(largest, upper)) if insufficient(0.0) else 0.0, upper
        )

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        bounds = [(self._best(side, relation, "delta", epsilon), p) for side, p in _branches(event)]
        positive = [(each, share) for each, share in bounds if each.upper > 0.0]
        if len(positive) == 1 and tuple(positive[0][0]) == (1.0, 1.0):  # one revealing branch
            return Interval(positive[0][1], positive[0][1])
        lower = math.fsum(share * each.lower for each, share in bounds)
        upper = math.fsum(share * each.upper for each, share in bounds)
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        revealed = math.fsum(share for side, share in _branches(event) if side == _REVEALED)
        largest = self.epsilon(event, relation, min(revealed + _BEYOND, 1.0 - _BEYOND)).upper
        epsilons = np.linspace(0.0, largest if largest < math.inf else _MAX_LINE, _LINES)
        deltas = [self.delta(event, relation, float(each)).upper for each in epsilons]
        return envelope(epsilons, np.array(deltas), alphas)

    def _best(self, branch: dp.DpEvent, relation: Relation, method: str, at: float) -> Interval:
        """Return the best closed-form bounds, or those by Rényi divergences if there are none."""
        accountants = [each for each in (*_CLOSED, self) if each.supports(branch, relation)] or [
            Renyi()
        ]
        return intersection(getattr(each, method)(branch, relation, at) for each in accountants)


def _branches(event: dp.DpEvent) -> list[tuple[dp.DpEvent, float]]:
    """Return the events and their probabilities; fully revealing ones are ``_REVEALED``."""
    mixture = release_of(event)
    assert isinstance(mixture, PublicMixture), "the event must be supported"
    return list(zip(mixture.events, mixture.weights, strict=True))


_RELATIVE = 1e-4  # accuracy of epsilon, relative to the optimum of the bound
_MAX_ROUNDS = 200
_LEAST = 1e-300  # smallest delta of an accountant


@dataclass(frozen=True)
class Group:
    """``(k epsilon, delta (e^{k epsilon} - 1)/(e^epsilon - 1))`` for the best ``epsilon``.

    The lower ends are those of one record, which is a group, too.
    """

    accountants: tuple[Accountant, ...]
    name = "group"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return isinstance(event, GroupDpEvent) and any(self._supporting(event, relation))

    def epsilon(self, event: GroupDpEvent, relation: Relation, delta: float) -> Interval:
        # Iterate the smallest x >= epsilon(delta / s(x)), s(x) = 1 + e^x + ... + e^((k-1)x)
        one = self._bound_one_record(event, relation, "epsilon", delta)
        required = one.upper
        for _ in range(_MAX_ROUNDS):
            candidate = required * (1.0 + _RELATIVE)
            if candidate == math.inf:
                break
            total, scaled = group_privacy(candidate, _LEAST, event.size)
            share = delta * (_LEAST / scaled)
            if delta > 0.0 and share < _LEAST:
                break
            required = self._bound_one_record(event, relation, "epsilon", share).upper
            if required <= candidate:
                return Interval(one.lower, total)
        return Interval(one.lower, math.inf)

    def delta(self, event: GroupDpEvent, relation: Relation, epsilon: float) -> Interval:
        share = max(0.0, math.nextafter(epsilon / event.size, 0.0))
        missing = self._bound_one_record(event, relation, "delta", share).upper
        upper = group_privacy(share, min(missing, 1.0 - 2.0**-53), event.size)[1]
        return Interval(
            self._bound_one_record(event, relation, "delta", epsilon).lower, next_up(upper)
        )

    def trade_off(self, event: GroupDpEvent, relation: Relation, alphas: Array) -> Array:
        """Compose the trade-off curve of one record ``size`` times.

        Source: Dong, Roth and Su, JRSS-B 2022 (arXiv:1905.02383), Theorem 2.14.
        """
        power = alphas
        for _ in range(event.size):
            curves = [
                each.trade_off(event.event, relation, power)
                for each in self._supporting(event, relation)
            ]
            power = 1.0 - np.max(curves, axis=0)
        return np.asarray(1.0 - power)

    def _supporting(self, event: GroupDpEvent, relation: Relation) -> Iterator[Accountant]:
        return (each for each in self.accountants if each.supports(event.event, relation))

    def _bound_one_record(
        self, event: GroupDpEvent, relation: Relation, method: str, at: float
    ) -> Interval:
        """Return the best bounds for one record."""
        return intersection(
            getattr(each, method)(event.event, relation, at)
            for each in self._supporting(event, relation)
        )
