"""Ticks of logarithmic axes, and markers of values at the right margin of a panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
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

from privopt.lab.plotting.notation import number, power

_LETTERS_PER_INCH = 15

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
