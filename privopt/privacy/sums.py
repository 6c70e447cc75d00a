"""Arithmetic of multiplicities, which may exceed every float64, and of losses that underflow.

A composition may hold 10^400 releases, and one release may tell 1e-400 of something: such a
number must become neither an error nor nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

__all__ = ["SMALLEST", "half_square", "root", "times", "total"]

SMALLEST = 2.0**-960
"""Stands for every positive loss below it: far above what float64 rounds coarsely."""


def times(count: int, each: float) -> float:
    """``count * each`` to a relative ``2^-51``; infinite only beyond float64.

    Nothing, if one of the two is nothing: no release costs nothing, even one without noise.
    """
    if count == 0 or each == 0.0 or math.isinf(each):
        return 0.0 if count == 0 else each
    try:
        return count * each
    except OverflowError:
        pass
    try:
        return float(Fraction(each) * count)
    except OverflowError:
        return math.copysign(math.inf, each)


def total(parts: Iterable[tuple[float, int]]) -> float:
    """``sum of count * each``, to a relative ``2^-50`` where no two signs differ."""
    terms = [times(count, each) for each, count in parts]
    try:
        return math.fsum(terms)
    except OverflowError:  # of a partial sum
        return math.copysign(math.inf, max(terms, key=abs))


def root(count: int) -> float:
    """``sqrt(count)``, to a relative ``2^-52``; infinite only beyond float64."""
    try:
        return math.sqrt(count)
    except OverflowError:
        return times(math.isqrt(count), 1.0)


def half_square(shift: float) -> float:
    """``shift^2 / 2`` as an upper bound that only ``shift = 0`` makes zero."""
    return max(0.5 * shift * shift, SMALLEST) if shift > 0.0 else 0.0
