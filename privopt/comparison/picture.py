"""Picture of a comparison: the risk of every method, with bounds and the zero predictor."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from privopt.comparison.points import Point
from privopt.lab.evaluation.cells import grouped
from privopt.lab.evaluation.verdict import ORACLE_TUNED
from privopt.lab.plotting import curves, notation, style, ticks
from privopt.lab.plotting.curves import Baselines, Curve, LineEnd, PanelData
from privopt.lab.plotting.style import BLUE, GREY, INK, ORANGE, PAPER, PURPLE, STYLE, Sheet, sheet

_DOTS_KEY = (
    "Dot: mean; line: 95 % of the mean, over data sets and keys; band: 10-90 % of runs; circle: "
    "gradient descent without noise, as many steps; orange: certified upper bound; dash-dotted: "
    "zero predictor; "
)
_LINE_KEY = "dotted: lower bound of all methods within the budget, on this problem."
_TICK_KEY = "tick below: minimax lower bound, on another problem of the class."
_PANEL, _ROW = 3.4, 0.25  # inches: the height of a panel along an axis, and of a row of dots
_NAME = 0.17  # inches: the height of a name below


@mpl.rc_context(STYLE)
def picture(
    points: Sequence[Point], axis: str | None, above: Sequence[str], notes: Sequence[str]
) -> Figure:
    """Lines along the axis; where nothing is swept, a row a method; ``above``: title, text."""
    if axis is None:
        return _dots({point.method: point for point in points}, above, _shorter(notes))
    return _along(_plane(points), axis, points[0].cells[0].label, above, _shorter(notes))


@mpl.rc_context(STYLE)
def narrow(points: Sequence[Point], axis: str, title: str) -> Figure:
    """The lines for a narrow screen: their names below, those that end highest first."""
    plane = _plane(points)
    figure = Sheet(figsize=(3.7, 3.0 + _NAME * (len(plane.curves) + 3)), layout="constrained")
    place = figure.subplots()
    ends = _panel(place, plane, axis, points[0].cells[0].label)
    style.set_title(figure, title)
    shown = style.legend_handles(figure)
    named = sorted(ends, key=lambda end: -end.level)
    bounds = {"certified upper bounds": Line2D([], [], color=GREY, lw=0.9, ls="--")}
    style.add_legend(figure, {end.text: shown[end.name] for end in named} | bounds, columns=1)
    return figure


def _shorter(notes: Sequence[str]) -> list[str]:
    """All refusals in one note, each with the rule alone: the table has the rest."""
    head = "Refused: "
    refused = [note.removeprefix(head) for note in notes if note.startswith(head)]
    rules = [re.sub(r",? got .*\)$", ")", each) for each in refused]
    others = [note for note in notes if not note.startswith(head)]
    return [head + "; ".join(rules), *others] if refused else others


def _plane(points: Sequence[Point]) -> PanelData:
    lines = grouped(points, lambda point: point.method)
    found = [_curve(name, line) for name, line in lines.items()]
    return PanelData(found, _ground(max(lines.values(), key=len)))


def _curve(method: str, line: Sequence[Point]) -> Curve:
    return Curve(
        method,
        line[0].tuned,
        values=np.array([point.value for point in line], np.float64),
        mean=np.array([point.mean for point in line]),
        interval=np.array([(point.interval.lower, point.interval.upper) for point in line]).T,
        band=np.array([point.quantiles for point in line]).T,
        upper=np.array([point.bound for point in line]),
        nonprivate=np.array([point.nonprivate for point in line]),
    )


def _ground(line: Sequence[Point]) -> Baselines:
    rows = [(point.value, point.zero, point.lower) for point in line]
    values, zero, lower = np.array(rows, np.float64).T
    return Baselines(values, zero, lower, _is_minimax(line))


def _is_minimax(points: Sequence[Point]) -> bool:
    """Return True if the lower bound holds on the problem of these points."""
    return all(cell.is_minimax for point in points for cell in point.cells)


def _along(
    plane: PanelData, axis: str, quantity: str, above: Sequence[str], notes: Sequence[str]
) -> Figure:
    gone = curves.hidden_bounds([plane], curves.y_limits([plane])[1])
    told = [f"Upper bounds above the picture: {', '.join(gone)}"] if gone else []
    figure, ((place,),) = sheet(
        above[0], above[1:],
        [curves.legend_text([plane], ", over data sets and keys"), *told, *notes],
        panels=(1, 1), height=_PANEL, left=0.76, right=curves.label_width(plane.curves),
    )  # fmt: skip
    curves.label_ends(place, _panel(place, plane, axis, quantity), _PANEL)
    return figure


def _panel(place: Axes, plane: PanelData, axis: str, quantity: str) -> list[LineEnd]:
    ends = curves.draw_panel(place, plane, curves.assign_looks(plane.curves))
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_ylim(*curves.y_limits([plane]))
    ticks.at_values(place.xaxis, plane.baselines.values.tolist())
    ticks.at_round_numbers(place.yaxis)
    place.set_xlabel(notation.axis_words(axis))
    place.set_ylabel(quantity)
    return ends


def _dots(points: Mapping[str, Point], above: Sequence[str], notes: Sequence[str]) -> Figure:
    """One row a method, least risk on top."""
    height = _ROW * len(points) + 0.1
    key = _DOTS_KEY + (_LINE_KEY if _is_minimax(list(points.values())) else _TICK_KEY)
    figure, ((place,),) = sheet(
        above[0], above[1:], [key, *notes],
        panels=(1, 1), height=height, left=2.3, right=0.25,
    )  # fmt: skip
    several = sorted(points.values(), key=lambda point: point.mean)
    for row, point in enumerate(several):
        colour = PURPLE if point.tuned else BLUE
        low, high = point.quantiles
        place.plot([low, high], [row, row], color=colour, lw=5.0, alpha=0.2, solid_capstyle="butt")
        place.plot([point.interval.lower, point.interval.upper], [row, row], color=colour, lw=1.5)
        place.plot([point.mean], [row], marker="o", color=colour, mec=PAPER, ms=5.5)
        if point.nonprivate > point.cells[0].gap:
            place.plot([point.nonprivate], [row], marker="o", color=colour, mfc=PAPER, ms=4.0)
        if math.isfinite(point.bound):
            place.plot([point.bound], [row], marker="|", color=ORANGE, ms=10.0, mew=2.5)
    first = several[0]
    place.axvline(first.zero, color=INK, lw=1.0, ls="-.")
    if first.lower > 0.0 and _is_minimax(several):
        place.axvline(first.lower, color=INK, lw=1.0, ls=(0, (1, 1.5)))
    elif first.lower > 0.0:
        place.plot(
            [first.lower], [0.0], transform=place.get_xaxis_transform(),
            marker="|", color=INK, ms=9.0, mew=1.5, clip_on=False,
        )  # fmt: skip
    place.set_xscale("log")
    place.set_yticks(range(len(several)), [_row_name(point) for point in several])
    place.set_ylim(len(several) - 0.5, -0.5)
    place.set_xlabel(first.cells[0].label)
    ticks.at_round_numbers(place.xaxis, letters=60)
    return figure


def _row_name(point: Point) -> str:
    if point.tuned:
        return f"{point.method.removesuffix('_best')}, {ORACLE_TUNED}"
    return point.method
