"""Equivalence tests of exponents, and the probability that an incorrect exponent passes them."""

from __future__ import annotations

import math

import numpy as np

from privopt.lab.evaluation.estimates import Estimate, Exponent

MARGIN = 0.05
"""Largest distance of an equivalent exponent from the theorem's exponent."""

DRIFT = 1.1
"""Largest factor by which the ratio of measured mean to bound may change along an axis."""

OFFSETS = (0.05, 0.10)
"""Errors of an exponent for which the probability of passing is reported."""

_RELATIVE_MARGIN = 0.25
_ZERO_EXPONENT = 1e-3
_ROUNDING = 1e-9


def margin_of(target: float) -> float:
    """Return ``MARGIN``, or a quarter of the exponent if that is smaller."""
    size = abs(target)
    return MARGIN if size < _ZERO_EXPONENT else min(MARGIN, _RELATIVE_MARGIN * size)


def classify(slope: Estimate, target: float, margin: float = MARGIN) -> str:
    """Return ``within``, ``below``, ``above`` or ``across``: the interval relative to the margin.

    The margin is ``target`` plus or minus ``margin``. If the true exponent differs from the target
    by the margin or more, the result is ``within`` only if the interval does not cover the truth.
    """
    reach = margin + _ROUNDING
    if target - reach <= slope.lower and slope.upper <= target + reach:
        return "within"
    if slope.lower > target + reach:
        return "above"
    return "below" if slope.upper < target - reach else "across"


def excludes(slope: Estimate, target: float) -> bool:
    """Return True if ``target`` is outside the interval."""
    return not slope.lower - _ROUNDING <= target <= slope.upper + _ROUNDING


def pass_probability(fitted: Exponent, margin: float = MARGIN, offset: float = 0.0) -> float:
    """Estimate the probability that a repetition passes if the exponent is wrong by ``offset``.

    A measurement passes if its interval, of the measured width, is within the margin and its drift
    from a bound with the theorem's exponent is at most ``DRIFT``. Errors of a repetition are
    sampled from ``fitted.errors``. The sign of ``offset`` with the larger probability is used.

    The width of the interval is treated as fixed. It is itself random, so the result is an
    estimate, which is best for many replicates.
    """
    return max(_probability(fitted, margin, offset), _probability(fitted, margin, -offset))


def _probability(fitted: Exponent, margin: float, offset: float) -> float:
    logs, slope = fitted.logs, fitted.estimate
    errors = offset + logs @ fitted.errors / (logs @ logs)
    lower, upper = slope.value - slope.lower, slope.upper - slope.value
    reach = margin + _ROUNDING
    within = (errors - lower >= -reach) & (errors + upper <= reach)
    ratios = offset * logs[:, None] + fitted.errors
    steady = np.ptp(ratios, axis=0) <= math.log(DRIFT) + _ROUNDING
    return float(np.mean(within & steady))
