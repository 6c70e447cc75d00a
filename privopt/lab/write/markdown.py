"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from privopt.lab.judge.verdict import tally
from privopt.lab.write.document import Document, Entry, Picture, Row, Section, Table, in_words
from privopt.lab.write.legend import FAMILIES, LEAD, LEGEND, TITLE

_SIGNS = {"good": "✅", "bad": "❌", "odd": "⚠️", "open": "❔", "idle": "➖"}


def markdown(document: Document) -> str:
    """The report without the experiments, which have pages of their own, linked from here."""
    return "\n\n".join(_blocks(document)) + "\n"


def experiment_page(section: Section) -> str:
    """One experiment, for ``README.md`` beside its tables."""
    return "\n\n".join(_section(section)) + "\n"


def _blocks(document: Document) -> Iterator[str]:
    yield f"# {TITLE}"
    yield LEAD
    for picture in document.pictures:
        yield from _picture(picture, picture.stem)
    refuted = ", ".join(map(_entry, dict.fromkeys(row[0] for row in document.refuted.values())))
    yield f"**{tally(document.verdicts)}** Refuted: {refuted or 'none'}."
    yield "`privopt report` writes all on one page that can be searched, `index.html`."
    for name, members in document.families.items():
        yield f"## {in_words(name) or 'Experiments'}"
        yield from filter(None, [FAMILIES.get(name)])
        yield "\n".join(f"- {_link(each.name)}: {each.title}" for each in members)
    yield "## How to read the verdicts"
    yield "\n".join(f"- **{term}**: {text}" for term, text in LEGEND)
    for table in document.tables:
        yield from _table(table)


def _section(section: Section) -> Iterator[str]:
    yield f"# {section.title}"
    parts = section.description.strip().split("`")  # every second one is code
    yield "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))
    yield f"**{section.summary}** Every verdict stands in [the report](../README.md)."
    for picture in section.pictures:
        yield from _picture(picture, Path(picture.stem).name)
    for table in section.tables:
        yield from _table(table)
    yield "## Settings"
    facts = [f"{name}: {value}" for name, value in section.facts.items()]
    facts.append(f"command: `{section.command}`")
    path, link = section.source
    if path:
        facts.append(f"declared in [{path}](../{link})")
    yield "\n".join(f"- {fact}" for fact in facts)


def _picture(picture: Picture, stem: str) -> Iterator[str]:
    alt = picture.alt.replace("[", "(").replace("]", ")")  # brackets end the text of a link
    yield f"![{alt}]({stem}.png)"
    yield f"*{_plain(picture.caption)}*"


def _link(name: str, text: str = "") -> str:
    return f"[{text or in_words(name)}]({name}/README.md)"


def _table(table: Table) -> Iterator[str]:
    yield f"## {table.caption}"
    if table.note:
        yield table.note
    lines = [_line(table.head), "|" + " --- |" * len(table.head), *map(_line, table.rows)]
    yield "\n".join(lines)


def _line(row: Row) -> str:
    return "| " + " | ".join(map(_entry, row)) + " |"


def _entry(entry: Entry | str) -> str:
    if isinstance(entry, str):
        return _plain(entry)
    text = _link(entry.link, _plain(entry.text)) if entry.link else _plain(entry.text)
    sign = _SIGNS.get(entry.grade, "")
    return f"{sign} {text}".strip() + (f"<br>{_plain(entry.note)}" if entry.note else "")


def _plain(text: str) -> str:
    """With what Markdown would read as its own."""
    for sign, shown in {"\\": "\\\\", "|": "\\|", "*": "\\*", "<": "&lt;"}.items():
        text = text.replace(sign, shown)
    return text
