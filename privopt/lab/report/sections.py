"""The content of the page of one experiment."""

from __future__ import annotations

import inspect
import json
import math
import string
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from privopt.lab.evaluation.cells import (
    CellResult,
    cell_results,
    cells_along,
    grouped,
    shares_of_zero_risk,
    swept_axes,
    worst,
    worst_per_setting,
)
from privopt.lab.evaluation.verdict import ORACLE_TUNED, Verdict, counts, flatten_twins, tally
from privopt.lab.evaluation.verdicts import outcomes
from privopt.lab.plotting.heatmaps import GridCells, grid_cells, grid_constants, unit_of_constants
from privopt.lab.plotting.notation import (
    axis_words,
    estimate,
    in_words,
    method_label,
    number,
    paper_name,
    signed,
    small,
    symbol,
    with_minus,
)
from privopt.lab.plotting.recorded import COMPARED, figure_cells
from privopt.lab.plotting.style import read_description
from privopt.lab.report.tables import Entry, ReportTable, cost_rows, range_text, unbroken
from privopt.lab.runner.analysis import Claim, Listing, frames, required
from privopt.lab.runner.store import About, Provenance, Recorded

_NOT_MEASURED = (
    "*Nothing was measured: the data were not available, or every plan was refused. This run does "
    "not support the title and the text.*\n\n"
)
_MAX_LISTED = 6
"""Largest number of values that are listed; of more, the smallest and the largest are given."""


Section = dict[str, Any]
"""The page of one experiment, as the templates read it: see :func:`make_section`."""


class Picture(NamedTuple):
    """A figure with its caption and the alternative text."""

    stem: str  # path without suffix, from the results folder
    caption: str
    alt: str


def make_section(
    recorded: Recorded,
    verdicts: Sequence[Verdict],
    figures: Sequence[Path],
    provenance: Provenance,
    source: str = "",
    link: str = "",
) -> Section:
    """Return the report on one experiment, after its figures are drawn.

    ``source`` is the file that declares the experiment, from the folder of the project, for example
    ``experiments/first_order/dp_gd.py``; ``link`` is its path from the results folder. Both are
    empty if there is none. The family of the experiment is the folder below ``experiments``.
    """
    about, name = recorded.about, recorded.about["name"]
    content = (_analysis if recorded.is_analysis else _sweep)(recorded, verdicts, figures)
    folders = Path(source).parts[1:-1]
    facts = {name: fact for name, fact in content["facts"].items() if fact}
    return {
        "name": name,
        "title": about["title"],
        "description": ("" if recorded.runs.num_rows else _NOT_MEASURED) + about["description"],
        "family": folders[0] if folders else "",
        "verdicts": verdicts,
        "counts": "; ".join(counts(verdicts)),
        "summary": tally(verdicts),
        "pictures": [
            Picture(f"{name}/{path.stem}", *content["captions"][path.stem]) for path in figures
        ],
        "tables": [table for table in content["tables"] if table.rows],
        "facts": {**facts, "profile": about["profile"]},
        "command": _command(about, source),
        "source": source,
        "link": link,
        "costs": content.get("costs", ()),
        "made_by": _made_by(provenance),
        "algorithms": {} if recorded.is_analysis else _algorithms(recorded),
    }


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
        **({"environment": ", ".join(map(" ".join, environment.items()))} if environment else {}),
    }


# --- sweeps ---------------------------------------------------------------------------------------


def _sweep(
    recorded: Recorded, verdicts: Sequence[Verdict], figures: Sequence[Path]
) -> dict[str, Any]:
    del figures
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
    return {
        "captions": captions,
        "tables": [_ratios(cells), _plans(recorded), _refused(recorded)],
        "facts": _facts(recorded, cells),
        "costs": cost_rows(cells, verdicts),
    }


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
    return unbroken(range_text(values))


def _listed(values: set[float]) -> str:
    if len(values) > _MAX_LISTED:
        return f"{min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else number(v) for v in sorted(values))


# --- analyses -------------------------------------------------------------------------------------


def _analysis(
    recorded: Recorded, verdicts: Sequence[Verdict], figures: Sequence[Path]
) -> dict[str, Any]:
    del verdicts
    tables, analysis = frames(recorded), required(recorded)
    listings = [each for each in analysis.listings if each.part in tables]
    docs = {name: inspect.getdoc(figure) or "" for name, figure in analysis.figures.items()}
    return {
        "captions": {
            each.stem: (" ".join(docs[each.stem].split()), read_description(each))
            for each in figures
        },
        "tables": [listing_table(each, tables[each.part]) for each in listings],
        "facts": {"rows": ", ".join(f"{len(frame)} of {part}" for part, frame in tables.items())},
    }


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


# --- captions and alternative texts --------------------------------------------------------------


def method_caption(cells: Sequence[CellResult], verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """Describe the figure of one method, with the verdicts on it and on its twin."""
    slopes = [_slope(verdict) for verdict in verdicts if verdict.check == "slope"]
    courses = [
        _course(axis, [worst(same) for same in cells_along(members, axis).values()])
        for members in grouped(cells, lambda cell: cell.family).values()
        for axis in swept_axes(members)
    ]
    name = method_label(cells[0].method, cells[0].untuned)
    text = f"{in_words(cells[0].label)} of {name} at the worst strength of the family (solid) "
    text += "and its upper bound (dashed). "
    text += "The theorem holds if the lines are parallel" if slopes else "The mean must be below it"
    ratios = [c.mean / c.upper for c in worst_per_setting(cells) if 0.0 < c.upper < math.inf]
    text += f"; the mean is {range_text(ratios)} of the bound" if ratios else ""
    if any(verdict.untuned for verdict in verdicts):
        text += f". The thin line is {ORACLE_TUNED}: it has the best hyperparameters of a grid"
    shares = shares_of_zero_risk(cells)
    if lost := sum(share >= 1.0 for share in shares):
        text += f". At {lost} of {len(shares)} settings the zero predictor, which uses no data, is "
        text += "at least as good: all that can be learnt is less than the cost of privacy"
    return f"{text}.", f"{in_words(cells[0].label)} of {name}: {'; '.join(courses + slopes)}"


def _slope(verdict: Verdict) -> str:
    value, interval = estimate(verdict)
    slope = "slope of mean ÷ bound" if verdict.of_ratio else "slope"
    return (
        f"{f'{ORACLE_TUNED}, ' if verdict.untuned else ''}{slope} along "
        f"{axis_words(verdict.axis or '')} {value} {interval}, theorem {signed(verdict.target)}, "
        f"{verdict.outcome}"
    )


def _course(axis: str, cells: Sequence[CellResult]) -> str:
    """Describe the mean and the bounds at the first and the last value of an axis."""
    first, last = cells[0], cells[-1]
    bounds = {"upper bound": (first.upper, last.upper)}
    name = "lower bound of {}" if first.is_minimax else "lower bound of {}, worst problem"
    for guarantee, bound in first.lower_bounds.items():
        bounds[name.format(guarantee)] = bound, last.lower_bounds.get(guarantee, 0.0)
    values = [
        f"{name} {low:.3g} to {high:.3g}"
        for name, (low, high) in bounds.items()
        if min(low, high) > 0.0 and max(low, high) < math.inf
    ]
    ends = f"{number(first.setting[axis])} to {number(last.setting[axis])}"
    brackets = f" ({', '.join(values)})" if values else ""
    return f"{axis_words(axis)} {ends}: mean {first.mean:.3g} to {last.mean:.3g}{brackets}"


def comparison_caption(cells: Sequence[CellResult]) -> tuple[str, str]:
    """Describe the figure of several methods by their shares of the zero predictor's risk."""
    texts = []
    for family, members in grouped(cells, lambda cell: cell.family).items():
        axis = swept_axes(members)[-1]
        groups = cells_along(members, axis)
        last = max(groups)
        shares = {
            method_label(same[0].method, same[0].untuned): worst(same).mean / worst(same).start
            for same in grouped(groups[last], lambda cell: cell.method).values()
            if worst(same).start > 0.0
        }
        listed = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        texts.append(
            f"on {family} at {axis_words(axis)} = {number(last)}: {listed}{_least(shares)}"
        )
    text = (
        "Lower is better. The dash-dotted line is the zero predictor, which uses no data; dashed "
        f"lines are upper bounds. Share of the zero predictor’s excess risk: {'; '.join(texts)}."
    )
    methods = len({cell.method for cell in cells})
    alt = f"Risk of {methods} methods, as a share of the zero predictor’s: {'; '.join(texts)}"
    return text, alt


def _least(shares: Mapping[str, float]) -> str:
    values = {name: share for name, share in shares.items() if math.isfinite(share)}
    name = min(values, key=lambda each: values[each], default="")
    if name and values[name] >= 1.0:
        return " (no method is better than the zero predictor)"
    return f" (least: {name})" if len(values) > 1 else ""


def grid_caption(grid: GridCells) -> tuple[str, str]:
    """Describe the figure of a grid by the smallest and the largest constant of every method."""
    ranges = []
    for (method, family), constants in grid_constants(grid).items():
        finite = [value for value in constants.values() if math.isfinite(value)]
        ranges += [f"{method} on {family} {range_text(finite)}"] if finite else []
    axes = " and ".join(map(axis_words, grid.axes))
    head = (
        f"The mean divided by its {unit_of_constants(grid.cells)} for every combination of {axes}"
    )
    text = "; ".join(ranges)
    return f"{head}; darker cells are larger: {text}.", f"{head}: {text}"
