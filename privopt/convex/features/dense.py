"""Features that are an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from privopt.convex.features.features import Products, scaled_rows
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.vectors import norm

_PRECISION = jax.lax.Precision.HIGHEST
_PART_COUNTS = (20, 5, 2, 3, 7)  # a sum over records is split into the first that divides it


@pytree_dataclass
@dataclass(frozen=True)
class DenseFeatures:
    """All numbers, zeros included.

    Attributes
    ----------
    array : Array
        Shape ``(n, d)``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> features = DenseFeatures(jnp.array([[3.0, 4.0], [0.0, 1.0]]))
    >>> features.norms().tolist(), features.rmatvec(jnp.ones(2)).tolist()
    ([5.0, 1.0], [3.0, 5.0])
    """

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, d)``."""
        return self.array.shape

    @property
    def dtype(self) -> jnp.dtype:
        """Of the numbers."""
        return self.array.dtype

    def matvec(self, point: Array) -> Array:
        """``<x_i, w>``. One ``w`` is a product with a vector, fast on a CPU."""
        if point.ndim == 2 and point.shape[0] > 1:
            return jnp.matmul(point, self.array.T, precision=_PRECISION)
        return jnp.matmul(self.array, point.reshape(-1), precision=_PRECISION).reshape(
            *point.shape[:-1], *self.array.shape[:-1]
        )

    def paired(self, points: Array, which: Array) -> Array:
        """``<x_i, w_k>`` with ``k = which_i``."""
        return jnp.sum(self.array * points[which], axis=-1)

    def rmatvec(self, shares: Array) -> Array:
        """``sum_i s_i x_i``. One long ``s`` in parts is faster on a CPU than whole."""
        n, dim = self.array.shape
        parts = next((parts for parts in _PART_COUNTS if n % parts == 0), 1)
        if shares.ndim == 1 or shares.shape[0] > 1 or parts == 1:
            return jnp.matmul(shares, self.array, precision=_PRECISION)
        split = shares.reshape(parts, 1, -1), self.array.reshape(parts, -1, dim)
        return jnp.matmul(*split, precision=_PRECISION).sum(axis=0)

    def products(self) -> Products:
        """With records along the last axis: both products then run along memory."""
        columns = self.array.T
        return Products(
            lambda point: jnp.matmul(point, columns, precision=_PRECISION),
            lambda shares: jnp.einsum("n,dn->d", shares, columns, precision=_PRECISION),
        )

    def norms(self) -> Array:
        """``|x_i|_2``."""
        return norm(self.array)

    def l1_norms(self) -> Array:
        """``|x_i|_1``."""
        return jnp.sum(jnp.abs(self.array), axis=-1)

    def take(self, rows: Array | slice) -> DenseFeatures:
        """The rows of these numbers."""
        return DenseFeatures(self.array[rows])

    def scaled(self, factors: Array) -> DenseFeatures:
        """``f_i x_i``."""
        return DenseFeatures(scaled_rows(self.array, factors))

    def mapped(self, function: Callable[[Array, Array], Array], point: Array) -> DenseFeatures:
        """``f(w_j, x_ij)``, and 0 where ``x_ij`` is."""
        found = function(jnp.broadcast_to(point, self.array.shape), self.array)
        return DenseFeatures(jnp.where(self.array == 0.0, 0.0, found))

    def block(self, start: ArrayLike, size: int) -> Array:
        """Rows that follow each other."""
        return jax.lax.dynamic_slice_in_dim(self.array, start, size)
