"""All algorithms of an experiment in one picture: risk between the optimum and doing nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from privopt.lab.show.results import CellResult, along, grouped, swept_axes, worst
from privopt.lab.show.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    NOWHERE,
    ORANGE,
    PAPER,
    PURPLE,
    STYLE,
    Origin,
    axis_label,
    entries,
    headline,
    number,
    save,
)

__all__ = ["NAME", "compared"]

NAME = "compared"

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MAX_TICKS = 6
_HEADROOM = 1.25  # of what doing nothing costs; what is worse leaves the picture
_NOTHING: dict[str, Any] = {"label": "zero predictor", "color": GREY, "lw": 1.0, "ls": (0, (5, 2))}
_OPTIMUM: dict[str, Any] = {"label": "non-private optimum", "color": INK, "lw": 1.0}


def compared(
    cells: Sequence[CellResult], folder: Path | str, origin: Origin = NOWHERE
) -> list[Path]:
    """Draw the mean risk ``F`` of every algorithm, ``compared.svg`` and ``.png``.

    A row for each family, a panel for each swept axis. Between the optimum, which no algorithm
    beats, and the public start, which costs no privacy, lies all that there is to gain. Risks are
    those of the worst strength of a family.

    Returns
    -------
    list of Path
        The files; none if there is nothing to compare.
    """
    swept = [cell for cell in cells if cell.axes]
    if len({cell.method for cell in swept}) < 2:
        return []
    with mpl.rc_context(STYLE):
        return save(partial(_figure, swept), Path(folder) / NAME, origin)


def _figure(cells: Sequence[CellResult]) -> Figure:
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells)
    figure = Figure(figsize=(8.2, 1.2 + 2.1 * len(families)), layout="constrained")
    grid = figure.subplots(len(families), len(axes), squeeze=False, sharey="row")
    names = sorted({cell.method for cell in cells})
    for row, (family, members) in zip(grid, families.items(), strict=True):
        for place, axis in zip(row, axes, strict=True):
            _panel(place, members, axis, names)
        of_population = {cell.quantity for cell in members} == {"population risk"}
        row[0].set_ylabel("population risk" if of_population else "risk F")
        style: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        row[0].annotate(family, (0.0, 1.0), (0.0, 4.0), fontweight="bold", **style)
        _scale(row[0], members)
    runs = sorted({cell.values.size for cell in cells})
    budgets = sorted({(cell.delta, cell.relation) for cell in cells})
    spent = f"δ = {number(budgets[0][0])}, " if len({delta for delta, _ in budgets}) == 1 else ""
    headline(figure, f"Mean risk of {' to '.join(map(str, runs))} runs, {spent}{budgets[0][1]}")
    shown = entries(figure)
    figure.legend(list(shown.values()), list(shown), loc="outside lower left", ncols=3)
    return figure


def _panel(place: Axes, cells: Sequence[CellResult], axis: str, names: Sequence[str]) -> None:
    by_method = grouped(cells, lambda cell: cell.method)
    some: list[CellResult] = []
    for name, members in by_method.items():
        top = [worst(group) for group in along(members, axis).values()]
        k = names.index(name)
        style: dict[str, Any] = {
            "color": _COLOURS[k % len(_COLOURS)],
            "marker": _MARKERS[k % len(_MARKERS)],
        }
        values = [cell.setting[axis] for cell in top]
        risks = [cell.optimum + cell.mean for cell in top]
        place.plot(values, risks, label=name, lw=1.5, ms=4.5, mec=PAPER, **style)
        some = top or some
    if not some:
        place.set_axis_off()
        return
    values = [cell.setting[axis] for cell in some]
    place.plot(values, [cell.optimum + cell.start for cell in some], **_NOTHING)
    place.plot(values, [cell.optimum for cell in some], **_OPTIMUM)
    place.set_xscale("log")
    place.xaxis.set_major_locator(FixedLocator(values[:: -(-len(values) // _MAX_TICKS)]))
    place.xaxis.set_minor_locator(NullLocator())
    place.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    place.set_xlabel(axis_label(axis, some[0].setting))


def _scale(place: Axes, cells: Sequence[CellResult]) -> None:
    """From the lowest optimum to somewhat above what doing nothing costs."""
    low = min(cell.optimum for cell in cells)
    high = float(np.nanmax([cell.optimum + cell.start for cell in cells]))
    span = high - low
    if span > 0.0:
        place.set_ylim(low - 0.05 * span, low + _HEADROOM * span)
