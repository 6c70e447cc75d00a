"""Clipped gradients of any loss, made one a record; a microbatch of them is in memory at once."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import norm
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping.factors import BatchSum, clipping_factors, is_exact
from privopt.release import Pytree

__all__ = ["batch_sum", "gradient_sum", "usable"]

Loss = Callable[[Pytree, Pytree], Array]


def gradient_sum(
    loss: Loss,
    data: Pytree,
    counts: Array | None,
    clip: Number,
    gamma: Number | None,
    microbatch: int,
) -> Callable[[Pytree], Pytree]:
    """``w -> sum_i m_i clip(grad loss(w, x_i))``; ``w`` may be any pytree."""
    rows = jax.tree.leaves(data)[0].shape[0]
    add_up = _summed(loss, clip, gamma)

    def whole_sum(point: Pytree) -> Pytree:
        weights = jnp.ones(rows, jax.tree.leaves(point)[0].dtype) if counts is None else counts
        return _in_parts(lambda part: add_up(point, *part), (data, weights), microbatch)

    return whole_sum


def batch_sum(
    loss: Loss, data: Pytree, clip: Number, gamma: Number | None, microbatch: int
) -> BatchSum:
    """The same over rows, as they are stored."""
    add_up = _summed(loss, clip, gamma)

    def whole_sum(point: Pytree, rows: Array, weights: Array, anchor: Pytree = None) -> Pytree:
        def part_sum(part: tuple[Array, Array]) -> Pytree:
            chosen, multiplicities = part
            examples = jax.tree.map(lambda leaf: leaf[chosen], data)
            return add_up(point, examples, multiplicities, anchor)

        return _in_parts(part_sum, (rows, weights), microbatch)

    return whole_sum


def usable(loss: Loss, data: Pytree, clip: Number, point: Pytree, microbatch: int) -> Array:
    """Which records have a gradient at ``point`` that can be clipped; bool of shape ``(n,)``."""
    gradient = jax.grad(loss)

    def one(example: Pytree) -> Array:
        size = _size(gradient(point, example))
        return is_exact(size, clip / size)

    return jax.lax.map(one, data, batch_size=microbatch)


def _summed(loss: Loss, clip: Number, gamma: Number | None) -> Pytree:
    """``(w, examples, m, anchor) -> sum_i m_i clip(...)``, all examples at once."""
    gradient = jax.grad(loss)

    def factor(point: Pytree, example: Pytree, anchor: Pytree) -> tuple[Pytree, Array]:
        found = gradient(point, example)
        if anchor is not None:
            found = jax.tree.map(jnp.subtract, found, gradient(anchor, example))
        return found, clipping_factors(_size(found), clip, gamma)

    def add_up(point: Pytree, examples: Pytree, weights: Array, anchor: Pytree = None) -> Pytree:
        gradients, factors = jax.vmap(factor, (None, 0, None))(point, examples, anchor)
        kept = weights * factors

        def total(leaf: Array) -> Array:
            leaf = jnp.where((factors > 0.0).reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0.0)
            return jnp.tensordot(kept, leaf, 1, precision="highest")

        return jax.tree.map(total, gradients)

    return add_up


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
