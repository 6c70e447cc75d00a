"""Sums of per-example gradients, each clipped to a norm: the work behind every private gradient.

A record whose gradient or features are not finite contributes zero, so no record can
poison the sum or move it by more than the clip norm. Norms are scaled so that no square vanishes
or overflows, and the products that a record bounds are taken in full precision: accelerators
otherwise round float32 factors to ten bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import norm

__all__ = ["HasSlope", "clipped_gradient_sum", "clipped_linear_gradient_sum"]

_CHUNK = 512


class HasSlope(Protocol):
    """A loss of a scalar prediction, ``phi(prediction, label)``, as far as gradients need it."""

    def slope(self, prediction: Array, label: Array) -> Array:
        """``d phi / d prediction`` (a subgradient where there is no derivative)."""


def clipped_linear_gradient_sum(
    loss: HasSlope, features: Array, labels: Array, counts: Array | None, clip: Array
) -> Callable[[Array], Array]:
    """``w -> sum_i m_i clip_C(phi'(<x_i, w>, y_i) x_i)`` for a generalised linear loss.

    The norm of a gradient is ``|phi'| |x_i|``, so clipping the slope to ``C / |x_i|`` clips the
    gradient, and no ``(n, d)`` array of gradients is formed. Bounds are computed once, before
    the loop that calls the returned function.

    Parameters
    ----------
    features, labels, counts : Array
        Shapes ``(n, d)``, ``(n,)`` and ``(n,)`` (multiplicities ``m_i``; ``None`` for ones).
    clip : Array
        ``C > 0``, scalar; ``inf`` leaves gradients as they are.
    """
    norms = norm(features)
    bound = clip / norms
    usable = _exact(norms, bound) & jnp.isfinite(labels)
    # Records along the last axis: both products then run along memory, with the same array.
    columns = jnp.where(usable[:, None], features, 0.0).T
    labels = jnp.where(usable, labels, 0.0)
    bound = jnp.where(usable, bound, 0.0)

    def gradient_sum(point: Array) -> Array:
        slopes = loss.slope(point @ columns, labels)
        slopes = jnp.where(jnp.isfinite(slopes), jnp.clip(slopes, -bound, bound), 0.0)
        weighted = slopes if counts is None else counts * slopes
        return jnp.einsum("n,dn->d", weighted, columns, precision="highest")

    return gradient_sum


def clipped_gradient_sum(
    loss: Callable[[Array, Any], Array], data: Any, counts: Array | None, clip: Array
) -> Callable[[Array], Array]:
    """``w -> sum_i m_i clip_C(grad loss(w, x_i))`` for any loss, a chunk of records at a time.

    Parameters
    ----------
    loss : callable
        ``loss(w, x_i) -> scalar``, differentiable by JAX.
    data : pytree of Array
        Leading axis ``n`` on every leaf.
    counts, clip : Array
        As in :func:`clipped_linear_gradient_sum`.
    """
    rows = jax.tree.leaves(data)[0].shape[0]
    whole = rows - rows % _CHUNK

    def clipped(point: Array, example: Any) -> Array:
        gradient = jax.grad(loss)(point, example)
        size = norm(gradient)
        factor = clip / size
        shrunk = gradient * jnp.minimum(1.0, factor)
        return jnp.where(_exact(size, factor) & (size > 0.0), shrunk, 0.0)

    def part(point: Array, examples: Any, multiplicities: Array | None) -> Array:
        gradients = jax.vmap(clipped, (None, 0))(point, examples)
        if multiplicities is None:
            return gradients.sum(axis=0)
        return jnp.matmul(multiplicities, gradients, precision="highest")

    def gradient_sum(point: Array) -> Array:
        records = (data, counts)
        tail = jax.tree.map(lambda leaf: leaf[whole:], records)
        total = part(point, *tail) if rows > whole else jnp.zeros_like(point)
        if whole == 0:
            return total
        chunks = jax.tree.map(
            lambda leaf: leaf[:whole].reshape(-1, _CHUNK, *leaf.shape[1:]), records
        )
        total, _ = jax.lax.scan(lambda s, chunk: (s + part(point, *chunk), None), total, chunks)
        return total

    return gradient_sum


def _exact(size: Array, factor: Array) -> Array:
    """Whether a norm and its clipping factor are known to full relative precision.

    A subnormal factor is not, and a record that large counts as not finite.
    """
    return jnp.isfinite(size) & (factor >= jnp.finfo(size.dtype).smallest_normal)
