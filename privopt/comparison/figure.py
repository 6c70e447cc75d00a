"""Figure of a comparison: measured risks with bounds and the risk of the default output."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from privopt.lab.draw import curves, notation, ticks
from privopt.lab.draw.curves import Curve, Ground, Plane
from privopt.lab.draw.sheet import LOOK, sheet
from privopt.lab.draw.style import BLUE, INK, ORANGE, PAPER, PURPLE
from privopt.lab.make.minimax import is_minimax

if TYPE_CHECKING:
    from privopt.comparison.result import Comparison

_KEY = (
    "Dot: mean; line: 95 % of the mean, over data sets and keys; band: 10-90 % of runs; circle: "
    "gradient descent without noise, as many steps; orange: certified upper bound; dash-dotted: "
    "zero predictor; "
)
_LINE_KEY = "dotted: lower bound of all methods within the budget, on this problem."
_TICK_KEY = "tick below: minimax lower bound, on another problem of the class."
_PANEL, _ROW = 3.4, 0.25  # inches: height of a panel along an axis, and of a row of dots


@mpl.rc_context(LOOK)
def draw(comparison: Comparison) -> Figure:
    """Return curves along the axis, or one row per method without an axis."""
    above = [comparison.setting, comparison.conclusion]
    notes = comparison.notes
    if comparison.refused:  # the rules only; the table has the values
        rules = (re.sub(r",? got .*$", "", reason) for reason in comparison.refused.values())
        pairs = zip(comparison.refused, rules, strict=True)
        notes.append(f"Refused: {'; '.join(f'{name} ({rule})' for name, rule in pairs)}")
    if comparison.axis is None:
        return _dots(comparison, above, notes)
    return _curves(comparison, comparison.axis, above, notes)


def _holds_here(comparison: Comparison) -> bool:
    """Return True if the lower bound holds on the problem of the comparison."""
    cells = comparison.cells
    return is_minimax(cells["family"].iloc[0], pure=bool((cells["delta"] == 0.0).all()))


def _curves(comparison: Comparison, axis: str, above: list[str], notes: list[str]) -> Figure:
    points = comparison.points
    lines = {name: points[points["method"] == name] for name in comparison.methods}
    longest = max(lines.values(), key=len)
    values, zero, lower = longest[["value", "zero", "lower_bound"]].to_numpy(float).T
    plane = Plane(
        [_curve(name, line) for name, line in lines.items()],
        Ground(values, zero, lower, _holds_here(comparison)),
    )
    outside = curves.lost([plane], curves.limits([plane])[1])
    notes = [f"Upper bounds above the picture: {', '.join(outside)}"] * bool(outside) + notes
    figure, ((place,),) = sheet(
        comparison.title, above, [curves.key([plane], ", over data sets and keys"), *notes],
        panels=(1, 1), height=_PANEL, left=0.76, right=curves.width(plane.curves),
    )  # fmt: skip
    ends = curves.draw(place, plane, curves.looks(plane.curves))
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_ylim(*curves.limits([plane]))
    ticks.swept(place.xaxis, plane.ground.values.tolist())
    ticks.rounded(place.yaxis)
    place.set_xlabel(notation.axis_words(axis))
    place.set_ylabel(comparison.label)
    curves.label(place, ends, _PANEL)
    return figure


def _curve(method: str, line: pd.DataFrame) -> Curve:
    return Curve(
        method,
        bool(line["tuned"].any()),
        values=line["value"].to_numpy(float),
        mean=line["mean"].to_numpy(),
        interval=line[["lower", "upper"]].to_numpy().T,
        band=line[["low", "high"]].to_numpy().T,
        upper=line["bound"].to_numpy(),
        silent=line["nonprivate"].to_numpy(),
    )


def _dots(comparison: Comparison, above: list[str], notes: list[str]) -> Figure:
    points, minimax = comparison.points, _holds_here(comparison)
    figure, ((place,),) = sheet(
        comparison.title, above, [_KEY + (_LINE_KEY if minimax else _TICK_KEY), *notes],
        panels=(1, 1), height=_ROW * len(points) + 0.1, left=2.3, right=0.25,
    )  # fmt: skip
    for row, point in enumerate(points.itertuples()):
        colour = PURPLE if point.tuned else BLUE
        rows = [row, row]
        place.plot([point.low, point.high], rows, color=colour, lw=5.0, alpha=0.2,
                   solid_capstyle="butt")  # fmt: skip
        place.plot([point.lower, point.upper], rows, color=colour, lw=1.5)
        place.plot([point.mean], [row], marker="o", color=colour, mec=PAPER, ms=5.5)
        if point.nonprivate > 0.0:
            place.plot([point.nonprivate], [row], marker="o", color=colour, mfc=PAPER, ms=4.0)
        if math.isfinite(point.bound):
            place.plot([point.bound], [row], marker="|", color=ORANGE, ms=10.0, mew=2.5)
    first = points.iloc[0]
    place.axvline(first["zero"], color=INK, lw=1.0, ls="-.")
    if first["lower_bound"] > 0.0 and minimax:
        place.axvline(first["lower_bound"], color=INK, lw=1.0, ls=(0, (1, 1.5)))
    elif first["lower_bound"] > 0.0:
        place.plot(
            [first["lower_bound"]], [0.0], transform=place.get_xaxis_transform(),
            marker="|", color=INK, ms=9.0, mew=1.5, clip_on=False,
        )  # fmt: skip
    names = np.where(
        points["tuned"],
        points["method"].str.removesuffix("_best") + ", oracle-tuned",
        points["method"],
    )
    place.set_xscale("log")
    place.set_yticks(range(len(points)), names)
    place.set_ylim(len(points) - 0.5, -0.5)
    place.set_xlabel(comparison.label)
    ticks.rounded(place.xaxis, letters=60)
    return figure
