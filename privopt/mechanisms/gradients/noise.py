"""Independent Gaussian noise on every leaf of a pytree."""

from __future__ import annotations

from typing import Any

import jax
from jax import Array

__all__ = ["add_gaussian_noise"]


def add_gaussian_noise(key: Array, tree: Any, scale: Array | float) -> Any:
    """``leaf + N(0, scale^2 I)``: fresh noise for every coordinate of every leaf, in its dtype.

    A single leaf takes ``key`` itself, several take one key each.
    """
    leaves, structure = jax.tree.flatten(tree)
    keys = [key] if len(leaves) == 1 else list(jax.random.split(key, len(leaves)))
    noisy = [
        leaf + scale * jax.random.normal(k, leaf.shape, leaf.dtype)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, noisy)
