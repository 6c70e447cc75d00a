"""What a gradient of a known norm is multiplied by, so that it is no longer than the clip norm."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from privopt.convex.vectors import Number


def is_exact(size: Array, factor: Number) -> Array:
    """Whether a norm and its clipping factor are known to full relative precision.

    A subnormal factor is not, and a record that large counts as not finite.
    """
    return jnp.isfinite(size) & (factor >= jnp.finfo(size.dtype).smallest_normal)


def clipping_factors(sizes: Array, clip: Number, gamma: Number | None) -> Array:
    """What gradients of these norms are multiplied by: 0 where that is not known exactly."""
    factors = clip / sizes if gamma is None else clip / (sizes + gamma)
    known = is_exact(sizes, factors) & (sizes > 0.0)
    return jnp.where(known, jnp.minimum(1.0, factors) if gamma is None else factors, 0.0)
