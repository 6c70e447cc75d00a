"""Verdicts on means: against an upper bound, and against an exact law.

A law is an expectation in closed form at finite size. No theorem is involved, so a law is a test
of the code: of the sampling and of the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from privopt.lab.evaluation.cells import CellResult
from privopt.lab.evaluation.estimates import UNKNOWN, Estimate, mean_interval
from privopt.lab.evaluation.slopes import MIN_REPLICATES
from privopt.lab.evaluation.verdict import Outcome, Verdict

LAW_RESOLUTION = 0.02
"""Largest relative standard error in a cell for which a law can hold."""

_SEVERITY = (Outcome.REFUTED, Outcome.UNDECIDED, Outcome.ATTAINED, Outcome.HOLDS)
_ROUNDING = 1e-9

_SAME = 1e-3
"""Relative difference up to which a law and a bound are the same; no measurement resolves it."""


def bound_verdict(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """Check ``mean + gap <= upper`` in cells that have a bound, at error ``alpha`` in each.

    The estimate is the ratio of mean to bound in the worst cell. The verdict also has the number of
    cells in which the bound is below the risk of the public centre. If there is none, the check
    could not fail: the verdict is ``vacuous``, unless a mean is above the bound. Families with
    the minimiser at the centre are exempt. If the interval contains the bound and the exact mean
    equals it, the bound is ``attained``.
    """
    results = [(*_check_bound(cell, alpha), cell) for cell in cells]
    outcome, reason, ratio, cell = min(
        results, key=lambda item: (_SEVERITY.index(item[0]), -np.nan_to_num(item[2].value))
    )
    informative = [cell for cell in cells if not cell.starts_optimal]
    count = sum(cell.upper < cell.start for cell in informative)
    if informative and not count and outcome is not Outcome.REFUTED:
        outcome = Outcome.VACUOUS
    return Verdict(
        **cell.key_fields,
        **ratio.fields,
        check="bound",
        outcome=outcome,
        target=1.0,
        detail=f"{reason}: {cell.location}",
        below_centre=f"in {count} of {len(informative)} cells" if informative else "",
    )


def _check_bound(cell: CellResult, alpha: float) -> tuple[Outcome, str, Estimate]:
    if not cell.is_finite:
        return Outcome.REFUTED, "value not finite", UNKNOWN
    mean = mean_interval(cell.values, alpha)
    ratio = mean.scaled(1.0 / cell.upper) if cell.upper > 0.0 else UNKNOWN
    if mean.lower > cell.upper:
        return Outcome.REFUTED, "mean above the bound", ratio
    if mean.upper + cell.gap <= cell.upper:
        return Outcome.HOLDS, "largest mean/bound", ratio
    if cell.law is not None and abs(cell.law - cell.upper) <= _SAME * cell.upper:
        return Outcome.ATTAINED, "the exact mean is the bound", ratio
    if mean.upper <= cell.upper:
        return Outcome.UNDECIDED, f"certified gap too large ({cell.gap:.2g})", ratio
    return Outcome.UNDECIDED, "interval reaches across the bound", ratio


def law_verdict(cells: Sequence[CellResult], alpha: float) -> Verdict:
    """Test ``mean = law`` in all cells together by chi-square.

    Student's ``t = (mean - law) / standard error`` of each cell, corrected for skewness, is
    converted to the normal deviate of the same probability, so that cells with few replicates have
    the right weight. The sum of squares has as many degrees of freedom as there are cells. If the
    certified gap leaves the mean a range, the end closest to the law is used.

    A true law is refuted with probability ``alpha``. The probability is larger for few and very
    skewed values: exponential values at ``alpha`` = 1 % give 4 % for 12 replicates and 1 % for 100.

    The estimate is the average of ``mean/law`` over the cells, with an interval at level
    ``1 - alpha``.

    Source: Johnson, "Modified t tests and confidence intervals for asymmetrical populations",
    Journal of the American Statistical Association 1978 (the correction).
    """
    outcome, ratio, detail = _check_law(cells, alpha)
    return Verdict(
        **cells[0].key_fields,
        **ratio.fields,
        check="law",
        outcome=outcome,
        target=1.0,
        detail=detail,
    )


def _check_law(cells: Sequence[CellResult], alpha: float) -> tuple[Outcome, Estimate, str]:
    for cell in cells:
        if not cell.is_finite:
            return Outcome.REFUTED, UNKNOWN, f"value not finite: {cell.location}"
    fewest = min(cell.values.size for cell in cells)
    if fewest < MIN_REPLICATES:
        return Outcome.UNDECIDED, UNKNOWN, f"{fewest} replicates, {MIN_REPLICATES} needed"
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
    """Return the absolute difference of the mean from ``law`` as a standard normal deviate."""
    size, mean = cell.values.size, cell.mean
    error = max(cell.standard_error, _ROUNDING * law)
    shift = min(max(law, mean), mean + cell.gap) - law
    skewness = float(np.mean((cell.values - mean) ** 3)) / (error * math.sqrt(size)) ** 3
    t = shift / error
    t += skewness * (1.0 + 2.0 * t * t) / (6.0 * math.sqrt(size))
    return float(stats.norm.isf(stats.t.sf(abs(t), size - 1)))
