"""Independent Gaussian noise on every leaf of a pytree."""

from __future__ import annotations

from typing import Any

import jax
from jax import Array
from jax.flatten_util import ravel_pytree

__all__ = ["add_gaussian_noise"]


def add_gaussian_noise(key: Array, tree: Any, scale: Array | float) -> Any:
    """``leaf + N(0, scale^2 I)``: fresh noise for every coordinate of every leaf.

    Drawn as one vector, in the order of the leaves, which share a dtype: no key is split, and
    one generator is compiled however many leaves there are.
    """
    vector, unravel = ravel_pytree(tree)
    return unravel(vector + scale * jax.random.normal(key, vector.shape, vector.dtype))
