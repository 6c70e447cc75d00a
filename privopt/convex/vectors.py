"""Vectors along the last axis, in their own dtype."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

Number = float | np.ndarray | jax.Array


def cast(number: Number, x: jax.Array) -> jax.Array:
    """``number`` in the dtype of ``x``."""
    return jnp.asarray(number).astype(x.dtype)


def broadcast(bound: Number, x: jax.Array) -> jax.Array:
    """``bound``, a number or a vector, in the shape and dtype of ``x``."""
    return jnp.broadcast_to(cast(bound, x), x.shape)


def one_hot(score: jax.Array) -> jax.Array:
    """The unit vector of the first coordinate with the largest score."""
    return jax.nn.one_hot(jnp.argmax(score, axis=-1), score.shape[-1], dtype=score.dtype)


def power_of_two(size: jax.Array) -> jax.Array:
    """The power of two next above ``size``; 1 where ``size`` is 0."""
    _, exponent = jnp.frexp(size)
    return jnp.where(size > 0.0, jnp.ldexp(jnp.ones_like(size), exponent), 1.0)


def norm(x: jax.Array) -> jax.Array:
    """Euclidean norm over the last axis, scaled so that squares neither vanish nor overflow.

    Extreme vectors are first moved by a power of two, since compilers divide by ``scale`` through
    its reciprocal, and that of a number near the largest is flushed to zero.

    Examples
    --------
    >>> print(norm(jnp.array([[3.0, 4.0], [3e-200, 4e-200]])))
    [5.e+000 5.e-200]
    """
    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    shift = jnp.where(largest > 2.0**64, 2.0**-64, jnp.where(largest < 2.0**-64, 2.0**64, 1.0))
    shift = shift.astype(x.dtype)
    x = x * shift
    scale = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    scale = jnp.where(scale > 0.0, scale, 1.0)
    root = jnp.sqrt(jnp.sum(jnp.square(x / scale), axis=-1))
    return scale[..., 0] * root / shift[..., 0]


def inner(x: jax.Array, y: jax.Array) -> jax.Array:
    """``<x, y>`` over the last axis."""
    return jnp.sum(x * y, axis=-1)


def two_sum(one: jax.Array, two: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The rounded sum and its error: together the exact one. Source: Knuth, TAOCP 2, 4.2.2."""
    total = one + two
    part = total - one
    return total, (one - (total - part)) + (two - part)
