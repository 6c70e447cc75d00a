"""The report on a results folder: figures, pages, ``verdicts.csv`` and ``index.html``."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from privopt.lab.evaluation.cells import cell_results, grouped
from privopt.lab.evaluation.slopes import DRIFT, MIN_POWER, OFFSETS
from privopt.lab.evaluation.sweep import MARGIN
from privopt.lab.evaluation.verdict import (
    ORACLE_TUNED,
    Outcome,
    Verdict,
    counts,
    tally,
    twin_summary,
)
from privopt.lab.evaluation.verdicts import ALPHA, verdicts, write_verdicts
from privopt.lab.plotting.notation import in_words, paper_name
from privopt.lab.plotting.recorded import analysis_figures, sweep_figures
from privopt.lab.report.answers import (
    Series,
    attack_card,
    best_method_card,
    chart_series,
    exponent_card,
    list_by_experiment,
)
from privopt.lab.report.sections import Picture, Section, make_section
from privopt.lab.report.tables import (
    audit_ratio,
    audit_table,
    cost_table,
    read_audits,
    verdict_tables,
)
from privopt.lab.runner.analysis import Analysis
from privopt.lab.runner.catalogue import Declarations, experiments_of
from privopt.lab.runner.cells import BEND
from privopt.lab.runner.experiment import Experiment
from privopt.lab.runner.store import (
    existing_results,
    read_provenance,
    recorded_names,
    write_file,
)
from privopt.lab.runner.work import Drawing, Progress

COMPARED = "compare_logistic"
"""Name of the figure of ``privopt compare`` at the top of a report, if the folder contains it."""

_COMPARISON = Picture(
    COMPARED,
    "Excess risk of nine methods on synthetic logistic regression against ε. All methods are "
    "(ε, 10⁻⁶)-differentially private under replace-one, with hyperparameters set by theory. Made "
    "by `privopt compare logistic --axis epsilon --n 2000 --dim 20`.",
    "Excess risk of nine methods along epsilon from 0.25 to 4 and of the zero predictor; each line "
    "is labelled with its risk at epsilon 4",
)
_AUDITS = "audits/audits"

FAMILIES = {
    "first_order": "Iterative methods with noisy gradients: all data, batches, one pass.",
    "one_shot": "One solution and one noise: output, objective and exponential mechanism.",
    "streams": "Streaming records, and noise that is correlated over time.",
    "sparse": "Records with few nonzero coordinates.",
    "accounting": "Accountants on the same mechanism.",
    "compared": "Several methods on the same data.",
}
"""The folders of experiments in the order of the report, with a description."""

_SIGNS = {"good": "✅", "bad": "❌", "odd": "⚠️", "open": "❔", "idle": "➖"}
_HTML_SIGNS = {"good": "✓", "bad": "✗", "odd": "≡", "open": "?", "idle": "–"}
_MARKDOWN_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "*": "\\*", "<": "&lt;"})


def write_report(
    results: Path | str,
    *,
    judged: Mapping[str, Sequence[Verdict]] | None = None,
    redraw: bool = True,
    experiments: Path | str | Iterable[Experiment | Analysis] | None = None,
    progress: Progress = lambda event: None,
) -> Path:
    """Evaluate every table of a results folder, draw its figures and write the report.

    The report depends on the tables only; a second call writes the same bytes. Date, machine and
    timings of ``provenance.json`` are only in ``index.html``. That file is returned. It contains
    its figures, so it can be sent alone. ``README.md`` has the verdicts with links to the page of
    every experiment; ``verdicts.csv`` has a row per verdict.

    Parameters
    ----------
    results : path
        A folder made by :func:`privopt.lab.run`.
    judged : mapping of str to sequence of verdicts, optional
        Verdicts by experiment, if they are already computed.
    redraw : bool
        False keeps the figures that were drawn from the same table.
    experiments : path or iterable of Experiment and Analysis, optional
        The declarations, which contain titles, claims and figures, or their folder, to which the
        pages link. Default: ``experiments`` beside ``results``, or in the working directory.
    progress : callable, optional
        Function that receives an event for every experiment.
    """
    results = existing_results(results)
    names = recorded_names(results)
    declared = Declarations(experiments or experiments_of(results))
    sections, every = [], []
    for k, name in enumerate(names, start=1):
        progress(Drawing(name, k, len(names)))
        recorded = declared.read(results / name)
        declaration = declared.get(name)
        if declaration is not None:
            texts = {"title": declaration.title, "description": declaration.description}
            recorded = recorded._replace(about={**recorded.about, **texts})
        conclusions = (judged or {}).get(name)
        if conclusions is None:
            conclusions = verdicts(recorded)
        digest = hashlib.sha256((results / name / "cells.parquet").read_bytes()).hexdigest()
        options: dict[str, Any] = {"source": digest, "redraw": redraw}
        if recorded.is_analysis:
            figures = analysis_figures(recorded, results / name, **options)
        else:
            cells = cell_results(recorded)
            figures = sweep_figures(cells, results / name, conclusions, **options)
        provenance = read_provenance(results / name)
        source = _source(declared.paths.get(name), declared.folder, results)
        sections.append(make_section(recorded, conclusions, figures, provenance, *source))
        every.append(recorded)
    series = chart_series(every)
    content = _content(results, sections, series)
    _write(results / "README.md", "overview.md", **content)
    for section in sections:
        _write(results / section["name"] / "README.md", "experiment.md", section=section)
    write_verdicts(results, content["verdicts"])
    index = results / "index.html"
    images = {
        picture.stem: _data_uri(results / f"{picture.stem}.png")
        for section in sections
        for picture in section["pictures"]
    }
    _write(index, "index.html", images=images, series=series, **content)
    return index


def _content(
    results: Path, sections: Sequence[Section], series: Sequence[Series]
) -> dict[str, Any]:
    """Return the content that ``README.md`` and ``index.html`` share."""
    every = [verdict for section in sections for verdict in section["verdicts"]]
    audits = read_audits(results)
    costs = [row for section in sections for row in section["costs"]]
    tables = [*verdict_tables(every), *([audit_table(audits)] if audits else []), cost_table(costs)]
    cards = best_method_card(series), exponent_card(every), attack_card(audits)
    pictures = [_COMPARISON] if (results / f"{COMPARED}.png").is_file() else []
    if audits and (results / f"{_AUDITS}.png").is_file():
        ratios = ", ".join(f"{paper_name(str(a['name']))} {audit_ratio(a):.2f}" for a in audits)
        text = (
            "Attacks on complete algorithms and on single mechanisms: a certified lower bound on "
            "the separation of the output laws of two neighbours, divided by the guarantee."
        )
        pictures.append(Picture(_AUDITS, text, ratios))
    families = grouped(sections, lambda section: section["family"])
    order = [*FAMILIES, *sorted(families.keys() - FAMILIES.keys() - {""}), ""]
    return {
        "verdicts": every,
        "cards": [card for card in cards if card is not None],
        "refuted": list_by_experiment(v for v in every if v.outcome is Outcome.REFUTED),
        "tables": [table for table in tables if table.rows],
        "pictures": pictures,
        "families": {name: families[name] for name in order if name in families},
        "sections": {section["name"]: section for section in sections},
        "counts": counts(every),
        "tally": tally(every),
        "twin_summary": twin_summary(every),
    }


def _source(path: Path | None, folder: Path, results: Path) -> tuple[str, str]:
    """Return the file that declares an experiment, and the link to it from the report."""
    if path is None:
        return "", ""
    return path.relative_to(folder.parent).as_posix(), Path(
        os.path.relpath(path, results)
    ).as_posix()


# --- templates ------------------------------------------------------------------------------------


def _write(path: Path, template: str, **content: Any) -> None:
    text = _environment(is_html=template.endswith(".html")).get_template(template).render(content)
    write_file(path, (re.sub(r"\n{3,}", "\n\n", text).strip() + "\n").encode())


def _environment(*, is_html: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "inline": _inline, "plain": _plain, "words": in_words, "marks": _marks,
        "basename": lambda stem: stem.rpartition("/")[2],
        "paragraphs": lambda text: re.split(r"\n\s*\n", text.strip()),
        "escape_text": _escape_text,
    }  # fmt: skip
    environment.globals |= {
        "signs": _HTML_SIGNS if is_html else _SIGNS, "family_texts": FAMILIES, "margin": MARGIN,
        "alpha": ALPHA, "bend": BEND, "offsets": OFFSETS, "drift": DRIFT, "tuned": ORACLE_TUNED,
        "min_power": MIN_POWER,
    }  # fmt: skip
    return environment


def _inline(text: str) -> Markup:
    """Convert text with `code` and *emphasis* to HTML; names may break after an underscore."""
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    html = re.sub(r"(?<=\s)--[\w-]+", r'<span class="whole">\g<0></span>', html)
    html = re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", html)
    return Markup(re.sub(r"(?<=\w)([_/])(?=\w)", r"\1<wbr>", html))


def _plain(text: str) -> str:
    """Return the text with Markdown escapes."""
    return text.translate(_MARKDOWN_ESCAPES)


def _escape_text(text: str) -> str:
    """Return Markdown text with escaped angle brackets outside code."""
    parts = text.strip().split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


def _marks(section: Section, outcomes: Sequence[str], method: str = "") -> Markup:
    """Return the attributes by which the page filters a row or an experiment."""
    by_method = section["algorithms"]
    algorithms = [by_method[method]] if method in by_method else list(by_method.values())
    family = in_words(section["family"]) if section["family"] else "Experiments"
    fields = {"family": [family], "algorithm": algorithms, "verdict": list(outcomes)}
    return Markup("").join(
        Markup(' data-{}="{}"').format(name, "|".join(sorted({*map(str, values)})))
        for name, values in fields.items()
    )


def _data_uri(path: Path) -> dict[str, object]:
    """Return a PNG as a data URI with its width and height."""
    data = path.read_bytes()
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    uri = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return {"uri": uri, "width": width, "height": height}
