"""Estimates with intervals: of a mean, of a difference, and of the exponent of a power law."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """A value with an interval about it; NaN where nothing is known."""

    value: float
    lower: float
    upper: float

    @property
    def told(self) -> dict[str, Any]:
        """As fields of a verdict."""
        return {"estimate": self.value, "lower": self.lower, "upper": self.upper}

    def scaled(self, factor: float) -> Estimate:
        """The estimate of ``factor`` (positive) times the quantity."""
        return Estimate(factor * self.value, factor * self.lower, factor * self.upper)


UNKNOWN = Estimate(math.nan, math.nan, math.nan)


def mean_interval(samples: npt.NDArray[np.float64], alpha: float) -> Estimate:
    """Mean of ``samples`` with Student's limits, each wrong with probability ``alpha``.

    For samples skewed to the right, as risks are, the lower limit errs less often than that.
    One sample knows nothing: its limits are infinite.
    """
    mean, size = float(samples.mean()), samples.size
    if size < 2:
        return Estimate(mean, -math.inf, math.inf)
    half = float(stats.t.isf(alpha, size - 1) * samples.std(ddof=1)) / math.sqrt(size)
    return Estimate(mean, mean - half, mean + half)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """``first - second`` of two independent estimates, at the level of their intervals.

    The distances from the values to the limits add as standard errors do.

    Source: Zou and Donner, "Construction of confidence limits about effect measures", Statistics
    in Medicine 2008.
    """
    value = first.value - second.value
    below = math.hypot(first.value - first.lower, second.upper - second.value)
    above = math.hypot(first.upper - first.value, second.value - second.lower)
    return Estimate(value, value - below, value + above)


_CONTENDER = 2.0
_DRAWS = 4000

_Floats = npt.NDArray[np.float64]


class _LogMean(NamedTuple):
    """The log of a mean, and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Exponent:
    """A fitted exponent, and how the measured points scatter about their truth."""

    estimate: Estimate
    logs: _Floats  # of the values of the axis, centred
    errors: _Floats  # of the log of the largest mean, drawn: (values, draws)


def least_squares(values: Sequence[float], numbers: Sequence[float]) -> float:
    """Exponent ``b`` of ``numbers[k] = c values[k]^b``, all positive, by least squares in logs."""
    return float(_weights(_centred_logs(values)) @ np.log(np.asarray(numbers, dtype=np.float64)))


def exponent(
    values: Sequence[float],
    samples: Sequence[Sequence[_Floats]],
    alpha: float,
    seed: Sequence[int],
) -> Exponent:
    """Exponent ``b`` in ``max_s E samples[k][s] = c values[k]^b``, by least squares in logs.

    The log of a mean is normal in the limit, with the standard error of the mean over the mean;
    the interval is Student's, with ``m - 1`` degrees of freedom for the smallest number ``m`` of
    replicates. The largest of several means is biased upwards where they tie, and by a different
    amount at each value where only some do; hence the interval covers every choice of ``s`` at each
    value among the contenders, those whose mean lies within two standard errors (of the difference)
    of the largest.

    What the interval covers is the exponent that least squares finds in the true means at these
    values, finite sizes included; no correction is made for them.

    It misses with probability ``alpha``, half on each side. ``samples[k]`` holds an array of at
    least two replicates for each strength ``s``; ``seed`` is of the draws of ``errors``.
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
    return Exponent(
        _combined(values, groups, alpha, _fewest(samples)), _centred_logs(values), errors
    )


def exponents_apart(
    values: Sequence[float],
    samples: Sequence[Sequence[_Floats]],
    others: Sequence[Sequence[_Floats]],
    alpha: float,
    seed: Sequence[int],
) -> Estimate:
    """By how much the exponent of ``samples`` exceeds that of ``others``, made with the same keys.

    Replicates of one number and strength share their key, and what they share cancels in the
    difference: errors are those of pairs, drawn from the normal limit. So does most of what the
    largest of several means is biased by. The first replicates count, as many as both have;
    strengths must be the same.
    """
    rng = np.random.default_rng(seed)
    value, drawn = 0.0, np.zeros(_DRAWS)
    for weight, ours, theirs in zip(_weights(_centred_logs(values)), samples, others, strict=True):
        shared = min(s.size for s in (*ours, *theirs))
        pairs = np.array([[s[:shared] for s in each] for each in zip(ours, theirs, strict=True)])
        means = pairs.mean(axis=2)
        scales = np.where(means > 0.0, means, 1.0)
        logs = np.where(means > 0.0, np.log(scales), -np.inf)  # what is not positive is no largest
        errors = [
            rng.multivariate_normal((0.0, 0.0), np.cov(pair), _DRAWS) / math.sqrt(pair.shape[1])
            for pair in pairs / scales[..., None]
        ]
        tops = (logs[:, None] + errors).max(axis=0)
        value -= float(weight * np.diff(logs.max(axis=0))[0])
        drawn += weight * (tops[:, 0] - tops[:, 1])
    reach = float(stats.t.isf(alpha / 2, _fewest(samples) - 1) * drawn.std())
    return Estimate(value, value - reach, value + reach)


def _combined(
    values: Sequence[float], groups: Sequence[Sequence[_LogMean]], alpha: float, size: int
) -> Estimate:
    """The weighted sum of the first of every group, with an interval for every choice of one."""
    tail = float(stats.t.isf(alpha / 2, size - 1))
    terms = [
        [(float(w * value), abs(w) * error) for value, error in group]
        for w, group in zip(_weights(_centred_logs(values)), groups, strict=True)
    ]

    def end(chosen: Iterable[tuple[float, float]], sign: float) -> float:
        places, errors = zip(*chosen, strict=True)
        return math.fsum(places) + sign * tail * math.hypot(*errors)

    return Estimate(
        math.fsum(group[0][0] for group in terms),
        end(map(min, terms), -1.0),
        end(map(max, terms), 1.0),
    )


def _fewest(samples: Sequence[Sequence[_Floats]]) -> int:
    return min(s.size for group in samples for s in group)


def _centred_logs(values: Sequence[float]) -> _Floats:
    logs = np.log(np.asarray(values, dtype=np.float64))
    return logs - logs.mean()


def _weights(logs: _Floats) -> _Floats:
    """What each point weighs in the slope."""
    return logs / (logs @ logs)


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


def _log_mean(samples: _Floats) -> _LogMean:
    mean = float(samples.mean())
    return _LogMean(math.log(mean), float(samples.std(ddof=1)) / (mean * math.sqrt(samples.size)))
