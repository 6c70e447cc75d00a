"""Vector operations along the last axis, and checks of numerical parameters."""

from __future__ import annotations

from numbers import Real
from typing import TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from privopt.arguments import checked, shown

Number = float | np.ndarray | jax.Array


def cast(number: Number, x: jax.Array) -> jax.Array:
    """Return ``number`` in the dtype of ``x``."""
    return jnp.asarray(number).astype(x.dtype)


def broadcast(bound: Number, x: jax.Array) -> jax.Array:
    """Return a number or a vector in the shape and dtype of ``x``."""
    return jnp.broadcast_to(cast(bound, x), x.shape)


def one_hot(score: jax.Array) -> jax.Array:
    """Return the unit vector of the first coordinate with the largest score."""
    return jax.nn.one_hot(jnp.argmax(score, axis=-1), score.shape[-1], dtype=score.dtype)


def power_of_two(size: jax.Array) -> jax.Array:
    """Return the least power of two above ``size``; 1 if ``size`` is 0."""
    _, exponent = jnp.frexp(size)
    return jnp.where(size > 0.0, jnp.ldexp(jnp.ones_like(size), exponent), 1.0)


@checked
def norm(x: jax.Array, order: float = 2.0) -> jax.Array:
    """Compute the norm of order 1, 2 or infinity over the last axis.

    The Euclidean norm is scaled, so that squares neither underflow nor overflow. Extreme vectors
    are first multiplied by a power of two, because compilers divide by ``scale`` through its
    reciprocal, which is flushed to zero for numbers near the largest. A vector with NaN has the
    norm NaN. This is tested explicitly, because the maximum of XLA ignores NaN on a CPU.

    Examples
    --------
    >>> print(norm(jnp.array([[3.0, 4.0], [3e-200, 4e-200]])))
    [5.e+000 5.e-200]
    """
    if order == 1.0:
        return jnp.sum(jnp.abs(x), axis=-1)
    if order != 2.0:
        return jnp.where(jnp.isnan(x).any(axis=-1), jnp.nan, jnp.max(jnp.abs(x), axis=-1))
    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    shift = jnp.where(largest > 2.0**64, 2.0**-64, jnp.where(largest < 2.0**-64, 2.0**64, 1.0))
    shift = shift.astype(x.dtype)
    scale = largest * shift
    scale = jnp.where(scale > 0.0, scale, 1.0)
    root = jnp.sqrt(jnp.sum(jnp.square(x * shift / scale), axis=-1))
    return scale[..., 0] * root / shift[..., 0]


def inner(x: jax.Array, y: jax.Array) -> jax.Array:
    """Compute ``<x, y>`` over the last axis."""
    return jnp.sum(x * y, axis=-1)


def two_sum(one: jax.Array, two: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the rounded sum and its exact error. Source: Knuth, TAOCP 2, 4.2.2."""
    total = one + two
    part = total - one
    return total, (one - (total - part)) + (two - part)


def on_host(value: object) -> TypeGuard[float | np.ndarray]:
    """Return True if ``value`` can be read on the host."""
    return isinstance(value, Real | np.ndarray) and not isinstance(value, bool)


def require_positive(name: str, value: object) -> None:
    """Check that all numbers that can be read are positive and finite."""
    if _broken(value) or (on_host(value) and not np.all(np.asarray(value) > 0.0)):
        raise ValueError(f"{name} must be positive and finite, got {shown(value)}")


def require_finite(name: str, value: object) -> None:
    """Check that all numbers that can be read are finite."""
    if _broken(value):
        raise ValueError(f"{name} must be finite, got {shown(value)}")


def require_shape(name: str, value: Number, *shapes: tuple[int, ...]) -> None:
    """Check that an array has one of these shapes."""
    if (shape := np.shape(value)) not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {expected}, got {shape}")


def _broken(value: object) -> bool:
    if isinstance(value, jax.Array):
        return False
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
        return True
    return not (on_host(value) and np.all(np.isfinite(value)))


def scaled_rows(rows: jax.Array, factors: jax.Array) -> jax.Array:
    """Multiply row ``i`` by ``f_i``; a factor 0 gives zeros even if the row is not finite."""
    factors = factors[..., None]
    return jnp.where(factors == 0.0, 0.0, jnp.where(factors == 1.0, rows, factors * rows))
