"""The verdict on a bound: does the mean lie below it in every cell, and could it have failed?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privopt.lab.judge.intervals import UNKNOWN, Estimate, mean_interval
from privopt.lab.judge.results import CellResult
from privopt.lab.judge.verdict import Outcome, Verdict

_SEVERITY = (Outcome.REFUTED, Outcome.UNDECIDED, Outcome.ATTAINED, Outcome.HOLDS)
_EQUAL = 1e-3
"""A law within this share of the bound is the bound: no measurement tells the two apart."""


def bound_verdict(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """``mean + gap <= upper`` in cells with a claim, by limits that err with ``alpha`` in each.

    Told is the ratio of mean to bound in the worst cell, and in how many cells the bound lies below
    the risk of the public centre. Where it does so in none, nothing could have gone wrong: the
    verdict is ``vacuous``, unless a mean is above the bound. On a family whose centre is the
    minimiser the centre says nothing. Where the interval reaches across the bound, and the exact
    mean is the bound, the bound is ``attained``.
    """
    judged = [(*_bound_of(cell, alpha), cell) for cell in cells]
    outcome, why, ratio, cell = min(
        judged, key=lambda item: (_SEVERITY.index(item[0]), -np.nan_to_num(item[2].value))
    )
    beside = [each for each in cells if not each.starts_optimal]
    below = sum(each.upper < each.start for each in beside)
    if beside and not below and outcome is not Outcome.REFUTED:
        outcome = Outcome.VACUOUS
    return Verdict(
        experiment=cell.experiment,
        method=cell.method,
        family=cell.family,
        check="bound",
        outcome=outcome,
        estimate=ratio.value,
        lower=ratio.lower,
        upper=ratio.upper,
        target=1.0,
        detail=f"{why}: {cell.place}",
        below=f"in {below} of {len(beside)} cells" if beside else "",
    )


def _bound_of(cell: CellResult, alpha: float) -> tuple[Outcome, str, Estimate]:
    if not cell.is_finite:
        return Outcome.REFUTED, "value not finite", UNKNOWN
    mean = mean_interval(cell.values, alpha)
    ratio = mean.scaled(1.0 / cell.upper) if cell.upper > 0.0 else UNKNOWN
    if mean.lower > cell.upper:
        return Outcome.REFUTED, "mean above the bound", ratio
    if mean.upper + cell.gap <= cell.upper:
        return Outcome.HOLDS, "largest mean/bound", ratio
    if cell.law is not None and abs(cell.law - cell.upper) <= _EQUAL * cell.upper:
        return Outcome.ATTAINED, "the exact mean is the bound", ratio
    if mean.upper <= cell.upper:
        return Outcome.UNDECIDED, f"certified gap too large ({cell.gap:.2g})", ratio
    return Outcome.UNDECIDED, "interval reaches across the bound", ratio
