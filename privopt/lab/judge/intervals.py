"""Estimates with intervals: of a mean, and of a difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats


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

    Examples
    --------
    >>> difference(Estimate(2.0, 1.7, 2.3), Estimate(1.0, 0.6, 1.4))
    Estimate(value=1.0, lower=0.5, upper=1.5)
    """
    value = first.value - second.value
    below = math.hypot(first.value - first.lower, second.upper - second.value)
    above = math.hypot(first.upper - first.value, second.value - second.lower)
    return Estimate(value, value - below, value + above)
