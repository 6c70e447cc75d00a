"""Where a convex function is flat along a ray."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["Stop", "flat"]

_MOST = 60


class Stop(NamedTuple):
    """Lengths ``t`` of shape ``(k,)``, the slopes of the rays there, and what was computed."""

    length: Array
    slope: Array
    carried: Array


class _Search(NamedTuple):
    here: Stop
    low: Array
    low_slope: Array
    high: Array
    high_slope: Array
    tried: Array


def flat(
    evaluate: Callable[[Array], tuple[Array, Array]],
    first: Array,
    slope: Array,
    far: Array,
    *,
    share: float,
) -> Stop:
    """``t > 0`` with ``|h'(t)| <= share |h'(0)|``, for several convex ``h`` at once.

    Regula falsi in a bracket, every third time its (geometric) middle. The lengths tried depend on
    slopes alone: differences of values would drown in round-off long before.

    Parameters
    ----------
    evaluate : callable
        ``t -> (h'(t), anything)``; ``(k,) -> ((k,), (k, ...))``.
    first : Array
        The length tried first.
    slope : Array
        ``h'(0)``; rays with ``h'(0) >= 0`` are left alone.
    far : Array
        A length with ``h'(far) >= 0``.
    """

    def wanting(stop: Stop) -> Array:
        return (jnp.abs(stop.slope) > share * jnp.abs(slope)) & (slope < 0.0)

    def narrowed(search: _Search) -> _Search:
        here, open_ = search.here, wanting(search.here)
        left = here.slope < 0.0
        low = jnp.where(left, here.length, search.low)
        low_slope = jnp.where(left, here.slope, search.low_slope)
        high = jnp.where(left, search.high, here.length)
        high_slope = jnp.where(left, search.high_slope, here.slope)

        # until the far side has been seen, extrapolate from the last two on this one
        known = left & jnp.isfinite(high_slope)
        other = jnp.where(known, high, search.low)
        other_slope = jnp.where(known, high_slope, search.low_slope)
        rise = here.slope - other_slope
        secant = here.length - here.slope * (here.length - other) / jnp.where(rise, rise, 1.0)
        middle = jnp.where(low > 0.0, jnp.sqrt(low * high), 0.1 * high)
        inside = (secant > low) & (secant < high) & (rise != 0.0)
        bisect = (search.tried % 3 == 2) | ~inside
        length = jnp.where(bisect, middle, secant)
        length = jnp.where(open_, length, here.length)
        slopes, carried = evaluate(length)
        return _Search(
            Stop(length, slopes, carried), low, low_slope, high, high_slope, search.tried + 1
        )

    zero = jnp.zeros_like(first)
    search = _Search(
        Stop(first, *evaluate(first)), zero, slope, far, jnp.inf + zero, jnp.zeros((), int)
    )
    return jax.lax.while_loop(
        lambda s: jnp.any(wanting(s.here)) & (s.tried < _MOST), narrowed, search
    ).here
