"""What correlated noise leaves in prefix sums, in the numbers that bounds ask for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["PrefixError", "local_exponent"]


class PrefixError(NamedTuple):
    """What noise leaves in the prefix sums, in units of ``sigma``, for one coordinate.

    The error after ``t`` answers is a sum ``X_t + Y_t``. ``X_t`` has increments of mean zero given
    the past: it is what descent with fresh noise has too, and only its increments cost. ``Y_t`` is
    the rest, and it costs by its size. Any such split is allowed; the usual one is ``X = 0``.

    Attributes
    ----------
    deviation : float
        ``y``, the mean over ``t = 1..T`` of the standard deviation of ``Y_t``: with ``X = 0`` the
        mean of ``sqrt((B B^T)_tt)``.
    increment : float
        ``x``, the root mean square over ``t`` of the standard deviation of ``X_t - X_{t-1}``. Fresh
        noise in every step has ``y = 0`` and ``x = 1``.
    growth : float
        The local exponent of sensitivity times error in ``T``, from :func:`local_exponent`:
        logarithms have one that is small and falls. 0 for fresh noise and one participation.
    restarts : int
        How often the noise begins anew, and with it the leader, from where it stands.
    restarted : float
        The standard deviation of ``Y`` at a restart, the mean over the restarts.
    """

    deviation: float
    increment: float = 0.0
    growth: float = 0.0
    restarts: int = 0
    restarted: float = 0.0


def local_exponent(error: Callable[[int], float], steps: int) -> float:
    """``d log error / d log T`` at ``steps``, between half and twice as many.

    Doubling keeps the saw teeth of trees in step.

    Parameters
    ----------
    error : callable
        ``T -> sensitivity times deviation``.
    steps : int
        ``T``.

    Examples
    --------
    >>> round(local_exponent(lambda steps: 3.0 * steps**0.25, 1000), 12)
    0.25
    """
    ends = max(1, steps // 2), 2 * steps
    low, high = (error(end) for end in ends)
    return math.log(high / low) / math.log(ends[1] / ends[0])
