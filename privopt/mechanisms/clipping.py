"""Sums of per-example gradients, each clipped to a norm.

A record whose gradient or features are not finite contributes zero, so no record can
poison the sum or move it by more than the clip norm. Norms are scaled so that no square vanishes
or overflows, and the products that a record bounds are taken in full precision: accelerators
otherwise round float32 factors to ten bits.

Sums are over the whole data set or over a batch of its rows. Of two forms of clipping, ``g min(1,
C/|g|)`` keeps short gradients as they are, and ``g C/(|g| + gamma)``, automatic clipping, makes
all of them nearly equally long (Bu, Wang, Zha and Karypis 2023); ``gamma`` None asks for the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import RegularisedGLM, norm

__all__ = [
    "MICROBATCH",
    "BatchSum",
    "ClippedSlope",
    "HasSlope",
    "WholeSum",
    "bounded_records",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "clipped_linear_batch_sum",
    "clipped_linear_gradient_sum",
    "clipped_linear_model",
    "is_exact",
    "usable_linear_records",
    "usable_records",
]

MICROBATCH = 512


class HasSlope(Protocol):
    """A loss of a scalar prediction, ``phi(prediction, label)``, as far as gradients need it."""

    def slope(self, prediction: Array, label: Array) -> Array:
        """``d phi / d prediction`` (a subgradient where there is no derivative)."""


class WholeSum(Protocol):
    """``(w, m) -> sum_i m_i clip(g_i(w))`` over all rows; ``m`` None for ones."""

    def __call__(self, point: Any, weights: Array | None = None) -> Any:
        """The sum, of the shape of ``point``."""


class BatchSum(Protocol):
    """``(w, rows, m) -> sum_k m_k clip(g_k(w))`` over ``k``, the rows of a batch.

    With ``anchor``, of the differences ``clip(g_k(w) - g_k(anchor))``.
    """

    def __call__(self, point: Any, rows: Array, weights: Array, anchor: Any = None) -> Any:
        """The sum, of the shape of ``point``."""


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
) -> RegularisedGLM:
    """``sum_i (m_i/size) phi_i(<x_i, w>)``, without regulariser, tilt and centre.

    Its gradient is that of :func:`clipped_linear_gradient_sum` over ``size``.
    """
    features, labels, bound, _ = bounded_records(features, labels, clip)
    weights = (jnp.ones_like(labels) if counts is None else counts) / size
    none = jnp.zeros_like(features[:0])
    return RegularisedGLM(
        ClippedSlope(loss, bound), features, labels, weights, none[:, 0], none, none
    )


def clipped_linear_gradient_sum(
    loss: HasSlope, features: Array, labels: Array, clip: Array, gamma: Array | None = None
) -> WholeSum:
    """``(w, m) -> sum_i m_i clip(phi'(<x_i, w>, y_i) x_i)`` for a generalised linear loss.

    The norm of a gradient is ``|phi'| |x_i|``, so clipping the slope to ``C / |x_i|`` clips the
    gradient, and no ``(n, d)`` array of gradients is formed. Bounds are computed once, before
    the loop that calls the returned function.

    Parameters
    ----------
    features, labels : Array
        Shapes ``(n, d)`` and ``(n,)``.
    clip : Array
        ``C > 0``, scalar; ``inf`` leaves gradients as they are.
    gamma : Array, optional
        Positive: automatic clipping.
    """
    features, labels, bound, norms = bounded_records(features, labels, clip)
    # Records along the last axis: both products then run along memory, with the same array.
    columns = features.T

    def gradient_sum(point: Array, weights: Array | None = None) -> Array:
        slopes = _clipped_slopes(loss.slope(point @ columns, labels), bound, norms, gamma)
        weighted = slopes if weights is None else weights * slopes
        return jnp.einsum("n,dn->d", weighted, columns, precision="highest")

    return gradient_sum


def clipped_linear_batch_sum(
    loss: HasSlope, features: Array, labels: Array, clip: Array, gamma: Array | None = None
) -> BatchSum:
    """:func:`clipped_linear_gradient_sum` over a batch of rows."""
    features, labels, bound, norms = bounded_records(features, labels, clip)

    def gradient_sum(
        point: Array, rows: Array, weights: Array, anchor: Array | None = None
    ) -> Array:
        batch, targets = features[rows], labels[rows]
        slopes = loss.slope(_predictions(batch, point), targets)
        if anchor is not None:
            slopes -= loss.slope(_predictions(batch, anchor), targets)
        slopes = _clipped_slopes(slopes, bound[rows], norms[rows], gamma)
        return jnp.einsum("n,nd->d", weights * slopes, batch, precision="highest")

    return gradient_sum


def _predictions(batch: Array, point: Array) -> Array:
    return jnp.einsum("nd,d->n", batch, point, precision="highest")


def _clipped_slopes(slopes: Array, bound: Array, norms: Array, gamma: Array | None) -> Array:
    if gamma is None:
        clipped = jnp.clip(slopes, -bound, bound)
    else:
        sizes = jnp.abs(slopes) * norms
        clipped = slopes * (bound * norms / (sizes + gamma))
    return jnp.where(jnp.isfinite(slopes) & jnp.isfinite(clipped), clipped, 0.0)


def clipped_gradient_sum(
    loss: Callable[[Any, Any], Array],
    data: Any,
    clip: Array,
    gamma: Array | None = None,
    microbatch: int = MICROBATCH,
) -> WholeSum:
    """``(w, m) -> sum_i m_i clip(grad loss(w, x_i))`` for any loss, ``microbatch`` rows at a time.

    Parameters
    ----------
    loss : callable
        ``loss(w, x_i) -> scalar``, differentiable by JAX; ``w`` may be any pytree.
    data : pytree of Array
        Leading axis ``n`` on every leaf.
    clip, gamma : Array
        As in :func:`clipped_linear_gradient_sum`; the norm is that of all leaves together.
    microbatch : int
        So many gradients are in memory at once.
    """
    rows = jax.tree.leaves(data)[0].shape[0]
    gradient_sum = _summed(loss, clip, gamma)

    def whole_sum(point: Any, weights: Array | None = None) -> Any:
        ones = jnp.ones(rows, jax.tree.leaves(point)[0].dtype) if weights is None else weights
        return _in_parts(lambda part: gradient_sum(point, *part), (data, ones), microbatch)

    return whole_sum


def clipped_batch_sum(
    loss: Callable[[Any, Any], Array],
    data: Any,
    clip: Array,
    gamma: Array | None = None,
    microbatch: int = MICROBATCH,
) -> BatchSum:
    """:func:`clipped_gradient_sum` over a batch of rows."""
    gradient_sum = _summed(loss, clip, gamma)

    def batch_sum(point: Any, rows: Array, weights: Array, anchor: Any = None) -> Any:
        def part_sum(part: tuple[Array, Array]) -> Any:
            chosen, multiplicities = part
            examples = jax.tree.map(lambda leaf: leaf[chosen], data)
            return gradient_sum(point, examples, multiplicities, anchor)

        return _in_parts(part_sum, (rows, weights), microbatch)

    return batch_sum


def _summed(loss: Callable[[Any, Any], Array], clip: Array, gamma: Array | None) -> Any:
    """``(w, examples, m, anchor) -> sum_i m_i clip(...)``, all examples at once."""
    gradient = jax.grad(loss)

    def factor(point: Any, example: Any, anchor: Any) -> tuple[Any, Array]:
        found = gradient(point, example)
        if anchor is not None:
            found = jax.tree.map(jnp.subtract, found, gradient(anchor, example))
        size = _size(found)
        shrink = clip / size if gamma is None else clip / (size + gamma)
        usable = is_exact(size, shrink) & (size > 0.0)
        shrink = jnp.minimum(1.0, shrink) if gamma is None else shrink
        return found, jnp.where(usable, shrink, 0.0)

    def gradient_sum(point: Any, examples: Any, weights: Array, anchor: Any = None) -> Any:
        gradients, factors = jax.vmap(factor, (None, 0, None))(point, examples, anchor)
        kept = weights * factors

        def total(leaf: Array) -> Array:
            leaf = jnp.where((factors > 0.0).reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0.0)
            return jnp.tensordot(kept, leaf, 1, precision="highest")

        return jax.tree.map(total, gradients)

    return gradient_sum


def _in_parts(part_sum: Callable[[Any], Any], records: Any, size: int) -> Any:
    """``part_sum`` over consecutive parts of ``size`` records, added up."""
    count = jax.tree.leaves(records)[0].shape[0]
    whole = count - count % size
    if whole == 0 or whole == count == size:
        return part_sum(records)

    def add(total: Any, part: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, part_sum(part)), None

    first = jax.tree.map(lambda leaf: leaf[:size], records)
    total = part_sum(first)
    if whole > size:
        parts = jax.tree.map(
            lambda leaf: leaf[size:whole].reshape(-1, size, *leaf.shape[1:]), records
        )
        total, _ = jax.lax.scan(add, total, parts)
    if whole < count:
        total, _ = add(total, jax.tree.map(lambda leaf: leaf[whole:], records))
    return total


def usable_linear_records(features: Array, labels: Array, clip: Array) -> Array:
    """Which records of a generalised linear loss contribute at all; bool of shape ``(n,)``."""
    return _usable(norm(features), labels, clip)


def usable_records(loss: Callable[[Any, Any], Array], data: Any, clip: Array, point: Any) -> Array:
    """Which records have a gradient at ``point`` that can be clipped; bool of shape ``(n,)``."""
    gradient = jax.grad(loss)

    def usable(example: Any) -> Array:
        size = _size(gradient(point, example))
        return is_exact(size, clip / size)

    return jax.lax.map(usable, data, batch_size=MICROBATCH)


def _size(tree: Any) -> Array:
    return norm(jnp.stack([norm(leaf.ravel()) for leaf in jax.tree.leaves(tree)]))


def bounded_records(
    features: Array, labels: Array, clip: Array
) -> tuple[Array, Array, Array, Array]:
    """Features, labels, slope bounds and norms; zero for a record that is not usable.

    Features do not depend on ``clip``: where many clips are run at once they stay one array.
    """
    norms = norm(features)
    finite = jnp.isfinite(norms) & jnp.isfinite(labels)
    return (
        jnp.where(finite[:, None], features, 0.0),
        jnp.where(finite, labels, 0.0),
        jnp.where(_usable(norms, labels, clip), clip / norms, 0.0),
        jnp.where(finite, norms, 0.0),
    )


def _usable(norms: Array, labels: Array, clip: Array) -> Array:
    return jnp.isfinite(labels) & is_exact(norms, clip / norms)


def is_exact(size: Array, factor: Array) -> Array:
    """Whether a norm and its clipping factor are known to full relative precision.

    A subnormal factor is not, and a record that large counts as not finite.
    """
    return jnp.isfinite(size) & (factor >= jnp.finfo(size.dtype).smallest_normal)
