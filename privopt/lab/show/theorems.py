"""Verdicts: does what was measured agree with the theorem, at a stated chance of being wrong?

*bound*, one-sided, on every problem: the mean excess risk of each cell against ``rate.upper``.
*slope*, on the hard family where the rate is tight: the regression of ``log max_strength mean``
on the log of a swept axis, against ``rate.exponents``. Exponents are those of a leading term, as
the noise ratio ``r = sqrt(d)/(n mu)`` goes to 0, and risks at finite ``r`` differ from it by
``1 + O(r)``; the regression therefore carries ``r`` itself as a free regressor (a first correction
to scaling), which costs width, not honesty: without it, enough replicates refute any theorem.

A true theorem is refuted in an experiment with probability at most ``ALPHA`` by its slopes and at
most ``ALPHA`` by its bounds: intervals are simultaneous (Bonferroni). ``holds`` asks for more than
not being refuted: a slope's interval must also exclude exponents ``RESOLUTION`` away.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import numpy as np

from privopt.lab.make.experiment import CHECKS
from privopt.lab.show.intervals import UNKNOWN, Estimate, mean_interval, slopes
from privopt.lab.show.results import CellResult, along, grouped, swept_axes, worst
from privopt.lab.show.verdict import Outcome, Verdict

__all__ = ["ALPHA", "MIN_REPLICATES", "RESOLUTION", "compare", "theorem_verdicts"]

ALPHA = 0.01
"""Chance that a true theorem is refuted, per experiment and kind of check."""

RESOLUTION = 0.15
"""A slope that holds excludes every exponent this far from the theorem's."""

MIN_REPLICATES = 10
"""With fewer replicates in a cell, nothing is decided about a slope."""

_MIN_VALUES = 4
_GAP_SHARE = 0.01
_RATIO_DRIFT = 1e-3
_ROUNDING = 1e-9


def theorem_verdicts(every: Sequence[CellResult], checks: Sequence[str] = CHECKS) -> list[Verdict]:
    """Every verdict that the cells of experiments support.

    Each (algorithm, family) for which the theorem has a bound gets one on it; where the family is
    the one its rate is tight on, also one on the slope along each swept axis that the rate has an
    exponent for. An experiment that asks for one kind of check only gets that kind. Where nothing
    is claimed there is no verdict.
    """
    found = []
    for cells in grouped(every, lambda cell: cell.experiment).values():
        pairs = grouped(cells, lambda cell: (cell.method, cell.family)).values()
        axes = sum(len(_slope_axes(pair)) for pair in pairs)
        for pair in pairs:
            claiming = [cell for cell in pair if cell.claims]
            if "bound" in checks and claiming:
                found.append(_bound(claiming, ALPHA / len(cells)))
            if "slope" in checks:
                found += [_slope(pair, axis, ALPHA / axes) for axis in _slope_axes(pair)]
    return found


def _slope_axes(cells: Sequence[CellResult]) -> list[str]:
    if cells[0].family != cells[0].tight_on:
        return []
    return [axis for axis in swept_axes(cells) if axis in cells[0].exponents]


def _bound(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """``mean + gap <= upper`` in every cell, by limits that err with ``alpha`` in each."""
    severity = (Outcome.REFUTED, Outcome.UNDECIDED, Outcome.HOLDS)
    judged = [(*_bound_of_cell(cell, alpha), cell) for cell in cells]
    outcome, why, ratio, cell = min(
        judged, key=lambda item: (severity.index(item[0]), -np.nan_to_num(item[2].value))
    )
    return _verdict(cell, "bound", None, outcome, ratio, 1.0, f"{why}: {cell.place}")


def _bound_of_cell(cell: CellResult, alpha: float) -> tuple[Outcome, str, Estimate]:
    if not cell.is_finite:
        return Outcome.REFUTED, "value not finite", UNKNOWN
    mean = mean_interval(cell.values, alpha)
    ratio = mean.scaled(1.0 / cell.upper) if cell.upper > 0.0 else UNKNOWN
    if mean.lower > cell.upper:
        return Outcome.REFUTED, "mean above the bound", ratio
    if mean.upper + cell.gap <= cell.upper:
        return Outcome.HOLDS, "largest mean/bound", ratio
    if mean.upper <= cell.upper:
        return Outcome.UNDECIDED, f"certified gap too large ({cell.gap:.2g})", ratio
    return Outcome.UNDECIDED, "interval reaches across the bound", ratio


def _slope(cells: Sequence[CellResult], axis: str, alpha: float) -> Verdict:
    """The exponent along ``axis`` by an interval that misses with probability ``alpha``."""
    groups = along(cells, axis)
    serving = [cell for group in groups.values() for cell in group]
    target = cells[0].exponents[axis]
    for cell in serving:
        if not cell.is_finite:
            why = f"value not finite: {cell.place}"
            return _verdict(cell, "slope", axis, Outcome.REFUTED, UNKNOWN, target, why)
    obstacle = _obstacle(groups, axis)
    if obstacle:
        return _verdict(cells[0], "slope", axis, Outcome.UNDECIDED, UNKNOWN, target, obstacle)
    samples = [[cell.values for cell in group] for group in groups.values()]
    ratios = [group[0].noise_ratio for group in groups.values()]
    seed = _seed(cells[0], axis)
    slope, raw = slopes(list(groups), samples, alpha, seed, (ratios, None))
    outcome, why = compare(slope, target)
    span = (
        f"{len(groups)} values, {axis} {min(groups):g} to {max(groups):g}; "
        f"uncorrected {raw.value:.3f}"
    )
    return _verdict(cells[0], "slope", axis, outcome, slope, target, f"{why}{span}")


def compare(slope: Estimate, target: float) -> tuple[Outcome, str]:
    """Whether an exponent's interval contains ``target`` and excludes its neighbours; and why."""
    if not slope.lower - _ROUNDING <= target <= slope.upper + _ROUNDING:
        return Outcome.REFUTED, "interval excludes the theorem's exponent: "
    if target - RESOLUTION < slope.lower and slope.upper < target + RESOLUTION:
        return Outcome.HOLDS, ""
    return Outcome.UNDECIDED, f"interval does not exclude {target:g} ± {RESOLUTION:g}: "


def _obstacle(groups: Mapping[float, Sequence[CellResult]], axis: str) -> str:
    """What keeps a slope from being read off these cells; empty if nothing does."""
    serving = [cell for group in groups.values() for cell in group]
    if len(groups) < _MIN_VALUES:
        return f"{len(groups)} values of {axis}, {_MIN_VALUES} needed"
    fewest = min(cell.values.size for cell in serving)
    if fewest < MIN_REPLICATES:
        return f"{fewest} replicates, {MIN_REPLICATES} needed"
    if len({cell.exponents.get(axis) for cell in serving}) > 1:
        return f"the theorem's exponent changes along {axis}"
    ratios = [cell.setting["epsilon"] / cell.mu if cell.mu else math.inf for cell in serving]
    if min(ratios) < math.inf and max(ratios) > (1.0 + _RATIO_DRIFT) * min(ratios):
        return f"epsilon/mu changes along {axis}, from {min(ratios):.3g} to {max(ratios):.3g}"
    for group in groups.values():
        top, gap = worst(group), max(cell.gap for cell in group)
        if not top.mean > 0.0:
            return f"mean not positive: {top.place}"
        if not gap <= _GAP_SHARE * top.mean:
            share = gap / top.mean
            return f"certified gap too large ({share:.2g} of the mean): {top.place}"
    return ""


def _verdict(
    cell: CellResult,
    check: str,
    axis: str | None,
    outcome: Outcome,
    estimate: Estimate,
    target: float,
    detail: str,
) -> Verdict:
    return Verdict(
        experiment=cell.experiment,
        method=cell.method,
        family=cell.family,
        check=check,
        axis=axis,
        outcome=outcome,
        estimate=estimate.value,
        lower=estimate.lower,
        upper=estimate.upper,
        target=target,
        detail=detail,
    )


def _seed(cell: CellResult, axis: str) -> list[int]:
    name = f"{cell.root_seed} {cell.experiment} {cell.method} {cell.family} {axis}"
    digest = hashlib.sha256(name.encode()).digest()
    return [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)]
