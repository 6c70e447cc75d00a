"""Sums of per-example gradients, each clipped to a norm, and of the losses they belong to.

A record whose gradient or features are not finite contributes zero, so no record can
poison the sum or move it by more than the clip norm. Norms are scaled so that no square vanishes
or overflows, and the products that a record bounds are taken in full precision: accelerators
otherwise round float32 factors to ten bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import Tilted, norm

__all__ = [
    "ClippedSlope",
    "HasSlope",
    "HasValue",
    "clipped_gradient_sum",
    "clipped_linear_gradient_sum",
    "clipped_linear_loss_sum",
    "clipped_linear_model",
    "clipped_loss_sum",
]

_CHUNK = 512
_HALVINGS = 64


class HasSlope(Protocol):
    """A loss of a scalar prediction, ``phi(prediction, label)``, as far as gradients need it."""

    def slope(self, prediction: Array, label: Array) -> Array:
        """``d phi / d prediction`` (a subgradient where there is no derivative)."""


class HasValue(HasSlope, Protocol):
    """A convex loss of a scalar prediction with its value."""

    def value(self, prediction: Array, label: Array) -> Array:
        """``phi(prediction, label)``."""


class ClippedSlope(NamedTuple):
    """A loss whose slope is kept within a bound of its own for every record; 0 if not finite.

    Attributes
    ----------
    loss : HasSlope
    bound : Array
        ``b_i``, shape ``(n,)``.
    """

    loss: Any
    bound: Array

    def slope(self, prediction: Array, label: Array) -> Array:
        """``clip(phi'(z_i, y_i), -b_i, b_i)``."""
        slopes = self.loss.slope(prediction, label)
        return jnp.where(jnp.isfinite(slopes), jnp.clip(slopes, -self.bound, self.bound), 0.0)


def clipped_linear_model(
    loss: HasSlope, features: Array, labels: Array, counts: Array | None, clip: Array, size: Array
) -> Tilted:
    """``sum_i (m_i/size) phi_i(<x_i, w>)``, without regulariser, tilt and centre.

    Its gradient is that of :func:`clipped_linear_gradient_sum` over ``size``.
    """
    features, labels, bound, _ = _bounded(features, labels, clip)
    weights = (jnp.ones_like(labels) if counts is None else counts) / size
    none = jnp.zeros_like(features[:0])
    return Tilted(ClippedSlope(loss, bound), features, labels, weights, none[:, 0], none, none)


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
    rows, labels, bound, _ = _bounded(features, labels, clip)
    # Records along the last axis: both products then run along memory, with the same array.
    columns, clipped = rows.T, ClippedSlope(loss, bound)

    def gradient_sum(point: Array) -> Array:
        slopes = clipped.slope(point @ columns, labels)
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


def clipped_linear_loss_sum(
    loss: HasValue,
    features: Array,
    labels: Array,
    counts: Array | None,
    clip: Array,
    reach: Array,
) -> Callable[[Array], Array]:
    """``w -> sum_i m_i phi_i(<x_i, w>)``, whose gradient is :func:`clipped_linear_gradient_sum`.

    ``phi_i`` continues ``phi(., y_i)`` by lines of slope ``+-C/|x_i|`` from where its own slope
    leaves these bounds, up to a constant: for every convex ``phi`` and all data it is convex, and
    ``C``-Lipschitz as a function of ``w``. Where it leaves them is found once, by bisection among
    the predictions of ``|w| <= reach``.
    """
    rows, labels, bound, norms = _bounded(features, labels, clip)
    columns = rows.T
    # By inverse hyperbolic sines: magnitudes may span three hundred decades.
    ends = jnp.arcsinh(jnp.minimum(norms * reach, jnp.finfo(norms.dtype).max))

    def halve(_: int, brackets: tuple[Array, Array, Array, Array]) -> tuple[Array, ...]:
        below, low, high, above = brackets
        first, second = 0.5 * (below + low), 0.5 * (high + above)
        rising = loss.slope(jnp.sinh(first), labels) >= -bound
        still = loss.slope(jnp.sinh(second), labels) <= bound
        return (
            jnp.where(rising, below, first),
            jnp.where(rising, first, low),
            jnp.where(still, second, high),
            jnp.where(still, above, second),
        )

    _, low, high, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (-ends, ends, -ends, ends))
    low = jnp.where(loss.slope(jnp.sinh(-ends), labels) >= -bound, -jnp.inf, jnp.sinh(low))
    high = jnp.where(loss.slope(jnp.sinh(ends), labels) <= bound, jnp.inf, jnp.sinh(high))
    high = jnp.maximum(low, high)
    anchor = jnp.clip(jnp.zeros_like(low), low, high)
    anchored = loss.value(anchor, labels)

    def loss_sum(point: Array) -> Array:
        prediction = point @ columns
        held = jnp.clip(prediction, low, high)
        losses = jnp.where(held == anchor, 0.0, loss.value(held, labels) - anchored)
        losses += bound * jnp.abs(prediction - held)
        losses = jnp.where(jnp.isfinite(losses), losses, 0.0)
        return losses.sum() if counts is None else counts @ losses

    return loss_sum


def clipped_loss_sum(
    loss: Callable[[Array, Any], Array],
    data: Any,
    counts: Array | None,
    clip: Array,
    centre: Array,
) -> Callable[[Array], tuple[Array, Array]]:
    """``w -> (sum_i m_i (loss(w, x_i) - loss(c, x_i)), its clipped gradient)`` for any loss.

    Losses of a shape unknown cannot be made Lipschitz: that they are is assumed here. A record at
    which the loss is not finite at ``c`` contributes zero.
    """
    losses = jax.vmap(loss, (None, 0))
    anchored = losses(centre, data)
    usable = jnp.isfinite(anchored)
    ones = jnp.ones_like(anchored) if counts is None else counts
    weights = jnp.where(usable, ones, 0.0)
    gradient_sum = clipped_gradient_sum(loss, data, weights, clip)

    def value_and_gradient(point: Array) -> tuple[Array, Array]:
        moved = losses(point, data) - anchored
        value = weights @ jnp.where(usable & jnp.isfinite(moved), moved, 0.0)
        return value, gradient_sum(point)

    return value_and_gradient


def _bounded(features: Array, labels: Array, clip: Array) -> tuple[Array, Array, Array, Array]:
    """Features, labels, slope bounds and norms; all 0 for a record not usable."""
    norms = norm(features)
    bound = clip / norms
    usable = _exact(norms, bound) & jnp.isfinite(labels)
    return (
        jnp.where(usable[:, None], features, 0.0),
        jnp.where(usable, labels, 0.0),
        jnp.where(usable, bound, 0.0),
        jnp.where(usable, norms, 0.0),
    )


def _exact(size: Array, factor: Array) -> Array:
    """Whether a norm and its clipping factor are known to full relative precision.

    A subnormal factor is not, and a record that large counts as not finite.
    """
    return jnp.isfinite(size) & (factor >= jnp.finfo(size.dtype).smallest_normal)
