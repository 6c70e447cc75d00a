"""The noise of a pytree as one vector, and rows that remember such vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike

from privopt import draws
from privopt.release import Pytree


def drawn(key: Array, t: Array, like: Pytree) -> Array:
    """``N(0, I)`` from ``fold_in(key, t)``, one number for each of ``like``, in its order.

    Types below float32 are drawn, and remembered, in float32.
    """
    vector, _ = ravel_pytree(like)
    return draws.normal(jax.random.fold_in(key, t), vector.shape, _working(vector))


def restored(vector: Array, like: Pytree) -> Pytree:
    """``vector`` as a pytree like ``like``."""
    flat, unravel = ravel_pytree(like)
    return unravel(vector.astype(flat.dtype))


def rows(count: int, point: Pytree) -> Array:
    """So many vectors of zeros, each as long as ``point``."""
    vector, _ = ravel_pytree(point)
    return jnp.zeros((count, vector.size), _working(vector))


@jax.custom_batching.custom_vmap
def weighted(weights: Array, vectors: Array) -> Array:
    """``sum_i weights_i vectors_i``; no accelerator may round the weights, which privacy rests on.

    A compiled loop copies all rows if a step reads old ones after it has written new ones.
    Under ``vmap`` every run gets its own copy of the weights: with shared weights XLA would gather
    the rows of all runs anew in every step.
    """
    return jnp.matmul(weights, vectors, precision=jax.lax.Precision.HIGHEST)


@weighted.def_vmap
def _(runs: int, batched: list[bool], weights: Array, vectors: Array) -> tuple[Array, bool]:
    each = [
        array if is_batched else jnp.broadcast_to(array, (runs, *array.shape))
        for array, is_batched in zip((weights, vectors), batched, strict=True)
    ]
    return jnp.einsum("ri,rid->rd", *each, precision=jax.lax.Precision.HIGHEST), True


def _working(vector: Array) -> DTypeLike:
    return vector.dtype if jnp.finfo(vector.dtype).bits >= 32 else jnp.float32
