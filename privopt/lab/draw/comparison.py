"""One figure of all methods of an experiment, between the optimum and the zero predictor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privopt.lab.draw import style
from privopt.lab.draw.notation import number
from privopt.lab.draw.panel import ZERO_PREDICTOR, tick
from privopt.lab.draw.style import BLUE, GREEN, INK, ORANGE, PAPER, PURPLE, Style
from privopt.lab.judge.results import CellResult, along, grouped, swept_axes, worst

COMPARED = "compared"
"""The name of the figure."""

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES = ("-", "--", ":")  # for methods beyond the colours
_HEADROOM = 1.25  # of what doing nothing costs; what is worse leaves the picture
_OPTIMUM: Style = {"label": "non-private optimum", "color": INK, "lw": 1.0}


def comparison(cells: Sequence[CellResult]) -> Figure:
    """The mean risk ``F`` of every method.

    A row for each family, a panel for each swept axis. Between the optimum, which no method
    beats, and the public start, which costs no privacy, lies all that there is to gain. Risks are
    those of the worst strength of a family.
    """
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells)
    figure = Figure(figsize=(8.2, 1.2 + 2.1 * len(families)), layout="constrained")
    grid = figure.subplots(len(families), len(axes), squeeze=False, sharey="row")
    names = sorted({cell.named for cell in cells})
    for row, (family, members) in zip(grid, families.items(), strict=True):
        for place, axis in zip(row, axes, strict=True):
            _panel(place, members, axis, names)
        of_population = {cell.quantity for cell in members} == {"population risk"}
        row[0].set_ylabel("population risk" if of_population else "risk F")
        style.above(row[0], [(family, {"fontweight": "bold"})])
        _scale(row[0], members)
    runs = sorted({cell.values.size for cell in cells})
    budgets = sorted({(cell.delta, cell.relation) for cell in cells})
    spent = f"δ = {number(budgets[0][0])}, " if len({delta for delta, _ in budgets}) == 1 else ""
    style.headline(
        figure, f"Mean risk of {' to '.join(map(str, runs))} runs, {spent}{budgets[0][1]}"
    )
    style.legend(figure, style.entries(figure), columns=3)
    return figure


def _panel(place: Axes, cells: Sequence[CellResult], axis: str, names: Sequence[str]) -> None:
    some: list[CellResult] = []
    for name, members in grouped(cells, lambda cell: cell.named).items():
        top = [worst(group) for group in along(members, axis).values()]
        k = names.index(name)
        again, colour = divmod(k, len(_COLOURS))
        line: Style = {
            "color": _COLOURS[colour],
            "marker": _MARKERS[k % len(_MARKERS)],
            "ls": _LINES[again % len(_LINES)],
        }
        values = [cell.setting[axis] for cell in top]
        risks = [cell.optimum + cell.mean for cell in top]
        place.plot(values, risks, label=name, lw=1.5, ms=4.5, mec=PAPER, **line)
        some = top or some
    if not some:
        place.set_axis_off()
        return
    values = [cell.setting[axis] for cell in some]
    place.plot(values, [cell.optimum + cell.start for cell in some], **ZERO_PREDICTOR)
    place.plot(values, [cell.optimum for cell in some], **_OPTIMUM)
    tick(place, axis, values, some[0])


def _scale(place: Axes, cells: Sequence[CellResult]) -> None:
    """From the lowest optimum to somewhat above what doing nothing costs."""
    low = min(cell.optimum for cell in cells)
    high = float(np.nanmax([cell.optimum + cell.start for cell in cells]))
    span = high - low
    if span > 0.0:
        place.set_ylim(low - 0.05 * span, low + _HEADROOM * span)
