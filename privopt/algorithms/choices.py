"""Checks of the choices a plan is given."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from privopt.spec import ProblemClass

__all__ = ["positive_integer", "positive_number", "require_convex_lipschitz"]

_INT32_MAX = 2**31 - 1


def positive_integer(name: str, value: Any) -> int:
    """``value`` as an int in ``[1, 2^31)``, or ValueError."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and 1 <= int(value) <= _INT32_MAX):
        raise ValueError(f"{name} must be an integer from 1 to {_INT32_MAX}, got {value!r}")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """``value`` as a positive finite float, or ValueError."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not (real and 0.0 < float(value) < math.inf):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return float(value)


def require_convex_lipschitz(algorithm: str, problem_class: ProblemClass) -> None:
    """For methods whose very guarantee rests on convexity and ``L``: ValueError without them."""
    if not problem_class.convex:
        raise ValueError(
            f"convex must be True for {algorithm}, got False: its guarantee rests on convexity, "
            "while those of gradient methods (dp_gd, dp_sgd) hold for any loss"
        )
    if math.isinf(problem_class.lipschitz):
        raise ValueError(
            f"lipschitz must be declared for {algorithm}, got inf: its guarantee rests on it, "
            "and no clip norm stands in for it"
        )
