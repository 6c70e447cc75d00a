"""The report as one self-contained page: no script, no link outside, light and dark."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from privopt.lab.show.document import GUIDE, TITLE, Document, Entry, Mark, Section, Table
from privopt.lab.show.verdict import Outcome

__all__ = ["html"]

_STYLE = Path(__file__).with_name("report.css")
_SIGNS = {Outcome.HOLDS: "✓", Outcome.REFUTED: "✗", Outcome.UNDECIDED: "?"}


def html(document: Document, results: Path) -> str:
    """The whole report, with the pictures under ``results`` inside it."""
    return "\n".join(_page(document, results)) + "\n"


def _page(document: Document, results: Path) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>privopt: {escape(TITLE.lower())}</title>"
    yield f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<header>"
    yield f'<p class="name">privopt</p>\n<h1>{escape(TITLE)}</h1>'
    yield f'<p class="summary">{escape(document.summary)}</p>'
    links = (
        f'<a href="#{escape(part.name)}">{escape(part.title)}</a>' for part in document.sections
    )
    yield f"<nav>{' '.join(links)}</nav>\n</header>\n<main>"
    yield from (_table(table, linked=True) for table in document.headlines)
    yield f'<p class="guide">{_inline(GUIDE)}</p>'
    for section in document.sections:
        yield from _section(section, results)
    yield "</main>\n</body>\n</html>"


def _section(section: Section, results: Path) -> Iterator[str]:
    yield f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}</h2>'
    for paragraph in re.split(r"\n\s*\n", section.description.strip()):
        yield f"<p>{_inline(paragraph)}</p>"
    for picture in section.pictures:
        data = base64.b64encode((results / f"{picture.stem}.svg").read_bytes()).decode()
        source = f"data:image/svg+xml;base64,{data}"
        yield f'<figure><img src="{source}" alt="{escape(picture.text)}"></figure>'
    for table in section.tables:
        yield _table(table)
    yield "<h3>Settings</h3>"
    yield _facts({**section.facts, "command": f"`{section.facts['command']}`"})
    if section.made_by:
        yield "<details><summary>Environment and time</summary>"
        yield f"{_facts(section.made_by)}\n</details>"
    yield "</section>"


def _facts(facts: Mapping[str, str]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{_inline(value)}</dd>" for name, value in facts.items())
    return "<dl>\n" + "\n".join(items) + "\n</dl>"


def _table(table: Table, linked: bool = False) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = []
    for row in table.rows:
        first, *rest = (_entry(entry) for entry in row)
        first = f'<a href="#{first}">{first}</a>' if linked else first
        cells = "".join(f"<td>{entry}</td>" for entry in rest)
        rows.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table>\n<caption>{escape(table.caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody>\n</table></div>"
    )


def _entry(entry: Entry) -> str:
    if not isinstance(entry, Mark):
        return escape(entry)
    outcome, sign = entry.outcome, _SIGNS[entry.outcome]
    text = escape(entry.text) if entry.text else outcome
    return f'<span class="mark {outcome}" title="{outcome}">{sign} {text}</span>'


def _inline(text: str) -> str:
    """Escaped text with `code` and *emphasis*."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", text)
