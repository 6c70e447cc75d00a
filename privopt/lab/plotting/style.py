"""Style of figures: colours, fonts, layout in inches, ticks, and reproducible PNG files."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.markers import TICKRIGHT
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from matplotlib.transforms import Bbox, TransformedBbox
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from privopt.lab.plotting.notation import number, power
from privopt.lab.runner.store import write_file

PAPER, INK, GREY, GRID = "#ffffff", "#1f2328", "#6a737d", "#e1e4e8"
# Okabe and Ito 2008, darkened where a thin line would be too pale on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#aa4499"
AMBER, SKY, BROWN = "#b58900", "#3fa0d8", "#7a4419"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, BROWN)

METHOD_COLOURS = {
    "dp_gd": BLUE,
    "dp_sgd": ORANGE,
    "noisy_adam": GREEN,
    "objective_perturbation": PURPLE,
    "output_perturbation": AMBER,
    "phased_sgd": SKY,
    "dp_ftrl": BROWN,
    "approximate_minima_perturbation": "#d1609c",
    "dp_svrg": "#6b7d00",
    "bias_reduced_sgd": "#c2a5cf",
    "exponential_mechanism": "#332288",
    "projection_mechanism": "#117d7d",
    "l1_recovery": "#b2182b",
    "linf_output_perturbation": "#5b7f95",
    "sufficient_statistics": "#444444",
    "accelerated_dp_gd": "#d1495b",
}
"""The colour of a method, the same in every figure."""

_SHORT_NAMES = {
    "objective": "objective_perturbation", "output": "output_perturbation",
    "amp": "approximate_minima_perturbation", "Adam": "noisy_adam", "phased": "phased_sgd",
    "DP-GD": "dp_gd", "DP-SGD": "dp_sgd", "projection": "projection_mechanism",
    "recovery": "l1_recovery", "linf": "linf_output_perturbation",
}  # fmt: skip

Style = dict[str, Any]
"""Keyword arguments of Matplotlib."""

STYLE: Any = {
    "font.size": 8.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 8.0,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "ytick.minor.size": 1.5,
    "legend.frameon": False,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
}

TITLE: Style = {"fontsize": 9.5, "fontweight": "bold"}

_WIDTH, _LINE, _LETTERS = 8.2, 0.155, 129  # inches of a figure and of a line of text; letters
_XLABEL, _GAP, _HEAD = 0.5, 0.28, 0.38  # inches below a panel, between panels and of the title
_NOTEBOOK_DPI, _FILE_DPI = 90, 100
_PALETTE = 96
_LETTERS_PER_INCH = 15
_HEADER_BYTES = 4096


def split_method(name: str) -> tuple[str, str]:
    """Split a quantity or a label into its method, or an empty string, and the remaining suffix.

    Examples
    --------
    >>> split_method("dp_gd_bound"), split_method("Adam"), split_method("distance")
    (('dp_gd', 'bound'), ('noisy_adam', ''), ('', 'distance'))
    """
    parts = name.split("_")
    for end in range(len(parts), 0, -1):
        prefix = "_".join(parts[:end])
        method = _SHORT_NAMES.get(prefix, prefix)
        if method in METHOD_COLOURS:
            return method, "_".join(parts[end:])
    return "", name


class Sheet(Figure):
    """A figure that a notebook displays without pyplot."""

    def _repr_png_(self) -> bytes:
        return _png(self, _NOTEBOOK_DPI)


def sheet(
    title: str,
    header: Sequence[str],
    notes: Sequence[str],
    *,
    panels: tuple[int, int],
    height: float,
    left: float,
    right: float,
    top: float = 0.0,
) -> tuple[Figure, Any]:
    """Return a figure and its panels, in inches, so that text never shrinks a panel.

    Parameters
    ----------
    title : str
        Title, above the panels and to the left.
    header, notes : sequence of str
        Paragraphs above the panels, and below them in grey.
    panels : tuple of int
        Rows and columns; panels of a row share the vertical axis.
    height, top : float
        Height of a panel, and of the space above it for its name.
    left, right : float
        Width of the space for labels on both sides of all panels.
    """
    rows, columns = panels
    head, foot = (
        [line for text in paragraphs for line in textwrap.wrap(text, _LETTERS)]
        for paragraphs in (header, notes)
    )
    bottom, header_height = _LINE * len(foot) + 0.06, _LINE * len(head) + _HEAD
    row = top + height + _XLABEL
    total = bottom + rows * row + header_height
    width = panel_width(columns, left, right) - _GAP
    figure = Sheet(figsize=(_WIDTH, total))
    grid = np.empty(panels, dtype=object)
    for i in range(rows):
        for j in range(columns):
            x, y = left + j * (width + _GAP), bottom + (rows - 1 - i) * row + _XLABEL
            size = (x / _WIDTH, y / total, width / _WIDTH, height / total)
            grid[i, j] = figure.add_axes(size, sharey=grid[i, 0] if j else None)
            grid[i, j].tick_params(labelleft=j == 0)
    figure.suptitle(title, x=0.008, y=1.0 - 0.06 / total, ha="left", va="top", **TITLE)
    at: Style = {"fontsize": 8.0, "linespacing": 1.35}
    figure.text(0.008, 1.0 - 0.3 / total, "\n".join(head), va="top", **at)
    figure.text(0.008, 0.06 / total, "\n".join(foot), va="bottom", color=GREY, **at)
    return figure, grid


def panel_width(columns: int, left: float, right: float) -> float:
    """Return the width of a panel of :func:`sheet` and of the gap beside it, in inches."""
    return (_WIDTH - left - right + _GAP) / columns


def set_title(figure: Figure, title: str) -> None:
    """Write the title above all panels and to the left."""
    figure.suptitle(title, x=0.008, ha="left", **TITLE)


def write_above(axes: Axes, lines: Sequence[tuple[str, Style]]) -> None:
    """Write lines of text, each with its style, above a panel and to the left."""
    for height, (text, special) in enumerate(reversed(lines)):
        at: Style = {"xycoords": "axes fraction", "textcoords": "offset points", **special}
        axes.annotate(text, (0.0, 1.0), (0.0, 4.0 + 11.0 * height), **at)


def save(
    draw: Callable[[], Figure],
    stem: Path,
    source: str = "",
    *,
    redraw: bool = True,
    description: Callable[[Figure], str] | None = None,
) -> Path:
    """Write the figure to ``stem.png`` and return the path.

    Parameters
    ----------
    draw : callable
        A function without arguments that returns the figure.
    stem : Path
        Path without suffix.
    source : str
        Digest of the table, stored in the file.
    redraw : bool
        False keeps a file with the same ``source``: drawing is slow, and another version of
        Matplotlib writes other bytes.
    description : callable, optional
        Function from the figure to a text, which the file contains as alternative text.
    """
    path = stem.with_name(f"{stem.name}.png")
    if redraw or not _is_from(path, source):
        info = PngInfo()
        if source:
            info.add_text("Source", source)
        figure = draw()
        if description is not None:
            info.add_itxt("Description", description(figure))
        write_file(path, _png(figure, _FILE_DPI, info))
    return path


def read_description(path: Path) -> str:
    """Return the description in a PNG file; empty if it has none."""
    with Image.open(path) as image:
        return str(image.info.get("Description", ""))


def _png(figure: Figure, dots_per_inch: float, info: PngInfo | None = None) -> bytes:
    """Encode as a PNG with a palette, which takes a quarter of the bytes."""
    full, file = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png", dpi=dots_per_inch)
    image = Image.open(full).convert("RGB").quantize(_PALETTE, Image.Quantize.FASTOCTREE)
    image.save(file, format="png", optimize=True, pnginfo=info)
    return file.getvalue()


def _is_from(path: Path, source: str) -> bool:
    try:
        with open(path, "rb") as file:
            return source.encode() in file.read(_HEADER_BYTES)
    except OSError:
        return False


# --- ticks of logarithmic axes --------------------------------------------------------------------

PLAIN = FuncFormatter(lambda value, _: number(value))


def at_values(axis: Axis, values: Sequence[float]) -> None:
    """Set ticks at the swept values, or at every second or third if labels would touch."""
    inches = axis.axes.get_window_extent().width / axis.axes.figure.dpi
    room, step = _LETTERS_PER_INCH * inches, 1
    while sum(len(number(value)) + 2 for value in values[::step]) > room and step < len(values):
        step += 1
    axis.set_major_locator(FixedLocator(values[::step]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(PLAIN)


def at_round_numbers(axis: Axis, letters: float = math.inf) -> None:
    """Set ticks at powers of ten over many decades, otherwise at round numbers.

    ``letters`` limits the total length of the labels.
    """
    low, high = axis.get_view_interval()
    axis.set_minor_formatter(NullFormatter())
    if high > 1e4 * low:
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
        return
    axis.set_major_formatter(PLAIN)
    if high < 5.0 * low:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        return
    locator = LogLocator(subs=(1.0, 2.0, 5.0), numticks=12)
    labels = (number(value) for value in locator.tick_values(low, high) if low <= value <= high)
    if sum(len(label) + 1 for label in labels) > letters:
        locator = LogLocator(numticks=12)
    axis.set_major_locator(locator)


def at_margin(axes: Axes, value: float, label: str, **style: Any) -> None:
    """Draw a labelled tick outside the right margin at the height of the value.

    The tick is hidden if the value is outside the limits of the panel. A value that is not
    positive and finite has no tick.
    """
    if not 0.0 < value < math.inf:
        return
    (tick,) = axes.plot(
        [1.0], [value], transform=axes.get_yaxis_transform(), marker=TICKRIGHT, ms=7.0, ls="",
        label=label, **style,
    )  # fmt: skip
    tick.set_clip_path(None)  # replaces the panel, which ends at the margin
    tick.set_clip_box(TransformedBbox(Bbox([[0.0, 0.0], [2.0, 1.0]]), axes.transAxes))
