"""Sums of clipped gradients of any loss: formed one by one, those of a microbatch at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import as_features
from privopt.convex.record_losses import products
from privopt.convex.vectors import Number, norm
from privopt.mechanisms.clip_factors import clipping_factors, is_exact
from privopt.release import Pytree
from privopt.spec import Norm

MICROBATCH = 512


class GeneralSums(NamedTuple):
    """Of any loss ``loss(w, x)``; ``w`` may be any pytree."""

    loss: Callable[[Pytree, Pytree], Array]
    data: Pytree
    counts: Array | None
    clip: Number
    gamma: Number | None
    microbatch: int
    measure: Norm

    def gradient_sum(self) -> Callable[[Pytree], Pytree]:
        def whole_sum(point: Pytree) -> Pytree:
            weights = self.counts
            if weights is None:
                rows = jax.tree.leaves(self.data)[0].shape[0]
                weights = jnp.ones(rows, jax.tree.leaves(point)[0].dtype)
            return _in_parts(
                lambda part: self._sum(point, *part), (self.data, weights), self.microbatch
            )

        return whole_sum

    def batch_sum(
        self, point: Pytree, rows: Array, weights: Array, anchor: Pytree = None
    ) -> Pytree:

        def part_sum(part: tuple[Array, Array]) -> Pytree:
            examples = jax.tree.map(lambda leaf: leaf[part[0]], self.data)
            return self._sum(point, examples, part[1], anchor)

        places = jnp.arange(1, weights.shape[0] + 1)
        return _in_parts(
            part_sum,
            (rows, weights),
            self.microbatch,
            jnp.max(jnp.where(weights != 0.0, places, 0)),
        )

    def usable(self, point: Pytree) -> Array:

        def one(example: Pytree) -> Array:
            size = self._size(self._gradient(point, example), example)
            return is_exact(size, self.clip / size)

        return jax.lax.map(one, self.data, batch_size=self.microbatch)

    def _sum(
        self, point: Pytree, examples: Pytree, weights: Array, anchor: Pytree = None
    ) -> Pytree:
        """``sum_i m_i clip(...)``, all examples at once."""

        def one(example: Pytree) -> tuple[Pytree, Array]:
            found = self._gradient(point, example)
            if anchor is not None:
                found = jax.tree.map(jnp.subtract, found, self._gradient(anchor, example))
            return found, clipping_factors(self._size(found, example), self.clip, self.gamma)

        gradients, factors = jax.vmap(one)(examples)

        def usable(leaf: Array) -> Array:
            shape = -1, *(1,) * (leaf.ndim - 1)
            return jnp.where((factors > 0.0).reshape(shape), leaf, 0.0)

        return self._total(jax.tree.map(usable, gradients), weights * factors, examples)

    def _gradient(self, point: Pytree, example: Pytree) -> Pytree:
        return jax.grad(self.loss)(point, example)

    def _size(self, gradient: Pytree, example: Pytree) -> Array:
        """Its norm."""
        del example
        return _size(gradient, self.measure.order)

    def _total(self, gradients: Pytree, kept: Array, examples: Pytree) -> Pytree:
        """``sum_i k_i g_i``."""
        del examples
        return jax.tree.map(lambda g: jnp.tensordot(kept, g, 1, precision="highest"), gradients)


class LayerSums(GeneralSums):
    """Of a :class:`~privopt.convex.FirstLayer`: the gradients ``x h^T`` are never formed.

    ``h`` and the gradient in all other parameters are; the norm of a layer's is ``|x| |h|``.
    """

    def _gradient(self, point: Pytree, example: Pytree) -> Pytree:
        (weights, rest), (row, other) = point, example
        slopes = jax.grad(self.loss.head, (1, 0))  # type: ignore[attr-defined]
        return slopes(rest, products(weights, row), other)

    def _size(self, gradient: Pytree, example: Pytree) -> Array:
        (slopes, rest), (row, _) = gradient, example
        sizes = jax.tree.map(lambda h, x: as_features(x).norms() * norm(h), slopes, row)
        return _size((sizes, rest), 2.0)

    def _total(self, gradients: Pytree, kept: Array, examples: Pytree) -> Pytree:
        (slopes, rest), (rows, _) = gradients, examples

        def layer(slopes: Array, rows: Pytree) -> Array:
            used = as_features(rows).scaled((kept != 0.0).astype(slopes.dtype))
            return used.rmatvec(kept[None] * slopes.T).T

        return jax.tree.map(layer, slopes, rows), super()._total(rest, kept, examples)


def _in_parts(
    part_sum: Callable[[Pytree], Pytree], records: Pytree, size: int, used: Array | None = None
) -> Pytree:
    """``part_sum`` over consecutive parts of ``size`` records, added up.

    Nobody is in the parts after the first ``used`` records, and they are left out.
    """
    count = jax.tree.leaves(records)[0].shape[0]
    whole = count - count % size
    if whole == 0 or whole == count == size:
        return part_sum(records)

    def part(k: Array) -> Pytree:
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k * size, size), records
        )

    def add(k: Array, total: Pytree) -> Pytree:
        return jax.tree.map(jnp.add, total, part_sum(part(k)))

    total = part_sum(part(jnp.asarray(0)))
    parts = whole // size if used is None else jnp.minimum(whole, used + size - 1) // size
    total = jax.lax.fori_loop(1, parts, add, total)
    if whole < count:
        rest = jax.tree.map(lambda leaf: leaf[whole:], records)
        total = jax.tree.map(jnp.add, total, part_sum(rest))
    return total


def _size(tree: Pytree, order: float) -> Array:
    return norm(jnp.stack([norm(leaf.ravel(), order) for leaf in jax.tree.leaves(tree)]), order)
