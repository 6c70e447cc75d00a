"""Figure of a comparison: measured risks with bounds and the risk of the default output."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from privopt.lab.draw import curves, notation, ticks
from privopt.lab.draw.curves import Curve, Ground, Plane
from privopt.lab.draw.sheet import LOOK, sheet
from privopt.lab.draw.style import BLUE, INK, ORANGE, PAPER, PURPLE

_KEY = (
    "Dot: mean; line: 95 % of the mean, over data sets and keys; band: 10-90 % of runs; circle: "
    "gradient descent without noise, as many steps; orange: certified upper bound; dash-dotted: "
    "zero predictor; "
)
_LINE_KEY = "dotted: lower bound of all methods within the budget, on this problem."
_TICK_KEY = "tick below: minimax lower bound, on another problem of the class."
Text = tuple[str, Sequence[str], Sequence[str]]
"""A title, with the lines above and below the panel."""

_PANEL, _ROW = 3.4, 0.25  # inches: height of a panel along an axis, and of a row of dots


@mpl.rc_context(LOOK)
def draw(points: pd.DataFrame, axis: str | None, label: str, text: Text, minimax: bool) -> Figure:
    """Return curves of ``points`` along the axis, or one row per method without an axis.

    ``minimax`` is True if the lower bound holds on this problem.
    """
    if axis is None:
        return _dots(points, label, text, minimax)
    title, head, notes = text
    lines = dict(iter(points.groupby("method", sort=False)))
    longest = max(lines.values(), key=len)
    values, zero, lower = longest[["value", "zero", "lower_bound"]].to_numpy(float).T
    plane = Plane(
        [_curve(name, line) for name, line in lines.items()], Ground(values, zero, lower, minimax)
    )
    outside = curves.lost([plane], curves.limits([plane])[1])
    notes = [*[f"Upper bounds above the picture: {', '.join(outside)}"] * bool(outside), *notes]
    figure, ((place,),) = sheet(
        title, head, [curves.key([plane], ", over data sets and keys"), *notes],
        panels=(1, 1), height=_PANEL, left=0.76, right=curves.width(plane.curves),
    )  # fmt: skip
    ends = curves.draw(place, plane, curves.looks(plane.curves))
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_ylim(*curves.limits([plane]))
    ticks.swept(place.xaxis, plane.ground.values.tolist())
    ticks.rounded(place.yaxis)
    place.set_xlabel(notation.axis_words(axis))
    place.set_ylabel(label)
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


def _dots(points: pd.DataFrame, label: str, text: Text, minimax: bool) -> Figure:
    title, head, notes = text
    figure, ((place,),) = sheet(
        title, head, [_KEY + (_LINE_KEY if minimax else _TICK_KEY), *notes],
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
    place.set_xlabel(label)
    ticks.rounded(place.xaxis, letters=60)
    return figure
