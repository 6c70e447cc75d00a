"""Figures of a study, drawn from its table, and the figures of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from privopt.arguments import member
from privopt.lab.evaluation.cells import CellResult, grouped, swept_axes
from privopt.lab.evaluation.claims import Row, presentation, quantity_range, rows_of
from privopt.lab.evaluation.verdict import Verdict, flatten_twins, twins
from privopt.lab.plotting import style, ticks
from privopt.lab.plotting.curve_figures import curve_figure
from privopt.lab.plotting.heatmaps import draw_map, grid_cells, grid_figure
from privopt.lab.plotting.notation import paper_name
from privopt.lab.plotting.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    METHOD_COLOURS,
    ORANGE,
    PAPER,
    PURPLE,
    STYLE,
    Sheet,
    Style,
    split_method,
)
from privopt.lab.runner.analysis import Line, Map, Panel, Plot
from privopt.lab.runner.store import Recorded

COMPARED = "compared"
"""Name of the figure of the methods without a separate figure."""

PLAIN_SUFFIXES = ("", "best", "bound", "risk")
"""Suffixes of quantities that belong to a method itself and not to a variant."""

_COLUMNS = 3
_LETTERS = 72  # total length of the tick labels in all panels of a row
_COLOURS = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "purple": PURPLE, "grey": GREY}
_STYLES: dict[str, Style] = {
    "line": {"lw": 1.4},
    "dashes": {"lw": 1.2, "ls": (0, (5, 2))},
    "dots": {"lw": 1.3, "ls": (0, (1, 1.5))},
    "points": {"lw": 0.0, "marker": "o", "ms": 5.5, "mec": PAPER},
}


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


def study_figures(
    recorded: Recorded, folder: Path, source: str = "", *, redraw: bool = True
) -> list[Path]:
    """Draw the plots of a study as PNG files and return their paths."""
    rows, plots = rows_of(recorded), presentation(recorded).plots
    with mpl.rc_context(STYLE):
        return [
            style.save(partial(plot_figure, plot, rows), folder / plot.name, source, redraw=redraw)
            for plot in plots
        ]


def plot_of(recorded: Recorded, name: str | None = None) -> Figure:
    """Return the plot of a study with this name, or its first plot."""
    plots = {plot.name: plot for plot in presentation(recorded).plots}
    if not plots:
        raise ValueError(f"recorded must have a plot, got the study {recorded.about['name']}")
    name = next(iter(plots)) if name is None else name
    member("name of a plot", name, plots)
    with mpl.rc_context(STYLE):
        return plot_figure(plots[name], rows_of(recorded))


def plot_figure(plot: Plot, rows: Mapping[str, Sequence[Row]]) -> Figure:
    """Draw the panels of a plot from the rows of each part."""
    columns = min(_COLUMNS, len(plot.panels))
    height = -(-len(plot.panels) // columns)
    figure = Sheet(figsize=(8.2, 0.9 + 2.4 * height), layout="constrained")
    grid = figure.subplots(height, columns, squeeze=False)
    for axes in grid.flat[len(plot.panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(grid.flat, plot.panels, strict=False):
        if isinstance(panel, Map):
            draw_map(axes, panel, rows[panel.part])
        else:
            _draw(axes, panel, rows[panel.part], _LETTERS // columns)
    style.set_title(figure, plot.title)
    handles = style.legend_handles(figure)
    style.add_legend(figure, handles, len(handles) if len(handles) <= 5 else 4)
    return figure


def _draw(axes: Axes, panel: Panel, rows: Sequence[Row], letters: int) -> None:
    texts = isinstance(rows[0][panel.x], str)
    x = np.arange(len(rows), dtype=np.float64) if texts else _ends(rows, panel.x)[1]
    methods = {method for line in panel.lines if (method := split_method(line.quantity)[0])}
    for line in panel.lines:
        _draw_line(axes, line, x, rows, by_method=len(methods) > 1)
    limits = axes.dataLim
    if "x" in panel.log and math.isfinite(limits.minposx):
        axes.set_xscale("log", nonpositive="mask")
    if "y" in panel.log and math.isfinite(limits.minposy):
        axes.set_yscale("log", nonpositive="mask")
    _set_ticks(axes.xaxis, letters)
    _set_ticks(axes.yaxis)
    if texts:
        axes.xaxis.set_major_locator(FixedLocator(x.tolist()))
        axes.set_xticklabels([str(row[panel.x]) for row in rows])
        axes.grid(visible=False, axis="x")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    style.write_above(axes, [(text, {}) for text in panel.title.splitlines()])


def _draw_line(
    axes: Axes, line: Line, x: npt.NDArray[np.float64], rows: Sequence[Row], *, by_method: bool
) -> None:
    """Draw a line; in a comparison of methods it has the colour and the name of its method."""
    low, high = _ends(rows, line.band or line.quantity)
    colour, label = _COLOURS[line.colour], line.label
    method, suffix = split_method(line.quantity)
    if by_method and method:
        colour = METHOD_COLOURS[method]
        label = paper_name(method) if suffix in PLAIN_SUFFIXES else label
    elif by_method and colour != GREY:
        colour = INK  # the other colours are those of methods
    if line.style == "tick":
        ticks.at_margin(axes, high[-1], label, color=colour, mew=1.4)
        return
    if not np.array_equal(low, high, equal_nan=True):
        axes.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)
    values = _ends(rows, line.quantity)[1]
    axes.plot(x, values, color=colour, label=label, **_STYLES[line.style])


def _ends(rows: Sequence[Row], quantity: str) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the lower and upper ends of a quantity along the rows; NaN if not finite."""
    ends = np.array(
        [quantity_range(row, quantity) or (np.nan, np.nan) for row in rows], dtype=np.float64
    )
    ends[~np.isfinite(ends)] = np.nan
    return ends[:, 0], ends[:, 1]


def _set_ticks(axis: Axis, letters: float = math.inf) -> None:
    """Set ticks without offsets, with labels of at most ``letters`` in total."""
    if axis.get_scale() == "linear":
        axis.set_major_formatter(ticks.PLAIN)
    else:
        ticks.at_round_numbers(axis, letters)
