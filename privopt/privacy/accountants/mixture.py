"""Accountant of one public mixture: the mean of what is proved of its sides in closed form.

Guarantees ask it beside the others: it knows no compositions, and is none of ``ACCOUNTANTS``.

Accountant of a group of records, for releases that no theorem on groups covers.

Guarantees ask it beside the others: it knows no compositions, and is none of ``ACCOUNTANTS``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.accountants.base import Accountant
from privopt.privacy.accountants.exact import GaussianDP, NonPrivate, PureDP
from privopt.privacy.accountants.renyi import Renyi
from privopt.privacy.amplification import group_privacy
from privopt.privacy.events import GroupDpEvent
from privopt.privacy.mechanisms import release_of
from privopt.privacy.mechanisms.mixtures import PublicMixture
from privopt.privacy.numbers import Interval, bisect, next_up
from privopt.privacy.renyi import envelope
from privopt.spec import Relation

_ROUNDING = 2.0**-50  # relative, of a sum of positive numbers
_CLOSED: tuple[Accountant, ...] = (NonPrivate(), GaussianDP(), PureDP())
_MAX_EPSILON = 1e9
_REVEALED = dp.GaussianDpEvent(0.0)
_BEYOND = 1e-12  # of delta: a curve's steepest line leaves no more to larger losses
_MAX_LINE = 50.0
_LINES = 64  # of a curve


@dataclass(frozen=True)
class Mixture:
    """``delta(epsilon) = sum_k p_k delta_k(epsilon)`` of one ``PublicMixtureDpEvent``.

    The sides may be whatever ``NonPrivate``, ``GaussianDP``, ``PureDP`` and ``Renyi`` support, and
    such mixtures. So releases known by one Rényi divergence can be sides, and an
    ``(epsilon, delta)``-DP release has its ``epsilon`` at its own ``delta``, exactly.
    """

    name = "public mixture"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        mixture = release_of(event)
        return isinstance(mixture, PublicMixture) and all(
            any(each.supports(side, relation) for each in (*_CLOSED, Renyi(), self))
            for side in mixture.events
        )

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        # The inverse of delta; at what is told in full the largest loss of all other sides
        told = [share for side, share in _sides(event) if side == _REVEALED]
        if (told or [0.0]) == [delta]:
            rest = [side for side, _ in _sides(event) if side != _REVEALED]
            found = [self._best(side, relation, "epsilon", 0.0) for side in rest]
            return Interval(max(each.lower for each in found), max(each.upper for each in found))
        if math.fsum(told) * (1.0 if len(told) == 1 else 1.0 - _ROUNDING) > delta:
            return Interval(math.inf, math.inf)

        def enough(epsilon: float) -> bool:
            return self.delta(event, relation, epsilon).upper <= delta

        def short(epsilon: float) -> bool:
            return self.delta(event, relation, epsilon).lower > delta

        most = 1.0
        while most < _MAX_EPSILON and not enough(most):
            most *= 2.0
        upper = bisect(enough, most, 0.0) if enough(most) else math.inf
        return Interval(bisect(short, 0.0, min(most, upper)) if short(0.0) else 0.0, upper)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        sides = [(self._best(side, relation, "delta", epsilon), p) for side, p in _sides(event)]
        some = [(each, share) for each, share in sides if each.upper > 0.0]
        if len(some) == 1 and tuple(some[0][0]) == (1.0, 1.0):  # one share, and all of it
            return Interval(some[0][1], some[0][1])
        lower = math.fsum(share * each.lower for each, share in sides)
        upper = math.fsum(share * each.upper for each, share in sides)
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        told = math.fsum(share for side, share in _sides(event) if side == _REVEALED)
        most = self.epsilon(event, relation, min(told + _BEYOND, 1.0 - _BEYOND)).upper
        epsilons = np.linspace(0.0, most if most < math.inf else _MAX_LINE, _LINES)
        deltas = [self.delta(event, relation, float(each)).upper for each in epsilons]
        return envelope(epsilons, np.array(deltas), alphas)

    def _best(self, side: dp.DpEvent, relation: Relation, question: str, at: float) -> Interval:
        """What closed forms prove of a side together; Rényi divergences, if there is none."""
        known = [each for each in (*_CLOSED, self) if each.supports(side, relation)] or [Renyi()]
        found = [getattr(each, question)(side, relation, at) for each in known]
        return Interval(max(each.lower for each in found), min(each.upper for each in found))


def _sides(event: dp.DpEvent) -> list[tuple[dp.DpEvent, float]]:
    """The events and their probabilities; what reveals everything is ``_REVEALED``."""
    mixture = release_of(event)
    assert isinstance(mixture, PublicMixture), "asked about an event that is not supported"
    return list(zip(mixture.events, mixture.weights, strict=True))


_RELATIVE = 1e-4  # by which epsilon may exceed the least that the bound allows
_MAX_ROUNDS = 200  # each one question
_LEAST = 1e-300  # delta that can be asked about


@dataclass(frozen=True)
class Group:
    """``(k epsilon, delta (e^{k epsilon} - 1)/(e^epsilon - 1))`` at the best ``epsilon``.

    The lower ends are those of one record, which is a group too.
    """

    accountants: tuple[Accountant, ...]
    name = "group"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return isinstance(event, GroupDpEvent) and any(self._asked(event, relation))

    def epsilon(self, event: GroupDpEvent, relation: Relation, delta: float) -> Interval:
        # The least x with x >= epsilon(delta / s(x)), s(x) = 1 + e^x + ... + e^((k-1)x), from below
        one = self._of_one(event, relation, "epsilon", delta)
        least = one.upper
        for _ in range(_MAX_ROUNDS):
            tried = least * (1.0 + _RELATIVE)
            if tried == math.inf:
                break
            found, grown = group_privacy(tried, _LEAST, event.size)
            share = delta * (_LEAST / grown)
            if delta > 0.0 and share < _LEAST:
                break
            least = self._of_one(event, relation, "epsilon", share).upper
            if least <= tried:
                return Interval(one.lower, found)
        return Interval(one.lower, math.inf)

    def delta(self, event: GroupDpEvent, relation: Relation, epsilon: float) -> Interval:
        share = max(0.0, math.nextafter(epsilon / event.size, 0.0))
        missing = self._of_one(event, relation, "delta", share).upper
        upper = group_privacy(share, min(missing, 1.0 - 2.0**-53), event.size)[1]
        return Interval(self._of_one(event, relation, "delta", epsilon).lower, next_up(upper))

    def trade_off(
        self, event: GroupDpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """The power of a test grows by one step of the curve with every record.

        Source: Dong, Roth and Su, JRSS-B 2022 (arXiv:1905.02383), Theorem 2.14.
        """
        power = alphas
        for _ in range(event.size):
            curves = [
                each.trade_off(event.event, relation, power)
                for each in self._asked(event, relation)
            ]
            power = 1.0 - np.max(curves, axis=0)
        return np.asarray(1.0 - power)

    def _asked(self, event: GroupDpEvent, relation: Relation) -> Iterator[Accountant]:
        return (each for each in self.accountants if each.supports(event.event, relation))

    def _of_one(
        self, event: GroupDpEvent, relation: Relation, question: str, at: float
    ) -> Interval:
        """What all prove together of one record."""
        found = [
            getattr(each, question)(event.event, relation, at)
            for each in self._asked(event, relation)
        ]
        return Interval(max(each.lower for each in found), min(each.upper for each in found))
