"""Sparse features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import shown
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.vectors import norm, scaled_rows

_MIN_BLOCKED = 2**16  # numbers of the sums of all blocks that are always allowed


@pytree_dataclass
@dataclass(frozen=True, repr=False)
class SparseFeatures:
    """Sparse matrix with at most ``s`` entries per row, in memory of order ``n s``.

    ``indices``, int32, and ``values`` have shape ``(n, s)``; ``dim`` is ``d``. Indices may be in
    any order. The constructor sums the values of equal indices, so that norms and products refer to
    the same numbers, and drops entries with an index outside ``0..dim-1``. Shorter rows are padded
    with zeros at index 0.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> rows = scipy.sparse.csr_array(np.array([[0.0, 3.0, 4.0], [1.0, 0.0, 0.0]]))
    >>> features = SparseFeatures.of(rows)
    >>> features.shape, features.values.shape
    ((2, 3), (2, 2))
    >>> features.norms().tolist()
    [5.0, 1.0]
    """

    indices: Array
    values: Array
    dim: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        if type(self.dim) is not int or not 0 < self.dim < 2**31:
            raise ValueError(f"dim must be an integer from 1 to 2^31 - 1, got {shown(self.dim)}")
        indices, values = _valid_indices(self.indices, self.dim), jnp.asarray(self.values)
        if indices.shape != values.shape or values.ndim < 1 or values.shape[-1] < 1:
            raise ValueError(
                f"indices and values must share one shape (n, s) with s positive, got "
                f"{indices.shape} and {values.shape}"
            )
        if not jnp.issubdtype(values.dtype, jnp.floating):
            raise ValueError(f"values must be floating, got dtype {values.dtype}")
        indices, values = _merge(indices, values, self.dim)
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"<SparseFeatures: shape {self.shape}, {self.dtype}>"  # never records

    @classmethod
    def of(
        cls, matrix: scipy.sparse.sparray | scipy.sparse.spmatrix, *, width: int | None = None
    ) -> SparseFeatures:
        """Convert a matrix of ``scipy.sparse`` in any format; integers become floats.

        Parameters
        ----------
        matrix : scipy.sparse matrix or array
            Shape ``(n, d)``. Duplicate entries are summed.
        width : int, optional
            Public bound ``s``; longer rows keep their first ``s`` stored entries. Default: the
            length of the longest row. Like ``n`` and ``d`` it is an array shape and counts as
            public.
        """
        if not scipy.sparse.issparse(matrix):
            raise ValueError(f"matrix must be one of scipy.sparse, got {type(matrix).__name__}")
        if width is not None and (type(width) is not int or width < 1):
            raise ValueError(f"width must be a positive integer, got {shown(width)}")
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub" or matrix.dtype.itemsize > 8:
            raise ValueError(
                f"matrix must be numeric, of shape (n, d), got {matrix.shape} of dtype "
                f"{matrix.dtype}"
            )
        rows = scipy.sparse.csr_array(matrix)
        try:
            rows.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(
                f"matrix must be a valid sparse matrix, got one with {error}"
            ) from None
        dtype = rows.dtype if rows.dtype.kind == "f" else jnp.asarray(0.0).dtype
        lengths = np.diff(rows.indptr)
        width = width or max(1, int(lengths.max(initial=0)))
        places = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
        inside = places < width
        slots = np.repeat(np.arange(rows.shape[0]), lengths)[inside], places[inside]
        indices = np.zeros((rows.shape[0], width), np.int32)
        values = np.zeros((rows.shape[0], width), dtype)
        indices[slots], values[slots] = rows.indices[inside], rows.data[inside]
        return cls(jnp.asarray(indices), jnp.asarray(values), int(rows.shape[1]))

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.indices.shape[:-1], self.dim)

    @property
    def dtype(self) -> jnp.dtype:
        return self.values.dtype

    def matvec(self, point: Array) -> Array:
        if point.ndim == 2:
            return jax.vmap(self.matvec)(point)
        return jnp.sum(self.values * point[self.indices], axis=-1)

    def paired(self, points: Array, index: Array) -> Array:
        return jnp.sum(self.values * points[index[:, None], self.indices], axis=-1)

    def rmatvec(self, weights: Array) -> Array:
        if weights.ndim == 2:
            return jax.vmap(self.rmatvec)(weights)
        terms = weights[:, None] * self.values
        # A GPU adds the terms of one coordinate one by one, in any order. For 10^5 rows the
        # rounding error exceeds the sensitivity of the sum. A sum over a block of rows has
        # fewer terms.
        blocks = min(math.isqrt(terms.shape[0]), max(terms.size, _MIN_BLOCKED) // self.dim)
        if blocks < 2:
            return self._scattered(terms)
        return jax.lax.platform_dependent(
            terms, cpu=self._scattered, default=partial(self._scattered_in_blocks, blocks)
        )

    def _scattered(self, terms: Array) -> Array:
        return jnp.zeros(self.dim, self.dtype).at[self.indices].add(terms)

    def _scattered_in_blocks(self, blocks: int, terms: Array) -> Array:
        rows = -(-terms.shape[0] // blocks)
        block = jnp.arange(terms.shape[0], dtype=jnp.int32)[:, None] // rows
        sums = jnp.zeros((blocks, self.dim), self.dtype).at[block, self.indices].add(terms)
        return sums.sum(axis=0)

    def products(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        return self.matvec, self.rmatvec

    def norms(self, order: float = 2.0) -> Array:
        return norm(self.values, order)

    def take(self, rows: Array | slice) -> Self:
        return jax.tree.map(lambda leaf: leaf[rows], self)

    def scaled(self, factors: Array) -> SparseFeatures:
        return self._with(scaled_rows(self.values, factors))

    def mapped(self, function: Callable[[Array, Array], Array], point: Array) -> SparseFeatures:
        values = function(point[self.indices], self.values)
        return self._with(jnp.where(self.values == 0.0, 0.0, values))

    def block(self, start: ArrayLike, size: int) -> Array:
        rows = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), self)
        zeros = jnp.zeros((size, self.dim), self.dtype)
        return zeros.at[jnp.arange(size)[:, None], rows.indices].add(rows.values)

    def _with(self, values: Array) -> SparseFeatures:
        """Return features with other values at the same indices, without another merge."""
        return jax.tree.unflatten(jax.tree.structure(self), (self.indices, values))


def _valid_indices(indices: ArrayLike, dim: int) -> Array:
    """Convert to int32; invalid indices become -1, so that none wraps around."""
    traced = isinstance(indices, jax.core.Tracer)
    places: Any = indices if traced else np.asarray(indices)
    if places.dtype.kind not in "iu" and not all(isinstance(each, int) for each in places.flat):
        raise ValueError(f"indices must be integers, got dtype {places.dtype.type.__name__}")
    if traced:
        return places
    inside = (places >= 0) & (places < dim)
    return jnp.asarray(np.where(inside, np.where(inside, places, 0).astype(np.int32), -1))


@jax.jit(static_argnames="dim")
def _merge(indices: Array, values: Array, dim: int) -> tuple[Array, Array]:
    """Sort the indices and sum the values of equal ones; pad with zeros at index 0."""
    if indices.dtype not in (jnp.int32, jnp.int64):
        indices = indices.astype(jnp.int32)
    inside = (indices >= 0) & (indices < dim)
    places = jnp.where(inside, indices, 0).astype(jnp.int32)
    places, values = jax.lax.sort((places, jnp.where(inside, values, 0.0)), num_keys=1)
    new = jnp.diff(places, axis=-1, prepend=places[..., :1]) != 0
    entry = jnp.cumsum(new, axis=-1)

    def combine(entry: Array, places: Array, values: Array) -> tuple[Array, Array]:
        return (
            jnp.zeros_like(places).at[entry].set(places),
            jnp.zeros_like(values).at[entry].add(values),
        )

    for _ in range(values.ndim - 1):
        combine = jax.vmap(combine)
    return combine(entry, places, values)
