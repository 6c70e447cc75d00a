"""The last point at which a monotone property still holds."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["boundary"]

_HALVINGS = 200


def boundary(holds: Callable[[float], bool], inside: float, outside: float) -> float:
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
