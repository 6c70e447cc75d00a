"""Projections onto the l1 ball by a sort: a textbook algorithm, optax and jaxopt."""

from __future__ import annotations

import jax.numpy as jnp
import optax
from jax import Array
from jaxopt.projection import projection_l1_ball


def textbook(point: Array, radius: Array) -> Array:
    """Project over the last axis by Duchi et al. (2008), figure 1."""
    magnitude = jnp.abs(point)
    largest = -jnp.sort(-magnitude, axis=-1)
    sums = jnp.cumsum(largest, axis=-1) - radius
    counts = jnp.arange(1, point.shape[-1] + 1, dtype=point.dtype)
    count = jnp.sum(largest * counts > sums, axis=-1, keepdims=True)
    threshold = jnp.take_along_axis(sums, count - 1, axis=-1) / count.astype(point.dtype)
    outside = jnp.sum(magnitude, axis=-1, keepdims=True) > radius
    shrunk = jnp.sign(point) * jnp.maximum(magnitude - threshold, 0.0)
    return jnp.where(outside, shrunk, point)


PROJECTIONS = {
    "a sort": textbook,
    "optax": optax.projections.projection_l1_ball,
    "jaxopt": projection_l1_ball,
}
