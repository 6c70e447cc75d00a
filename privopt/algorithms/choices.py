"""Checks of the choices a plan is given."""

from __future__ import annotations

import math
from numbers import Integral, Real

__all__ = ["positive_integer", "positive_number"]

_INT32_MAX = 2**31 - 1


def positive_integer(name: str, value: object) -> int:
    """``value`` as an int in ``[1, 2^31)``, or ValueError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= value <= _INT32_MAX:
        raise ValueError(f"{name} must be an integer from 1 to {_INT32_MAX}, got {value!r}")
    return int(value)


def positive_number(name: str, value: object) -> float:
    """``value`` as a positive finite float, or ValueError."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return float(value)
