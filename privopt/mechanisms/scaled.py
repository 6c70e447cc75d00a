"""Scales of noise: times a factor, and over what they hide."""

from __future__ import annotations

import math

from privopt.arguments import real
from privopt.privacy import round_down, round_up

__all__ = ["multiplier", "scaled"]


def scaled(scale: float, factor: float) -> float:
    """``factor * scale``, representable in float32.

    Parameters
    ----------
    scale : float
        Of a mechanism's noise.
    factor : float
        From 0 on; 1 changes nothing.

    Raises
    ------
    ValueError
        If ``factor`` is negative or not finite.

    Examples
    --------
    >>> scaled(0.5, 3.0)
    1.5
    >>> scaled(0.5, -1.0)
    Traceback (most recent call last):
    ValueError: factor must be at least 0 and finite, got -1.0
    """
    if not 0.0 <= real("factor", factor) < math.inf:
        raise ValueError(f"factor must be at least 0 and finite, got {factor!r}")
    return round_up(factor * scale)


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
