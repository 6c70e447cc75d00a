"""The report on a results folder: verdicts, figures, ``index.html`` and every ``README.md``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from privopt.lab.draw.figures import figures, narrow
from privopt.lab.draw.plots import plots
from privopt.lab.draw.style import Origin
from privopt.lab.judge.results import cell_results, left_of_zero
from privopt.lab.judge.verdict import Kind, Outcome, Verdict, twins
from privopt.lab.judge.verdicts import verdicts
from privopt.lab.make.catalogue import declared
from privopt.lab.make.store import (
    ResultsError,
    existing_results,
    read,
    read_provenance,
    recorded_names,
    write_file,
)
from privopt.lab.make.work import Drawing, Progress
from privopt.lab.write.audits import audits
from privopt.lab.write.captions import of_lead
from privopt.lab.write.document import NO_SOURCE, Document, Picture, Section, Source
from privopt.lab.write.legend import COMPARISON
from privopt.lab.write.markdown import experiment_page, markdown
from privopt.lab.write.overview import costs, verdict_tables
from privopt.lab.write.pages import html
from privopt.lab.write.sections import section

COMPARED = "compare_logistic"
"""The picture on top of a report, where its folder holds one."""


def write_report(
    results: Path | str,
    *,
    judged: Mapping[str, Sequence[Verdict]] | None = None,
    redraw: bool = True,
    experiments: Path | str | None = None,
    progress: Progress = lambda event: None,
) -> Path:
    """Judge every table of a results folder, draw its figures and write the report.

    Made from the tables alone: written again it is the same to the byte. What another run would
    change, date, machine and timings of ``provenance.json``, stands on the page only. That page,
    ``index.html``, is returned; beside it ``README.md`` has the verdicts, and leads to that of
    every experiment in its folder.

    Parameters
    ----------
    results : path
        A folder made by :func:`privopt.lab.make.run`.
    judged : mapping of str to sequence of verdicts, optional
        By experiment, where they are at hand already.
    redraw : bool
        Whether to draw also the figures that were drawn from the very same table.
    experiments : path, optional
        The folder in which the experiments are declared, to which the report links. By default
        ``experiments`` beside ``results``.
    progress : callable, optional
        Told of every experiment.
    """
    results = existing_results(results)
    names = recorded_names(results)
    if not names:
        raise ResultsError(f"{results} holds no table yet: run an experiment first")
    sections, sources = [], _sources(results, Path(experiments or results.parent / "experiments"))
    for number, name in enumerate(names, start=1):
        progress(Drawing(name, number, len(names)))
        source = sources.get(name, NO_SOURCE)
        sections.append(_section(results / name, (judged or {}).get(name), redraw, source))
    judgements = [verdict for part in sections for verdict in part.verdicts]
    priced = [(part.name, row) for part in sections for row in part.costs]
    attacked, found = audits(results)
    tables = (*verdict_tables(judgements), *found, costs(priced))
    pictures = (*_comparison(results), *_leading(results, sections, redraw), *attacked)
    report = Document(pictures, tuple(t for t in tables if t.rows), tuple(sections))
    write_file(results / "README.md", markdown(report).encode())
    for part in report.sections:
        write_file(results / part.name / "README.md", experiment_page(part).encode())
    index = results / "index.html"
    write_file(index, html(report, results).encode())
    return index


def _section(
    folder: Path, judged: Sequence[Verdict] | None, redraw: bool, source: Source
) -> Section:
    recorded = read(folder)
    found = verdicts(recorded) if judged is None else judged
    origin = _origin(folder, redraw)
    if recorded.is_study:
        drawn = plots(recorded, folder, origin)
    else:
        drawn = figures(cell_results(recorded), folder, found, origin)
    return section(recorded, found, drawn, read_provenance(folder), source)


def _sources(results: Path, experiments: Path) -> dict[str, Source]:
    """Return where the experiments of a folder are declared, by name."""
    return {
        name: Source(
            path.relative_to(experiments.parent).as_posix(),
            Path(os.path.relpath(path, results)).as_posix(),
        )
        for name, path in declared(experiments)
    }


def _origin(folder: Path, redraw: bool) -> Origin:
    return Origin(hashlib.sha256((folder / "cells.parquet").read_bytes()).hexdigest(), redraw)


def _comparison(results: Path) -> list[Picture]:
    """All methods on one problem, the figure of ``privopt compare``, where it is there."""
    wide, narrow = (f"{COMPARED}{form}" for form in ("", "_narrow"))
    there = [stem for stem in (wide, narrow) if (results / f"{stem}.png").is_file()]
    phone = narrow if narrow in there else ""
    return [Picture(wide, *COMPARISON, suffix=".png", narrow=phone)] if wide in there else []


def _leading(results: Path, sections: Sequence[Section], redraw: bool) -> list[Picture]:
    """The figure of a verdict that leads the report: of a method that beats the zero predictor.

    Of the private experiments whose exponents all hold it is the one that leaves the least of the
    zero predictor's risk at its worst setting, with the numbers of theory and with the best of a
    grid. Where no such experiment beats the zero predictor everywhere, there is no such figure: a
    method that loses to doing nothing is no picture to begin with.
    """
    ranked = []
    for part in filter(_holds, sections):
        cells = [cell for cell in cell_results(read(results / part.name)) if cell.axes]
        if shares := left_of_zero(cells):
            worst = max(shares) if all(share < 1.0 for share in shares) else 1.0
            ranked += [(worst, part, cells)] if all(cell.private for cell in cells) else []
    share, best, cells = min(ranked, key=lambda each: each[0], default=(1.0, None, []))
    if best is None or share >= 1.0:
        return []
    judged, folder = next(filter(_is_exponent, best.verdicts)).method, results / best.name
    method = twins(best.verdicts).get(judged, judged)
    first = next(each for each in best.pictures if each.stem == f"{best.name}/{method}")
    path = narrow(cells, method, folder, best.verdicts, _origin(folder, redraw))
    caption = f"{first.caption} {of_lead(cells, share, len(ranked))}"
    return [replace(first, caption=caption, narrow=f"{best.name}/{path.stem}")]


def _holds(part: Section) -> bool:
    """Whether the exponents of an experiment are judged, and all hold."""
    return {v.outcome for v in part.verdicts if _is_exponent(v)} == {Outcome.HOLDS}


def _is_exponent(verdict: Verdict) -> bool:
    return verdict.kind is Kind.EXPONENT
