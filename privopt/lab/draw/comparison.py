"""One figure of the methods of a sweep: their curves between the bounds, beside zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from privopt.lab.draw import curves, style, ticks
from privopt.lab.draw.curves import Curve, End, Ground, Plane
from privopt.lab.draw.notation import axis_label
from privopt.lab.draw.sheet import LOOK, sheet
from privopt.lab.judge.estimates import mean_interval
from privopt.lab.judge.results import CellResult, along, grouped, swept_axes, worst

COMPARED = "compared"
"""The name of the figure."""

_ALPHA = 0.025  # of each end of an interval
_HEIGHT = 2.3  # inches, of a panel

_Groups = Mapping[float, Sequence[CellResult]]


@mpl.rc_context(LOOK)
def comparison(cells: Sequence[CellResult], axis: str | None = None) -> Figure:
    """The mean of every method: a row for each family, a panel for each swept axis, or for one.

    A mean is that at the method's worst strength of a family, and zero's that at its own.
    """
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells) if axis is None else [axis]
    groups = {(name, a): along(same, a) for name, same in families.items() for a in axes}
    planes = {where: _plane(several) for where, several in groups.items() if several}
    rows = {name: [planes[name, a] for a in axes if (name, a) in planes] for name in families}
    every = [curve for plane in planes.values() for curve in plane.curves]
    ranges, drawn = {name: curves.limits(row) for name, row in rows.items()}, curves.looks(every)
    lost = {name: curves.lost(row, ranges[name][1]) for name, row in rows.items()}
    told = [
        f"{name}: {', '.join(gone)}" if len(families) > 1 else ", ".join(gone)
        for name, gone in lost.items()
        if gone
    ]
    notes = [f"Upper bounds above the picture: {'; '.join(told)}"] if told else []
    figure, grid = sheet(
        *_head(cells), [curves.key(list(planes.values())), *notes],
        panels=(len(rows), len(axes)), height=_HEIGHT, left=0.76, right=curves.width(every),
        top=0.22,
    )  # fmt: skip
    for places, name in zip(grid, rows, strict=True):
        places[0].set_yscale("log")
        places[0].set_ylim(*ranges[name])
        ticks.rounded(places[0].yaxis)
        places[0].set_ylabel(families[name][0].label)
        style.above(places[0], [(name, {"fontweight": "bold"})])
        ends, last = dict[str, End](), places[0]
        for place, a in zip(places, axes, strict=True):
            if (name, a) not in planes:
                place.set_axis_off()
                continue
            before = {other: end._replace(value=np.nan) for other, end in ends.items()}
            now = curves.draw(place, planes[name, a], drawn)
            ends, last = before | {end.name: end for end in now}, place
            place.set_xscale("log")
            ticks.swept(place.xaxis, list(groups[name, a]))
            place.set_xlabel(axis_label(a, next(iter(groups[name, a].values()))[0].setting))
        curves.label(last, list(ends.values()), _HEIGHT)
    return figure


def _plane(groups: _Groups) -> Plane:
    everyone = {value: _worst_of(cells) for value, cells in groups.items()}
    methods = dict.fromkeys(name for found in everyone.values() for name in found)
    lines = [{v: found[name] for v, found in everyone.items() if name in found} for name in methods]
    zero = [max(cell.start for cell in cells) for cells in groups.values()]
    lower = [max(cell.lower for cell in cells) for cells in groups.values()]
    holds = all(cell.is_minimax for cells in groups.values() for cell in cells)
    values, *levels = (np.array(each, np.float64) for each in (list(groups), zero, lower))
    return Plane([_curve(line) for line in lines], Ground(values, levels[0], levels[1], holds))


def _worst_of(cells: Sequence[CellResult]) -> dict[str, CellResult]:
    """Every method's cell of worst strength; without noise, too, the worst strength counts."""
    found = grouped(cells, lambda cell: cell.method)
    silent = {name: max(cell.nonprivate for cell in same) for name, same in found.items()}
    return {name: replace(worst(same), nonprivate=silent[name]) for name, same in found.items()}


def _curve(line: Mapping[float, CellResult]) -> Curve:
    cells = list(line.values())
    intervals = [mean_interval(cell.values, _ALPHA) for cell in cells]
    return Curve(
        cells[0].method,
        cells[0].untuned,
        values=np.array(list(line), np.float64),
        mean=np.array([cell.mean for cell in cells]),
        interval=np.array([(each.lower, each.upper) for each in intervals]).T,
        band=np.array([np.quantile(cell.values, (0.1, 0.9)) for cell in cells]).T,
        upper=np.array([cell.upper for cell in cells]),
        silent=np.array([cell.nonprivate for cell in cells]),
    )


def _head(cells: Sequence[CellResult]) -> tuple[str, list[str]]:
    """What was measured, of how many methods; and how."""
    methods = sorted({cell.named for cell in cells})
    what = methods[0] if len(methods) == 1 else f"{len(methods)} methods"
    runs = sorted({cell.values.size for cell in cells})
    deltas = sorted({cell.delta for cell in cells})
    relations = sorted({cell.relation.replace("_", "-") for cell in cells})
    strengths = max(len(same) for same in grouped(cells, _place).values())
    worst_strength = [f"worst of {strengths} strengths"] if strengths > 1 else []
    told = [
        f"{' to '.join(str(count) for count in dict.fromkeys((runs[0], runs[-1])))} runs a point",
        *worst_strength,
        *([f"δ = {deltas[0]:.3g}"] if len(deltas) == 1 else []),
        " or ".join(relations),
    ]
    labels = " or ".join(sorted({cell.label for cell in cells}))
    return f"{labels[:1].upper()}{labels[1:]} of {what}", [", ".join(told)]


def _place(cell: CellResult) -> tuple[object, ...]:
    return cell.method, cell.family, str(sorted(cell.setting.items()))
