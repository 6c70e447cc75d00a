"""The report on a results folder: figures, ``README.md`` and ``index.html``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from privopt.lab.make.folder import ResultsError, existing_results, write_file
from privopt.lab.make.records import is_study, read_provenance, read_table, table_paths
from privopt.lab.make.resume import Drawing, Progress
from privopt.lab.show.claims import findings
from privopt.lab.show.document import Section, document, section, study_section
from privopt.lab.show.figures import figures
from privopt.lab.show.markdown import markdown
from privopt.lab.show.page import html
from privopt.lab.show.plots import plots
from privopt.lab.show.style import Origin
from privopt.lab.show.theorems import theorem_verdicts
from privopt.lab.show.verdict import Finding, Verdict

__all__ = ["verdicts", "write_report"]


def verdicts(table: pa.Table) -> list[Verdict | Finding]:
    """Every verdict on a table of either kind: on theorems of a sweep, on claims of a study."""
    return [*findings(table)] if is_study(table) else [*theorem_verdicts(table)]


def write_report(
    results: Path | str,
    *,
    judged: Mapping[str, Sequence[Verdict | Finding]] | None = None,
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
    tables = table_paths(results)
    if not tables:
        raise ResultsError(f"{results} holds no table yet: run an experiment first")
    sections = []
    for number, path in enumerate(tables, start=1):
        progress(Drawing(path.parent.name, number, len(tables)))
        sections.append(_section(path, (judged or {}).get(path.parent.name), redraw))
    report = document(sections)
    write_file(results / "README.md", markdown(report).encode())
    index = results / "index.html"
    write_file(index, html(report, results).encode())
    return index


def _section(path: Path, judged: Sequence[Verdict | Finding] | None, redraw: bool) -> Section:
    table, folder = read_table(path), path.parent
    found: Any = verdicts(table) if judged is None else judged
    origin = Origin(hashlib.sha256(path.read_bytes()).hexdigest(), redraw)
    made_by = read_provenance(folder)
    if is_study(table):
        return study_section(table, found, plots(table, folder, origin), made_by)
    return section(table, found, figures(table, folder, found, origin), made_by)
