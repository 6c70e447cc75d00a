"""Heat maps: the constants of a grid of two axes, and maps of winners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from privopt.lab.evaluation.cells import CellResult, worst_per_setting
from privopt.lab.plotting import style
from privopt.lab.plotting.notation import method_label, number, symbol
from privopt.lab.plotting.style import (
    BLUE,
    COLOURS,
    GREY,
    METHOD_COLOURS,
    PAPER,
    Style,
    split_method,
)

_PALE, _DARK = 0.05, 0.6
"""Opacity of the constant zero and of the largest constant in any panel."""

_MAP_OPACITY = 0.3  # keeps the text of a cell legible
_COLUMNS = 3
_STEPS = 64  # of the colour bar

_Point = tuple[float, float]


class GridCells(NamedTuple):
    """The two axes of a grid and its cells."""

    axes: tuple[str, str]
    cells: list[CellResult]


def grid_cells(cells: Sequence[CellResult]) -> dict[str, GridCells]:
    """Return the grids of two axes that both vary, by the name of the figure."""
    result = {}
    for name in sorted({name for cell in cells for name in cell.axes if name.count(" x ") == 1}):
        members = [cell for cell in cells if name in cell.axes]
        first, second = name.split(" x ")
        if all(len({cell.setting[axis] for cell in members}) > 1 for axis in (first, second)):
            result[f"grid_{first}_{second}"] = GridCells((first, second), members)
    return result


def grid_constants(grid: GridCells) -> dict[tuple[str, str], dict[_Point, float]]:
    """Return the constant at every point for each method and family, at the worst strength.

    A constant is the mean divided by its exact law, or by the upper bound if no law is known. It is
    NaN without both.
    """
    result: dict[tuple[str, str], dict[_Point, float]] = {}
    first, second = grid.axes
    for cell in worst_per_setting(grid.cells):
        unit = cell.upper if cell.law is None else cell.law
        constant = cell.mean / unit if 0.0 < unit < math.inf else math.nan
        point = cell.setting[first], cell.setting[second]
        name = method_label(cell.method, cell.untuned), cell.family
        result.setdefault(name, {})[point] = constant
    return result


def unit_of_constants(cells: Sequence[CellResult]) -> str:
    """Return the name of the quantity by which means are divided."""
    return "upper bound" if any(cell.law is None for cell in cells) else "exact law"


def grid_figure(grid: GridCells) -> Figure:
    """Plot the constants of a grid: a panel for each method and family, with one colour bar."""
    constants = grid_constants(grid)
    finite = [v for points in constants.values() for v in points.values() if math.isfinite(v)]
    high = max(finite, default=0.0)
    columns = min(_COLUMNS, len(constants))
    rows = -(-len(constants) // columns)
    figure = Figure(figsize=(8.2, 3.0 * rows), layout="constrained")
    places = figure.add_gridspec(rows, columns + 1, width_ratios=[1.0] * columns + [0.06])
    for k, ((method, family), points) in enumerate(constants.items()):
        axes = figure.add_subplot(places[divmod(k, columns)])
        cells = {
            point: (f"{v:.3g}" if math.isfinite(v) else "–", _shade(v, high))
            for point, v in points.items()
        }
        _fill(axes, cells)
        axes.set_xlabel(symbol(grid.axes[0]))
        axes.set_ylabel(symbol(grid.axes[1]))
        name = (method, {"fontweight": "bold"})
        style.write_above(axes, [name, (f"on {family}", {})])
    _colour_bar(figure.add_subplot(places[:, -1]), high)
    label = grid.cells[0].label
    style.set_title(figure, f"Mean {label} divided by the {unit_of_constants(grid.cells)}")
    return figure


def winner_map(
    axes: Axes, frame: pd.DataFrame, x: str, y: str, *, winner: str, text: str, names: Sequence[str]
) -> None:
    """Draw a map of winners: a cell per row, with the colour and the text of its winner.

    ``winner`` and ``text`` are columns of texts. A method has its own colour. Other ``names`` take
    colours in their order. Names outside that list, such as a tie, are grey.
    """
    preset = {name: METHOD_COLOURS.get(split_method(name)[0]) for name in names}
    spare = [colour for colour in COLOURS if colour not in preset.values()]
    colours = {name: colour or (spare.pop() if spare else GREY) for name, colour in preset.items()}
    cells = {}
    for row in frame.to_dict("records"):
        fill: Style = {"fc": colours.get(row[winner], GREY), "alpha": _MAP_OPACITY, "lw": 0.0}
        cells[float(row[x]), float(row[y])] = row[text], fill
    _fill(axes, cells, frame=True)


def _fill(axes: Axes, cells: Mapping[_Point, tuple[str, Style]], *, frame: bool = False) -> None:
    """Draw cells at even distances, each with its text and style."""
    columns, rows = (sorted({point[k] for point in cells}) for k in (0, 1))
    for (x, y), (text, fill) in cells.items():
        corner = columns.index(x), rows.index(y)
        axes.add_patch(Rectangle(corner, 1.0, 1.0, **fill))
        if frame:
            axes.add_patch(Rectangle(corner, 1.0, 1.0, fill=False, ec=PAPER, lw=1.5))
        centre = corner[0] + 0.5, corner[1] + 0.5
        axes.text(*centre, text, ha="center", va="center", linespacing=1.1)
    for axis, values in ((axes.xaxis, columns), (axes.yaxis, rows)):
        labels = [number(float(f"{value:.3g}")) for value in values]
        axis.set_ticks([k + 0.5 for k in range(len(values))], labels)
        axis.set_tick_params(length=0.0)
    axes.set_xlim(0.0, len(columns))
    axes.set_ylim(0.0, len(rows))
    axes.grid(visible=False)


def _colour_bar(axes: Axes, high: float) -> None:
    for step in range(_STEPS):
        low, height = high * step / _STEPS, high / _STEPS
        axes.add_patch(Rectangle((0.0, low), 1.0, height, **_shade(low + 0.5 * height, high)))
    axes.set_ylim(0.0, high or 1.0)
    axes.yaxis.tick_right()
    axes.set_xticks([])
    axes.grid(visible=False)


def _shade(value: float, high: float) -> Style:
    share = value / high if 0.0 < value <= high else 0.0
    return {"color": BLUE, "alpha": _PALE + (_DARK - _PALE) * share, "lw": 0.0}
