"""Figures of a study, as its table describes them."""

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
from privopt.lab.draw import style, ticks
from privopt.lab.draw.maps import draw_map
from privopt.lab.draw.sheet import LOOK, Sheet
from privopt.lab.draw.style import BLUE, GREEN, GREY, ORANGE, PAPER, PURPLE, Origin, Style
from privopt.lab.judge.claims import Row, presentation, rows_of, span
from privopt.lab.make.store import Recorded
from privopt.lab.make.study import Line, Map, Panel, Plot

_COLUMNS = 3
_LETTERS = 72  # that labels of ticks may have side by side, in all panels of a row
_COLOURS = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "purple": PURPLE, "grey": GREY}
_STYLES: dict[str, Style] = {
    "line": {"lw": 1.4},
    "dashes": {"lw": 1.2, "ls": (0, (5, 2))},
    "dots": {"lw": 1.3, "ls": (0, (1, 1.5))},
    "points": {"lw": 0.0, "marker": "o", "ms": 5.5, "mec": PAPER},
}


def plots(recorded: Recorded, folder: Path | str, origin: Origin = style.NOWHERE) -> list[Path]:
    """Draw every plot of a study's table, ``<name>.svg`` and ``.png``."""
    rows, written = rows_of(recorded), []
    with mpl.rc_context(style.STYLE):
        for plot in presentation(recorded).plots:
            written += style.save(partial(_figure, plot, rows), Path(folder) / plot.name, origin)
    return written


def plot_of(recorded: Recorded, name: str | None = None) -> Figure:
    """The plot of a study that has this name, or its first."""
    found = {plot.name: plot for plot in presentation(recorded).plots}
    if not found:
        raise ValueError(f"recorded must have a plot, got the study {recorded.about['name']}")
    name = next(iter(found)) if name is None else name
    member("name of a plot", name, found)
    with mpl.rc_context(LOOK):
        return _figure(found[name], rows_of(recorded))


def _figure(plot: Plot, rows: Mapping[str, Sequence[Row]]) -> Figure:
    columns = min(_COLUMNS, len(plot.panels))
    height = -(-len(plot.panels) // columns)
    figure = Sheet(figsize=(8.2, 0.9 + 2.4 * height), layout="constrained")
    grid = figure.subplots(height, columns, squeeze=False)
    for place in grid.flat[len(plot.panels) :]:
        place.set_axis_off()
    for place, panel in zip(grid.flat, plot.panels, strict=False):
        if isinstance(panel, Map):
            draw_map(place, panel, rows[panel.part])
        else:
            _panel(place, panel, rows[panel.part], _LETTERS // columns)
    style.headline(figure, plot.title)
    shown = style.entries(figure)
    style.legend(figure, shown, len(shown) if len(shown) <= 5 else 4)
    return figure


def _panel(place: Axes, panel: Panel, rows: Sequence[Row], letters: int) -> None:
    texts = isinstance(rows[0][panel.x], str)
    x = np.arange(len(rows), dtype=np.float64) if texts else _ends(rows, panel.x)[1]
    for line in panel.lines:
        _line(place, line, x, rows)
    drawn = place.dataLim
    if "x" in panel.log and math.isfinite(drawn.minposx):
        place.set_xscale("log", nonpositive="mask")
    if "y" in panel.log and math.isfinite(drawn.minposy):
        place.set_yscale("log", nonpositive="mask")
    _tick(place.xaxis, letters)
    _tick(place.yaxis)
    if texts:
        place.xaxis.set_major_locator(FixedLocator(x.tolist()))
        place.set_xticklabels([str(row[panel.x]) for row in rows])
        place.grid(visible=False, axis="x")
    place.set_xlabel(panel.x_label)
    place.set_ylabel(panel.y_label)
    style.above(place, [(text, {}) for text in panel.title.splitlines()])


def _line(place: Axes, line: Line, x: npt.NDArray[np.float64], rows: Sequence[Row]) -> None:
    low, high = _ends(rows, line.band or line.quantity)
    colour = _COLOURS[line.colour]
    if line.style == "tick":
        ticks.at_margin(place, high[-1], line.label, color=colour, mew=1.4)
        return
    if not np.array_equal(low, high, equal_nan=True):
        place.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)
    values = _ends(rows, line.quantity)[1]
    place.plot(x, values, color=colour, label=line.label, **_STYLES[line.style])


def _ends(rows: Sequence[Row], quantity: str) -> tuple[npt.NDArray[np.float64], ...]:
    """The lower and upper ends of a quantity along the rows; NaN where it is not finite."""
    ends = np.array([span(row, quantity) or (np.nan, np.nan) for row in rows], dtype=np.float64)
    ends[~np.isfinite(ends)] = np.nan
    return ends[:, 0], ends[:, 1]


def _tick(axis: Axis, letters: float = math.inf) -> None:
    """Ticks without offsets, whose labels have no more than so many ``letters`` together."""
    if axis.get_scale() == "linear":
        axis.set_major_formatter(ticks.PLAIN)
    else:
        ticks.rounded(axis, letters)
