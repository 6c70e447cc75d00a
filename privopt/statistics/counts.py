"""Numbers of records in a floating type."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

__all__ = ["as_floats"]


def as_floats(counts: Array, dtype: DTypeLike) -> Array:
    """Integers in ``dtype``, exactly; those above ``2^24`` in float32 (``2^53``) as that number.

    It is the last that the type tells from the next one. Rounded instead, two counts one apart
    could end two apart, or further; like this they end no further apart than they are.
    """
    last = min(2.0 / float(jnp.finfo(dtype).eps), float(jnp.iinfo(counts.dtype).max))
    return jnp.minimum(counts, int(last)).astype(dtype)
