"""Figures of a results folder: those of a sweep, and those that an analysis declares."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from privopt.arguments import member
from privopt.lab.evaluation.cells import CellResult, grouped, swept_axes
from privopt.lab.evaluation.verdict import Verdict, flatten_twins, twins
from privopt.lab.plotting import style
from privopt.lab.plotting.curve_figures import curve_figure
from privopt.lab.plotting.heatmaps import grid_cells, grid_figure
from privopt.lab.plotting.panels import describe, draw
from privopt.lab.plotting.style import STYLE
from privopt.lab.runner.analysis import MissingPartError, frames, required
from privopt.lab.runner.store import Recorded

COMPARED = "compared"
"""Name of the figure of the methods without a separate figure."""

_PAPER_WIDTH = 6.75  # inches, two columns of a paper


def sweep_figures(
    cells: Sequence[CellResult],
    folder: Path,
    verdicts: Sequence[Verdict],
    source: str = "",
    *,
    redraw: bool = True,
) -> list[Path]:
    """Draw the figures of a sweep as PNG files and return their paths.

    A method with slope verdicts has the figure ``<method>.png``, which also shows the
    oracle-tuned twin. The other methods are in ``compared.png``; a single one has its own figure. A
    grid of two axes has the figure ``grid_<axis>_<axis>.png``.
    """
    figures = {
        name: partial(
            curve_figure, members, verdicts=[v for v in verdicts if _concerns(v, members)]
        )
        for name, members in figure_cells(cells, verdicts).items()
    }
    draw = figures | {name: partial(grid_figure, grid) for name, grid in grid_cells(cells).items()}
    with mpl.rc_context(STYLE):
        return [
            style.save(each, folder / name, source, redraw=redraw) for name, each in draw.items()
        ]


def figure_cells(
    cells: Sequence[CellResult], verdicts: Sequence[Verdict]
) -> dict[str, list[CellResult]]:
    """Return the cells of every figure of curves by the name of the figure."""
    cells = [cell for cell in cells if swept_axes([cell])]
    methods = grouped(cells, lambda cell: cell.method)
    tuned = {twin: methods[name] for name, twin in twins(verdicts).items() if name in methods}
    sloped = {verdict.method for verdict in flatten_twins(verdicts) if verdict.check == "slope"}
    guests = {group[0].method for group in tuned.values()}
    others = [name for name in methods if name not in sloped | guests]
    single = [name for name in methods if name in sloped - guests or [name] == others]
    result = {COMPARED: [cell for cell in cells if cell.method in others]} if others[1:] else {}
    return result | {name: [*methods[name], *tuned.get(name, ())] for name in single}


def _concerns(verdict: Verdict, cells: Sequence[CellResult]) -> bool:
    return verdict.method in {cell.method for cell in cells}


def analysis_figures(
    recorded: Recorded, folder: Path, source: str = "", *, redraw: bool = True
) -> list[Path]:
    """Draw the figures of an analysis as PNG files with a description; return their paths.

    Figures of parts that are not recorded are omitted.
    """
    paths = []
    for name in required(recorded).figures:
        make = partial(analysis_figure, recorded, name)
        with suppress(MissingPartError):
            paths.append(
                style.save(make, folder / name, source, redraw=redraw, description=describe)
            )
    return paths


def analysis_figure(recorded: Recorded, name: str | None = None, *, paper: bool = False) -> Figure:
    """Return the figure of an analysis with this name, or its first figure.

    ``paper`` gives a figure of 6.75 inches without title.
    """
    functions = required(recorded).figures
    if not functions:
        raise ValueError(f"recorded must have a figure, got {recorded.about['name']}")
    name = next(iter(functions)) if name is None else name
    member("name of a figure", name, functions)
    figure = draw(partial(functions[name], frames(recorded)))
    if paper:
        width, height = figure.get_size_inches()
        figure.set_size_inches(_PAPER_WIDTH, height * _PAPER_WIDTH / width)
        figure.suptitle("")
    return figure


def analysis_captions(recorded: Recorded) -> dict[str, str]:
    """Return the captions of the figures of an analysis: the docstrings of their functions."""
    functions = required(recorded).figures
    return {
        name: " ".join((inspect.getdoc(function) or "").split())
        for name, function in functions.items()
    }
