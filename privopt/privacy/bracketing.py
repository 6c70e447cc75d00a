"""Roots of monotone functions, by brackets whose ends have themselves been tested."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["bisect", "false_position"]

_HALVINGS = 200
_STEPS = 240


def bisect(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Bisect from ``inside``, where ``holds``, towards ``outside``, where it does not.

    Every point that becomes the answer has itself been tested, so ``holds(answer)`` is a fact
    and not a matter of tolerance, even where rounding makes ``holds`` not quite monotone. Stops
    at neighbouring floats, or after 200 halvings.
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def false_position(
    gap: Callable[[float], float],
    inside: float,
    outside: float,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> tuple[float, float]:
    """Narrow a bracket with ``gap(inside) <= 0 < gap(outside)`` by guarded false position.

    Both points returned have been tested, so their signs are facts whatever the shape of
    ``gap``; infinite values are allowed, and answered by halving. The last steps go *across* the
    estimate, so that the bracket ends no wider than the tolerance.

    Parameters
    ----------
    gap : callable
        Its sign changes once between the two points, but for rounding.
    inside, outside : float
        In any order; the signs there are the caller's word.
    relative, absolute : float
        Stop once the points are within ``absolute + relative max(|inside|, |outside|)``.
    """
    low, high, last = gap(inside), gap(outside), 0
    for step in range(_STEPS):
        width = outside - inside
        tolerance = absolute + relative * max(abs(inside), abs(outside))
        if abs(width) <= tolerance:
            break
        guess = 0.5
        if step % 3 != 2 and -math.inf < low < high < math.inf:
            guess = low / (low - high)
        least = min(0.5, 0.5 * tolerance / abs(width))
        middle = inside + min(max(guess, least), 1.0 - least) * width
        if middle in (inside, outside):
            middle = inside + 0.5 * width
            if middle in (inside, outside):
                break
        value = gap(middle)
        if value <= 0.0:
            inside, low = middle, value
            high *= 0.5 if last < 0 else 1.0
            last = -1
        else:
            outside, high = middle, value
            low *= 0.5 if last > 0 else 1.0
            last = 1
    return inside, outside
