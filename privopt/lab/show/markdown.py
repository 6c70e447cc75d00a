"""The report as Markdown, to be read in a repository browser."""

from __future__ import annotations

from collections.abc import Iterator

from privopt.lab.show.document import GUIDE, TITLE, Document, Entry, Mark, Section, Table
from privopt.lab.show.verdict import Outcome

__all__ = ["markdown"]

_SIGNS = {Outcome.HOLDS: "✅", Outcome.REFUTED: "❌", Outcome.UNDECIDED: "❔"}


def markdown(document: Document) -> str:
    """The whole report; pictures are linked relative to the results folder."""
    return "\n\n".join(_blocks(document)) + "\n"


def _blocks(document: Document) -> Iterator[str]:
    yield f"# {TITLE}"
    yield f"**{document.summary}.**"
    yield from map(_table, document.headlines)
    yield GUIDE
    yield "`privopt report` writes the same on one page, `index.html`, with machine and timings."
    for section in document.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    parts = section.description.strip().split("`")  # every second one is code
    yield "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))
    for picture in section.pictures:
        yield f"![{picture.text}]({picture.stem}.png)"
    for table in section.tables:
        yield f"### {table.caption}"
        yield _table(table)
    yield "### Settings"
    facts = {**section.facts, "command": f"`{section.facts['command']}`"}
    yield "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _table(table: Table) -> str:
    head = [_row(table.head), "|" + " --- |" * len(table.head)]
    return "\n".join([*head, *(_row(row) for row in table.rows)])


def _row(entries: tuple[Entry, ...]) -> str:
    return "| " + " | ".join(_entry(entry) for entry in entries) + " |"


def _entry(entry: Entry) -> str:
    if isinstance(entry, Mark):
        return f"{_SIGNS[entry.outcome]} {entry.text or entry.outcome}"
    return entry.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
