"""Panels of the figures of an analysis, in the style of the report.

A figure function receives the tables of an analysis, makes panels, and draws with Matplotlib:

>>> import pandas as pd
>>> from privopt.lab import plotting
>>> def risk_figure(frames):
...     figure, (axes,) = plotting.panels("DP-GD on linear losses: excess risk against n")
...     axes.set(xlabel="n", ylabel="excess risk", xscale="log", yscale="log")
...     plotting.curve(axes, frames["risks"], "n", "risk", **plotting.method_style("dp_gd"))
...     return figure
>>> frame = pd.DataFrame({"n": [10, 100], "risk_lower": [0.9, 0.1], "risk_upper": [1.0, 0.2]})
>>> plotting.draw(lambda: risk_figure({"risks": frame})).axes[0].get_legend_handles_labels()[1]
['DP-GD']

:func:`draw` then sets the ticks and adds the legend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from privopt.lab.plotting.notation import paper_name
from privopt.lab.plotting.style import (
    BLUE,
    INK,
    METHOD_COLOURS,
    PLAIN,
    STYLE,
    Sheet,
    Style,
    at_margin,
    at_round_numbers,
    set_title,
    write_above,
)
from privopt.lab.runner.analysis import bounds

_COLUMNS = 3
_LETTERS = 72  # total length of the tick labels in all panels of a row


def panels(
    title: str, *names: str, columns: int = _COLUMNS, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title, and one panel for each name; one panel without names."""
    names = names or ("",)
    columns = min(columns, len(names))
    rows = -(-len(names) // columns)
    figure = Sheet(figsize=(8.2, 0.9 + 2.4 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y).flatten().tolist()
    for axes in grid[len(names) :]:
        axes.remove()
    for axes, name in zip(grid, names, strict=False):
        write_above(axes, [(text, {}) for text in name.splitlines()])
    set_title(figure, title)
    return figure, grid[: len(names)]


def method_style(method: str) -> Style:
    """Return the label and the colour of a method, the same in every figure."""
    return {"label": paper_name(method), "color": METHOD_COLOURS.get(method, INK)}


def curve(
    axes: Axes,
    frame: pd.DataFrame,
    x: str,
    quantity: str,
    *,
    band: str | None = None,
    color: str = BLUE,
    **style: Any,
) -> None:
    """Draw a quantity against the column ``x``; rows that are not finite are left out.

    An interval is a shaded band with a line at its upper end. ``band`` is the interval of an
    estimate, which is a line inside of its band. Other arguments are those of ``Axes.plot``.
    """
    along = _along(frame, x)
    low, high = _finite(bounds(frame, band or quantity))
    if not np.array_equal(low, high, equal_nan=True):
        axes.fill_between(along, low, high, color=color, alpha=0.25, lw=0)
    (_, values) = _finite(bounds(frame, quantity))
    if style.get("marker") and "ls" not in style and "linestyle" not in style:
        style |= {"ls": "", "ms": 5.5, "mec": "white"}
    axes.plot(along, values, color=color, **{"lw": 1.4, **style})


def margin_tick(axes: Axes, value: float, label: str, color: str = INK) -> None:
    """Draw a labelled tick at the right margin of a panel, at the height of ``value``."""
    at_margin(axes, value, label, color=color, mew=1.4)


def draw(function: Callable[[], Figure]) -> Figure:
    """Return the figure of a function, drawn in the style of the report.

    Ticks are at round numbers. A legend of all labels is below the panels, unless there is one.
    """
    with mpl.rc_context(STYLE):
        figure = function()
        widths = [axes.get_position().width for axes in figure.axes]
        for axes, width in zip(figure.axes, widths, strict=True):
            _set_ticks(axes.xaxis, _LETTERS * width)
            _set_ticks(axes.yaxis)
        handles = {
            label: handle
            for axes in figure.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if handles and not figure.legends and not any(axes.get_legend() for axes in figure.axes):
            columns = len(handles) if len(handles) <= 5 else 4
            artists = list(handles.values())
            figure.legend(artists, list(handles), loc="outside lower left", ncols=columns)
    return figure


def describe(figure: Figure) -> str:
    """Return the title of a figure and the first and last value of every line, as a sentence."""
    title = figure.get_suptitle()
    panels = "; ".join(filter(None, (_describe_panel(axes) for axes in figure.axes)))
    return f"{title}: {panels}" if panels else title


def _describe_panel(axes: Axes) -> str:
    lines = []
    for line in axes.get_lines():
        label = str(line.get_label())
        if not label.startswith("_"):
            values = np.asarray(line.get_ydata(), dtype=np.float64)
            lines.append(f"{label} {_ends(values[np.isfinite(values)])}")
    names = " against ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
    return ": ".join(filter(None, (names, ", ".join(lines))))


def _ends(values: npt.NDArray[np.float64]) -> str:
    texts = list(dict.fromkeys(f"{value:.3g}" for value in values[[0, -1]])) if len(values) else []
    return " to ".join(texts) or "unknown"


def _along(frame: pd.DataFrame, x: str) -> Any:
    """Return the positions of the rows: numbers, or texts."""
    if x in frame and any(isinstance(value, str) for value in frame[x]):
        return frame[x].astype(str).tolist()
    return _finite(bounds(frame, x))[1]


def _finite(ends: Iterable[npt.NDArray[np.float64]]) -> list[npt.NDArray[np.float64]]:
    return [np.where(np.isfinite(values), values, np.nan) for values in ends]


def _set_ticks(axis: Axis, letters: float = math.inf) -> None:
    """Set ticks without offsets, with labels of at most ``letters`` in total."""
    if isinstance(axis.get_major_formatter(), StrCategoryFormatter):
        axis.grid(visible=False)
    elif isinstance(axis.get_major_locator(), FixedLocator):
        return
    elif axis.get_scale() == "log":
        if math.isfinite(axis.get_minpos()):
            at_round_numbers(axis, letters)
    else:
        axis.set_major_formatter(PLAIN)
