"""Scales of noise over what they hide."""

from __future__ import annotations

import math

from privopt.privacy import round_down

__all__ = ["multiplier"]


def multiplier(scale: float, moved: float) -> float:
    """``scale/moved`` rounded down: what an event says of noise on an answer that a record moves.

    0 where nothing bounds what a record moves, infinite where it moves nothing.

    Parameters
    ----------
    scale : float
        From 0 on, as float32 holds it.
    moved : float
        From 0 on, in the same units.

    Raises
    ------
    ValueError
        If either is negative or no number, or ``scale`` is infinite.

    Examples
    --------
    >>> round(multiplier(0.5, 0.25), 12)
    2.0
    """
    if not 0.0 <= scale < math.inf:
        raise ValueError(f"scale must be at least 0 and finite, got {scale!r}")
    if not moved >= 0.0:
        raise ValueError(f"what a record moves must be at least 0, got {moved!r}")
    if moved == 0.0:
        return math.inf
    return math.nextafter(round_down(scale) / moved, 0.0)
