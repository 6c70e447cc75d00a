"""The rows of a study that its tables list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import NamedTuple

from privopt.lab.draw.style import number, with_minus
from privopt.lab.judge.claims import Row, outcome, span
from privopt.lab.make.presentation import Column, Listing
from privopt.lab.make.records import Value
from privopt.lab.write.table import Entry, Table


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
        unit = Decimal(1).scaleb(-int(spec.strip(".f") or 0))
        sides = ((self.lower, ROUND_FLOOR), (self.upper, ROUND_CEILING))
        return " to ".join(
            str(Decimal(end).quantize(unit, side)) if math.isfinite(end) else number(end)
            for end, side in sides
        )
