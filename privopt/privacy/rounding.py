"""Noise scales that mean the same number in float32 and in float64."""

from __future__ import annotations

import math

import numpy as np

from privopt.privacy.arguments import real

__all__ = ["round_down", "round_up"]

_SMALLEST = 2.0**-80  # of which noise is a subnormal number with probability 2^-46


def round_up(x: float) -> float:
    """The smallest float32 number that is not below ``x``, as a Python float.

    Rounding a noise scale to nearest would lower it half of the time. The result is exact in
    float32 and float64 alike, so the guarantee can account for the very number the device uses.
    Zero and infinities stay. Positive numbers below ``2^-80`` are passed over, since machines flush
    those below ``2^-126`` to zero: of noise with so small a scale enough would be none at all for
    answers to show through it.

    Raises
    ------
    ValueError
        If ``x`` is NaN, or finite and above the largest float32 number.

    Examples
    --------
    >>> round_up(0.1)
    0.10000000149011612
    >>> round_up(0.5)
    0.5
    """
    x = real("x", x)
    with np.errstate(over="ignore", under="ignore"):
        nearest = np.float32(x)
        if float(nearest) < x:  # a bare float32 would compare in float32
            nearest = np.nextafter(nearest, np.float32(np.inf))
    rounded = float(nearest)
    if math.isinf(rounded) and not math.isinf(x):
        raise ValueError(f"x must fit into float32, got {x!r}")
    if 0.0 < abs(rounded) < _SMALLEST:
        return _SMALLEST if x > 0.0 else 0.0
    return rounded


def round_down(x: float) -> float:
    """The largest float32 number that is not above ``x``: ``-round_up(-x)``.

    Examples
    --------
    >>> round_down(0.1)
    0.09999999403953552
    """
    return 0.0 - round_up(-real("x", x))
