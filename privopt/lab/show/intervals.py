"""Intervals for means and for the exponents of power laws, from independent replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["RESAMPLES", "UNKNOWN", "Estimate", "mean_interval", "slope_interval", "slopes"]

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
