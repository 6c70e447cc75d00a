"""The report on a results folder: verdicts, figures, ``README.md`` and ``index.html``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from privopt.lab.make.folder import ResultsError, existing_results, write_file
from privopt.lab.make.records import Recorded, read, read_provenance, recorded_names
from privopt.lab.make.resume import Drawing, Progress
from privopt.lab.make.trials import Trial
from privopt.lab.show.claims import claim_verdicts
from privopt.lab.show.document import Section, document
from privopt.lab.show.figures import figures
from privopt.lab.show.pages import html, markdown
from privopt.lab.show.plots import plots
from privopt.lab.show.results import cell_results, refusals
from privopt.lab.show.sections import section
from privopt.lab.show.style import Origin
from privopt.lab.show.theorems import theorem_verdicts
from privopt.lab.show.verdict import Verdict

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

    Made from the tables (and, for the page, ``provenance.json``) alone: written again it is the
    same to the byte.

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
        ``index.html``, self-contained; ``README.md`` beside it links the figures.

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
    report = document(sections)
    write_file(results / "README.md", markdown(report).encode())
    index = results / "index.html"
    write_file(index, html(report, results).encode())
    return index


def _section(folder: Path, judged: Sequence[Verdict] | None, redraw: bool) -> Section:
    recorded = read(folder)
    found = verdicts(recorded) if judged is None else judged
    origin = Origin(hashlib.sha256((folder / "cells.parquet").read_bytes()).hexdigest(), redraw)
    if recorded.is_study:
        drawn = plots(recorded, folder, origin)
    else:
        drawn = figures(cell_results(recorded), folder, found, origin)
    return section(recorded, found, drawn, read_provenance(folder))
