"""The report on one study."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from privopt.lab.figure_text import number
from privopt.lab.parquet import about
from privopt.lab.report_document import Entry, Mark, Picture, Section, Table, made_by
from privopt.lab.shown import Column, Listing
from privopt.lab.study import rows_of, shown
from privopt.lab.verdict_claim import outcome, span
from privopt.lab.verdict_outcome import Finding

__all__ = ["study_section"]

_MINUS = re.compile(r"(?<!\w)-(?=[\d.])")


def study_section(
    table: pa.Table,
    judged: Sequence[Finding],
    figures: Sequence[Path],
    provenance: Mapping[str, Any],
) -> Section:
    """The report on one study; as :func:`privopt.lab.report_document.section` on a sweep."""
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
        tables=(_claims(judged), *(_listed(each, rows[each.part]) for each in show.listings)),
        facts={
            "rows": ", ".join(f"{len(found)} of {part}" for part, found in rows.items()),
            "command": f"privopt run {name} --profile {told['profile']}",
        },
        made_by=made_by(provenance),
    )


def _claims(judged: Sequence[Finding]) -> Table:
    rows = tuple(
        (f.claim, f"{f.held} of {f.rows}", str(f.target), Mark(f.outcome), f.detail) for f in judged
    )
    return Table("Claims", ("claim", "holds in rows", "claimed", "verdict", "detail"), rows)


def _listed(listing: Listing, rows: Sequence[Mapping[str, Any]]) -> Table:
    head = tuple(column.head for column in listing.columns)
    entries = (tuple(_entry(column, row) for column in listing.columns) for row in rows)
    return Table(listing.caption, head, tuple(entries))


def _entry(column: Column, row: Mapping[str, Any]) -> Entry:
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
