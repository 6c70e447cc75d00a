"""Noise times a factor: what a control of an experiment runs with."""

from __future__ import annotations

import math

from privopt.arguments import real
from privopt.privacy import round_up

__all__ = ["scaled"]


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
