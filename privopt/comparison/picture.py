"""The picture of a comparison: every method's risk between zero's and what no method is below."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from privopt.comparison.points import Point
from privopt.comparison.table import number
from privopt.lab.draw import notation, style
from privopt.lab.draw.style import BLUE, GREEN, GREY, INK, ORANGE, PAPER, PURPLE, Style
from privopt.lab.judge.results import grouped
from privopt.lab.judge.verdict import ORACLE_TUNED

_PLAIN = FuncFormatter(lambda value, _: notation.number(value))
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#b58900", "#3fa0d8", "#7a4419")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_APART = 0.052  # of the height of the panel, between two labels
_WIDTH, _LINE, _LETTERS = 8.6, 0.155, 132  # of the figure and a line of text in inches; letters
_LINES_KEY = (
    "Lines: mean; bars: 95 % of the mean, over data sets and keys; bands: 10-90 % of runs; dashed: "
    "certified upper bound; thin and grey: others; dotted: no method within the budget is below it "
    "on every problem of the class."
)
_DOTS_KEY = (
    "Dot: mean; line: 95 % of the mean, over data sets and keys; band: 10-90 % of runs; orange: "
    "certified upper bound; dash-dotted: zero predictor; dotted: no method within the budget is "
    "below it on every problem of the class."
)

_Lines = dict[str, list[Point]]


def picture(
    points: Sequence[Point], axis: str | None, above: Sequence[str], notes: Sequence[str]
) -> Figure:
    """Lines along the axis; where nothing is swept, a row a method. ``above`` begins with a title.

    All lengths are in inches, so that text never shrinks the panel.
    """
    lines: _Lines = grouped(points, lambda point: point.method)
    ranked = dict(sorted(lines.items(), key=lambda item: _level(item[1])))
    key = _DOTS_KEY if axis is None else _LINES_KEY
    told = [line for note in (key, *_shorter(notes)) for line in textwrap.wrap(note, _LETTERS)]
    said = [line for note in above[1:] for line in textwrap.wrap(note, _LETTERS)]
    panel = 3.4 if axis is not None else 0.25 * len(ranked) + 0.1
    bottom, top = _LINE * len(told) + 0.56, _LINE * len(said) + 0.42
    whole = bottom + panel + top
    with mpl.rc_context({**style.STYLE, "xtick.labelsize": 8.0, "ytick.labelsize": 8.0}):
        figure = Figure(figsize=(_WIDTH, whole))
        names = 3.35 if any(point.tuned for point in points) else 2.75
        left, right = (0.76, names) if axis is not None else (2.3, 0.25)
        size = (left / _WIDTH, bottom / whole, 1.0 - (left + right) / _WIDTH, panel / whole)
        place = figure.add_axes(size)
        if axis is None:
            _dots(place, ranked)
        else:
            _along(place, ranked, axis)
        style.headline(figure, above[0])
        at: Style = {"fontsize": 8.0, "linespacing": 1.35}
        figure.text(0.008, 1.0 - 0.3 / whole, "\n".join(said), va="top", **at)
        figure.text(0.008, 0.06 / whole, "\n".join(told), va="bottom", color=GREY, **at)
    return figure


def _shorter(notes: Sequence[str]) -> list[str]:
    """All refusals in one note, each with the rule alone: the table has the rest."""
    head = "Refused: "
    refused = [note.removeprefix(head) for note in notes if note.startswith(head)]
    rules = [re.sub(r",? got .*\)$", ")", each) for each in refused]
    others = [note for note in notes if not note.startswith(head)]
    return [head + "; ".join(rules), *others] if refused else others


def _along(place: Axes, lines: _Lines, axis: str) -> None:
    ends: list[_End] = []
    plain = [name for name, line in lines.items() if not line[0].tuned]
    coloured = dict(zip(plain[: len(_COLOURS)], _COLOURS, strict=False))
    for rank, (name, line) in enumerate(lines.items()):
        of = name.removesuffix("_best") if line[0].tuned else name
        colour, thin = coloured.get(of, GREY), line[0].tuned or of not in coloured
        values = np.array([point.value for point in line], np.float64)
        means = np.array([point.mean for point in line])
        low, high = np.array([point.quantiles for point in line]).T
        bars = np.abs([(p.mean - p.interval.lower, p.interval.upper - p.mean) for p in line]).T
        marker = _MARKERS[plain.index(of) % len(_MARKERS)] if of in coloured else "."
        drawn: Style = {"color": colour, "marker": marker, "ms": 3.0 if thin else 4.5, "mec": PAPER}
        place.errorbar(
            values, means, np.minimum(bars, [0.9 * means, np.inf * means]),
            lw=0.9 if thin else 1.7, elinewidth=0.9, capsize=2.0, zorder=3.0 - 0.01 * rank, **drawn,
        )  # fmt: skip
        if not thin:
            place.fill_between(values, np.maximum(low, 1e-12), high, color=colour, alpha=0.1, lw=0)
            bounds = np.array([point.bound for point in line])
            place.plot(
                values, np.where(np.isfinite(bounds), bounds, np.nan), color=colour, lw=0.9,
                ls=(0, (5, 2)),
            )  # fmt: skip
        best = f" {ORACLE_TUNED}" if line[0].tuned else ""
        ends.append(_End(values[-1], means[-1], f"{of}{best} {number(means[-1])}", colour))
    first = max(lines.values(), key=len)
    values = np.array([point.value for point in first], np.float64)
    place.plot(values, [point.zero for point in first], color=INK, lw=1.0, ls="-.")
    ends.append(_End(values[-1], first[-1].zero, f"zero predictor {number(first[-1].zero)}", INK))
    floor = np.array([point.lower for point in first])
    if (floor > 0.0).all():
        place.plot(values, floor, color=INK, lw=1.0, ls=(0, (1, 1.5)))
        ends.append(_End(values[-1], floor[-1], "lower bound (worst case)", INK))
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_xticks(values, [notation.number(value) for value in values])
    place.minorticks_off()
    place.set_xlabel(notation.axis_words(axis))
    drawn_low = min(p.quantiles[0] for line in lines.values() for p in line)
    drawn_low = min(drawn_low, *(floor if (floor > 0.0).all() else [drawn_low]))
    tops = [max(p.quantiles[1], p.zero) for line in lines.values() for p in line]
    place.set_ylim(0.7 * max(drawn_low, 1e-4 * max(tops)), 1.6 * max(tops))
    place.yaxis.set_major_formatter(_PLAIN)
    place.set_ylabel(first[0].cells[0].label)
    _label(place, ends)


class _End(NamedTuple):
    """The right end of a line, and its name."""

    value: float
    level: float
    text: str
    colour: str


def _label(place: Axes, ends: Sequence[_End]) -> None:
    """Names at the right ends of lines, moved apart, each in the colour of its line."""
    low, high = np.log(place.get_ylim())
    wanted = sorted(ends, key=lambda end: end.level)
    heights = [
        float(np.clip((math.log(end.level) - low) / (high - low), 0.0, 1.0)) for end in wanted
    ]
    for _ in range(200):  # pushes neighbours apart until none overlap
        for i in range(len(heights) - 1):
            short = _APART - (heights[i + 1] - heights[i])
            if short > 1e-6:
                heights[i] -= short / 2.0
                heights[i + 1] += short / 2.0
        lift = max(0.0, -heights[0])
        heights = [height + lift for height in heights]
    for end, height in zip(wanted, heights, strict=True):
        place.annotate(
            end.text, (end.value, end.level), (1.045, height), textcoords="axes fraction",
            color=end.colour, fontsize=8.0, va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": end.colour, "lw": 0.5, "shrinkA": 1,
                        "shrinkB": 3, "relpos": (0.0, 0.5)},
        )  # fmt: skip


def _dots(place: Axes, lines: _Lines) -> None:
    """One row a method, least risk on top."""
    for row, point in enumerate(line[0] for line in lines.values()):
        colour = PURPLE if point.tuned else BLUE
        low, high = point.quantiles
        place.plot([low, high], [row, row], color=colour, lw=5.0, alpha=0.2, solid_capstyle="butt")
        place.plot([point.interval.lower, point.interval.upper], [row, row], color=colour, lw=1.5)
        place.plot([point.mean], [row], marker="o", color=colour, mec=PAPER, ms=5.5)
        if math.isfinite(point.bound):
            place.plot([point.bound], [row], marker="|", color=ORANGE, ms=9.0, mew=1.5)
    first = next(iter(lines.values()))[0]
    place.axvline(first.zero, color=INK, lw=1.0, ls="-.")
    if first.lower > 0.0:
        place.axvline(first.lower, color=INK, lw=1.0, ls=(0, (1, 1.5)))
    place.set_xscale("log")
    place.set_yticks(range(len(lines)), [_row_name(line[0]) for line in lines.values()])
    place.invert_yaxis()
    place.set_xlabel(first.cells[0].label)
    place.xaxis.set_major_formatter(_PLAIN)
    place.xaxis.set_minor_formatter(NullFormatter())


def _row_name(point: Point) -> str:
    if point.tuned:
        return f"{point.method.removesuffix('_best')}, {ORACLE_TUNED}"
    return point.method


def _level(line: Sequence[Point]) -> float:
    """By which methods are ranked: the mean of the logarithms of their means."""
    return float(np.mean([math.log(max(point.mean, 1e-300)) for point in line]))
