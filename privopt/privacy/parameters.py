"""The numbers inside events, and whether they make sense. Every question has an answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import TypeGuard

from privopt.arguments import shown

SUM_TOLERANCE = 1e-9  # by which probabilities may miss one
_MAX_MULTIPLICITY = 2**1022  # its inverse is a normal number
_U = 2.0**-53  # unit roundoff of float64


def is_noise(value: object) -> TypeGuard[float]:
    """Whether ``value`` can be a noise multiplier: a real number, not negative, not NaN."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return float(value) >= 0.0
    except OverflowError:  # an integer beyond float64
        return False


def is_rate(value: object) -> TypeGuard[float]:
    """Whether ``value`` can be a probability: a real number in ``[0, 1]``."""
    return is_noise(value) and float(value) <= 1.0


def is_multiplicity(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer that can say how often something was done."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def is_count(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer below 2^1022 that counts something."""
    return is_multiplicity(value) and int(value) < _MAX_MULTIPLICITY


def is_batch(size: object, batch: object) -> bool:
    """Whether ``batch`` of ``size`` records can be drawn."""
    return is_count(size) and is_count(batch) and int(batch) <= int(size) > 0


def tree_nodes(step_counts: object) -> int | None:
    """Nodes of a binary tree above one leaf, ``floor(log2 T) + 1``; the most, of several trees.

    A record takes part in one step of one tree. ``None`` if ``step_counts`` is no number of
    steps, nor a list of such.
    """
    trees = step_counts if isinstance(step_counts, list | tuple) else [step_counts]
    counts = [int(steps) for steps in trees if is_count(steps)]
    if len(counts) < len(trees):
        return None
    return max((steps.bit_length() for steps in counts), default=0)


def coin(probabilities: object) -> tuple[list[float], float] | None:
    """The probabilities of a coin, and what they lack; None if they are none.

    A sum that rounding can explain is divided out. What it lacks beyond that is rounded up; a sum
    that exceeds one by more is none of a coin.
    """
    if not isinstance(probabilities, list | tuple) or not all(map(is_rate, probabilities)):
        return None
    shares = [float(each) for each in probabilities]
    total = math.fsum(shares)
    missing = 1.0 - total
    if abs(missing) <= 2 * _U * (1 + len(shares)):
        return [min(1.0, share / total) for share in shares], 0.0
    if not 0.0 < missing <= SUM_TOLERANCE:
        return None
    return shares, math.nextafter(missing, 1.0)


def _is_coin(probabilities: object) -> bool:
    return coin(probabilities) is not None


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "noise_multiplier": (is_noise, "be non-negative"),
    "sampling_probability": (is_rate, "lie in [0, 1]"),
    "noise_parameter": (is_rate, "lie in [0, 1]"),
    "probabilities": (_is_coin, "lie in [0, 1] and add up to 1"),
    "count": (is_multiplicity, "be a non-negative integer"),
}


def flaw(event: object) -> str:
    """What is wrong with a number of ``event``, or of what it samples; empty if nothing."""
    while event is not None:
        for name, (holds, rule) in _RULES.items():
            value = getattr(event, name, None)
            if hasattr(event, name) and not holds(value):
                return f"{name} must {rule}, got {shown(value)}"
        event = getattr(event, "event", None)
    return ""
