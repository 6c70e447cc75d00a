"""The report on one experiment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import inf
from pathlib import Path
from typing import NamedTuple

from privopt.lab.make.presentation import Column, Listing
from privopt.lab.make.records import Provenance, Recorded, Value
from privopt.lab.show.claims import Row, outcome, presentation, rows_of, span
from privopt.lab.show.document import Entry, Mark, Picture, Section, Table
from privopt.lab.show.figures import COMPARED
from privopt.lab.show.results import CellResult, cell_results, grouped, swept_axes, worst
from privopt.lab.show.style import estimate, number, signed, symbol
from privopt.lab.show.verdict import Verdict

__all__ = ["section"]

_MINUS = re.compile(r"(?<!\w)-(?=[\d.])")
_MAX_LISTED = 6
"""Values that a list of them shows; of more, the smallest and the largest."""


class _Content(NamedTuple):
    """What differs between the two kinds of experiment."""

    captions: Mapping[str, str]
    tables: Sequence[Table]
    facts: Mapping[str, str]
    command: str


def section(
    recorded: Recorded,
    judged: Sequence[Verdict],
    figures: Sequence[Path],
    provenance: Provenance,
) -> Section:
    """The report on one experiment.

    Parameters
    ----------
    recorded : Recorded
    judged : sequence of Verdict
        ``verdicts(recorded)``.
    figures : sequence of Path
        As they were drawn.
    provenance : mapping
        As in ``provenance.json``; may be empty.
    """
    about = recorded.about
    content = (_study if recorded.is_study else _sweep)(recorded, judged)
    command = f"privopt run {about['name']} --profile {about['profile']}{content.command}"
    return Section(
        name=about["name"],
        title=about["title"],
        description=about["description"],
        verdicts=tuple(judged),
        pictures=tuple(
            Picture(f"{about['name']}/{path.stem}", _caption(path.stem, content.captions))
            for path in figures
            if path.suffix == ".svg"
        ),
        tables=tuple(table for table in content.tables if table.rows),
        facts={**{name: fact for name, fact in content.facts.items() if fact}, "command": command},
        made_by=_made_by(provenance),
    )


def _caption(stem: str, captions: Mapping[str, str]) -> str:
    return captions.get(stem, f"What {stem} reaches along the swept axes")


def _made_by(provenance: Provenance) -> dict[str, str]:
    """What ``provenance.json`` says of machine and time; empty where it says nothing."""
    needed = {"environment", "code", "run_seconds", "compile_seconds", "cells", "reused"}
    if not needed <= provenance.keys():
        return {}
    time = (
        "{run_seconds:.1f} s running and {compile_seconds:.1f} s compiling for {cells} cells "
        "({reused} reused)"
    ).format_map(provenance)
    return {**provenance["environment"], "code": provenance["code"][:16], "time": time}


# --- sweeps ---------------------------------------------------------------------------------------


def _sweep(recorded: Recorded, judged: Sequence[Verdict]) -> _Content:
    cells = cell_results(recorded)
    return _Content(
        captions={COMPARED: "Risk of all methods, between the optimum and the zero predictor"},
        tables=(_verdicts(judged), _ratios(cells), _plans(recorded), _refused(recorded)),
        facts=_facts(recorded, cells),
        command=f" --seed {recorded.about['root_seed']}",
    )


def _verdicts(judged: Sequence[Verdict]) -> Table:
    rows = tuple(
        (
            v.method,
            v.family,
            _unbroken("mean / bound" if v.axis is None else f"slope in {symbol(v.axis)}"),
            _unbroken(" ".join(estimate(v)).strip()),
            f"≤ {v.target:g}" if v.axis is None else signed(v.target),
            Mark(v.outcome),
            v.detail,
        )
        for v in judged
    )
    head = ("method", "family", "check", "measured", "theorem", "verdict", "detail")
    return Table("Verdicts", head, rows)


def _ratios(cells: Sequence[CellResult]) -> Table:
    """How much room the bounds leave at each setting's worst strength."""
    rows = []
    for named, group in grouped(cells, lambda c: (c.method, c.family)).items():
        at = grouped(group, lambda c: tuple(sorted(c.setting.items())))
        top = [worst(same) for same in at.values()]
        ratios = (
            [c.mean / bound for c in top if 0.0 < (bound := getattr(c, name)) < inf]
            for name in ("upper", "lower", "start")
        )
        rows.append((*named, *(_range(found) for found in ratios)))
    against = ("upper bound", "lower bound", "zero predictor")
    head = ("method", "family", *(f"mean / {name}" for name in against))
    return Table("Measured constants, smallest to largest over the settings", head, tuple(rows))


def _plans(recorded: Recorded) -> Table:
    rows: dict[str, tuple[str, ...]] = {}
    for row in recorded.cells.select(["method", "algorithm", "choices", "plan"]).to_pylist():
        if row["plan"] is not None and row["method"] not in rows:
            rate = json.loads(row["plan"]).get("rate", {})
            choices = json.loads(row["choices"])
            chosen = ", ".join(f"{name}={value}" for name, value in choices.items()) or "theory's"
            said = (rate.get("theorem", ""), rate.get("regime", ""), rate.get("source", ""))
            rows[row["method"]] = (row["method"], row["algorithm"], *said, chosen)
    head = ("method", "algorithm", "theorem", "regime", "source", "choices")
    return Table("Theorems and plans", head, tuple(rows[name] for name in sorted(rows)))


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


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _range(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else _unbroken(f"{low} to {high}")


def _listed(values: set[float]) -> str:
    if len(values) > _MAX_LISTED:
        return f"{min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else number(v) for v in sorted(values))


# --- studies --------------------------------------------------------------------------------------


def _study(recorded: Recorded, judged: Sequence[Verdict]) -> _Content:
    rows, show = rows_of(recorded), presentation(recorded)
    return _Content(
        captions={plot.name: plot.title for plot in show.plots},
        tables=(_claims(judged), *(_listing(each, rows[each.part]) for each in show.listings)),
        facts={"rows": ", ".join(f"{len(found)} of {part}" for part, found in rows.items())},
        command="",
    )


def _claims(judged: Sequence[Verdict]) -> Table:
    rows = tuple(
        (v.claim, f"{v.estimate:g} of {v.rows}", f"{v.target:g}", Mark(v.outcome), v.detail)
        for v in judged
    )
    return Table("Claims", ("claim", "holds in rows", "claimed", "verdict", "detail"), rows)


def _listing(listing: Listing, rows: Sequence[Row]) -> Table:
    head = tuple(column.head for column in listing.columns)
    entries = (tuple(_entry(column, row) for column in listing.columns) for row in rows)
    return Table(listing.caption, head, tuple(entries))


def _entry(column: Column, row: Row) -> Entry:
    values = {name: _value(row, name) for name in column.names}
    known = all(value is not None for value in values.values())
    text = _MINUS.sub("−", column.text.format(**values)) if known else "–"
    text = " ".join(text.split())
    return text if column.check is None else Mark(outcome(column.check, row), text)


def _value(row: Row, quantity: str) -> Value | _Range:
    """What a row holds: a number, a text, a range, or ``None``."""
    value, ends = row.get(quantity), span(row, quantity)
    return _Range(*ends) if value is None and ends is not None else value


class _Range(NamedTuple):
    """An interval that is told with its ends rounded outwards."""

    lower: float
    upper: float

    def __format__(self, spec: str) -> str:
        unit = Decimal(1).scaleb(-int(spec.strip(".f") or 0))
        sides = ((self.lower, ROUND_FLOOR), (self.upper, ROUND_CEILING))
        return " to ".join(
            str(Decimal(end).quantize(unit, side)) if math.isfinite(end) else number(end)
            for end, side in sides
        )
