"""What theory's numbers cost, beside the best of a grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from privopt.lab.draw.style import number
from privopt.lab.judge.results import CellResult, grouped, worst
from privopt.lab.judge.verdict import ORACLE_TUNED, Verdict, twins
from privopt.lab.write.table import Row, Table, of_experiment, unbroken


def costs(priced: Sequence[tuple[str, tuple[str, ...]]]) -> Table:
    """What theory's numbers cost: rows of every experiment."""
    note = (
        "The mean risk at the numbers that theory sets, over the mean risk at the best of the grid "
        f"({ORACLE_TUNED}), both at the worst strength: smallest to largest over the settings. "
        "The hyperparameters are those that were chosen, over the same settings."
    )
    head = ("experiment", "risk at theory’s ÷ at the best", "chosen", "at the grid’s edge")
    rows: tuple[Row, ...] = tuple((of_experiment(name, row[0]), *row[1:]) for name, row in priced)
    return Table("What theory’s numbers cost", head, rows, note)


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
