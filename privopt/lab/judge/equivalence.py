"""Equivalence: is an exponent another one up to a margin, and would a wrong one have passed?"""

from __future__ import annotations

import math

import numpy as np

from privopt.lab.judge.estimates import Estimate, Exponent

MARGIN = 0.05
"""The interval of an exponent must lie within the theorem's exponent plus or minus so much."""

DRIFT = 1.1
"""The largest over the smallest ratio of measured mean to bound along an axis is at most this."""

WRONG = (0.05, 0.10)
"""How far off the exponents are whose chance to pass is told."""

_SHARE = 0.25
_NO_EXPONENT = 1e-3
_ROUNDING = 1e-9

Place = str
"""Where an interval lies beside a margin: ``within``, ``below``, ``above`` or ``across``."""


def margin_of(target: float) -> float:
    """``MARGIN``, or a quarter of a small exponent: nothing else passes for the exponent then."""
    size = abs(target)
    return MARGIN if size < _NO_EXPONENT else min(MARGIN, _SHARE * size)


def place(slope: Estimate, target: float, margin: float = MARGIN) -> Place:
    """Where an interval lies beside ``target`` plus or minus ``margin``.

    An exponent that is wrong by the margin or more is ``within`` only if its interval misses it on
    one side.
    """
    reach = margin + _ROUNDING
    if target - reach <= slope.lower and slope.upper <= target + reach:
        return "within"
    if slope.lower > target + reach:
        return "above"
    return "below" if slope.upper < target - reach else "across"


def excludes(slope: Estimate, target: float) -> bool:
    """Whether ``target`` lies outside the interval."""
    return not slope.lower - _ROUNDING <= target <= slope.upper + _ROUNDING


def passing(fitted: Exponent, margin: float = MARGIN, wrong: float = 0.0) -> float:
    """The chance that another measurement like this one passes if the exponent is off by ``wrong``.

    To pass is to have an interval of the measured width within the margin, and to drift by at most
    ``DRIFT`` from a bound that has the theorem's exponent. What is measured scatters about its
    truth as ``fitted.errors`` do. Of the two signs of ``wrong`` the one counts that passes more
    often.

    The width is taken as measured: it is itself random, so the number is an estimate, best where
    replicates are many.
    """
    return max(_passing(fitted, margin, wrong), _passing(fitted, margin, -wrong))


def _passing(fitted: Exponent, margin: float, wrong: float) -> float:
    logs, slope = fitted.logs, fitted.estimate
    off = wrong + logs @ fitted.errors / (logs @ logs)
    below, above = slope.value - slope.lower, slope.upper - slope.value
    reach = margin + _ROUNDING
    within = (off - below >= -reach) & (off + above <= reach)
    ratios = wrong * logs[:, None] + fitted.errors
    steady = np.ptp(ratios, axis=0) <= math.log(DRIFT) + _ROUNDING
    return float(np.mean(within & steady))
