"""Selection of cases: representatives in ``make test``, every case in ``make test-all``.

A contract has one case per algorithm, mechanism, event or type. Most cases share their code, so
that a defect in one of them is a defect in all. ``few`` names the cases that differ in kind.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
ALL = False  # conftest.py sets it to the option ``--all`` before any test is imported


def few(cases: Iterable[T], representatives: Iterable[T]) -> list[T]:
    """Return the cases that are representatives, or all cases with ``--all``.

    If no case is a representative, all are returned, so that no test is lost by a new name.
    """
    cases, chosen = list(cases), list(representatives)
    selected = [case for case in cases if case in chosen]
    return cases if ALL or not selected else selected


def every(cases: Iterable[T], step: int, start: int = 0) -> list[T]:
    """Return each ``step``-th case, or all cases with ``--all``.

    Use it for grids, in which neighbouring cases differ by a number only. The step must have no
    factor in common with the sizes of the inner axes, or the cases lie on a line of the grid.
    """
    cases = list(cases)
    return cases if ALL else cases[start::step]


def size(all_cases: int, reduced: int) -> int:
    """Return ``reduced``, or ``all_cases`` with ``--all``."""
    return all_cases if ALL else reduced


def cut(values: Sequence[T], count: int) -> Sequence[T]:
    """Return the first ``count`` values, or all values with ``--all``."""
    return values if ALL else values[:count]
