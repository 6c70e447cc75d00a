"""Where a convex function is flat along a ray."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["flat"]

_MOST = 60


class _Search(NamedTuple):
    length: Array
    slope: Array
    seen: Any
    low: Array
    low_slope: Array
    high: Array
    high_slope: Array
    tried: Array


def flat(
    evaluate: Callable[[Array], tuple[Array, Any]],
    first: Array,
    slope: Array,
    far: Array,
    *,
    share: float,
) -> tuple[Array, Any]:
    """Lengths ``t > 0`` with ``|h'(t)| <= share |h'(0)|``, for several convex ``h`` at once.

    Returned with what was seen there.

    Regula falsi in a bracket, every third time its (geometric) middle. The lengths tried depend on
    slopes alone: differences of values would drown in round-off long before.

    Parameters
    ----------
    evaluate : callable
        ``t -> h'(t)``, of shape ``(k,)``, and whatever else is seen on the way.
    first : Array
        The length tried first.
    slope : Array
        ``h'(0)``; rays with ``h'(0) >= 0`` are left alone.
    far : Array
        A length with ``h'(far) >= 0``.
    """

    def wanting(search: _Search) -> Array:
        return (jnp.abs(search.slope) > share * jnp.abs(slope)) & (slope < 0.0)

    def narrowed(search: _Search) -> _Search:
        left = search.slope < 0.0
        low = jnp.where(left, search.length, search.low)
        low_slope = jnp.where(left, search.slope, search.low_slope)
        high = jnp.where(left, search.high, search.length)
        high_slope = jnp.where(left, search.high_slope, search.slope)

        # until the far side has been seen, extrapolate from the last two on this one
        known = left & jnp.isfinite(high_slope)
        other = jnp.where(known, high, search.low)
        other_slope = jnp.where(known, high_slope, search.low_slope)
        rise = search.slope - other_slope
        quotient = (search.length - other) / jnp.where(rise, rise, 1.0)
        secant = search.length - search.slope * quotient
        middle = jnp.where(low > 0.0, jnp.sqrt(low * high), 0.1 * high)
        inside = (secant > low) & (secant < high) & (rise != 0.0)
        length = jnp.where((search.tried % 3 == 2) | ~inside, middle, secant)
        length = jnp.where(wanting(search), length, search.length)
        tried = search.tried + 1
        return _Search(length, *evaluate(length), low, low_slope, high, high_slope, tried)

    zero, none = jnp.zeros_like(first), jnp.zeros((), int)
    search = _Search(first, *evaluate(first), zero, slope, far, jnp.inf + zero, none)
    search = jax.lax.while_loop(lambda s: jnp.any(wanting(s)) & (s.tried < _MOST), narrowed, search)
    return search.length, search.seen
