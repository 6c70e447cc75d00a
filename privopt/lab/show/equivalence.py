"""Equivalence: is an exponent the theorem's up to a margin, and would a wrong one have passed?"""

from __future__ import annotations

import math

import numpy as np

from privopt.lab.show.exponents import Exponent
from privopt.lab.show.intervals import Estimate
from privopt.lab.show.verdict import Outcome

__all__ = ["DRIFT", "MARGIN", "WRONG", "compare", "excludes", "passing"]

MARGIN = 0.05
"""The interval of an exponent must lie within the theorem's exponent plus or minus so much."""

DRIFT = 1.1
"""The largest over the smallest ratio of measured mean to bound along an axis is at most this."""

WRONG = (0.05, 0.10)
"""How far off the exponents are whose chance to pass is told."""

_ROUNDING = 1e-9


def compare(slope: Estimate, target: float) -> tuple[Outcome, str]:
    """Where an interval lies beside ``target`` plus or minus ``MARGIN``, and in words.

    It holds within, is refuted wholly outside, and undecided in between. An exponent that is wrong
    by the margin or more holds only if its interval misses it on one side.

    Examples
    --------
    >>> compare(Estimate(-1.0, -1.03, -0.98), -1.0)[0].value
    'holds'
    >>> compare(Estimate(-0.9, -0.93, -0.88), -1.0)[0].value
    'refuted'
    """
    reach = MARGIN + _ROUNDING
    if target - reach <= slope.lower and slope.upper <= target + reach:
        return Outcome.HOLDS, f"interval within {target:g} ± {MARGIN:g}"
    if slope.lower > target + reach or slope.upper < target - reach:
        return Outcome.REFUTED, f"interval outside {target:g} ± {MARGIN:g}"
    return Outcome.UNDECIDED, f"interval reaches across an end of {target:g} ± {MARGIN:g}"


def excludes(slope: Estimate, target: float) -> bool:
    """Whether ``target`` lies outside the interval.

    Examples
    --------
    >>> excludes(Estimate(-0.9, -0.97, -0.83), -1.0)
    True
    """
    return not slope.lower - _ROUNDING <= target <= slope.upper + _ROUNDING


def passing(fitted: Exponent, wrong: float = 0.0) -> float:
    """The chance that another measurement like this one passes if the exponent is off by ``wrong``.

    To pass is to have an interval of the measured width within the margin, and to drift by at most
    ``DRIFT`` from a bound that has the theorem's exponent. What is measured scatters about its
    truth as the resampled means do about the measured ones. Of the two signs of ``wrong`` the one
    counts that passes more often.

    The width is taken as measured: it is itself random, so the number is an estimate, best where
    replicates are many.

    Examples
    --------
    >>> errors = np.random.default_rng(0).normal(scale=0.01, size=(3, 1000))
    >>> fitted = Exponent(Estimate(-1.0, -1.03, -0.97), np.log((0.25, 1.0, 4.0)), errors)
    >>> passing(fitted) > 0.8 > 0.1 > passing(fitted, 0.05)
    True
    """
    return max(_passing(fitted, wrong), _passing(fitted, -wrong))


def _passing(fitted: Exponent, wrong: float) -> float:
    logs, slope = fitted.logs, fitted.estimate
    off = wrong + logs @ fitted.errors / (logs @ logs)
    below, above = slope.value - slope.lower, slope.upper - slope.value
    reach = MARGIN + _ROUNDING
    within = (off - below >= -reach) & (off + above <= reach)
    ratios = wrong * logs[:, None] + fitted.errors
    steady = np.ptp(ratios, axis=0) <= math.log(DRIFT) + _ROUNDING
    return float(np.mean(within & steady))
