"""Independent Bernoulli inclusion at the cost of a batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["poisson_sample"]

_BASE = 16
_WORD = 2.0**32


def poisson_sample(
    key: Array, rate: Array | float, records: Array | int, capacity: int, most: int
) -> tuple[Array, Array]:
    """Each of ``records`` independently with probability ``rate``; the first ``capacity`` of them.

    The gaps between included records are geometric, ``P(G >= k) = (1 - rate)^k``, and the digits
    of a geometric variable to any base are independent: digit ``j`` to base ``b`` is ``v`` with
    probability proportional to ``(1 - rate)^{v b^j}``. Each digit is drawn from one word of 32
    random bits, so that ``O(capacity log most)`` bits are drawn, whatever ``records``. What it
    leaves of exactness is of the kind of floating-point noise: rates of inclusion are off by some
    1e-6 of themselves in float32, and a digit less likely than ``2^-32`` does not occur.

    Parameters
    ----------
    rate : Array
        ``q`` in ``(0, 1]``, floating.
    records : Array or int
        How many there are.
    capacity, most : int
        Static: places in the batch, and the largest ``records`` can be.

    Returns
    -------
    rows : Array
        Shape ``(capacity,)``, int32: increasing numbers of the included records, then zeros.
    weights : Array
        Of the dtype of ``rate``: 1 for an included record, 0 for an empty place.
    """
    rate = jnp.asarray(rate)
    digits = 1
    while _BASE**digits <= most:
        digits += 1
    scale = _BASE ** np.arange(digits)
    exponent = -jnp.log1p(-rate) * scale.astype(rate.dtype)[:, None]
    value = np.arange(1, _BASE).astype(rate.dtype)[None]
    # P(digit >= v) = (a^v - a^b)/(1 - a^b), a = exp(-exponent)
    at_least = jnp.exp(-value * exponent) * (
        jnp.expm1((value - _BASE) * exponent) / jnp.expm1(-_BASE * exponent)
    )
    beyond = jnp.exp(-_BASE * exponent[-1])  # the gap is larger than all there are
    words = jax.random.bits(key, (digits + 1, capacity), jnp.uint32)
    reached = words[:-1, :, None] < _threshold(at_least)[:, None, :]
    drawn = jnp.sum(reached, axis=-1, dtype=jnp.int32)
    gaps = jnp.sum(drawn * scale.astype(np.int32)[:, None], axis=0, dtype=jnp.int32)
    gaps = jnp.where(words[-1] < _threshold(beyond), most, jnp.minimum(gaps, most))
    rows = _bounded_sum(gaps + 1, most + 1) - 1
    included = rows < records
    return jnp.where(included, rows, 0), included.astype(rate.dtype)


def _threshold(probability: Array) -> Array:
    """As a word: a uniform word is below it with this probability, or with one next to it."""
    return jnp.minimum(probability * _WORD, _WORD - 256.0).astype(jnp.uint32)


def _bounded_sum(steps: Array, bound: int) -> Array:
    """Cumulative sums, or ``bound`` where they are larger; no overflow on the way."""
    if steps.shape[0] * bound < 2**31:
        return jnp.minimum(jnp.cumsum(steps, dtype=jnp.int32), bound)
    return jax.lax.associative_scan(lambda a, b: jnp.minimum(a + b, bound), steps)
