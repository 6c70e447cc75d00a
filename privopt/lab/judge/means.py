"""The verdicts on means: do they lie below a bound, and are they what an exact law says?

Where the expectation is closed at finite size nothing is left to a theorem: a law tests the code,
that the program draws and measures what it says, and is told as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from privopt.lab.judge.estimates import UNKNOWN, Estimate, mean_interval
from privopt.lab.judge.results import CellResult
from privopt.lab.judge.sweeps import MIN_REPLICATES
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
        **cell.names,
        **ratio.told,
        check="bound",
        outcome=outcome,
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


LAW_RESOLUTION = 0.02
"""A law that holds is resolved to this relative standard error in every cell."""

_ROUNDING = 1e-9


def law_verdict(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """Whether ``mean = law`` in all the cells together, by chi-square.

    Each cell's Student ``t = (mean - law) / standard error``, corrected for the skewness of the
    values, is turned into the normal deviate of the same probability, so that few replicates do not
    count too much; the sum of their squares is chi-square with as many degrees of freedom as there
    are cells. A true law is refuted with probability ``alpha``; with few and very skewed values,
    more often (exponential ones at ``alpha`` = 1%: 4% for 12 replicates, 1% for 100). Where the
    certified gap leaves the mean a range, the end next to the law counts.

    Told is the average of ``mean/law`` over the cells, with an interval at level ``1 - alpha``.

    Source: Johnson, "Modified t tests and confidence intervals for asymmetrical populations",
    Journal of the American Statistical Association 1978 (the correction).
    """
    outcome, ratio, detail = _judged(cells, alpha)
    names, told = cells[0].names, ratio.told
    return Verdict(**names, **told, check="law", outcome=outcome, target=1.0, detail=detail)


def _judged(cells: Sequence[CellResult], alpha: float) -> tuple[Outcome, Estimate, str]:
    for cell in cells:
        if not cell.is_finite:
            return Outcome.REFUTED, UNKNOWN, f"value not finite: {cell.place}"
    fewest = min(cell.values.size for cell in cells)
    if fewest < MIN_REPLICATES:
        why = f"{fewest} replicates, {MIN_REPLICATES} needed"
        return Outcome.UNDECIDED, UNKNOWN, why
    laws, means, gaps, errors = np.array(
        [(cell.law, cell.mean, cell.gap, cell.standard_error) for cell in cells], dtype=np.float64
    ).T
    squares = [_deviate(cell, law) ** 2 for cell, law in zip(cells, laws, strict=True)]
    p = float(stats.chi2.sf(math.fsum(squares), laws.size))
    value = float(np.mean(means / laws))
    error = math.sqrt(np.sum((errors / laws) ** 2)) / laws.size
    half = float(stats.norm.isf(alpha / 2)) * error
    ratio = Estimate(value, value - half, value + half)
    resolution = float(np.max((errors + gaps) / laws))
    detail = (
        f"a test of the code, not of a theorem: {laws.size} cells, chi-square p = {p:.2g}, "
        f"largest relative standard error {resolution:.2g}"
    )
    if p < alpha:
        return Outcome.REFUTED, ratio, detail
    if not resolution <= LAW_RESOLUTION:
        return Outcome.UNDECIDED, ratio, f"{detail}, {LAW_RESOLUTION:g} needed"
    return Outcome.HOLDS, ratio, detail


def _deviate(cell: CellResult, law: float) -> float:
    """How far the mean lies from ``law``, as a standard normal deviate without its sign."""
    size, mean = cell.values.size, cell.mean
    error = max(cell.standard_error, _ROUNDING * law)
    short = min(max(law, mean), mean + cell.gap) - law
    third = float(np.mean((cell.values - mean) ** 3)) / (error * math.sqrt(size)) ** 3
    t = short / error
    t += third * (1.0 + 2.0 * t * t) / (6.0 * math.sqrt(size))
    return float(stats.norm.isf(stats.t.sf(abs(t), size - 1)))
