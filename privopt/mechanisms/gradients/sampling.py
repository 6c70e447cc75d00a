"""Independent Bernoulli inclusion at the cost of a batch."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import positive_integer

__all__ = ["poisson_sampler", "require_numbered"]

_BASE = 32
_WORD = 2.0**32
_MOST = (_BASE - 1) * _BASE**5  # 1.04e9: six digits, and sums of two numbers within int32

Sampler = Callable[[Array, Array | int], tuple[Array, Array]]


def poisson_sampler(rate: Array | float, capacity: int, most: int) -> Sampler:
    """Draws batches in which each record is independently with probability ``rate``.

    The gaps between included records are geometric, ``P(G >= k) = (1 - rate)^k``, and the digits
    of a geometric variable to any base are independent: digit ``j`` to base ``b`` is ``v`` with
    probability proportional to ``(1 - rate)^{v b^j}``, the leading one without an end. Each is
    drawn by comparing one word of 32 random bits with a table, so that ``O(capacity log most)``
    bits are drawn, whatever the number of records. What is missing to exactness is of the kind
    of floating-point noise: rates of inclusion are off by some 1e-6 of themselves in float32, and
    what is less likely than ``2^-32`` does not occur.

    Parameters
    ----------
    rate : Array or float
        ``q`` in ``(0, 1]``.
    capacity, most : int
        Static: places in a batch, and the largest number of records; those after take no part.

    Returns
    -------
    callable
        ``(key, records) -> (rows, weights)``, both of shape ``(capacity,)``: increasing numbers of
        the first ``capacity`` included of ``records``, then zeros (int32); 1 for an included
        record and 0 for an empty place, in the dtype of ``rate``.

    Raises
    ------
    ValueError
        If ``most`` is above ``31 * 32^5``, about 1.04e9.
    """
    require_numbered("most", most)
    rate = jnp.asarray(rate)
    digits = 1
    while (_BASE - 1) * _BASE ** (digits - 1) < most:
        digits += 1
    exponent = -jnp.log1p(-rate)
    tables = [
        _thresholds(exponent * _BASE**place, leading=place == digits - 1) for place in range(digits)
    ]

    def sample(key: Array, records: Array | int) -> tuple[Array, Array]:
        words = jax.random.bits(key, (digits, capacity), jnp.uint32)
        gaps = jnp.zeros(capacity, jnp.int32)
        for place, table in enumerate(tables):
            digit = jnp.sum(words[place][:, None] < table[None], axis=-1, dtype=jnp.int32)
            gaps = jnp.minimum(gaps + digit * _BASE**place, most)
        rows = _bounded_sum(gaps + 1, most + 1) - 1
        included = rows < jnp.minimum(records, most)  # gaps stop at most: no record's row
        return jnp.where(included, rows, 0), included.astype(rate.dtype)

    return sample


def require_numbered(name: str, count: int) -> None:
    """ValueError unless so many records can be drawn by their numbers, in exact int32."""
    if positive_integer(name, count) > _MOST:
        raise ValueError(
            f"{name} must be at most {_MOST} where records are drawn by their numbers, got {count}"
        )


def _thresholds(exponent: Array, *, leading: bool) -> Array:
    """``2^32 P(D >= v)`` for ``v = 1..b-1``, ``P(D >= v) = (a^v - a^b)/(1 - a^b)``.

    ``a = exp(-exponent)``; the leading digit has ``P(D >= v) = a^v``. A uniform word is below as
    many of them as the digit is large.
    """
    value = jnp.arange(1, _BASE).astype(exponent.dtype)
    at_least = jnp.exp(-value * exponent)
    if not leading:
        at_least *= jnp.expm1((value - _BASE) * exponent) / jnp.expm1(-_BASE * exponent)
    return jnp.minimum(at_least * _WORD, _WORD - 256.0).astype(jnp.uint32)


def _bounded_sum(steps: Array, bound: int) -> Array:
    """Cumulative sums, or ``bound`` where they are larger; no overflow on the way."""
    if steps.shape[0] * bound < 2**31:
        return jnp.minimum(jnp.cumsum(steps, dtype=jnp.int32), bound)
    return jax.lax.associative_scan(lambda a, b: jnp.minimum(a + b, bound), steps)
