"""The report as one self-contained page, without scripts and links, and as Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from privopt.lab.show.document import GUIDE, TITLE, Document, Entry, Mark, Section, Table
from privopt.lab.show.verdict import Outcome

__all__ = ["html", "markdown"]

_STYLE = Path(__file__).with_name("report.css")
_SIGNS = {Outcome.HOLDS: "✓", Outcome.REFUTED: "✗", Outcome.UNDECIDED: "?"}
_MD_SIGNS = {Outcome.HOLDS: "✅", Outcome.REFUTED: "❌", Outcome.UNDECIDED: "❔"}


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


# --- Markdown ------------------------------------------------------------------------------------


def markdown(document: Document) -> str:
    """The whole report; pictures are linked relative to the results folder."""
    return "\n\n".join(_md_blocks(document)) + "\n"


def _md_blocks(document: Document) -> Iterator[str]:
    yield f"# {TITLE}"
    yield f"**{document.summary}.**"
    yield from map(_md_table, document.headlines)
    yield GUIDE
    yield "`privopt report` writes the same on one page, `index.html`, with machine and timings."
    for section in document.sections:
        yield from _md_section(section)


def _md_section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    parts = section.description.strip().split("`")  # every second one is code
    yield "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))
    for picture in section.pictures:
        yield f"![{picture.text}]({picture.stem}.png)"
    for table in section.tables:
        yield f"### {table.caption}"
        yield _md_table(table)
    yield "### Settings"
    facts = {**section.facts, "command": f"`{section.facts['command']}`"}
    yield "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _md_table(table: Table) -> str:
    head = [_md_row(table.head), "|" + " --- |" * len(table.head)]
    return "\n".join([*head, *(_md_row(row) for row in table.rows)])


def _md_row(entries: tuple[Entry, ...]) -> str:
    return "| " + " | ".join(_md_entry(entry) for entry in entries) + " |"


def _md_entry(entry: Entry) -> str:
    if isinstance(entry, Mark):
        return f"{_MD_SIGNS[entry.outcome]} {entry.text or entry.outcome}"
    return entry.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
