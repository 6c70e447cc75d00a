"""A sheet: panels between text, measured in inches, so that text never shrinks a panel."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from privopt.lab.draw import style
from privopt.lab.draw.style import GREY, STYLE, Style

_SMALL = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize")
LOOK: Any = {**STYLE, **dict.fromkeys(_SMALL, 8.0)}
"""The style of a sheet, which is set around making it."""

_WIDTH, _LINE, _LETTERS = 8.2, 0.155, 129  # of the figure and a line of text in inches; letters
_DOTS_PER_INCH = 90  # in a notebook
_BELOW, _BESIDE, _HEAD = 0.5, 0.28, 0.38  # of a panel: its axis, the gap to the next; the title


class Sheet(Figure):
    """A figure that a notebook shows, with pyplot or without."""

    def _repr_png_(self) -> bytes:
        return style.paletted(self, _DOTS_PER_INCH)


def sheet(
    title: str,
    said: Sequence[str],
    told: Sequence[str],
    *,
    panels: tuple[int, int],
    height: float,
    left: float,
    right: float,
    top: float = 0.0,
) -> tuple[Figure, Any]:
    """A figure and its panels, rows by columns, whose vertical axis the panels of a row share.

    A title and lines of text ``said`` above, ``told`` below in grey; every panel ``height`` high
    with ``top`` above it for its name; ``left`` and ``right`` of all what labels take. In inches.
    """
    rows, columns = panels
    head, foot = (_wrapped(texts) for texts in (said, told))
    bottom, above = _LINE * len(foot) + 0.06, _LINE * len(head) + _HEAD
    row = top + height + _BELOW
    whole = bottom + rows * row + above
    wide = (_WIDTH - left - right - _BESIDE * (columns - 1)) / columns
    figure = Sheet(figsize=(_WIDTH, whole))
    grid = np.empty(panels, dtype=object)
    for i in range(rows):
        for j in range(columns):
            x, y = left + j * (wide + _BESIDE), bottom + (rows - 1 - i) * row + _BELOW
            size = (x / _WIDTH, y / whole, wide / _WIDTH, height / whole)
            grid[i, j] = figure.add_axes(size, sharey=grid[i, 0] if j else None)
            grid[i, j].tick_params(labelleft=j == 0)
    figure.suptitle(title, x=0.008, y=1.0 - 0.06 / whole, ha="left", va="top", **style.TITLE)
    at: Style = {"fontsize": 8.0, "linespacing": 1.35}
    figure.text(0.008, 1.0 - 0.3 / whole, "\n".join(head), va="top", **at)
    figure.text(0.008, 0.06 / whole, "\n".join(foot), va="bottom", color=GREY, **at)
    return figure, grid


def _wrapped(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, _LETTERS)]
