"""The report on a results folder: verdicts, figures, ``README.md`` and ``index.html``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from privopt.lab.make.folder import ResultsError, existing_results, write_file
from privopt.lab.make.records import Recorded, read, read_provenance, recorded_names
from privopt.lab.make.resume import Drawing, Progress
from privopt.lab.make.trials import Trial
from privopt.lab.show.claims import claim_verdicts
from privopt.lab.show.document import Picture, Section, document
from privopt.lab.show.figures import figures, narrow
from privopt.lab.show.markdown import markdown
from privopt.lab.show.pages import html
from privopt.lab.show.plots import plots
from privopt.lab.show.results import cell_results, refusals
from privopt.lab.show.sections import section
from privopt.lab.show.style import Origin
from privopt.lab.show.theorems import theorem_verdicts
from privopt.lab.show.verdict import Outcome, Verdict

__all__ = ["verdicts", "write_report"]


def verdicts(recorded: Recorded) -> list[Verdict]:
    """Every verdict on an experiment: on theorems of a sweep, on claims of a study."""
    if recorded.is_study:
        return claim_verdicts(recorded)
    cells = cell_results(recorded, tuple(Trial))
    return theorem_verdicts(cells, recorded.about["checks"], refusals(recorded))


def write_report(
    results: Path | str,
    *,
    judged: Mapping[str, Sequence[Verdict]] | None = None,
    redraw: bool = True,
    progress: Progress = lambda event: None,
) -> Path:
    """Judge every table of a results folder, draw its figures and write the report.

    Made from the tables alone: written again it is the same to the byte. What another run would
    change, date, machine and timings of ``provenance.json``, stands on the page only.

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

    Returns
    -------
    Path
        ``index.html``; it and ``README.md`` beside it link the figures.

    Raises
    ------
    ResultsError
        If the folder is not ours, holds no table, or a table cannot be read.
    """
    results = existing_results(results)
    names = recorded_names(results)
    if not names:
        raise ResultsError(f"{results} holds no table yet: run an experiment first")
    sections = []
    for number, name in enumerate(names, start=1):
        progress(Drawing(name, number, len(names)))
        sections.append(_section(results / name, (judged or {}).get(name), redraw))
    report = document(*_with_picture(results, sections, redraw))
    write_file(results / "README.md", markdown(report).encode())
    index = results / "index.html"
    write_file(index, html(report, results).encode())
    return index


def _section(folder: Path, judged: Sequence[Verdict] | None, redraw: bool) -> Section:
    recorded = read(folder)
    found = verdicts(recorded) if judged is None else judged
    origin = _origin(folder, redraw)
    if recorded.is_study:
        drawn = plots(recorded, folder, origin)
    else:
        drawn = figures(cell_results(recorded), folder, found, origin)
    declared = folder.parent.parent / "experiments" / f"{folder.name}.py"
    source = f"../experiments/{declared.name}" if declared.is_file() else ""
    return section(recorded, found, drawn, read_provenance(folder), source)


def _origin(folder: Path, redraw: bool) -> Origin:
    return Origin(hashlib.sha256((folder / "cells.parquet").read_bytes()).hexdigest(), redraw)


def _with_picture(
    results: Path, sections: Sequence[Section], redraw: bool
) -> tuple[list[Section], Picture | None]:
    """The sections, and of the one with most slopes that hold the figure, which moves to the top.

    Tests of code, whose law is known, come last. Among equals it is the first. There is none where
    no slope is judged.
    """
    found = [part for part in sections if part.pictures and _slopes(part.verdicts)]
    if not found:
        return list(sections), None
    best = max(
        found, key=lambda part: (not _tests_code(part), _slopes(part.verdicts, Outcome.HOLDS))
    )
    first, *others = best.pictures
    folder, method = results / best.name, first.stem.split("/")[1]
    cells = cell_results(read(folder))
    path = narrow(cells, method, folder, best.verdicts, _origin(folder, redraw))
    lead = replace(first, narrow=f"{best.name}/{path.stem}")
    moved = replace(best, pictures=tuple(others), leads=True)
    return [moved if part is best else part for part in sections], lead


def _slopes(judged: Sequence[Verdict], *outcomes: Outcome) -> int:
    """How many slopes are judged, or have one of these outcomes."""
    slopes = [verdict for verdict in judged if verdict.check == "slope"]
    return sum(not outcomes or verdict.outcome in outcomes for verdict in slopes)


def _tests_code(part: Section) -> bool:
    return any(verdict.check == "law" for verdict in part.verdicts)
