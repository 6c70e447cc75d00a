"""The report as one page, beside the pictures that it shows. Its script sorts tables, no more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from privopt.lab.write.document import Document, Entry, Picture, Row, Section, Table
from privopt.lab.write.legend import LEAD, LEGEND, TITLE

_STYLE = Path(__file__).with_name("report.css")
_SCRIPT = Path(__file__).with_name("report.js")
_SIGNS = {"good": "✓", "bad": "✗", "odd": "≡", "open": "?", "idle": "–"}
_MANY = 4
"""Columns that a narrow screen has room for."""


def html(document: Document, results: Path) -> str:
    """The whole report; pictures are linked relative to ``results``, which they are read from."""
    return "\n".join(_page(document, results)) + "\n"


def _page(document: Document, results: Path) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>privopt: {escape(TITLE.lower())}</title>"
    yield f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<header>"
    yield f'<div class="lead">\n<p class="name">privopt</p>\n<h1>{escape(TITLE)}</h1>'
    yield f'<p class="what">{escape(LEAD)}</p>'
    yield f'<p class="summary">{escape(document.summary)}</p>\n</div>'
    if document.picture is not None:
        yield _picture(document.picture, results)
    yield "</header>\n<main>"
    yield _legend()
    yield from (_table(table, "h2") for table in document.tables)
    for section in document.sections:
        yield from _section(section, results)
    script = _SCRIPT.read_text(encoding="utf-8")
    yield f"</main>\n<script>\n{script}</script>\n</body>\n</html>"


def _legend() -> str:
    items = "\n".join(
        f"<div><dt>{escape(term)}</dt><dd>{_inline(text)}</dd></div>" for term, text in LEGEND
    )
    told = "<summary>How to read the slopes</summary>"
    return f'<details class="legend" open>{told}\n<dl>\n{items}\n</dl>\n</details>'


def _section(section: Section, results: Path) -> Iterator[str]:
    yield f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}</h2>'
    yield f'<p class="made">{" · ".join(_made(section))}</p>'
    for paragraph in re.split(r"\n\s*\n", section.description.strip()):
        yield f"<p>{_inline(paragraph)}</p>"
    yield f'<p class="summary">{escape(section.summary)}</p>'
    if section.leads:
        yield '<p>Its figure stands <a href="#">at the top of this page</a>.</p>'
    yield from (_picture(picture, results) for picture in section.pictures)
    captions = ", ".join(table.caption for table in section.tables)
    yield f"<details>\n<summary>{escape(captions)}, Settings</summary>"
    yield from (_table(table, "h3") for table in section.tables)
    yield "<h3>Settings</h3>"
    where = ", ".join(f"{name} {fact}" for name, fact in section.environment.items())
    made = {**section.made_by, **({"environment": where} if where else {})}
    yield _facts({**section.facts, "command": f"`{section.command}`", **made})
    yield "</details>\n</section>"


def _made(section: Section) -> Iterator[str]:
    """Where it is declared, at which profile and when it was run."""
    shown = escape(section.source.removeprefix("../"))
    name = f"<code>{escape(section.name)}</code>"
    yield f'<a href="{escape(section.source)}"><code>{shown}</code></a>' if shown else name
    yield f"{escape(section.facts['profile'])} profile"
    if "date" in section.made_by:
        yield escape(section.made_by["date"])


def _facts(facts: Mapping[str, str]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{_inline(value)}</dd>" for name, value in facts.items())
    return '<dl class="facts">\n' + "\n".join(items) + "\n</dl>"


def _picture(picture: Picture, results: Path) -> str:
    source = f"{escape(picture.stem)}.svg"
    image = f'<img src="{source}" alt="{escape(picture.alt)}"{_size(results / source)}>'
    if picture.narrow:
        narrow = f"{escape(picture.narrow)}.svg"
        size = _size(results / narrow)
        image = (
            f'<picture><source media="(max-width: 40rem)" srcset="{narrow}"{size}>{image}</picture>'
        )
    caption = f"<figcaption>{_inline(picture.caption)}</figcaption>"
    return f'<figure><a href="{source}">{image}</a>{caption}</figure>'


def _size(path: Path) -> str:
    """Of a picture, so that the page does not move when it arrives."""
    found = re.search(r"<svg[^>]*>", path.read_text(encoding="utf-8"))
    sides = {
        side: re.search(rf'\b{side}="([\d.]+)pt"', found[0] if found else "")
        for side in ("width", "height")
    }
    told = (f' {side}="{float(at[1]) * 4 / 3:.0f}"' for side, at in sides.items() if at)
    return "".join(told)


# --- tables ---------------------------------------------------------------------------------------


def _table(table: Table, level: str) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = "\n".join(_row(row, table.head) for row in table.rows)
    wide = ' class="wide"' if len(table.head) > _MANY else ""
    note = f'\n<p class="note">{_inline(table.note)}</p>' if table.note else ""
    return (
        f"<{level}>{escape(table.caption)}</{level}>{note}\n<table{wide}>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    )


def _row(row: Row, head: tuple[str, ...]) -> str:
    first, *rest = (_entry(entry) for entry in row)
    cells = (
        f'<td data-label="{escape(name)}">{entry}</td>'
        for name, entry in zip(head[1:], rest, strict=True)
    )
    return f'<tr><th scope="row">{first}</th>{"".join(cells)}</tr>'


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return f"<span>{_inline(entry)}</span>"
    text = escape(entry.text)
    if entry.link:
        text = f'<a href="#{escape(entry.link)}">{text}</a>'
    if entry.grade:
        sign = _SIGNS[entry.grade]
        text = f'<b class="mark {entry.grade}" title="{entry.outcome}">{sign} {text}</b>'
    note = f" <small>{escape(entry.note)}</small>" if entry.note else ""
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


def _inline(text: str) -> str:
    """Escaped text with `code` and *emphasis*."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", text)
