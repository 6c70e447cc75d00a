"""Selection of cases: representatives in ``make test``, every case in ``make test-all``.

A contract has one case per algorithm, mechanism, event or type. Most cases share their code, so a
defect in one of them is a defect in all. ``few`` names the cases that differ in kind. The mark
``cases`` states a number: cases of a grid differ in degree, and some of them cover its range.
"""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
ALL = False  # conftest.py sets it to the option ``--all`` before any test is imported


def few(cases: Iterable[T], representatives: Iterable[T]) -> list[T]:
    """Return the cases that are representatives, or all cases with ``--all``.

    If no case is a representative, all cases are returned, so that a new name removes no test.
    """
    cases, names = list(cases), list(representatives)
    selected = [case for case in cases if case in names]
    return cases if ALL or not selected else selected


def spaced(cases: list[T], number: int) -> list[T]:
    """Return ``number`` cases at equal distances, from the first to the last."""
    if number >= len(cases):
        return cases
    return [cases[i * (len(cases) - 1) // max(number - 1, 1)] for i in range(number)]


def choose(full: T, reduced: T) -> T:
    """Return ``reduced``, or ``full`` with ``--all``."""
    return full if ALL else reduced
