"""One page a plate: the README that `privopt report` wrote beside its tables, in the book."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RESULTS = Path(__file__).parents[2] / "results"
TABLES = "## Exponents"
LEGEND = "## How to read the verdicts"
FAMILY = re.compile(r"^## (.+?)\n\n(.+?)\n\n((?:- .+\n?)+)", re.MULTILINE)
MEMBER = re.compile(r"^- \[(.+?)\]\((\w+)/README\.md\): (.+)$", re.MULTILINE)


SIGNS = str.maketrans({"✅": "✓", "❌": "✗", "⚠": "!", "️": "", "❔": "?", "➖": "–"})
"""What every font has in place of the report's signs."""


def plate(name: str) -> str:
    """The page of one plate; its pictures stay where they are."""
    text = (RESULTS / name / "README.md").read_text(encoding="utf-8")
    text = text.replace("](../README.md)", "](verdicts.md)")
    text = re.sub(r"\[([^\]]+)\]\(\.\./\.\./[^)]+\)", r"`\1`", text)  # a file beside the book
    return re.sub(r"\]\((\w+\.png)\)", rf"](../../results/{name}/\1)", text)


def within(text: str) -> str:
    """Part of the report, whose links lead to pages of the book."""
    text = re.sub(r"\]\((\w+)/README\.md\)", r"](\1.md)", text)
    return re.sub(r"\]\(([\w/]+\.png)\)", r"](../../results/\1)", text)


def family(title: str, about: str, listed: str) -> str:
    """The page of a family: what it is about, and its plates."""
    rows = "\n".join(f"| [{n}]({file}.md) | {said} |" for n, file, said in MEMBER.findall(listed))
    tree = "\n".join(f"{short} <{file}>" for short, file, _ in MEMBER.findall(listed))
    return (
        f"# {title}\n\n{about}\n\n| plate | what it says |\n| --- | --- |\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def file_of(title: str) -> str:
    """Under which name the page of a family stands."""
    return f"family_{title.lower().replace(' ', '_')}"


def pages() -> dict[str, str]:
    """Every page by the name of its file: the overview, all verdicts, and the plates."""
    report = (RESULTS / "README.md").read_text(encoding="utf-8")
    start, tables = report.split(TABLES, 1)
    overview = start.split(LEGEND, 1)[0].replace("# Measured against the theorem", "# Plates", 1)
    overview = overview.replace(
        "`privopt report` writes `index.html`, one file with all figures, a chart and a search, "
        "and `verdicts.csv`.",
        "[All verdicts](verdicts.md) in tables; [how to read them](../reading.md).",
    )
    families = {file_of(found[1]): found.groups() for found in FAMILY.finditer(overview)}
    overview = FAMILY.sub(
        lambda found: f"- [{found[1]}]({file_of(found[1])}.md): {found[2]}", overview
    )
    tree = "\n".join([*families, "verdicts"])
    verdicts = f"# All verdicts\n\n[How to read them](../reading.md).\n\n{TABLES}{tables}"
    return {
        "index": within(f"{overview}\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"),
        "verdicts": within(verdicts),
        **{name: family(*parts) for name, parts in families.items()},
        **{name: plate(name) for _, name, _ in MEMBER.findall(start)},
    }


def write(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them; one that is as it was is left alone."""
    folder = Path(app.srcdir) / "plates"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        text = text.translate(SIGNS)
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
