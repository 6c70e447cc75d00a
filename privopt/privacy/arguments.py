"""Checks of the arguments that every privacy curve takes, with messages that name them."""

from __future__ import annotations

import math
from contextlib import suppress
from numbers import Integral, Real
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

__all__ = [
    "check_alpha",
    "check_count",
    "check_delta",
    "check_epsilon",
    "check_mu",
    "check_target_delta",
    "real",
]

_MIN_DELTA = 1e-300


def real(name: str, value: object) -> float:
    """``value`` as a float; ValueError unless it is a real number, and not NaN."""
    number = math.nan
    if _is_real(value):
        with suppress(OverflowError):  # of integers, which know no infinity
            number = float(value)
    if math.isnan(number):
        raise ValueError(f"{name} must be a real number, got {value!r}")
    return number


def check_epsilon(epsilon: object) -> float:
    """A privacy loss in ``[0, inf)``."""
    value = real("epsilon", epsilon)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"epsilon must be non-negative and finite, got {epsilon!r}")
    return value


def check_delta(delta: object) -> float:
    """A probability in ``[0, 1)``."""
    value = real("delta", delta)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
    return value


def check_target_delta(delta: object) -> float:
    """A delta at which a composition is asked for its epsilon: zero, or in ``[1e-300, 1)``."""
    value = check_delta(delta)
    if 0.0 < value < _MIN_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {_MIN_DELTA}, below which float64 cannot resolve a "
            f"probability, got {delta!r}"
        )
    return value


def check_mu(mu: object) -> float:
    """A Gaussian distance in ``[0, inf]``."""
    value = real("mu", mu)
    if value < 0.0:
        raise ValueError(f"mu must be non-negative, got {mu!r}")
    return value


def check_alpha(alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Type-I errors in ``[0, 1]``, as a float64 array of any shape."""
    try:
        given = np.asarray(alpha)
        known = given.dtype.kind in "fiu" or all(_is_real(each) for each in given.flat)
        values = given.astype(np.float64) if known else None
    except (TypeError, ValueError, OverflowError):
        values = None
    if values is None:
        raise ValueError(f"alpha must be real numbers, got {alpha!r}")
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"alpha must lie in [0, 1], got {alpha!r}")
    return values


def check_count(name: str, value: object) -> int:
    """A number of times."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 0:
        raise ValueError(f"{name} must be a non-negative integer, got {value!r}")
    return int(value)


def _is_real(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)
