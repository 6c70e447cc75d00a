"""Figures of a sweep: the curves of every method between its bounds, with the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from privopt.lab.evaluation.cells import CellResult, cells_along, grouped, swept_axes, worst
from privopt.lab.evaluation.estimates import mean_interval
from privopt.lab.evaluation.verdict import ORACLE_TUNED, Verdict, flatten_twins
from privopt.lab.plotting import style
from privopt.lab.plotting.curves import (
    Baselines,
    Curve,
    LineEnd,
    PanelData,
    assign_looks,
    draw_panel,
    hidden_bounds,
    label_ends,
    label_width,
    legend_text,
    y_limits,
)
from privopt.lab.plotting.notation import (
    axis_label,
    estimate,
    method_label,
    number,
    paper_name,
    signed,
    small,
    symbol,
)
from privopt.lab.plotting.style import STYLE

_Array = npt.NDArray[np.float64]
_HEIGHT, _MAX_COLUMNS = 2.3, 3  # inches of a panel; panels in a row
_ALPHA = 0.025  # of each end of an interval


@mpl.rc_context(STYLE)
def curve_figure(
    cells: Sequence[CellResult],
    axis: str | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Figure:
    """Plot the mean of every method: rows for families, panels for swept axes.

    A mean is the mean at the worst strength of a family for that method.

    Parameters
    ----------
    cells : sequence of CellResult
        Measured cells of one experiment.
    axis : str, optional
        The only axis; default all.
    verdicts : sequence of Verdict
        Verdicts on slopes and bounds, which are printed below the panels.
    """
    families = grouped(cells, lambda cell: cell.family)
    axes = swept_axes(cells) if axis is None else [axis]
    rows: dict[str, dict[str, PanelData]] = {}
    for name, members in families.items():
        groups = {a: cells_along(members, a) for a in axes}
        rows[name] = {a: panel_data(group) for a, group in groups.items() if group}
    data = [panel for row in rows.values() for panel in row.values()]
    looks = assign_looks(curve for panel in data for curve in panel.curves)
    ranges = {name: y_limits(list(row.values())) for name, row in rows.items()}
    hidden = {name: hidden_bounds(row.values(), ranges[name][1]) for name, row in rows.items()}
    texts = [
        f"{name}: {', '.join(methods)}" if len(families) > 1 else ", ".join(methods)
        for name, methods in hidden.items()
        if methods
    ]
    notes = [*_verdict_notes(verdicts), legend_text(data)]
    notes += [f"Upper bounds above the picture: {'; '.join(texts)}."] if texts else []
    columns = 2 if len(axes) == 4 else min(_MAX_COLUMNS, len(axes))
    lines = [
        (name, list(row)[k : k + columns])
        for name, row in rows.items()
        for k in range(0, len(row), columns)
    ]
    figure, grid = style.sheet(
        _title(cells, axes), [_conditions(cells)], notes,
        panels=(len(lines), columns), height=_HEIGHT, left=0.76,
        right=label_width(curve for panel in data for curve in panel.curves), top=0.22,
    )  # fmt: skip
    for places, (name, names) in zip(grid, lines, strict=True):
        first = places[0]
        first.set_yscale("log")
        first.set_ylim(*ranges[name])
        style.at_round_numbers(first.yaxis)
        first.set_ylabel(families[name][0].label)
        if len(families) > 1:
            style.write_above(first, [(name, {"fontweight": "bold"})])
        ends = dict[str, LineEnd]()
        for place, a in zip(places, names, strict=False):
            new = draw_panel(place, rows[name][a], looks)
            ends = {key: end._replace(value=np.nan) for key, end in ends.items()}
            ends |= {end.name: end for end in new}
            place.set_xscale("log")
            style.at_values(place.xaxis, rows[name][a].baselines.values.tolist())
            setting = next(cell.setting for cell in families[name] if a in cell.axes)
            place.set_xlabel(axis_label(a, setting))
        for place in places[len(names) :]:
            figure.delaxes(place)
        label_ends(places[len(names) - 1], list(ends.values()), _HEIGHT)
    return figure


def panel_data(groups: Mapping[float, Sequence[CellResult]]) -> PanelData:
    """Return the content of a panel from the cells at each value of its axis."""
    lines: dict[str, dict[float, CellResult]] = {}
    for value, cells in groups.items():
        for name, same in grouped(cells, lambda cell: cell.method).items():
            silent = max(cell.nonprivate for cell in same)
            lines.setdefault(name, {})[value] = replace(worst(same), nonprivate=silent)
    zero = [max(cell.start for cell in cells) for cells in groups.values()]
    lower = [max(cell.lower for cell in cells) for cells in groups.values()]
    first = list(next(iter(lines.values())).values())
    stronger: dict[str, _Array] = {}
    # With one method the baselines are those at its worst strength and for its own guarantee.
    if len({name.removesuffix("_best") for name in lines}) == 1 and len(first) == len(groups):
        zero = [cell.start for cell in first]
        for guarantee in list(first[0].lower_bounds)[1:]:
            bounds = [cell.lower_bounds.get(guarantee, 0.0) for cell in first]
            stronger[guarantee] = np.array(bounds, np.float64)
    is_minimax = all(cell.is_minimax for cells in groups.values() for cell in cells)
    values, *levels = (np.array(each, np.float64) for each in (list(groups), zero, lower))
    baselines = Baselines(values, levels[0], levels[1], is_minimax, stronger)
    return PanelData([_curve(line) for line in lines.values()], baselines)


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
        nonprivate=np.array([cell.nonprivate for cell in cells]),
    )


def _title(cells: Sequence[CellResult], axes: Sequence[str]) -> str:
    methods = {paper_name(cell.method.removesuffix("_best")) for cell in cells}
    families = {cell.family for cell in cells}
    name = next(iter(methods)) if len(methods) == 1 else f"{len(methods)} methods"
    family = next(iter(families)) if len(families) == 1 else f"{len(families)} problems"
    labels = " or ".join(sorted({cell.label for cell in cells}))
    *head, last = map(symbol, axes)
    against = f"{', '.join(head)} and {last}" if head else last
    return f"{name[:1].upper()}{name[1:]} on {family}: {labels} against {against}"


def _conditions(cells: Sequence[CellResult]) -> str:
    """Return the number of runs, the number of strengths, delta and the relation."""
    runs = sorted({cell.values.size for cell in cells})
    deltas = sorted({cell.delta for cell in cells})
    groups = grouped(cells, lambda cell: (cell.method, cell.family, cell.setting_key))
    strengths = max(len(same) for same in groups.values())
    parts = [f"{' to '.join(map(number, dict.fromkeys((runs[0], runs[-1]))))} runs per point"]
    parts += [f"worst of {strengths} strengths"] if strengths > 1 else []
    parts += [f"δ = {small(deltas[0])}"] if len(deltas) == 1 else []
    parts.append(" or ".join(sorted({cell.relation.replace("_", "-") for cell in cells})))
    return ", ".join(parts)


def _verdict_notes(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line per axis and family with the slopes, or the bound if there are no slopes."""
    notes: dict[tuple[str, str], list[str]] = {}
    every = flatten_twins(verdicts)
    several = len({v.family for v in every}) > 1
    for v in sorted(every, key=lambda v: v.untuned):
        if v.check == "slope" and v.axis is not None:
            tuned = f"{ORACLE_TUNED} " if v.untuned else ""
            text = f"{tuned}slope {' '.join(estimate(v))}, theorem {signed(v.target)}: {v.outcome}"
            notes.setdefault((v.family, f"along {symbol(v.axis)}"), []).append(text)
    sloped = {family for family, _ in notes}
    for v in every:
        if v.check == "bound" and v.family not in sloped:
            text = f"{method_label(v.method, v.untuned)} {estimate(v)[0]}, {v.outcome}"
            notes.setdefault((v.family, "largest mean / bound"), []).append(text)
    return [
        f"{family + ', ' if several else ''}{head}: {'; '.join(texts)}."
        for (family, head), texts in notes.items()
    ]
