"""A table of the report as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from privopt.lab.write.document import Entry, Row, Table

_SIGNS = {"good": "✓", "bad": "✗", "odd": "≡", "open": "?", "idle": "–"}
_MANY = 3
"""Columns that fit on a narrow screen."""


def html_table(table: Table, marks: Sequence[str] = ()) -> str:
    """Its note, and its rows, each with its attributes if they are told."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    marked = zip(table.rows, marks or [""] * len(table.rows), strict=True)
    rows = "\n".join(_row(row, table.head, mark) for row, mark in marked)
    wide = ' class="wide"' if len(table.head) > _MANY else ""
    note = f'<p class="note">{inline(table.note)}</p>\n' if table.note else ""
    return (
        f"{note}<table{wide}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _row(row: Row, head: tuple[str, ...], marks: str) -> str:
    first, *rest = (_entry(entry) for entry in row)
    cells = (
        f'<td data-label="{escape(name)}">{entry}</td>'
        for name, entry in zip(head[1:], rest, strict=True)
    )
    return f'<tr{marks}><th scope="row">{first}</th>{"".join(cells)}</tr>'


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return f"<span>{inline(entry)}</span>"
    text = inline(entry.text)
    if entry.link:
        text = f'<a href="#{escape(entry.link)}">{text}</a>'
    if entry.grade:
        sign = _SIGNS[entry.grade]
        text = f'<b class="mark {entry.grade}" title="{entry.outcome}">{sign} {text}</b>'
    note = f" <small>{inline(entry.note)}</small>" if entry.note else ""
    return f"<span>{text}{note}{_interval(entry)}</span>"


def _interval(entry: Entry) -> str:
    """The interval of a slope as a line, over the margin about the theorem's exponent."""
    if entry.place is None:
        return ""
    low, value, high = (min(max(end, -3.0), 3.0) for end in entry.place)
    return (
        '<svg class="interval" viewBox="-3 -0.5 6 1" aria-hidden="true">'
        '<rect x="-1" y="-0.5" width="2" height="1"/><path d="M0-.5V.5"/>'
        f'<path class="ends" d="M{low:.2f} 0H{high:.2f}"/><circle cx="{value:.2f}" r="0.22"/></svg>'
    )


def inline(text: str) -> str:
    """Escaped text with `code` and *emphasis*.

    A line may end after an underscore in a long name, and not within an option of a command.
    """
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    text = re.sub(r"(?<=\s)--[\w-]+", r'<span class="whole">\g<0></span>', text)
    text = re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", text)
    return re.sub(r"(?<=\w)([_/])(?=\w)", r"\1<wbr>", text)
