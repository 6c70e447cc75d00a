"""Point estimates with intervals: of a mean, of a difference and of the exponent of a power law."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

_Floats = npt.NDArray[np.float64]
_Samples = Sequence[Sequence[_Floats]]

_CONTENDER = 2.0
"""Standard errors of a difference up to which a mean may be the largest one."""

_DRAWS = 4000
"""Draws from the normal limit of the means."""


@dataclass(frozen=True)
class Estimate:
    """A value with an interval; NaN if unknown."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.lower:+.3f}, {self.upper:+.3f}]"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a verdict that hold an estimate."""
        return {"estimate": self.value, "lower": self.lower, "upper": self.upper}


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def mean_interval(samples: _Floats, alpha: float) -> Estimate:
    """Return the mean of ``samples`` with Student's limits, each wrong with probability ``alpha``.

    Risks are skewed to the right. The lower limit is then wrong less often than ``alpha``. The
    limits are infinite for a single sample.
    """
    mean, size = float(samples.mean()), samples.size
    if size < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = float(stats.t.isf(alpha, size - 1) * samples.std(ddof=1)) / math.sqrt(size)
    return Estimate(mean, mean - half, mean + half)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Return ``first - second`` of two independent estimates, at the level of their intervals.

    The distances from the values to the limits add in quadrature, like standard errors.

    Source: Zou and Donner, "Construction of confidence limits about effect measures", Statistics
    in Medicine 2008.
    """
    value = first.value - second.value
    lower = value - math.hypot(first.value - first.lower, second.upper - second.value)
    upper = value + math.hypot(first.upper - first.value, second.value - second.lower)
    return Estimate(value, lower, upper)


class _LogMean(NamedTuple):
    """The logarithm of a mean and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Exponent:
    """A fitted exponent and the random errors of the points that it is fitted to."""

    estimate: Estimate
    logs: _Floats  # centred logarithms of the axis values
    errors: _Floats  # sampled errors of the log of the largest mean, shape (values, draws)


def least_squares(values: Sequence[float], numbers: Sequence[float]) -> float:
    """Fit the exponent ``b`` of ``numbers[k] = c values[k]^b``, all positive, in logarithms."""
    return float(_weights(_centred_logs(values)) @ np.log(np.asarray(numbers, dtype=np.float64)))


def fit_exponent(
    values: Sequence[float], samples: _Samples, alpha: float, seed: Sequence[int]
) -> Exponent:
    """Fit ``b`` in ``max_s E samples[k][s] = c values[k]^b`` by least squares in logarithms.

    The log of a mean is asymptotically normal, with standard error equal to the standard error of
    the mean divided by the mean. The interval uses Student's law with ``m - 1`` degrees of freedom
    for the smallest number ``m`` of replicates.

    The largest of several means is biased upwards if they are close. The interval therefore covers
    every choice of ``s`` at each value among the contenders. A contender is a strength with a
    mean at most two standard errors of the difference below the largest.

    The covered parameter is the least-squares exponent of the true means at these values. It is
    not corrected for finite sizes. The interval is wrong with probability ``alpha``, half of it on
    each side.

    Parameters
    ----------
    values : sequence of float
        Values of the axis.
    samples : sequence
        ``samples[k][s]``: at least two replicates at ``values[k]`` and strength ``s``.
    alpha : float
        Error probability of the interval.
    seed : sequence of int
        Seed of the sampled errors.
    """
    groups = [[_log_mean(s) for s in _contenders(group)] for group in samples]
    rng = np.random.default_rng(seed)
    largest = np.array(
        [
            np.max([v + e * rng.standard_normal(_DRAWS) for v, e in group], axis=0)
            for group in groups
        ]
    )
    errors = largest - largest.mean(axis=1, keepdims=True)
    estimate = _slope_interval(values, groups, alpha, _smallest_size(samples))
    return Exponent(estimate, _centred_logs(values), errors)


def exponent_difference(
    values: Sequence[float],
    samples: _Samples,
    others: _Samples,
    alpha: float,
    seed: Sequence[int],
) -> Estimate:
    """Estimate the exponent of ``samples`` minus the exponent of ``others``, from paired runs.

    Replicates with the same index and strength share their key. Their common randomness cancels in
    the difference, and so does most of the bias of the largest mean. Errors are sampled from the
    normal limit of the pairs. Only the replicates that both sides have are used; the strengths
    must be the same.
    """
    rng = np.random.default_rng(seed)
    value, sampled = 0.0, np.zeros(_DRAWS)
    for weight, ours, theirs in zip(_weights(_centred_logs(values)), samples, others, strict=True):
        shared = min(s.size for s in (*ours, *theirs))
        pairs = np.array([[s[:shared] for s in each] for each in zip(ours, theirs, strict=True)])
        means = pairs.mean(axis=2)
        scales = np.where(means > 0.0, means, 1.0)
        # A mean that is not positive is never the largest.
        logs = np.where(means > 0.0, np.log(scales), -np.inf)
        errors = [
            rng.multivariate_normal((0.0, 0.0), np.cov(pair), _DRAWS) / math.sqrt(pair.shape[1])
            for pair in pairs / scales[..., None]
        ]
        largest = (logs[:, None] + errors).max(axis=0)
        value -= float(weight * np.diff(logs.max(axis=0))[0])
        sampled += weight * (largest[:, 0] - largest[:, 1])
    half = float(stats.t.isf(alpha / 2, _smallest_size(samples) - 1) * sampled.std())
    return Estimate(value, value - half, value + half)


def _slope_interval(
    values: Sequence[float], groups: Sequence[Sequence[_LogMean]], alpha: float, size: int
) -> Estimate:
    """Return the slope of the first of every group, with an interval for every choice of one."""
    quantile = float(stats.t.isf(alpha / 2, size - 1))
    terms = [
        [(float(w * value), abs(w) * error) for value, error in group]
        for w, group in zip(_weights(_centred_logs(values)), groups, strict=True)
    ]

    def limit(selected: Iterable[tuple[float, float]], sign: float) -> float:
        centres, errors = zip(*selected, strict=True)
        return math.fsum(centres) + sign * quantile * math.hypot(*errors)

    return Estimate(
        math.fsum(group[0][0] for group in terms),
        limit(map(min, terms), -1.0),
        limit(map(max, terms), 1.0),
    )


def _smallest_size(samples: _Samples) -> int:
    return min(s.size for group in samples for s in group)


def _centred_logs(values: Sequence[float]) -> _Floats:
    logs = np.log(np.asarray(values, dtype=np.float64))
    return logs - logs.mean()


def _weights(logs: _Floats) -> _Floats:
    return logs / (logs @ logs)


def _contenders(group: Sequence[_Floats]) -> list[_Floats]:
    """Return the samples that may have the largest true mean, the largest observed mean first."""
    first, *others = sorted(group, key=lambda s: -float(s.mean()))
    limit = first.var(ddof=1) / first.size
    return [
        first,
        *(
            s
            for s in others
            if first.mean() - s.mean() <= _CONTENDER * math.sqrt(limit + s.var(ddof=1) / s.size)
        ),
    ]


def _log_mean(samples: _Floats) -> _LogMean:
    mean = float(samples.mean())
    return _LogMean(math.log(mean), float(samples.std(ddof=1)) / (mean * math.sqrt(samples.size)))
