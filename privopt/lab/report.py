"""The report on a results folder: figures, ``README.md`` and ``index.html``."""

from __future__ import annotations

from pathlib import Path

from privopt.lab.figure_plot import plots
from privopt.lab.figures import figures
from privopt.lab.folder import ResultsError, existing_results, write_file
from privopt.lab.records import is_study, read_table, read_timings, table_paths
from privopt.lab.report_document import Section, document, section
from privopt.lab.report_html import html
from privopt.lab.report_markdown import markdown
from privopt.lab.report_study import study_section
from privopt.lab.verdict import verdicts
from privopt.lab.verdict_claim import findings

__all__ = ["write_report"]


def write_report(results: Path | str) -> Path:
    """Judge every table of a results folder, draw its figures and write the report.

    Made from the tables (and, for the page, ``timings.json``) alone: written again it is the same
    to the byte.

    Parameters
    ----------
    results : path
        A folder made by :func:`privopt.lab.sweep`.

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
    report = document([_section(path) for path in tables])
    write_file(results / "README.md", markdown(report).encode())
    index = results / "index.html"
    write_file(index, html(report, results).encode())
    return index


def _section(path: Path) -> Section:
    table, folder = read_table(path), path.parent
    timings = read_timings(folder)
    if is_study(table):
        return study_section(table, findings(table), plots(table, folder), timings)
    judged = verdicts(table)
    return section(table, judged, figures(table, folder, judged), timings)
