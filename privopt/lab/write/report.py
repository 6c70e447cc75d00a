"""The report on a results folder: verdicts, figures, ``index.html`` and every ``README.md``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from privopt.lab.draw.figures import figures, narrow
from privopt.lab.draw.plots import plots
from privopt.lab.draw.style import Origin
from privopt.lab.judge.results import cell_results, worse_than_nothing
from privopt.lab.judge.verdict import Kind, Verdict, tally
from privopt.lab.judge.verdicts import verdicts
from privopt.lab.make.catalogue import declared
from privopt.lab.make.folder import ResultsError, existing_results, write_file
from privopt.lab.make.records import read, read_provenance, recorded_names
from privopt.lab.make.resume import Drawing, Progress
from privopt.lab.write.document import Document, Picture, Section
from privopt.lab.write.markdown import experiment_page, markdown
from privopt.lab.write.overview import costs, verdict_tables
from privopt.lab.write.pages import html
from privopt.lab.write.sections import section

LEAD = "dp_gd"
"""The experiment whose figure stands on top of the report."""


def write_report(
    results: Path | str,
    *,
    judged: Mapping[str, Sequence[Verdict]] | None = None,
    redraw: bool = True,
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
    progress : callable, optional
        Told of every experiment.
    """
    results = existing_results(results)
    names = recorded_names(results)
    if not names:
        raise ResultsError(f"{results} holds no table yet: run an experiment first")
    sections, sources = [], _sources(results.parent)
    for number, name in enumerate(names, start=1):
        progress(Drawing(name, number, len(names)))
        sections.append(
            _section(results / name, (judged or {}).get(name), redraw, sources.get(name, ""))
        )
    judgements = [verdict for part in sections for verdict in part.verdicts]
    priced = [(part.name, row) for part in sections for row in part.costs]
    tables = (*verdict_tables(judgements), costs(priced))
    shown, picture = _with_picture(results, sections, redraw)
    report = Document(tally(judgements), picture, tuple(t for t in tables if t.rows), tuple(shown))
    write_file(results / "README.md", markdown(report).encode())
    for part in report.sections:
        write_file(results / part.name / "README.md", experiment_page(part).encode())
    index = results / "index.html"
    write_file(index, html(report, results).encode())
    return index


def _section(folder: Path, judged: Sequence[Verdict] | None, redraw: bool, source: str) -> Section:
    recorded = read(folder)
    found = verdicts(recorded) if judged is None else judged
    origin = _origin(folder, redraw)
    if recorded.is_study:
        drawn = plots(recorded, folder, origin)
    else:
        drawn = figures(cell_results(recorded), folder, found, origin)
    return section(recorded, found, drawn, read_provenance(folder), source)


def _sources(project: Path) -> dict[str, str]:
    """Where the experiments of a project are declared, as its results folder links them."""
    found = dict(declared(project / "experiments"))
    return {name: f"../{path.relative_to(project).as_posix()}" for name, path in found.items()}


def _origin(folder: Path, redraw: bool) -> Origin:
    return Origin(hashlib.sha256((folder / "cells.parquet").read_bytes()).hexdigest(), redraw)


def _with_picture(
    results: Path, sections: Sequence[Section], redraw: bool
) -> tuple[list[Section], Picture | None]:
    """The sections, and the figure that leads the report, which moves from its section to the top.

    It is that of ``LEAD``; where this is not there, the first whose exponents are judged and whose
    risks are below that of the public centre everywhere. A method that loses to doing nothing is no
    picture to begin with.
    """
    found = [part for part in sections if part.pictures and _judges(part)]
    named = [part for part in found if part.name == LEAD]
    for best in named or found:
        first, *others = best.pictures
        folder, method = results / best.name, first.stem.split("/")[1]
        cells = cell_results(read(folder))
        if named or not worse_than_nothing(cells):
            path = narrow(cells, method, folder, best.verdicts, _origin(folder, redraw))
            lead = replace(first, narrow=f"{best.name}/{path.stem}")
            moved = replace(best, pictures=tuple(others), leads=True)
            return [moved if part is best else part for part in sections], lead
    return list(sections), None


def _judges(part: Section) -> bool:
    return any(verdict.kind is Kind.EXPONENT for verdict in part.verdicts)
