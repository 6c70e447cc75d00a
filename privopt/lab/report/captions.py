"""Captions of figures, and the same content in numbers as alternative text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from privopt.lab.evaluation.cells import (
    CellResult,
    cells_along,
    grouped,
    shares_of_zero_risk,
    swept_axes,
    worst,
    worst_per_setting,
)
from privopt.lab.evaluation.verdict import ORACLE_TUNED, Verdict
from privopt.lab.plotting.heatmaps import GridCells, grid_constants, unit_of_constants
from privopt.lab.plotting.notation import (
    axis_words,
    estimate,
    in_words,
    method_label,
    number,
    signed,
)
from privopt.lab.report.tables import range_text


class Caption(NamedTuple):
    """A caption and the alternative text of a figure."""

    text: str
    alt: str


def method_caption(cells: Sequence[CellResult], verdicts: Sequence[Verdict]) -> Caption:
    """Describe the figure of one method, with the verdicts on it and on its twin."""
    slopes = [_slope(verdict) for verdict in verdicts if verdict.check == "slope"]
    courses = [
        _course(axis, [worst(same) for same in cells_along(members, axis).values()])
        for members in grouped(cells, lambda cell: cell.family).values()
        for axis in swept_axes(members)
    ]
    name = method_label(cells[0].method, cells[0].untuned)
    text = f"{in_words(cells[0].label)} of {name} at the worst strength of the family (solid) "
    text += "and its upper bound (dashed). "
    text += "The theorem holds if the lines are parallel" if slopes else "The mean must be below it"
    ratios = [c.mean / c.upper for c in worst_per_setting(cells) if 0.0 < c.upper < math.inf]
    text += f"; the mean is {_range(ratios)} of the bound" if ratios else ""
    if any(verdict.untuned for verdict in verdicts):
        text += f". The thin line is {ORACLE_TUNED}: it has the best hyperparameters of a grid"
    shares = shares_of_zero_risk(cells)
    if lost := sum(share >= 1.0 for share in shares):
        text += f". At {lost} of {len(shares)} settings the zero predictor, which uses no data, is "
        text += "at least as good: all that can be learnt is less than the cost of privacy"
    return Caption(
        f"{text}.", f"{in_words(cells[0].label)} of {name}: {'; '.join(courses + slopes)}"
    )


def _slope(verdict: Verdict) -> str:
    value, interval = estimate(verdict)
    return (
        f"{f'{ORACLE_TUNED}, ' if verdict.untuned else ''}slope along "
        f"{axis_words(verdict.axis or '')} {value} {interval}, theorem {signed(verdict.target)}, "
        f"{verdict.outcome}"
    )


def _course(axis: str, cells: Sequence[CellResult]) -> str:
    """Describe the mean and the bounds at the first and the last value of an axis."""
    first, last = cells[0], cells[-1]
    bounds = {"upper bound": (first.upper, last.upper)}
    name = "lower bound of {}" if first.is_minimax else "minimax of {}, other problem"
    for guarantee, bound in first.lower_bounds.items():
        bounds[name.format(guarantee)] = bound, last.lower_bounds.get(guarantee, 0.0)
    values = [
        f"{name} {low:.3g} to {high:.3g}"
        for name, (low, high) in bounds.items()
        if min(low, high) > 0.0 and max(low, high) < math.inf
    ]
    ends = f"{number(first.setting[axis])} to {number(last.setting[axis])}"
    brackets = f" ({', '.join(values)})" if values else ""
    return f"{axis_words(axis)} {ends}: mean {first.mean:.3g} to {last.mean:.3g}{brackets}"


def comparison_caption(cells: Sequence[CellResult]) -> Caption:
    """Describe the figure of several methods by their shares of the zero predictor's risk."""
    texts = []
    for family, members in grouped(cells, lambda cell: cell.family).items():
        axis = swept_axes(members)[-1]
        groups = cells_along(members, axis)
        last = max(groups)
        shares = {
            method_label(same[0].method, same[0].untuned): worst(same).mean / worst(same).start
            for same in grouped(groups[last], lambda cell: cell.method).values()
            if worst(same).start > 0.0
        }
        listed = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        texts.append(
            f"on {family} at {axis_words(axis)} = {number(last)}: {listed}{_least(shares)}"
        )
    text = (
        "Lower is better. The dash-dotted line is the zero predictor, which uses no data; dashed "
        f"lines are upper bounds. Share of the zero predictor’s excess risk: {'; '.join(texts)}."
    )
    methods = len({cell.method for cell in cells})
    alt = f"Risk of {methods} methods, as a share of the zero predictor’s: {'; '.join(texts)}"
    return Caption(text, alt)


def _least(shares: Mapping[str, float]) -> str:
    values = {name: share for name, share in shares.items() if math.isfinite(share)}
    name = min(values, key=lambda each: values[each], default="")
    if name and values[name] >= 1.0:
        return " (no method is better than the zero predictor)"
    return f" (least: {name})" if len(values) > 1 else ""


def grid_caption(grid: GridCells) -> Caption:
    """Describe the figure of a grid by the smallest and the largest constant of every method."""
    ranges = []
    for (method, family), constants in grid_constants(grid).items():
        finite = [value for value in constants.values() if math.isfinite(value)]
        ranges += [f"{method} on {family} {_range(finite)}"] if finite else []
    axes = " and ".join(map(axis_words, grid.axes))
    head = (
        f"The mean divided by its {unit_of_constants(grid.cells)} for every combination of {axes}"
    )
    return Caption(
        f"{head}; darker cells are larger: {'; '.join(ranges)}.", f"{head}: {'; '.join(ranges)}"
    )


def _range(values: Sequence[float]) -> str:
    return range_text([f"{min(values):.2g}", f"{max(values):.2g}"])
