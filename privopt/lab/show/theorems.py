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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import stats

from privopt.lab.make.records import about
from privopt.lab.show.results import AXES, Measured, along, grouped, measured, worst
from privopt.lab.show.verdict import Outcome, Verdict

__all__ = [
    "ALPHA", "MIN_REPLICATES", "RESAMPLES", "RESOLUTION", "UNKNOWN", "Estimate", "compare",
    "mean_interval", "slope_interval", "slopes", "theorem_verdicts",
]  # fmt: skip

ALPHA = 0.01
"""Chance that a true theorem is refuted, per experiment and kind of check."""

RESOLUTION = 0.15
"""A slope that holds excludes every exponent this far from the theorem's."""

MIN_REPLICATES = 10
"""With fewer replicates in a cell, nothing is decided about a slope."""

_CHECKS = ("bound", "slope")

_MIN_VALUES = 4
_GAP_SHARE = 0.01
_RATIO_DRIFT = 1e-3
_ROUNDING = 1e-9


def theorem_verdicts(table: pa.Table) -> list[Verdict]:
    """Every verdict a results table supports; a function of its rows, not of their order.

    Each (algorithm, family) for which the theorem has a bound gets one on it; where the family is
    the one its rate is tight on, also one on the slope along each swept axis that the rate has an
    exponent for. An experiment that asks for one kind of check only gets that kind. Where nothing
    is claimed there is no verdict.

    Raises
    ------
    ValueError
        If the table lacks columns or repeats a replicate.
    """
    checks = about(table).get("checks", _CHECKS) if table.schema.metadata else _CHECKS
    found = []
    for cells in grouped(measured(table), lambda cell: cell.experiment).values():
        pairs = grouped(cells, lambda cell: (cell.algorithm, cell.family)).values()
        axes = sum(len(_slope_axes(pair)) for pair in pairs)
        for pair in pairs:
            claiming = [cell for cell in pair if cell.claims]
            if "bound" in checks and claiming:
                found.append(_bound(claiming, ALPHA / len(cells)))
            if "slope" in checks:
                found += [_slope(pair, axis, ALPHA / axes) for axis in _slope_axes(pair)]
    return found


def _slope_axes(cells: Sequence[Measured]) -> list[str]:
    if cells[0].family != cells[0].tight_on:
        return []
    swept = frozenset[str]().union(*(cell.axes for cell in cells))
    return [axis for axis in AXES if axis in swept and axis in cells[0].exponents]


def _bound(cells: Sequence[Measured], alpha: float) -> Verdict:
    """``mean + gap <= upper`` in every cell, by limits that err with ``alpha`` in each."""
    severity = (Outcome.REFUTED, Outcome.UNDECIDED, Outcome.HOLDS)
    judged = [(*_bound_of_cell(cell, alpha), cell) for cell in cells]
    outcome, why, ratio, cell = min(
        judged, key=lambda item: (severity.index(item[0]), -np.nan_to_num(item[2].value))
    )
    return _verdict(cell, "bound", None, outcome, ratio, 1.0, f"{why}: {_place(cell)}")


def _bound_of_cell(cell: Measured, alpha: float) -> tuple[Outcome, str, Estimate]:
    if not np.isfinite(cell.risks).all():
        return Outcome.REFUTED, "risk not finite", UNKNOWN
    mean = mean_interval(cell.risks, alpha)
    ratio = mean.scaled(1.0 / cell.upper) if cell.upper > 0.0 else UNKNOWN
    if mean.lower > cell.upper:
        return Outcome.REFUTED, "mean above the bound", ratio
    if mean.upper + cell.gap <= cell.upper:
        return Outcome.HOLDS, "largest mean/bound", ratio
    if mean.upper <= cell.upper:
        return Outcome.UNDECIDED, f"certified gap too large ({cell.gap:.2g})", ratio
    return Outcome.UNDECIDED, "interval reaches across the bound", ratio


def _slope(cells: Sequence[Measured], axis: str, alpha: float) -> Verdict:
    """The exponent along ``axis`` by an interval that misses with probability ``alpha``."""
    groups = along(cells, axis)
    serving = [cell for group in groups.values() for cell in group]
    target = cells[0].exponents[axis]
    for cell in serving:
        if not np.isfinite(cell.risks).all():
            why = f"risk not finite: {_place(cell)}"
            return _verdict(cell, "slope", axis, Outcome.REFUTED, UNKNOWN, target, why)
    obstacle = _obstacle(groups, axis)
    if obstacle:
        return _verdict(cells[0], "slope", axis, Outcome.UNDECIDED, UNKNOWN, target, obstacle)
    samples = [[cell.risks for cell in group] for group in groups.values()]
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


def _obstacle(groups: Mapping[float, Sequence[Measured]], axis: str) -> str:
    """What keeps a slope from being read off these cells; empty if nothing does."""
    serving = [cell for group in groups.values() for cell in group]
    if len(groups) < _MIN_VALUES:
        return f"{len(groups)} values of {axis}, {_MIN_VALUES} needed"
    fewest = min(cell.risks.size for cell in serving)
    if fewest < MIN_REPLICATES:
        return f"{fewest} replicates, {MIN_REPLICATES} needed"
    if len({cell.exponents.get(axis) for cell in serving}) > 1:
        return f"the theorem's exponent changes along {axis}"
    ratios = [cell.epsilon / cell.mu if cell.mu else math.inf for cell in serving]
    if min(ratios) < math.inf and max(ratios) > (1.0 + _RATIO_DRIFT) * min(ratios):
        return f"epsilon/mu changes along {axis}, from {min(ratios):.3g} to {max(ratios):.3g}"
    for group in groups.values():
        top, gap = worst(group), max(cell.gap for cell in group)
        if not top.mean > 0.0:
            return f"mean risk not positive: {_place(top)}"
        if not gap <= _GAP_SHARE * top.mean:
            share = gap / top.mean
            return f"certified gap too large ({share:.2g} of the mean risk): {_place(top)}"
    return ""


def _verdict(
    cell: Measured,
    check: str,
    axis: str | None,
    outcome: Outcome,
    estimate: Estimate,
    target: float,
    detail: str,
) -> Verdict:
    return Verdict(
        experiment=cell.experiment,
        algorithm=cell.algorithm,
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


def _place(cell: Measured) -> str:
    strength = "" if cell.strength == 1.0 else f", strength={cell.strength:g}"
    return f"n={cell.n}, dim={cell.dim}, epsilon={cell.epsilon:g}{strength}"


def _seed(cell: Measured, axis: str) -> list[int]:
    name = f"{cell.root_seed} {cell.experiment} {cell.algorithm} {cell.family} {axis}"
    digest = hashlib.sha256(name.encode()).digest()
    return [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)]


RESAMPLES = 4000

_CONTENDER = 2.0
_CHUNK = 2**22

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value with an interval about it; NaN where nothing is known."""

    value: float
    lower: float
    upper: float

    def scaled(self, factor: float) -> Estimate:
        """The estimate of ``factor`` (positive) times the quantity."""
        return Estimate(factor * self.value, factor * self.lower, factor * self.upper)


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def mean_interval(samples: _Floats, alpha: float) -> Estimate:
    """Mean of ``samples`` with Student's limits, each wrong with probability ``alpha``.

    For samples skewed to the right, as risks are, the lower limit errs less often than that.
    One sample knows nothing: its limits are infinite.
    """
    mean, size = float(samples.mean()), samples.size
    if size < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = float(stats.t.isf(alpha, size - 1) * samples.std(ddof=1)) / math.sqrt(size)
    return Estimate(mean, mean - half, mean + half)


def slope_interval(
    values: Sequence[float],
    samples: Sequence[Sequence[_Floats]],
    alpha: float,
    seed: Sequence[int],
    *,
    correction: Sequence[float] | None = None,
) -> Estimate:
    """Exponent ``b`` in ``max_s E samples[k][s] = c values[k]^b``, by least squares in logs.

    With a ``correction`` the law is ``c values[k]^b (1 + a correction[k])``, ``a`` free and the
    correction small: ``b`` is then the exponent of the limit in which the correction vanishes.

    The interval is a percentile bootstrap over replicates, resampled within every ``(k, s)`` and
    expanded by ``sqrt(m/(m-1)) t_{m-1}/z`` for the smallest number ``m`` of replicates, which
    restores its level for small ``m``. The largest of several means is biased upwards where they
    tie, and by a different amount at each value where only some do; hence the interval covers
    every choice of ``s`` at each value among the contenders, those whose mean lies within two
    standard errors (of the difference) of the largest.

    Parameters
    ----------
    values : sequence of float
        Positive, at least two distinct.
    samples : sequence of sequences of ndarray
        At each value, one array of at least two replicates for each strength ``s``.
    alpha : float
        The interval misses with probability ``alpha``, half on each side.
    seed : sequence of int
        Of the resampling; equal seeds give equal intervals.
    correction : sequence of float, optional
        At each value the size of the first correction to scaling.

    Source: Hesterberg, "What teachers should know about the bootstrap", American Statistician
    2015, Section 4.4 (the expanded percentile interval).
    """
    (found,) = slopes(values, samples, alpha, seed, (correction,))
    return found


def slopes(
    values: Sequence[float],
    samples: Sequence[Sequence[_Floats]],
    alpha: float,
    seed: Sequence[int],
    corrections: Sequence[Sequence[float] | None],
) -> list[Estimate]:
    """:func:`slope_interval` with each of the corrections, from the same resamples."""
    rng = np.random.default_rng(seed)
    means = [[_log_means(s, rng) for s in _contenders(group)] for group in samples]
    size = min(s.size for group in samples for s in group)
    tail = stats.t.isf(alpha / 2, size - 1) / stats.norm.isf(alpha / 2)
    tail *= math.sqrt(size / (size - 1))
    return [_fitted(values, means, alpha, tail, correction) for correction in corrections]


def _fitted(
    values: Sequence[float],
    means: Sequence[Sequence[_Floats]],
    alpha: float,
    tail: float,
    correction: Sequence[float] | None,
) -> Estimate:
    """The exponent from the logs of the contenders' means, each followed by its resamples."""
    x = np.log(np.asarray(values, dtype=np.float64))
    regressors = [x - x.mean(), np.ones_like(x)]
    if correction is not None:
        regressors.append(np.asarray(correction, dtype=np.float64))
    weights = np.linalg.pinv(np.stack(regressors, axis=1))[0]
    value, low, high = 0.0, np.zeros(RESAMPLES + 1), np.zeros(RESAMPLES + 1)
    for weight, group in zip(weights, means, strict=True):
        terms = [weight * mean for mean in group]
        value += terms[0][0]
        low += min(terms, key=lambda term: term[0])
        high += max(terms, key=lambda term: term[0])
    return Estimate(
        float(value),
        float(low[0] - tail * (low[0] - np.quantile(low[1:], alpha / 2))),
        float(high[0] + tail * (np.quantile(high[1:], 1 - alpha / 2) - high[0])),
    )


def _contenders(group: Sequence[_Floats]) -> list[_Floats]:
    """The samples that may have the largest mean, the one that has it in the data first."""
    first, *others = sorted(group, key=lambda s: -float(s.mean()))
    return [
        first,
        *(
            s
            for s in others
            if first.mean() - s.mean()
            <= _CONTENDER * math.sqrt(first.var(ddof=1) / first.size + s.var(ddof=1) / s.size)
        ),
    ]


def _log_means(samples: _Floats, rng: np.random.Generator) -> _Floats:
    """Log of the mean, followed by those of ``RESAMPLES`` samples drawn with replacement."""
    rows = max(1, _CHUNK // samples.size)
    draws = [
        samples[rng.integers(samples.size, size=(min(rows, RESAMPLES - done), samples.size))]
        for done in range(0, RESAMPLES, rows)
    ]
    means = np.concatenate([samples[None].mean(axis=1), *(draw.mean(axis=1) for draw in draws)])
    return np.log(np.maximum(means, np.finfo(np.float64).tiny))
