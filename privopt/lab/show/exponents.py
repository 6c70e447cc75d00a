"""Exponents of power laws, by least squares in logs, with intervals from resampled replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from privopt.lab.show.intervals import Estimate

__all__ = ["RESAMPLES", "Exponent", "exponent", "least_squares"]

RESAMPLES = 4000

_CONTENDER = 2.0
_CHUNK = 2**22

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Exponent:
    """A fitted exponent, and how the measured points scatter about their truth.

    Attributes
    ----------
    estimate : Estimate
    logs : ndarray
        Of the values of the axis, centred, shape ``(values,)``.
    errors : ndarray
        Of the log of the largest mean at each value, as resampling has them, about their average,
        shape ``(values, resamples)``.
    """

    estimate: Estimate
    logs: _Floats
    errors: _Floats


def least_squares(values: Sequence[float], numbers: Sequence[float]) -> float:
    """Exponent ``b`` of ``numbers[k] = c values[k]^b``, all positive, by least squares in logs.

    Examples
    --------
    >>> round(least_squares((1.0, 2.0, 4.0), (5.0, 20.0, 80.0)), 12)
    2.0
    """
    return float(_weights(_centred_logs(values)) @ np.log(np.asarray(numbers, dtype=np.float64)))


def exponent(
    values: Sequence[float],
    samples: Sequence[Sequence[_Floats]],
    alpha: float,
    seed: Sequence[int],
    *,
    resamples: int = RESAMPLES,
) -> Exponent:
    """Exponent ``b`` in ``max_s E samples[k][s] = c values[k]^b``, by least squares in logs.

    The interval is a percentile bootstrap over replicates, resampled within every ``(k, s)`` and
    expanded by ``sqrt(m/(m-1)) t_{m-1}/z`` for the smallest number ``m`` of replicates, which
    restores its level for small ``m``. The largest of several means is biased upwards where they
    tie, and by a different amount at each value where only some do; hence the interval covers
    every choice of ``s`` at each value among the contenders, those whose mean lies within two
    standard errors (of the difference) of the largest.

    What the interval covers is the exponent that least squares finds in the true means at these
    values, finite sizes included; no correction is made for them.

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
    resamples : int, optional
        How often replicates are drawn anew.

    Source: Hesterberg, "What teachers should know about the bootstrap", American Statistician
    2015, Section 4.4 (the expanded percentile interval).

    Examples
    --------
    >>> samples = [[np.array([0.9, 1.0, 1.1]) * value] for value in (1.0, 2.0, 4.0)]
    >>> found = exponent((1.0, 2.0, 4.0), samples, 0.1, [0]).estimate
    >>> round(found.value, 12), found.lower < 1.0 < found.upper
    (1.0, True)
    """
    rng = np.random.default_rng(seed)
    means = [[_log_means(s, rng, resamples) for s in _contenders(group)] for group in samples]
    size = min(s.size for group in samples for s in group)
    small = math.sqrt(size / (size - 1))
    tail = small * stats.t.isf(alpha / 2, size - 1) / stats.norm.isf(alpha / 2)
    logs = _centred_logs(values)
    value, low, high = 0.0, np.zeros(resamples + 1), np.zeros(resamples + 1)
    for weight, group in zip(_weights(logs), means, strict=True):
        terms = [weight * mean for mean in group]
        value += terms[0][0]
        low += min(terms, key=lambda term: term[0])
        high += max(terms, key=lambda term: term[0])
    estimate = Estimate(
        float(value),
        float(low[0] - tail * (low[0] - np.quantile(low[1:], alpha / 2))),
        float(high[0] + tail * (np.quantile(high[1:], 1 - alpha / 2) - high[0])),
    )
    largest = np.array([np.max(group, axis=0) for group in means])
    return Exponent(
        estimate, logs, small * (largest[:, 1:] - largest[:, 1:].mean(axis=1, keepdims=True))
    )


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


def _log_means(samples: _Floats, rng: np.random.Generator, resamples: int) -> _Floats:
    """Log of the mean, followed by those of samples drawn with replacement."""
    rows = max(1, _CHUNK // samples.size)
    draws = [
        samples[rng.integers(samples.size, size=(min(rows, resamples - done), samples.size))]
        for done in range(0, resamples, rows)
    ]
    means = np.concatenate([samples[None].mean(axis=1), *(draw.mean(axis=1) for draw in draws)])
    return np.log(np.maximum(means, np.finfo(np.float64).tiny))
