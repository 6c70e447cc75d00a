"""Methods with the best numbers of a grid, beside the same algorithms at theory's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from privopt.lab.show.results import CellResult, grouped, worst
from privopt.lab.show.style import number
from privopt.lab.show.table import unbroken
from privopt.lab.show.verdict import Verdict

__all__ = ["price", "twins", "unfolded"]


def unfolded(judged: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts, each followed by that of its twin at theory's numbers, if it has one."""
    return [v for each in judged for v in (each, each.at_theory) if v is not None]


def twins(judged: Iterable[Verdict]) -> dict[str, str]:
    """The methods with the best numbers of a grid, each with its twin at theory's numbers."""
    return {v.method: v.at_theory.method for v in judged if v.at_theory is not None}


def price(cells: Sequence[CellResult], judged: Iterable[Verdict]) -> tuple[tuple[str, ...], ...]:
    """What theory's numbers cost: a row for each method that has a twin, and each family."""
    rows = []
    for tuned, theory in twins(judged).items():
        for family in dict.fromkeys(cell.family for cell in cells if cell.method == tuned):
            best, other = (_worst(cells, method, family) for method in (tuned, theory))
            both = [(best[at], other[at]) for at in best if at in other]
            ratios = [b.mean / a.mean for a, b in both if a.mean > 0.0 and math.isfinite(b.mean)]
            if not ratios:
                continue
            searched = [cell.searched for cell, _ in both if cell.searched is not None]
            edges = sum(bool(each["at_edge"]) for each in searched)
            ends = unbroken(" to ".join(dict.fromkeys(f"{f(ratios):.3g}" for f in (min, max))))
            where = f"{theory} and {tuned} on {family}"
            rows.append((where, ends, _chosen(searched), f"{edges} of {len(searched)}"))
    return tuple(rows)


def _worst(
    cells: Iterable[CellResult], method: str, family: str
) -> dict[tuple[tuple[str, float], ...], CellResult]:
    """The cell of largest mean by its sizes and epsilon."""
    members = [cell for cell in cells if (cell.method, cell.family) == (method, family)]
    return {at: worst(group) for at, group in grouped(members, _sizes).items()}


def _sizes(cell: CellResult) -> tuple[tuple[str, float], ...]:
    names = ("n", "dim", "sparsity", "epsilon")
    return tuple((name, cell.setting[name]) for name in names if name in cell.setting)


def _chosen(searched: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    """The smallest and the largest choice of every hyperparameter."""
    names = dict.fromkeys(name for each in searched for name in each["chosen"])
    told = []
    for name in names:
        values = [each["chosen"][name] for each in searched if name in each["chosen"]]
        ends = dict.fromkeys(number(end) for end in (min(values), max(values)))
        told.append(f"{name} {' to '.join(ends)}")
    return ", ".join(told)
