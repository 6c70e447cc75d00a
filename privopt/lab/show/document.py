"""What a report says, before it is Markdown or HTML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from privopt.lab.make.presentation import Column, Listing
from privopt.lab.make.records import about
from privopt.lab.make.study import rows_of, shown
from privopt.lab.show.claims import outcome, span
from privopt.lab.show.comparison import NAME as COMPARED
from privopt.lab.show.results import AXES, Measured, grouped, measured, worst
from privopt.lab.show.style import SYMBOLS, estimate, number, signed
from privopt.lab.show.theorems import ALPHA, RESOLUTION
from privopt.lab.show.verdict import Finding, Outcome, Verdict, tally

__all__ = [
    "GUIDE", "TITLE", "Document", "Entry", "Mark", "Picture", "Section", "Table", "document",
    "made_by", "section", "study_section",
]  # fmt: skip

TITLE = "Measured against the theorem"

GUIDE = (
    "*Bound*: in every cell the mean excess risk, its certified error included, lies below the "
    "theorem's upper bound; shown is the largest ratio of mean to bound. "
    "*Slope*: on the family of problems where the theorem is tight, the exponent of the mean "
    "excess risk (at the worst strength of the family) in n, d or ε as the noise ratio √d/(nμ) "
    "goes to 0: a term proportional to that ratio is fitted beside it, and the exponent without "
    "that term is told as *uncorrected*. Its interval must "
    f"contain the theorem's exponent and exclude every exponent {RESOLUTION:g} away. "
    f"In each experiment a true theorem is refuted with probability at most {ALPHA:.0%} for its "
    "bounds and as much for its slopes. What is neither is undecided, and where nothing is claimed "
    "there is no verdict. The *lower bound* says what no algorithm beats on every problem of the "
    "class; on a given one it may well be beaten. "
    "*Claim*: a study computes numbers and says what they show; that is checked in every row of "
    "its table, and of an interval the less favourable end counts. A claim of fewer rows holds if "
    "it does in exactly so many. *Risk* is that of the records that all runs are given, unless a "
    "section says that it is the population's: then every run draws records of its own, and a "
    "bound on the one risk is none on the other."
)


@dataclass(frozen=True)
class Mark:
    """An outcome, and what led to it."""

    outcome: Outcome
    text: str = ""


Entry = str | Mark


@dataclass(frozen=True)
class Table:
    """Rows of entries under a head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure: its path without suffix, relative to the results folder, and its text."""

    stem: str
    text: str


@dataclass(frozen=True)
class Section:
    """One experiment."""

    name: str
    title: str
    description: str
    verdicts: tuple[Verdict | Finding, ...]
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    facts: Mapping[str, str]
    made_by: Mapping[str, str]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    summary: str
    headlines: tuple[Table, ...]
    sections: tuple[Section, ...]


def document(sections: Sequence[Section]) -> Document:
    """The report on these experiments."""
    judged = [verdict for part in sections for verdict in part.verdicts]
    theorems = [verdict for verdict in judged if isinstance(verdict, Verdict)]
    claims = [finding for finding in judged if isinstance(finding, Finding)]
    tables = (_headline(theorems), _claims(claims))
    return Document(tally(judged), tuple(each for each in tables if each.rows), tuple(sections))


def section(
    table: pa.Table,
    judged: Sequence[Verdict],
    figures: Sequence[Path],
    provenance: Mapping[str, Any],
) -> Section:
    """The report on one experiment.

    Parameters
    ----------
    table : pyarrow.Table
    judged : sequence of Verdict
        ``verdicts(table)``.
    figures : sequence of Path
        ``figures(table, folder)``.
    provenance : mapping
        As in ``provenance.json``; may be empty.
    """
    told, cells = about(table), measured(table)
    name = told["name"]
    return Section(
        name=name,
        title=told["title"],
        description=told["description"],
        verdicts=tuple(judged),
        pictures=tuple(
            Picture(f"{name}/{path.stem}", _caption(path.stem))
            for path in figures
            if path.suffix == ".svg"
        ),
        tables=tuple(
            each
            for each in (_verdict_table(judged), _ratio_table(cells), _plan_table(table))
            if each.rows
        ),
        facts=_facts(told, cells),
        made_by=made_by(provenance),
    )


def _caption(stem: str) -> str:
    if stem == COMPARED:
        return "Risk of all algorithms, between the optimum and the zero predictor"
    return f"Excess risk of {stem} along the swept axes"


def _headline(judged: Sequence[Verdict]) -> Table:
    axes = [axis for axis in AXES if any(v.axis == axis for v in judged)]
    rows: list[tuple[Entry, ...]] = []
    for (experiment, *pair), group in grouped(
        judged, lambda v: (v.experiment, v.algorithm, v.family)
    ).items():
        by_check = {v.axis or v.check: v for v in group}
        marks = (
            Mark(by_check[c].outcome, estimate(by_check[c], 2)[0]) if c in by_check else ""
            for c in ("bound", *axes)
        )
        rows.append((experiment, *pair, *marks))
    slopes = (f"slope in {SYMBOLS[axis]}" for axis in axes)
    head = ("experiment", "algorithm", "family", "mean / bound", *slopes)
    return Table("Every verdict", head, tuple(rows))


def _claims(judged: Sequence[Finding]) -> Table:
    rows = tuple(
        (each.experiment, each.claim, Mark(each.outcome, f"{each.held} of {each.rows}"))
        for each in judged
    )
    return Table("Every claim", ("study", "claim", "rows"), rows)


def _verdict_table(judged: Sequence[Verdict]) -> Table:
    rows = tuple(
        (
            v.algorithm,
            v.family,
            _unbroken("mean / bound" if v.axis is None else f"slope in {SYMBOLS[v.axis]}"),
            _unbroken(" ".join(estimate(v)).strip()),
            f"≤ {v.target:g}" if v.axis is None else signed(v.target),
            Mark(v.outcome),
            v.detail,
        )
        for v in judged
    )
    head = ("algorithm", "family", "check", "measured", "theorem", "verdict", "detail")
    return Table("Verdicts", head, rows)


def _ratio_table(cells: Sequence[Measured]) -> Table:
    """How much room the bounds leave at each setting's worst strength."""
    rows = []
    for (algorithm, family), group in grouped(cells, lambda c: (c.algorithm, c.family)).items():
        top = [worst(same) for same in grouped(group, lambda c: c.setting).values()]
        ratios = (
            [c.mean / bound for c in top if 0.0 < (bound := getattr(c, name)) < inf]
            for name in ("upper", "lower", "start_risk")
        )
        rows.append((algorithm, family, *(_range(found) for found in ratios)))
    against = ("upper bound", "lower bound", "zero predictor")
    head = ("algorithm", "family", *(f"mean / {name}" for name in against))
    return Table("Measured constants, smallest to largest over the settings", head, tuple(rows))


def _plan_table(table: pa.Table) -> Table:
    rows: dict[str, tuple[str, ...]] = {}
    columns = ("algorithm", "plan")
    for row in table.select(columns).group_by(list(columns)).aggregate([]).to_pylist():
        plan = json.loads(row["plan"])
        rate, choices = plan.get("rate", {}), plan.get("choices", {})
        chosen = ", ".join(f"{name}={value}" for name, value in choices.items()) or "theory's"
        said = (rate.get("theorem", ""), rate.get("regime", ""), rate.get("source", ""))
        rows.setdefault(row["algorithm"], (row["algorithm"], *said, chosen))
    head = ("algorithm", "theorem", "regime", "source", "choices")
    return Table("Theorems and plans", head, tuple(rows[name] for name in sorted(rows)))


def _facts(told: Mapping[str, Any], cells: Sequence[Measured]) -> dict[str, str]:
    facts = {}
    for axis in AXES:
        swept = sorted({getattr(cell, axis) for cell in cells if axis in cell.axes})
        if swept:
            facts[f"{SYMBOLS[axis]} swept over"] = ", ".join(map(number, swept))
    base = {axis: {getattr(c, axis) for c in cells if axis not in c.axes} for axis in AXES}
    facts["elsewhere"] = ", ".join(
        f"{SYMBOLS[axis]} = {_listed(values)}" for axis, values in base.items() if values
    )
    facts["δ"] = _listed({cell.delta for cell in cells})
    facts["relation"] = ", ".join(sorted({cell.relation for cell in cells}))
    facts["risk"] = ", ".join(sorted({cell.risk for cell in cells} - {"empirical"}))
    facts["strengths"] = ", ".join(number(s) for s in sorted({cell.strength for cell in cells}))
    facts["replicates"] = f"{told['replicates']} in each of {len(cells)} cells"
    facts["seed"] = str(told["root_seed"])
    profile = told["profile"]
    command = f"privopt run {told['name']} --profile {profile} --seed {told['root_seed']}"
    return {key: value for key, value in facts.items() if value} | {"command": command}


def made_by(provenance: Mapping[str, Any]) -> dict[str, str]:
    """What ``provenance.json`` says of machine, code and time; empty where it says nothing."""
    needed = {"environment", "code", "run_seconds", "compile_seconds", "cells", "reused"}
    if not needed <= provenance.keys():
        return {}
    time = (
        "{run_seconds:.1f} s running and {compile_seconds:.1f} s compiling for {cells} cells "
        "({reused} reused)"
    ).format_map(provenance)
    return {**provenance["environment"], "code": provenance["code"][:16], "time": time}


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _range(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else _unbroken(f"{low} to {high}")


def _listed(values: set[Any]) -> str:
    if len(values) > 6:
        return f"{min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{v:.3g}" if isinstance(v, float) else number(v) for v in sorted(values))


_MINUS = re.compile(r"(?<!\w)-(?=[\d.])")


def study_section(
    table: pa.Table,
    judged: Sequence[Finding],
    figures: Sequence[Path],
    provenance: Mapping[str, Any],
) -> Section:
    """The report on one study; as :func:`privopt.lab.show.document.section` on a sweep."""
    told, rows, show = about(table), rows_of(table), shown(table)
    name = told["name"]
    titles = {plot.name: plot.title for plot in show.plots}
    return Section(
        name=name,
        title=told["title"],
        description=told["description"],
        verdicts=tuple(judged),
        pictures=tuple(
            Picture(f"{name}/{path.stem}", titles[path.stem])
            for path in figures
            if path.suffix == ".svg"
        ),
        tables=(_claim_table(judged), *(_listing(each, rows[each.part]) for each in show.listings)),
        facts={
            "rows": ", ".join(f"{len(found)} of {part}" for part, found in rows.items()),
            "command": f"privopt run {name} --profile {told['profile']}",
        },
        made_by=made_by(provenance),
    )


def _claim_table(judged: Sequence[Finding]) -> Table:
    rows = tuple(
        (f.claim, f"{f.held} of {f.rows}", str(f.target), Mark(f.outcome), f.detail) for f in judged
    )
    return Table("Claims", ("claim", "holds in rows", "claimed", "verdict", "detail"), rows)


def _listing(listing: Listing, rows: Sequence[Mapping[str, Any]]) -> Table:
    head = tuple(column.head for column in listing.columns)
    entries = (tuple(_listed_entry(column, row) for column in listing.columns) for row in rows)
    return Table(listing.caption, head, tuple(entries))


def _listed_entry(column: Column, row: Mapping[str, Any]) -> Entry:
    values = {name: _value(row, name) for name in column.names}
    known = all(value is not None for value in values.values())
    text = _MINUS.sub("−", column.text.format(**values)) if known else "–"
    text = " ".join(text.split())
    return text if column.check is None else Mark(outcome(column.check, row), text)


def _value(row: Mapping[str, Any], quantity: str) -> Any:
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
