"""Rounding errors of sums, and compensated summation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.convex.vectors import two_sum as two_sum

UNIT = 2.0**-24  # relative error of one operation in float32
UNIT64 = 2.0**-53  # relative error of one operation in float64
MAX_TERMS = 2**17  # of a float32 sum with a private number of terms
_MIN_NORMAL = 2.0**-126  # positive float32 that no accelerator flushes to zero


def sum_error(terms: float, largest: float = 1.0) -> float:
    """Return an upper bound on the float32 error of :func:`compensated_sum`.

    The sum has ``terms`` terms of absolute value at most ``largest``. Let ``u = 2^-24``, ``A`` the
    sum of the absolute values, and ``k <= 32`` the number of levels of the binary tree. A two-sum
    is exact except for numbers flushed to zero. Its errors add up to at most ``k u A`` and are
    summed with an error of ``2 k^2 u^2 A``. The final sum is rounded once: ``u A + 2^-13 u A`` in
    all. The bound also covers ``2^9`` times as many terms, if the sum is clamped to ``A``.
    """
    return terms * (largest * UNIT * (1.0 + 2.0**-4) + 32.0 * _MIN_NORMAL)


def max_terms(dtype: DTypeLike) -> int:
    """Return ``2^-7/u``, the terms in ``dtype`` with the error of ``MAX_TERMS`` in float32."""
    return int(2.0 * MAX_TERMS * UNIT / float(jnp.finfo(dtype).eps))


@jax.jit
def compensated_sum(terms: Array) -> Array:
    """Sum over the first axis by halves in a fixed order; add the rounding errors last."""
    levels = (terms.shape[0] - 1).bit_length()
    missing = 2**levels - terms.shape[0]
    terms = jnp.pad(terms, [(0, missing)] + [(0, 0)] * (terms.ndim - 1))
    errors = jnp.zeros_like(terms)
    for level in reversed(range(levels)):
        half = 2**level
        terms, error = two_sum(terms[:half], terms[half:])
        errors = errors[:half] + errors[half:] + error
    return terms[0] + errors[0]
