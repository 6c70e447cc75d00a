"""Who wins at every value of the axis, on the data that all share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from privopt.comparison.points import Point, interval
from privopt.lab.evaluation.cells import grouped
from privopt.lab.evaluation.estimates import Estimate

_ALPHA = 0.025

TIE = "tie"


class Winner(NamedTuple):
    """The method of least mean risk at one value, or a tie."""

    value: float | None  # of the axis
    winner: str  # or ``"tie"``
    least: str  # the method of least mean, which a tie does not tell from the others
    margin: Estimate  # of the next best over it, run by run
    ties: tuple[str, ...]  # that are not told from the least


def winners_of(points: Sequence[Point]) -> tuple[Winner, ...]:
    """A winner at every value, or a tie where some other method cannot be told from the least.

    Differences are taken run by run on the same data set, and a method is told apart where the
    interval of its mean difference lies above 0, at 95 % for all others together (Bonferroni).
    Methods that are oracle-tuned take no part: they look at risks that no budget pays for.
    """
    at = grouped((point for point in points if not point.tuned), lambda point: point.value)
    return tuple(_winner(value, there) for value, there in at.items() if len(there) > 1)


def _winner(value: float | None, points: Sequence[Point]) -> Winner:
    best, *others = sorted(points, key=lambda point: point.mean)
    apart = {
        other.method: interval(other.runs - best.runs, _ALPHA / len(others)) for other in others
    }
    ties = tuple(name for name, margin in apart.items() if not margin.lower > 0.0)
    return Winner(value, TIE if ties else best.method, best.method, apart[others[0].method], ties)
