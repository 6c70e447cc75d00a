"""Figures for a paper: data, theory lines and fitted slopes, without title and notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from privopt.lab.evaluation.cells import CellResult, cells_along, grouped, swept_axes
from privopt.lab.evaluation.estimates import least_squares
from privopt.lab.plotting import style
from privopt.lab.plotting.curves import (
    Curve,
    Look,
    assign_looks,
    error_bars,
    panel_data,
    positive,
)
from privopt.lab.plotting.notation import signed, symbol
from privopt.lab.plotting.style import PAPER, STYLE, Style

ONE_COLUMN, TWO_COLUMNS = 3.25, 6.75  # inches
_HEIGHT, _DPI = 2.3, 300  # inches of a panel; dots per inch
_MOST_COLUMNS, _NARROWER = 3, 0.93


@mpl.rc_context(STYLE)
def paper_figure(cells: Sequence[CellResult], axis: str | None = None) -> Figure:
    """Plot means, upper bounds and fitted slopes: rows for families, panels for swept axes.

    One panel is 3.25 inches wide, several together 6.75 inches.
    """
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells) if axis is None else [axis]
    columns = 2 if len(axes) == 4 else min(_MOST_COLUMNS, len(axes))
    lines = [
        (family, axes[k : k + columns]) for family in families for k in range(0, len(axes), columns)
    ]
    width = ONE_COLUMN if columns == 1 else TWO_COLUMNS
    figure = style.Sheet(figsize=(width, _HEIGHT * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), columns, squeeze=False, sharey="row")
    for places, (family, names) in zip(grid, lines, strict=True):
        members = families[family]
        panels = {a: panel_data(cells_along(members, a)) for a in names}
        looks = assign_looks(curve for panel in panels.values() for curve in panel.curves)
        for place in places[len(names) :]:
            figure.delaxes(place)
        for place, (a, panel) in zip(places, panels.items(), strict=False):
            for curve in panel.curves:
                _draw(place, curve, looks[curve.method])
            place.set(xscale="log", yscale="log", xlabel=symbol(a))
            style.at_values(place.xaxis, panel.baselines.values.tolist())
            place.legend(
                fontsize=6.0, handlelength=1.6, loc="lower left", bbox_to_anchor=(0.0, 1.0),
                borderaxespad=0.0,
            )  # fmt: skip
        style.at_round_numbers(places[0].yaxis)
        name = f"\n{family}" if len(families) > 1 else ""
        places[0].set_ylabel(f"{members[0].label}{name}")
    return figure


def fit_to_paper(figure: Figure) -> Figure:
    """Give a figure of an analysis the width of two columns, without its title."""
    width, height = figure.get_size_inches()
    scale = TWO_COLUMNS / width
    figure.set_size_inches(TWO_COLUMNS, height * scale)
    for text in figure.findobj(Text):
        text.set_fontsize(scale * float(text.get_fontsize()))
    for legend in figure.legends:  # the space between its columns keeps its size
        for text in legend.get_texts():
            text.set_fontsize(_NARROWER * float(text.get_fontsize()))
    figure.suptitle("")
    return figure


def save_for_paper(figure: Figure, path: Path) -> None:
    """Write a PDF file and a PNG file with 300 dots per inch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
    figure.savefig(path.with_suffix(".png"), dpi=_DPI)


def _draw(axes: Axes, curve: Curve, look: Look) -> None:
    mean, colour, label = positive(curve.mean), look.colour, curve.label
    finite = np.isfinite(mean)
    marker: Style = {"fmt": look.marker, "ms": 3.0, "lw": 0.8, "color": colour}
    marker |= {"mfc": PAPER} if curve.tuned else {}
    if finite.sum() > 1:
        values, logs = curve.values[finite], np.log(mean[finite])
        slope = least_squares(values.tolist(), mean[finite].tolist())
        fitted = np.exp(logs.mean() + slope * (np.log(values) - np.log(values).mean()))
        axes.plot(values, fitted, color=colour, lw=0.8)
        label = f"{label}, slope {signed(slope, 2)}"
    axes.errorbar(curve.values, mean, error_bars(curve), label=label, **marker)
    if curve.is_bounded:
        axes.plot(curve.values, positive(curve.upper), color=colour, lw=0.8, ls="--")
