"""Accountant of a group of records, for releases that no theorem on groups covers.

Guarantees ask it beside the others: it knows no compositions, and is none of ``ACCOUNTANTS``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.accountants.accountant import Accountant
from privopt.privacy.amplification import group_privacy
from privopt.privacy.events import GroupDpEvent
from privopt.privacy.numbers import Interval, next_up
from privopt.spec import Relation

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
