"""Result pages of the book: the ``README.md`` of each experiment in ``results/``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from _ext.files import write_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RESULTS = Path(__file__).parents[2] / "results"
TABLES = "## Exponents"
LEGEND = "## How to read the verdicts"
FAMILY = re.compile(r"^## (.+?)\n\n(.+?)\n\n((?:- .+\n?)+)", re.MULTILINE)
EXPERIMENT = re.compile(r"^- \[(.+?)\]\((\w+)/README\.md\): (.+)$", re.MULTILINE)
CHARACTERS = str.maketrans({"✅": "✓", "❌": "✗", "⚠": "!", "️": "", "❔": "?", "➖": "–"})
"""Replacements for emoji, which many fonts lack."""


def experiment_page(name: str) -> str:
    """Return the page of one experiment. Its pictures stay in ``results/``."""
    text = (RESULTS / name / "README.md").read_text(encoding="utf-8")
    text = text.replace("](../README.md)", "](verdicts.md)")
    text = re.sub(r"\[([^\]]+)\]\(\.\./\.\./[^)]+\)", r"`\1`", text)  # source files
    return re.sub(r"\]\((\w+\.png)\)", rf"](../../results/{name}/\1)", text)


def links_to_pages(text: str) -> str:
    """Replace the paths of links in the report by the pages of the book."""
    text = re.sub(r"\]\((\w+)/README\.md\)", r"](\1.md)", text)
    return re.sub(r"\]\(([\w/]+\.png)\)", r"](../../results/\1)", text)


def family_page(title: str, description: str, experiments: str) -> str:
    """Return the page of a family of experiments, with a table of them."""
    members = EXPERIMENT.findall(experiments)
    rows = "\n".join(f"| [{short}]({name}.md) | {line} |" for short, name, line in members)
    tree = "\n".join(f"{short} <{name}>" for short, name, _ in members)
    return (
        f"# {title}\n\n{description}\n\n| experiment | title |\n| --- | --- |\n{rows}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def family_name(title: str) -> str:
    """Return the file name of the page of a family."""
    return f"family_{title.lower().replace(' ', '_')}"


def pages() -> dict[str, str]:
    """Return the text of every page, by name: overview, verdicts, families and experiments."""
    report = (RESULTS / "README.md").read_text(encoding="utf-8")
    start, tables = report.split(TABLES, 1)
    overview = re.sub(r"\A# .+", "# Results", start.split(LEGEND, 1)[0])
    overview = re.sub(
        r"^`privopt report` writes .+$",
        "[All verdicts](verdicts.md) in tables; [how to read a verdict](../guide/verdicts.md).",
        overview,
        flags=re.MULTILINE,
    )
    families = {family_name(match[1]): match.groups() for match in FAMILY.finditer(overview)}
    overview = FAMILY.sub(
        lambda match: f"- [{match[1]}]({family_name(match[1])}.md): {match[2]}", overview
    )
    tree = "\n".join([*families, "verdicts"])
    return {
        "index": links_to_pages(f"{overview}\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"),
        "verdicts": links_to_pages(
            f"# All verdicts\n\n[How to read a verdict](../guide/verdicts.md).\n\n{TABLES}{tables}"
        ),
        **{name: family_page(*parts) for name, parts in families.items()},
        **{name: experiment_page(name) for _, name, _ in EXPERIMENT.findall(start)},
    }


def write(app: Sphinx) -> None:
    """Write the pages before Sphinx searches for source files."""
    files = {f"{name}.md": text.translate(CHARACTERS) for name, text in pages().items()}
    write_files(Path(app.srcdir) / "results", files)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
