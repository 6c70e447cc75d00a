"""The content of the page of one experiment."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from privopt.lab.evaluation.cells import (
    CellResult,
    cell_results,
    grouped,
    swept_axes,
    worst_per_setting,
)
from privopt.lab.evaluation.verdict import (
    ORACLE_TUNED,
    Verdict,
    counts,
    flatten_twins,
    tally,
)
from privopt.lab.evaluation.verdicts import outcomes
from privopt.lab.plotting.heatmaps import grid_cells
from privopt.lab.plotting.notation import (
    method_label,
    number,
    paper_name,
    small,
    symbol,
    with_minus,
)
from privopt.lab.plotting.plots import COMPARED, analysis_captions, figure_cells
from privopt.lab.plotting.style import read_description
from privopt.lab.report.captions import (
    Caption,
    comparison_caption,
    grid_caption,
    method_caption,
)
from privopt.lab.report.tables import Entry, ReportTable, cost_rows, range_text, unbroken
from privopt.lab.report.tables import Row as TableRow
from privopt.lab.runner.analysis import Claim, Listing, frames, required
from privopt.lab.runner.store import About, Provenance, Recorded

_NOT_MEASURED = (
    "*Nothing was measured: the data were not available, or every plan was refused. This run does "
    "not support the title and the text.*\n\n"
)
_MAX_LISTED = 6
"""Largest number of values that are listed; of more, the smallest and the largest are given."""


@dataclass(frozen=True)
class Picture:
    """A figure with its caption and the alternative text."""

    stem: str  # path without suffix, from the results folder
    caption: str
    alt: str


class SourceFile(NamedTuple):
    """The file that declares an experiment; empty if there is none."""

    path: str  # from the folder of the project, for example experiments/first_order/dp_gd.py
    link: str  # from the results folder


NO_SOURCE = SourceFile("", "")


@dataclass(frozen=True)
class Section:
    """The report on one experiment."""

    name: str
    title: str
    description: str
    verdicts: tuple[Verdict, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[ReportTable, ...]
    facts: Mapping[str, str]  # settings
    command: str  # reproduces the tables
    source: SourceFile
    costs: Sequence[TableRow]  # of the theory's hyperparameters
    made_by: Mapping[str, str]  # date, duration, version of the code, environment
    algorithms: Mapping[str, str]  # by method

    @property
    def family(self) -> str:
        """Folder below ``experiments`` with the declaration; empty if there is none."""
        folders = Path(self.source.path).parts[1:-1]
        return folders[0] if folders else ""

    @property
    def summary(self) -> str:
        """Number of verdicts by outcome, in sentences."""
        return tally(self.verdicts)

    @property
    def counts(self) -> str:
        """Number of verdicts by outcome, in one line."""
        return "; ".join(counts(self.verdicts))


class _Content(NamedTuple):
    """The parts of a section that differ between sweeps and analyses."""

    captions: Mapping[str, Caption]
    tables: Sequence[ReportTable]
    facts: Mapping[str, str]
    costs: Sequence[TableRow] = ()


def make_section(
    recorded: Recorded,
    verdicts: Sequence[Verdict],
    figures: Sequence[Path],
    provenance: Provenance,
    source: SourceFile = NO_SOURCE,
) -> Section:
    """Return the report on one experiment, after its figures are drawn."""
    about, name = recorded.about, recorded.about["name"]
    content = (_analysis if recorded.is_analysis else _sweep)(recorded, verdicts)
    if recorded.is_analysis:
        texts = analysis_captions(recorded)
        captions = {
            path.stem: Caption(texts[path.stem], read_description(path)) for path in figures
        }
    else:
        captions = {path.stem: content.captions[path.stem] for path in figures}
    return Section(
        name=name,
        title=about["title"],
        description=("" if recorded.runs.num_rows else _NOT_MEASURED) + about["description"],
        verdicts=tuple(verdicts),
        pictures=tuple(Picture(f"{name}/{stem}", *c) for stem, c in captions.items()),
        tables=tuple(table for table in content.tables if table.rows),
        facts={n: fact for n, fact in content.facts.items() if fact}
        | {"profile": about["profile"]},
        command=_command(about, source.path),
        source=source,
        costs=content.costs,
        made_by=_made_by(provenance),
        algorithms={} if recorded.is_analysis else _algorithms(recorded),
    )


def _algorithms(recorded: Recorded) -> dict[str, str]:
    rows = recorded.cells.select(["method", "algorithm"]).to_pylist()
    return dict(sorted({(row["method"], row["algorithm"]) for row in rows}))


def _command(about: About, source: str) -> str:
    """Return the call that reproduces the tables; experiments outside a file have no command."""
    if source:
        seed = f" --seed {about['root_seed']}" if "root_seed" in about else ""
        return f"privopt run {about['name']} --profile {about['profile']}{seed}"
    arguments = f"profile='{about['profile']}', seed={about.get('root_seed', 0)}, results=..."
    return f"privopt.lab.run(experiment, {arguments})"


def _made_by(provenance: Provenance) -> dict[str, str]:
    needed = {"profile", "code", "run_seconds", "compile_seconds", "cells", "reused"}
    if not needed <= provenance.keys():
        return {}
    environment = provenance.get("environment", {})
    return {
        "date": provenance.get("date", "–"),
        "running": f"{provenance['run_seconds']:.1f} s",
        "compiling": f"{provenance['compile_seconds']:.1f} s",
        "cells": f"{provenance['cells']}, {provenance['reused']} reused",
        "code": provenance["code"][:12],
    } | (
        {"environment": ", ".join(f"{k} {v}" for k, v in environment.items())}
        if environment
        else {}
    )


# --- sweeps ---------------------------------------------------------------------------------------


def _sweep(recorded: Recorded, verdicts: Sequence[Verdict]) -> _Content:
    cells = cell_results(recorded)
    captions = {name: grid_caption(grid) for name, grid in grid_cells(cells).items()}
    every = flatten_twins(verdicts)
    for name, members in figure_cells(cells, verdicts).items():
        if name == COMPARED:
            captions[name] = comparison_caption(members)
        else:
            names = {cell.method for cell in members}
            own = [cell for cell in members if cell.method == name]
            captions[name] = method_caption(own, [v for v in every if v.method in names])
    tables = _ratios(cells), _plans(recorded), _refused(recorded)
    return _Content(captions, tables, _facts(recorded, cells), cost_rows(cells, verdicts))


def _ratios(cells: Sequence[CellResult]) -> ReportTable:
    """Return the ratios of the measured mean to its bounds, at each setting's worst strength."""
    rows = []
    for (method, tuned, family), group in grouped(
        cells, lambda c: (c.method, c.untuned, c.family)
    ).items():
        numbers = [
            (c.mean, c.upper, c.lower, c.own_lower, c.start) for c in worst_per_setting(group)
        ]
        ratios = ([row[0] / row[i] for row in numbers if 0.0 < row[i] < inf] for i in range(1, 5))
        rows.append((method_label(method, tuned), family, *map(_range, ratios)))
    names = (
        *("upper bound", "lower bound of the budget", "lower bound of its own guarantee"),
        "zero predictor",
    )
    head = ("method", "family", *(f"mean ÷ {name}" for name in names))
    note = (
        "Smallest to largest over the settings, each at its worst strength. A lower bound holds "
        "for every algorithm with a guarantee: the guarantee of the budget, or the stronger "
        "guarantee of the method, for example Gaussian differential privacy, if a larger bound is "
        "proved for it. It is proved for the worst problem of the class, so the ratio may be less "
        "than 1 on another."
    )
    return ReportTable("Measured risk and bounds", head, tuple(rows), note)


def _plans(recorded: Recorded) -> ReportTable:
    rows: dict[str, tuple[str, ...]] = {}
    columns = ["method", "algorithm", "choices", "plan", "searched"]
    for row in recorded.cells.select(columns).to_pylist():
        if row["plan"] is not None and row["method"] not in rows:
            rate = json.loads(row["plan"]).get("rate", {})
            texts = (rate.get("theorem", ""), rate.get("regime", ""), rate.get("source", ""))
            rows[row["method"]] = (row["method"], row["algorithm"], *texts, _choices(row))
    head = ("method", "algorithm", "theorem", "regime", "source", "choices")
    return ReportTable("Theorems and plans", head, tuple(rows[name] for name in sorted(rows)))


def _choices(row: Mapping[str, str]) -> str:
    searched = json.loads(row["searched"] or "null")
    choices = [f"{name}={value}" for name, value in json.loads(row["choices"]).items()]
    if searched is not None:
        names = ", ".join(searched["chosen"])
        choices.append(f"{ORACLE_TUNED}: {names} the best of {searched['candidates']}")
    return ", ".join(choices) or "theory’s"


def _refused(recorded: Recorded) -> ReportTable:
    refused = [row for row in recorded.cells.to_pylist() if row["refused"] is not None]
    groups = grouped(refused, lambda row: (row["method"], row["family"], row["refused"]))
    rows = tuple(
        (method, family, f"{len(cells)}", reason)
        for (method, family, reason), cells in groups.items()
    )
    return ReportTable("Refused plans", ("method", "family", "cells", "reason"), rows)


def _facts(recorded: Recorded, cells: Sequence[CellResult]) -> dict[str, str]:
    facts, swept = {}, swept_axes(cells)
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
    facts["δ"] = ", ".join(map(small, sorted({cell.delta for cell in cells})))
    facts["relation"] = ", ".join(sorted({cell.relation for cell in cells}))
    facts["measured"] = ", ".join(sorted({c.quantity for c in cells} - {"empirical risk"}))
    facts["strengths"] = ", ".join(number(s) for s in sorted({cell.strength for cell in cells}))
    facts["replicates"] = f"{recorded.about['replicates']} in each of {len(cells)} cells"
    facts["seed"] = str(recorded.about["root_seed"])
    methods = {m: paper_name(a) for m, a in _algorithms(recorded).items()}
    facts["methods"] = ", ".join(f"{method} ({name})" for method, name in methods.items())
    return facts


def _range(values: Sequence[float]) -> str:
    if not values:
        return "–"
    return unbroken(range_text([f"{min(values):.2g}", f"{max(values):.2g}"]))


def _listed(values: set[float]) -> str:
    if len(values) > _MAX_LISTED:
        return f"{min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else number(v) for v in sorted(values))


# --- analyses -------------------------------------------------------------------------------------


def _analysis(recorded: Recorded, verdicts: Sequence[Verdict]) -> _Content:
    tables = frames(recorded)
    listings = [each for each in required(recorded).listings if each.part in tables]
    sizes = ", ".join(f"{len(frame)} of {part}" for part, frame in tables.items())
    return _Content(
        {}, [listing_table(each, tables[each.part]) for each in listings], {"rows": sizes}
    )


def listing_table(listing: Listing, frame: pd.DataFrame) -> ReportTable:
    """Return the rows of a part in the columns of a listing, with the outcomes of its checks."""
    marks = {
        head: outcomes(Claim(head, listing.part, check), frame)
        for head, check in listing.checks.items()
    }
    names = sorted(set(listing.quantities()))
    rows = []
    for i, row in enumerate(frame.to_dict("records")):
        values = {name: _value(row, name) for name in names}
        texts = ((head, _text(text, values)) for head, text in listing.columns.items())
        rows.append(
            tuple(Entry(t, outcome=marks[head][i]) if head in marks else t for head, t in texts)
        )
    return ReportTable(listing.caption, tuple(listing.columns), tuple(rows))


def _text(text: str, values: Mapping[str, Any]) -> str:
    """Format the values of a row; a dash if one is missing."""
    names = [name for _, name, _, _ in string.Formatter().parse(text) if name]
    if any(values[name] is None for name in names):
        return "–"
    return " ".join(with_minus(text.format(**values)).split())


def _value(row: Mapping[str, Any], name: str) -> Any:
    """Return a quantity of a row: a value, an interval, or None if it is missing."""
    value = row.get(name)
    ends: list[Any] = [row.get(f"{name}_{end}") for end in ("lower", "upper")]
    if not pd.isna(value):
        return value
    return None if any(pd.isna(end) for end in ends) else _Range(*ends)


class _Range(NamedTuple):
    """An interval; formatting rounds its ends outwards."""

    lower: float
    upper: float

    def __format__(self, spec: str) -> str:
        spec = spec.replace("d", ".0f") or ".0f"
        ends = ((self.lower, ROUND_FLOOR), (self.upper, ROUND_CEILING))
        return " to ".join(_rounded(end, spec, direction) for end, direction in ends)


def _rounded(end: float, spec: str, direction: str) -> str:
    if not math.isfinite(end):
        return number(end)
    with localcontext(rounding=direction):
        return format(Decimal(end), spec)
