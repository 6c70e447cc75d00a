"""Clipped gradients of any loss, made one a record; a microbatch of them is in memory at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import norm
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping.factors import clipping_factors, is_exact
from privopt.release import Pytree


class GeneralSums(NamedTuple):
    """Of any loss ``loss(w, x)``; ``w`` may be any pytree."""

    loss: Callable[[Pytree, Pytree], Array]
    data: Pytree
    counts: Array | None
    clip: Number
    gamma: Number | None
    microbatch: int

    def gradient_sum(self) -> Callable[[Pytree], Pytree]:
        """``w -> sum_i m_i clip(g_i(w))``."""
        rows = jax.tree.leaves(self.data)[0].shape[0]

        def whole_sum(point: Pytree) -> Pytree:
            ones = jnp.ones(rows, jax.tree.leaves(point)[0].dtype)
            weights = ones if self.counts is None else self.counts
            return _in_parts(
                lambda part: self._sum(point, *part), (self.data, weights), self.microbatch
            )

        return whole_sum

    def batch_sum(
        self, point: Pytree, rows: Array, weights: Array, anchor: Pytree = None
    ) -> Pytree:
        """The same over rows, as they are stored."""

        def part_sum(part: tuple[Array, Array]) -> Pytree:
            examples = jax.tree.map(lambda leaf: leaf[part[0]], self.data)
            return self._sum(point, examples, part[1], anchor)

        return _in_parts(part_sum, (rows, weights), self.microbatch)

    def usable(self, point: Pytree) -> Array:
        """Which records have a gradient at ``point`` that can be clipped."""

        def one(example: Pytree) -> Array:
            size = _size(jax.grad(self.loss)(point, example))
            return is_exact(size, self.clip / size)

        return jax.lax.map(one, self.data, batch_size=self.microbatch)

    def _sum(
        self, point: Pytree, examples: Pytree, weights: Array, anchor: Pytree = None
    ) -> Pytree:
        """``sum_i m_i clip(...)``, all examples at once."""
        gradient = jax.grad(self.loss)

        def one(example: Pytree) -> tuple[Pytree, Array]:
            found = gradient(point, example)
            if anchor is not None:
                found = jax.tree.map(jnp.subtract, found, gradient(anchor, example))
            return found, clipping_factors(_size(found), self.clip, self.gamma)

        gradients, factors = jax.vmap(one)(examples)
        kept = weights * factors

        def total(leaf: Array) -> Array:
            leaf = jnp.where((factors > 0.0).reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0.0)
            return jnp.tensordot(kept, leaf, 1, precision="highest")

        return jax.tree.map(total, gradients)


def _in_parts(part_sum: Callable[[Pytree], Pytree], records: Pytree, size: int) -> Pytree:
    """``part_sum`` over consecutive parts of ``size`` records, added up."""
    count = jax.tree.leaves(records)[0].shape[0]
    whole = count - count % size
    if whole == 0 or whole == count == size:
        return part_sum(records)

    def add(total: Pytree, part: Pytree) -> tuple[Pytree, None]:
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


def _size(tree: Pytree) -> Array:
    return norm(jnp.stack([norm(leaf.ravel()) for leaf in jax.tree.leaves(tree)]))
