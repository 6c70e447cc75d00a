"""One figure of every grid of two axes: the measured constant at each combination."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from privopt.lab.draw import style
from privopt.lab.draw.notation import number, symbol
from privopt.lab.draw.style import BLUE, Style
from privopt.lab.judge.results import CellResult, grouped, worst

_PALE, _DARK = 0.05, 0.6
"""Opacity of the constant zero and of the largest one in any panel."""
_COLUMNS = 3
_STEPS = 64  # of the bar that shows the scale

_At = tuple[float, float]


class GridCells(NamedTuple):
    """The two axes of a grid, and the cells that serve it."""

    axes: tuple[str, str]
    cells: list[CellResult]


def grid_cells(cells: Sequence[CellResult]) -> dict[str, GridCells]:
    """Every grid of two axes that both change, by the name of its figure."""
    found = {}
    for name in sorted({name for cell in cells for name in cell.axes if name.count(" x ") == 1}):
        members = [cell for cell in cells if name in cell.axes]
        first, second = name.split(" x ")
        if all(len({cell.setting[axis] for cell in members}) > 1 for axis in (first, second)):
            found[f"grid_{first}_{second}"] = GridCells((first, second), members)
    return found


def constant(cell: CellResult) -> float:
    """The mean over its exact law where that is known, else over the upper bound; NaN without."""
    of = cell.upper if cell.law is None else cell.law
    return cell.mean / of if 0.0 < of < math.inf else math.nan


def scale_of(cells: Sequence[CellResult]) -> str:
    """What the constants of these cells are multiples of."""
    return "upper bound" if any(cell.law is None for cell in cells) else "exact law"


def grid_figure(grid: GridCells) -> Figure:
    """The constant of the worst strength, a panel for each method and family, and one scale."""
    axes, cells = grid
    groups = grouped(cells, lambda cell: (cell.named, cell.family))
    found = {panel: _constants(members, axes) for panel, members in groups.items()}
    every = [value for values in found.values() for value in values.values()]
    high = max(filter(math.isfinite, every), default=0.0)
    columns = min(_COLUMNS, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(8.2, 3.0 * rows), layout="constrained")
    places = figure.add_gridspec(rows, columns + 1, width_ratios=[1.0] * columns + [0.06])
    for k, ((method, family), constants) in enumerate(found.items()):
        place = figure.add_subplot(places[divmod(k, columns)])
        _panel(place, constants, axes, high)
        style.above(place, [(method, {"fontweight": "bold"}), (f"on {family}", {})])
    _bar(figure.add_subplot(places[:, -1]), high)
    style.headline(figure, f"Mean {cells[0].label} over its {scale_of(cells)}")
    return figure


def _constants(cells: Sequence[CellResult], axes: tuple[str, str]) -> dict[_At, float]:
    at = grouped(cells, lambda cell: (cell.setting[axes[0]], cell.setting[axes[1]]))
    return {where: constant(worst(group)) for where, group in at.items()}


def _panel(place: Axes, constants: Mapping[_At, float], axes: tuple[str, str], high: float) -> None:
    across, up = (sorted({where[axis] for where in constants}) for axis in (0, 1))
    for (x, y), value in constants.items():
        column, row = across.index(x), up.index(y)
        place.add_patch(Rectangle((column, row), 1.0, 1.0, **_shade(value, high)))
        text = f"{value:.3g}" if math.isfinite(value) else "–"
        place.text(column + 0.5, row + 0.5, text, ha="center", va="center")
    place.set_xlim(0.0, len(across))
    place.set_ylim(0.0, len(up))
    place.set_xticks([k + 0.5 for k in range(len(across))], [number(value) for value in across])
    place.set_yticks([k + 0.5 for k in range(len(up))], [number(value) for value in up])
    place.set_xlabel(symbol(axes[0]))
    place.set_ylabel(symbol(axes[1]))
    place.grid(visible=False)


def _bar(place: Axes, high: float) -> None:
    """The scale, of rectangles: they follow the reader's light or dark scheme."""
    for step in range(_STEPS):
        low, height = high * step / _STEPS, high / _STEPS
        place.add_patch(Rectangle((0.0, low), 1.0, height, **_shade(low + 0.5 * height, high)))
    place.set_ylim(0.0, high or 1.0)
    place.yaxis.tick_right()
    place.set_xticks([])
    place.grid(visible=False)


def _shade(value: float, high: float) -> Style:
    share = value / high if 0.0 < value <= high else 0.0
    return {"color": BLUE, "alpha": _PALE + (_DARK - _PALE) * share, "lw": 0.0}
