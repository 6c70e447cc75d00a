"""Maps: a filled cell a place, with the name of what won there written in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from privopt.arguments import shown
from privopt.lab.draw import style
from privopt.lab.draw.notation import number
from privopt.lab.draw.style import BLUE, GREEN, GREY, INK, ORANGE, PAPER, PURPLE, Style
from privopt.lab.judge.claims import Row
from privopt.lab.make.study import Map

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#b58900", "#3fa0d8", "#7a4419", "#444444")
_OPACITY = 0.3  # of a cell, so that its text is read
_LETTERS = 8.0  # points


def draw_map(place: Axes, told: Map, rows: Sequence[Row]) -> None:
    """Cells at even distances, one a row of the part: colour and name say the same.

    Colours follow ``told.names``, so that a name has one colour in all panels; names that are not
    in it, such as that of a tie, are grey.
    """
    places = [(_number(row, told.x), _number(row, told.y)) for row in rows]
    across, up = (sorted(set(values)) for values in zip(*places, strict=True))
    coloured = dict(zip(told.names, _COLOURS, strict=False))
    for row, (x, y) in zip(rows, places, strict=True):
        column, line = across.index(x), up.index(y)
        colour = coloured.get(str(row[told.winner]), GREY)
        place.add_patch(Rectangle((column, line), 1.0, 1.0, fc=colour, alpha=_OPACITY, lw=0.0))
        place.add_patch(Rectangle((column, line), 1.0, 1.0, fill=False, ec=PAPER, lw=1.5))
        at: Style = {"ha": "center", "va": "center", "fontsize": _LETTERS, "color": INK}
        place.text(column + 0.5, line + 0.5, str(row[told.text]), linespacing=1.1, **at)
    for axis, values in ((place.xaxis, across), (place.yaxis, up)):
        axis.set_ticks(np.arange(len(values)) + 0.5, [number(float(f"{v:.3g}")) for v in values])
        axis.set_tick_params(length=0.0, labelsize=_LETTERS)
    place.set_xlim(0.0, len(across))
    place.set_ylim(0.0, len(up))
    place.set_xlabel(told.x_label)
    place.set_ylabel(told.y_label)
    place.grid(visible=False)
    style.above(place, [(text, {}) for text in told.title.splitlines()])


def _number(row: Row, quantity: str) -> float:
    value = row[quantity]
    if not isinstance(value, int | float):
        raise ValueError(f"{quantity} of a map must be a number, got {shown(value)}")
    return float(value)
