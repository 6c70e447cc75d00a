"""The report on one experiment."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from math import inf
from pathlib import Path
from typing import NamedTuple

from privopt.lab.draw.comparison import COMPARED
from privopt.lab.draw.grids import grid_cells
from privopt.lab.draw.notation import number, symbol, with_minus
from privopt.lab.judge.claims import Row, outcome, presentation, rows_of, span
from privopt.lab.judge.results import CellResult, cell_results, grouped, swept_axes, worst
from privopt.lab.judge.verdict import ORACLE_TUNED, Verdict, tally, twins, unfolded
from privopt.lab.make.store import About, Provenance, Recorded, Value
from privopt.lab.make.study import Column, Listing
from privopt.lab.write.captions import Words, of_comparison, of_grid, of_method, of_plot
from privopt.lab.write.document import (
    NO_SOURCE,
    Costs,
    Entry,
    Picture,
    Section,
    Source,
    Table,
    unbroken,
)
from privopt.lab.write.overview import price

_Content = tuple[Mapping[str, Words], Sequence[Table], Mapping[str, str], Costs]
_NOTICE = (
    "*Nothing was measured: the data were not there, or every plan was refused. What the title and "
    "the text say is not shown by this run.*\n\n"
)
_MAX_LISTED = 6
"""Values that a list of them shows; of more, the smallest and the largest."""


def section(
    recorded: Recorded,
    judged: Sequence[Verdict],
    figures: Sequence[Path],
    provenance: Provenance,
    source: Source = NO_SOURCE,
) -> Section:
    """Return the report on one experiment, whose figures are drawn."""
    about, kind = recorded.about, _study if recorded.is_study else _sweep
    name, stems = about["name"], [path.stem for path in figures if path.suffix == ".svg"]
    words, tables, facts, costs = kind(recorded, judged, stems)
    seed = "" if recorded.is_study else f" --seed {about['root_seed']}"
    measured = recorded.runs.num_rows > 0
    return Section(
        name=name,
        title=about["title"],
        description=("" if measured else _NOTICE) + about["description"],
        verdicts=tuple(judged),
        summary=tally(judged),
        pictures=tuple(Picture(f"{name}/{stem}", *words[stem]) for stem in stems),
        tables=tuple(table for table in tables if table.rows),
        facts={**{n: fact for n, fact in facts.items() if fact}, "profile": about["profile"]},
        command=_command(about, seed, source.path),
        source=source,
        costs=costs,
        made_by=_made_by(provenance),
        environment=provenance.get("environment", {}),
        algorithms={} if recorded.is_study else _algorithms(recorded),
    )


def _algorithms(recorded: Recorded) -> dict[str, str]:
    """Of every method."""
    rows = recorded.cells.select(["method", "algorithm"]).to_pylist()
    return dict(sorted({(row["method"], row["algorithm"]) for row in rows}))


def _command(about: About, options: str, source: str) -> str:
    """What runs it again; one that is declared in a notebook or a script has no name there."""
    if source:
        return f"privopt run {about['name']} --profile {about['profile']}{options}"
    told = f"profile='{about['profile']}', seed={about.get('root_seed', 0)}, results=..."
    return f"privopt.lab.run(experiment, {told})"


def _made_by(provenance: Provenance) -> dict[str, str]:
    """What ``provenance.json`` says of date and time; empty where it says nothing."""
    needed = {"profile", "code", "run_seconds", "compile_seconds", "cells", "reused"}
    if not needed <= provenance.keys():
        return {}
    return {
        "date": provenance.get("date", "–"),
        "profile": provenance["profile"],
        "running": f"{provenance['run_seconds']:.1f} s",
        "compiling": f"{provenance['compile_seconds']:.1f} s",
        "cells": f"{provenance['cells']}, {provenance['reused']} reused",
        "code": provenance["code"][:12],
    }


# --- sweeps ---------------------------------------------------------------------------------------


def _sweep(recorded: Recorded, judged: Sequence[Verdict], stems: Sequence[str]) -> _Content:
    cells = cell_results(recorded)
    words = {stem: _words(stem, cells, stems, judged) for stem in stems}
    tables = _ratios(cells), _plans(recorded), _refused(recorded)
    return words, tables, _facts(recorded, cells), price(cells, judged)


def _words(
    stem: str, cells: Sequence[CellResult], stems: Sequence[str], judged: Sequence[Verdict]
) -> Words:
    grids = grid_cells(cells)
    if stem in grids:
        return of_grid(grids[stem])
    if stem == COMPARED:
        apart = {*stems, *twins(judged)}
        others = (cell for cell in cells if cell.method not in apart)
        return of_comparison([cell for cell in others if swept_axes([cell])])
    return of_method([cell for cell in cells if cell.method == stem], _about(judged, stem))


def _about(judged: Sequence[Verdict], method: str) -> list[Verdict]:
    """The verdicts on a method, and on its twin with the best numbers of a grid."""
    return [v for v in unfolded(judged) if method in (v.method, twins(judged).get(v.method))]


def _ratios(cells: Sequence[CellResult]) -> Table:
    """How much room the bounds leave at each setting's worst strength."""
    rows = []
    for named, group in grouped(cells, lambda c: (c.named, c.family)).items():
        at = grouped(group, lambda c: tuple(sorted(c.setting.items())))
        top = [worst(same) for same in at.values()]
        beside = [(c.mean, c.upper, c.lower, c.own_lower, c.start) for c in top]
        ratios = ([row[0] / row[i] for row in beside if 0.0 < row[i] < inf] for i in range(1, 5))
        rows.append((*named, *map(_range, ratios)))
    against = (
        *("upper bound", "lower bound of the budget", "lower bound of its own guarantee"),
        "zero predictor",
    )
    head = ("method", "family", *(f"mean ÷ {name}" for name in against))
    note = (
        "Smallest to largest over the settings, each at its worst strength. A lower bound is one "
        "for every algorithm with a guarantee: that of the budget, or the stronger one that the "
        "method has, such as Gaussian differential privacy, where a larger bound is proved for it. "
        "It holds for the worst problem of the class, so the ratio may be less than 1 on another."
    )
    return Table("How much room the bounds leave", head, tuple(rows), note)


def _plans(recorded: Recorded) -> Table:
    rows: dict[str, tuple[str, ...]] = {}
    columns = ["method", "algorithm", "choices", "plan", "searched"]
    for row in recorded.cells.select(columns).to_pylist():
        if row["plan"] is not None and row["method"] not in rows:
            rate = json.loads(row["plan"]).get("rate", {})
            said = (rate.get("theorem", ""), rate.get("regime", ""), rate.get("source", ""))
            rows[row["method"]] = (row["method"], row["algorithm"], *said, _choices(row))
    head = ("method", "algorithm", "theorem", "regime", "source", "choices")
    return Table("Theorems and plans", head, tuple(rows[name] for name in sorted(rows)))


def _choices(row: Mapping[str, str]) -> str:
    """How the numbers of a method are set."""
    searched = json.loads(row["searched"] or "null")
    told = [f"{name}={value}" for name, value in json.loads(row["choices"]).items()]
    if searched is not None:
        names = ", ".join(searched["chosen"])
        return ", ".join((*told, f"{ORACLE_TUNED}: {names} the best of {searched['candidates']}"))
    return ", ".join(told) or "theory's"


def _refused(recorded: Recorded) -> Table:
    """The plans that there are not, each reason once."""
    refused = [row for row in recorded.cells.to_pylist() if row["refused"] is not None]
    by_reason = grouped(refused, lambda row: (row["method"], row["family"], row["refused"]))
    rows = tuple(
        (method, family, f"{len(cells)}", reason)
        for (method, family, reason), cells in by_reason.items()
    )
    return Table("Refused plans", ("method", "family", "cells", "reason"), rows)


def _facts(recorded: Recorded, cells: Sequence[CellResult]) -> dict[str, str]:
    facts = {}
    swept = swept_axes(cells)
    for axis in swept:
        values = sorted({cell.setting[axis] for cell in cells if axis in cell.axes})
        facts[f"{symbol(axis)} swept over"] = ", ".join(map(number, values))
    grids = sorted({name for cell in cells for name in cell.axes if name not in swept})
    facts["grids"] = ", ".join(" × ".join(map(symbol, grid.split(" x "))) for grid in grids)
    names = dict.fromkeys(("n", "dim", "sparsity", "epsilon", *swept))
    base = {
        axis: {cell.setting[axis] for cell in cells if axis in cell.setting.keys() - cell.axes}
        for axis in names
    }
    facts["elsewhere"] = ", ".join(
        f"{symbol(axis)} = {_listed(values)}" for axis, values in base.items() if values
    )
    facts["δ"] = _listed({cell.delta for cell in cells})
    facts["relation"] = ", ".join(sorted({cell.relation for cell in cells}))
    facts["measured"] = ", ".join(sorted({c.quantity for c in cells} - {"empirical risk"}))
    facts["strengths"] = ", ".join(number(s) for s in sorted({cell.strength for cell in cells}))
    facts["replicates"] = f"{recorded.about['replicates']} in each of {len(cells)} cells"
    facts["seed"] = str(recorded.about["root_seed"])
    return facts


def _range(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else unbroken(f"{low} to {high}")


def _listed(values: set[float]) -> str:
    if len(values) > _MAX_LISTED:
        return f"{min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else number(v) for v in sorted(values))


# --- studies --------------------------------------------------------------------------------------


def _study(recorded: Recorded, judged: Sequence[Verdict], stems: Sequence[str]) -> _Content:
    rows, show = rows_of(recorded), presentation(recorded)
    words = {p.name: of_plot(p, show, judged, rows) for p in show.plots if p.name in stems}
    tables = tuple(listed(each, rows[each.part]) for each in show.listings)
    told = ", ".join(f"{len(found)} of {part}" for part, found in rows.items())
    return words, tables, {"rows": told}, ()


def listed(listing: Listing, rows: Sequence[Row]) -> Table:
    """The rows of a part as the study wants them shown."""
    head = tuple(column.head for column in listing.columns)
    entries = (tuple(_entry(column, row) for column in listing.columns) for row in rows)
    return Table(listing.caption, head, tuple(entries))


def _entry(column: Column, row: Row) -> Entry | str:
    values = {name: _value(row, name) for name in column.names}
    known = all(value is not None for value in values.values())
    text = with_minus(column.text.format(**values)) if known else "–"
    text = " ".join(text.split())
    return text if column.check is None else Entry(text, outcome=outcome(column.check, row))


def _value(row: Row, quantity: str) -> Value | _Range:
    """What a row holds: a number, a text, a range, or ``None``."""
    value, ends = row.get(quantity), span(row, quantity)
    return _Range(*ends) if value is None and ends is not None else value


class _Range(NamedTuple):
    """An interval that is told with its ends rounded outwards."""

    lower: float
    upper: float

    def __format__(self, spec: str) -> str:
        spec = spec.replace("d", ".0f") or ".0f"
        sides = ((self.lower, ROUND_FLOOR), (self.upper, ROUND_CEILING))
        return " to ".join(_rounded(end, spec, side) for end, side in sides)


def _rounded(end: float, spec: str, side: str) -> str:
    if not math.isfinite(end):
        return number(end)
    with localcontext(rounding=side):
        return format(Decimal(end), spec)
