"""The report as one page, beside the pictures that it shows; all is there without its script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

from privopt.lab.judge.verdict import counts, measured_twice
from privopt.lab.write.document import Document, Entry, Picture, Row, Section, in_words
from privopt.lab.write.html_tables import html_table, inline
from privopt.lab.write.legend import FAMILIES, LEAD, LEGEND, TITLE

_STYLE = Path(__file__).with_name("report.css")
_SCRIPT = Path(__file__).with_name("report.js")


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
    yield f'<p class="what">{escape(LEAD)}</p>\n</div>\n<div class="pictures">'
    yield from (_picture(picture, results) for picture in document.pictures)
    yield '</div>\n<div class="told">'
    yield from _headline(document)
    yield '</div>\n</header>\n<main>\n<section id="-verdicts">\n<h2>Verdicts</h2>'
    yield _legend()
    yield from _tables(document)
    yield "</section>"
    for name, members in document.families.items():
        yield f'<section id="-{name}">\n<h2>{_family(name)}</h2>'
        yield f'<p class="note">{escape(FAMILIES.get(name, ""))}</p>'
        yield '<div class="experiments">'
        for section in members:
            yield from _section(section, results)
        yield "</div>\n</section>"
    script = _SCRIPT.read_text(encoding="utf-8")
    yield f"</main>\n<script>\n{script}</script>\n</body>\n</html>"


def _headline(document: Document) -> Iterator[str]:
    """How many verdicts there are of each kind, which are refuted, and what the page holds."""
    told = [escape(each) for each in counts(document.verdicts)] or ["Nothing was judged."]
    rows = (
        f'<a href="#{_place(*at)}">{escape(row[0].text)}</a>'
        for at, row in document.refuted.items()
        if isinstance(row[0], Entry)
    )
    told.append(f"Refuted: {', '.join(rows) or 'none'}")
    yield '<ul class="summary">' + "".join(f"<li>{each}</li>" for each in told) + "</ul>"
    yield f'<p class="note">{escape(measured_twice(document.verdicts))}</p>'
    links = [f'<a href="#-verdicts">Verdicts</a> {len(document.verdicts)}'] + [
        f'<a href="#-{name}">{_family(name)}</a> {len(members)}'
        for name, members in document.families.items()
    ]
    yield f'<nav aria-label="Contents">{" · ".join(links)}</nav>'


def _family(name: str) -> str:
    return escape(in_words(name)) if name else "Experiments"


def _legend() -> str:
    items = "\n".join(
        f"<div><dt>{escape(term)}</dt><dd>{inline(text)}</dd></div>" for term, text in LEGEND
    )
    told = "<summary>How to read the slopes</summary>"
    return f'<details class="legend">{told}\n<dl>\n{items}\n</dl>\n</details>'


def _tables(document: Document) -> Iterator[str]:
    """The tables over all experiments, folded, with what their rows are filtered by."""
    sections = {section.name: section for section in document.sections}
    for t, table in enumerate(document.tables):
        marks = []
        for r, row in enumerate(table.rows):
            name = f' id="{_place(t, r)}"' if (t, r) in document.refuted else ""
            marks.append(name + _marks(row, sections, table.outcome(row)))
        size = f"<small>{len(table.rows)} rows</small>"
        yield f'<details class="table">\n<summary><h3>{escape(table.caption)}</h3> {size}</summary>'
        yield f"{html_table(table, marks)}\n</details>"


def _place(table: int, row: int) -> str:
    return f"-row-{table}-{row}"


def _marks(row: Row, sections: Mapping[str, Section], outcome: str) -> str:
    """Of a row that leads to an experiment: of its method, where it names one; else none."""
    assert isinstance(row[0], Entry)
    if not row[0].link:
        return ""
    section = sections[row[0].link]
    methods = [row[0].method] if row[0].method in section.algorithms else section.algorithms
    return _filtered(section, (section.algorithms[method] for method in methods), [outcome])


def _filtered(section: Section, algorithms: Iterable[str], outcomes: Iterable[str]) -> str:
    told = {"family": [_family(section.family)], "algorithm": algorithms, "verdict": outcomes}
    each = ((name, "|".join(sorted({*values}))) for name, values in told.items())
    return "".join(f' data-{name}="{escape(values)}"' for name, values in each)


def _section(section: Section, results: Path) -> Iterator[str]:
    outcomes = (verdict.outcome for verdict in section.verdicts)
    marks = _filtered(section, section.algorithms.values(), outcomes)
    told = "; ".join(counts(section.verdicts))
    first, *others = (_picture(picture, results) for picture in section.pictures or (None,))
    yield f'<article id="{escape(section.name)}"{marks}>\n<h3>{escape(section.title)}</h3>'
    yield f'<p class="note">{escape(told)}</p>\n{first}'
    yield "<details>\n<summary>How it was measured</summary>"
    yield f'<p class="made">{" · ".join(_made(section))}</p>'
    for paragraph in re.split(r"\n\s*\n", section.description.strip()):
        yield f"<p>{inline(paragraph)}</p>"
    yield f'<p class="summary">{escape(section.summary)}</p>'
    yield from others
    for table in section.tables:
        yield f"<h4>{escape(table.caption)}</h4>\n{html_table(table)}"
    yield "<h4>Settings</h4>"
    where = ", ".join(f"{name} {fact}" for name, fact in section.environment.items())
    made = {**section.made_by, **({"environment": where} if where else {})}
    yield _facts({**section.facts, "command": f"`{section.command}`", **made})
    yield "</details>\n</article>"


def _made(section: Section) -> Iterator[str]:
    """Where it is declared, at which profile and when it was run."""
    path, link = section.source
    shown = inline(f"`{path or section.name}`")
    yield f'<a href="{escape(link)}">{shown}</a>' if link else shown
    yield f"{escape(section.facts['profile'])} profile"
    if "date" in section.made_by:
        yield escape(section.made_by["date"])


def _facts(facts: Mapping[str, str]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{inline(value)}</dd>" for name, value in facts.items())
    return '<dl class="facts">\n' + "\n".join(items) + "\n</dl>"


def _picture(picture: Picture | None, results: Path) -> str:
    if picture is None:
        return ""
    source = f"{escape(picture.stem)}{picture.suffix}"
    image = f'<img src="{source}" alt="{escape(picture.alt)}"{_size(results / source)}>'
    if picture.narrow:
        narrow = f"{escape(picture.narrow)}{picture.suffix}"
        size = _size(results / narrow)
        image = (
            f'<picture><source media="(max-width: 40rem)" srcset="{narrow}"{size}>{image}</picture>'
        )
    caption = f"<figcaption>{inline(picture.caption)}</figcaption>"
    return f'<figure><a href="{source}">{image}</a>{caption}</figure>'


def _size(path: Path) -> str:
    """Of a picture, so that the page does not move when it arrives."""
    if path.suffix == ".png":
        head = path.read_bytes()[16:24]
        return f' width="{int.from_bytes(head[:4])}" height="{int.from_bytes(head[4:])}"'
    found = re.search(r"<svg[^>]*>", path.read_text(encoding="utf-8"))
    sides = {
        side: re.search(rf'\b{side}="([\d.]+)pt"', found[0] if found else "")
        for side in ("width", "height")
    }
    told = (f' {side}="{float(at[1]) * 4 / 3:.0f}"' for side, at in sides.items() if at)
    return "".join(told)
