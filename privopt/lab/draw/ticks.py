"""Ticks of logarithmic axes: at values that were swept, or at round ones, and never one alone.

Also the tick at the right margin of a panel that marks a value which is no line of its problem.
"""

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

from privopt.lab.draw.notation import number, power

_AN_INCH = 15  # letters

PLAIN = FuncFormatter(lambda value, _: number(value))


def swept(axis: Axis, values: Sequence[float]) -> None:
    """At the values that were swept; at every second or third where their labels would touch."""
    place = axis.axes
    inches = place.get_window_extent().width / place.figure.dpi
    room, every = _AN_INCH * inches, 1
    while sum(map(_letters, values[::every])) > room and every < len(values):
        every += 1
    axis.set_major_locator(FixedLocator(values[::every]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(PLAIN)


def _letters(value: float) -> int:
    return len(number(value)) + 2


def rounded(axis: Axis, letters: float = math.inf) -> None:
    """Powers of ten over many decades, else plain numbers; ``letters`` is what labels may take."""
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


def at_margin(place: Axes, value: float, label: str, **looks: Any) -> None:
    """Draw a labelled tick outside of the right margin, at the height of the value.

    It is not shown where the value is beyond the limits of the panel, or no positive number.
    """
    if not 0.0 < value < math.inf:
        return
    (tick,) = place.plot(
        [1.0], [value], transform=place.get_yaxis_transform(), marker=TICKRIGHT, ms=7.0, ls="",
        label=label, **looks,
    )  # fmt: skip
    tick.set_clip_path(None)  # the panel itself, which ends at the margin
    tick.set_clip_box(TransformedBbox(Bbox([[0.0, 0.0], [2.0, 1.0]]), place.transAxes))
