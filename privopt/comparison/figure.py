"""Figure of a comparison: measured risks with bounds and the risk of the default output."""

from __future__ import annotations

import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privopt.algorithms import ALGORITHMS
from privopt.lab.evaluation.cells import CellResult
from privopt.lab.plotting import curves
from privopt.lab.plotting.curves import Baselines, Curve, PanelData
from privopt.lab.plotting.notation import axis_words, method_label, paper_name
from privopt.lab.plotting.style import (
    GREY,
    INK,
    METHOD_COLOURS,
    ORANGE,
    PAPER,
    STYLE,
    at_round_numbers,
    at_values,
    sheet,
)

_KEY = (
    "Dot: mean; line: 95 % of the mean, over data sets and keys; band: 10-90 % of runs; circle: "
    "gradient descent without noise, as many steps; orange: certified upper bound; dash-dotted: "
    "zero predictor; "
)
_LINE_KEY = "dotted: lower bound of all methods within the budget, on this problem."
_TICK_KEY = "tick below: lower bound of the worst problem of the class."
_PANEL, _ROW = 3.4, 0.25  # inches: height of a panel along an axis, and of a row of dots


@mpl.rc_context(STYLE)
def draw(
    points: pd.DataFrame,
    axis: str | None,
    cell: CellResult,
    title: str,
    header: str,
    notes: Sequence[str],
) -> Figure:
    """Return curves along the axis, or one row per method without an axis.

    ``cell`` is any cell of the comparison. Names of ``ALGORITHMS`` in the title and in the notes,
    the paragraphs below the panel, are replaced by those in papers.
    """
    title, minimax = _with_paper_names(title), cell.is_minimax
    head = f"{title[:1].upper()}{title[1:]}", [header]
    notes = [_with_paper_names(". ".join(notes))]
    if axis is None:
        key = _KEY + (_LINE_KEY if minimax else _TICK_KEY)
        figure, ((place,),) = sheet(
            *head, [key, *notes], panels=(1, 1),
            height=_ROW * len(points) + 0.1, left=2.6, right=0.25,
        )  # fmt: skip
        _draw_rows(place, points, minimax)
        place.set_xlabel(cell.label)
        return figure
    lines = dict(iter(points.groupby("method", sort=False)))
    values, zero, lower = (
        max(lines.values(), key=len)[["value", "zero", "lower_bound"]].to_numpy(float).T
    )
    panel = PanelData(
        [_curve(name, line) for name, line in lines.items()],
        Baselines(values, zero, lower, minimax),
    )
    limits = curves.y_limits([panel])
    if outside := curves.hidden_bounds([panel], limits[1]):
        notes = [f"Upper bounds above the panel: {', '.join(outside)}. {notes[0]}"]
    figure, ((place,),) = sheet(
        *head, [curves.legend_text([panel], ", over data sets and keys"), *notes],
        panels=(1, 1), height=_PANEL, left=0.76, right=curves.label_width([panel]),
    )  # fmt: skip
    ends = curves.draw_panel(place, panel, curves.assign_looks(panel.curves))
    place.set(xscale="log", yscale="log", ylim=limits, xlabel=axis_words(axis), ylabel=cell.label)
    at_values(place.xaxis, values.tolist())
    at_round_numbers(place.yaxis)
    curves.label_ends(place, ends, _PANEL)
    return figure


def _with_paper_names(text: str) -> str:
    """Replace the names of methods by those in papers."""
    names = "|".join(sorted(ALGORITHMS, key=len, reverse=True))
    return re.sub(rf"\b({names})\b", lambda match: paper_name(match[0]), text)


def _curve(method: str, line: pd.DataFrame) -> Curve:
    return Curve(
        method,
        bool(line["tuned"].any()),
        values=line["value"].to_numpy(float),
        mean=line["mean"].to_numpy(),
        interval=line[["lower", "upper"]].to_numpy().T,
        band=line[["low", "high"]].to_numpy().T,
        upper=line["bound"].to_numpy(),
        nonprivate=line["nonprivate"].to_numpy(),
    )


def _draw_rows(place: Axes, points: pd.DataFrame, minimax: bool) -> None:
    """Draw one row per method: mean, interval, band, bound and risk without noise."""
    plain = points["method"].str.removesuffix("_best").where(points["tuned"], points["method"])
    colours, rows = plain.map(METHOD_COLOURS).fillna(GREY), np.arange(len(points))
    place.hlines(rows, points["low"], points["high"], colours, lw=5.0, alpha=0.2)
    ends = points[["lower", "upper"]].replace([np.inf, -np.inf], np.nan)
    place.hlines(rows, ends["lower"], ends["upper"], colours, lw=1.5)
    place.scatter(points["mean"], rows, 30.0, colours, edgecolors=PAPER, zorder=3)
    nonprivate = points["nonprivate"].where(points["nonprivate"] > 0.0)
    place.scatter(nonprivate, rows, 16.0, PAPER, edgecolors=colours, zorder=3)
    bounds = points["bound"].where(np.isfinite(points["bound"]))
    place.scatter(bounds, rows, 100.0, ORANGE, marker="|", lw=2.5)
    zero, lower = points[["zero", "lower_bound"]].iloc[0]
    place.axvline(zero, color=INK, lw=1.0, ls="-.")
    if lower > 0.0 and minimax:
        place.axvline(lower, color=INK, lw=1.0, ls=(0, (1, 1.5)))
    elif lower > 0.0:
        place.plot(
            [lower], [0.0], transform=place.get_xaxis_transform(),
            marker="|", color=INK, ms=9.0, mew=1.5, clip_on=False,
        )  # fmt: skip
    place.set(xscale="log", ylim=(len(points) - 0.5, -0.5))
    pairs = zip(points["method"], points["tuned"], strict=True)
    place.set_yticks(rows, [method_label(name, tuned) for name, tuned in pairs])
    at_round_numbers(place.xaxis, letters=60)
