"""Features of the records: ``n`` rows of ``d`` numbers, stored whole or without their zeros.

Whatever multiplies features by a parameter does it here. ``matvec`` and ``rmatvec`` take one vector
or several, one a row; a single row of features, as a loss sees it under ``jax.vmap``, is of the
same class with one axis less. Products are taken in full precision, since accelerators round the
factors of a float32 product to ten bits unless they are told not to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from privopt.convex.record import record
from privopt.convex.vectors import norm

__all__ = [
    "DenseFeatures",
    "Features",
    "Products",
    "SparseFeatures",
    "as_features",
    "is_features",
    "shortened",
]

_HIGHEST = jax.lax.Precision.HIGHEST
_PARTS = (20, 5, 2, 3, 7)  # into which a sum over records is split, where they divide its length


class Products(NamedTuple):
    """The two products with all rows, as functions to be called in a loop."""

    matvec: Callable[[Array], Array]
    rmatvec: Callable[[Array], Array]


class Features(Protocol):
    """``n`` rows ``x_i`` of ``d`` numbers; a pytree of arrays whose leading axis is the records."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, d)``; ``(d,)`` of a single row."""

    @property
    def dtype(self) -> Any:
        """Of the numbers."""

    def matvec(self, point: Array) -> Array:
        """``<x_i, w>``, shape ``(n,)``; ``(k, n)`` for points of shape ``(k, d)``."""

    def paired(self, points: Array, which: Array) -> Array:
        """``<x_i, w_k>`` with ``k = which_i``, shape ``(n,)``; points of shape ``(k, d)``."""

    def rmatvec(self, shares: Array) -> Array:
        """``sum_i s_i x_i``, shape ``(d,)``; ``(k, d)`` for shares of shape ``(k, n)``."""

    def products(self) -> Products:
        """Both for one vector, with the work that calls have in common done beforehand."""

    def norms(self) -> Array:
        """``|x_i|_2``, shape ``(n,)``; neither squares that vanish nor ones that overflow count."""

    def take(self, rows: Array | slice) -> Features:
        """The rows of these numbers, in this order."""

    def scaled(self, factors: Array) -> Features:
        """``f_i x_i``: factor 0 gives zeros whatever a row holds, factor 1 keeps its bits."""

    def block(self, start: ArrayLike, size: int) -> Array:
        """The ``size`` rows from row ``start`` on, zeros included; shape ``(size, d)``."""


@record
@dataclass(frozen=True)
class DenseFeatures:
    """All numbers, zeros included.

    Attributes
    ----------
    array : Array
        Shape ``(n, d)``.
    """

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, d)``."""
        return self.array.shape

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return self.array.dtype

    def matvec(self, point: Array) -> Array:
        """``<x_i, w>``. One ``w`` is a product with a vector, fast on a CPU."""
        if point.ndim == 2 and point.shape[0] > 1:
            return jnp.matmul(point, self.array.T, precision=_HIGHEST)
        return jnp.matmul(self.array, point.reshape(-1), precision=_HIGHEST).reshape(
            *point.shape[:-1], *self.array.shape[:-1]
        )

    def paired(self, points: Array, which: Array) -> Array:
        """``<x_i, w_k>`` with ``k = which_i``."""
        return jnp.sum(self.array * points[which], axis=-1)

    def rmatvec(self, shares: Array) -> Array:
        """``sum_i s_i x_i``. One long ``s`` in parts is faster on a CPU than whole."""
        n, dim = self.array.shape
        parts = next((parts for parts in _PARTS if n % parts == 0), 1)
        if shares.ndim == 1 or shares.shape[0] > 1 or parts == 1:
            return jnp.matmul(shares, self.array, precision=_HIGHEST)
        split = shares.reshape(parts, 1, -1), self.array.reshape(parts, -1, dim)
        return jnp.matmul(*split, precision=_HIGHEST).sum(axis=0)

    def products(self) -> Products:
        """With records along the last axis: both products then run along memory."""
        columns = self.array.T
        return Products(
            lambda point: jnp.matmul(point, columns, precision=_HIGHEST),
            lambda shares: jnp.einsum("n,dn->d", shares, columns, precision=_HIGHEST),
        )

    def norms(self) -> Array:
        """``|x_i|_2``."""
        return norm(self.array)

    def take(self, rows: Array | slice) -> DenseFeatures:
        """The rows of these numbers."""
        return DenseFeatures(self.array[rows])

    def scaled(self, factors: Array) -> DenseFeatures:
        """``f_i x_i``."""
        return DenseFeatures(_scaled(self.array, factors))

    def block(self, start: ArrayLike, size: int) -> Array:
        """Rows that follow each other."""
        return jax.lax.dynamic_slice_in_dim(self.array, start, size)


@record
@dataclass(frozen=True)
class SparseFeatures:
    """Rows of at most ``s`` numbers and their places, in memory of order ``n s``.

    Rows may come in any order of places. Values of one place are added up here, once, so that
    norms and products speak of the same numbers; a place beyond ``0..dim-1`` is no place, and its
    value no part of the row. Rows that need fewer than ``s`` entries end in zeros at place 0.

    Attributes
    ----------
    indices : Array
        Shape ``(n, s)``, int32.
    values : Array
        Shape ``(n, s)``.
    dim : int
        ``d``.

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
            raise ValueError(f"dim must be an integer from 1 to 2^31 - 1, got {self.dim!r}")
        indices, values = jnp.asarray(self.indices), jnp.asarray(self.values)
        if indices.shape != values.shape or values.ndim < 1 or values.shape[-1] < 1:
            raise ValueError(
                f"indices and values must share one shape (n, s) with s positive, got "
                f"{indices.shape} and {values.shape}"
            )
        if not jnp.issubdtype(indices.dtype, jnp.integer):
            raise ValueError(f"indices must be integers, got dtype {indices.dtype}")
        if not jnp.issubdtype(values.dtype, jnp.floating):
            raise ValueError(f"values must be floating, got dtype {values.dtype}")
        indices, values = _merged(indices, values, self.dim)
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "values", values)

    @classmethod
    def of(
        cls, matrix: Any, *, width: int | None = None, dtype: DTypeLike | None = None
    ) -> SparseFeatures:
        """From a matrix of ``scipy.sparse``, of any format.

        Parameters
        ----------
        matrix : scipy.sparse matrix or array
            Shape ``(n, d)``. What it stores twice is added up.
        width : int, optional
            ``s``, a public bound: a row that stores more entries keeps the first ``s``. By default
            as many as the longest row stores. That number shapes the program, as ``n`` and ``d``
            do, and counts as public like these.
        dtype : dtype, optional
            Of the values; by default the matrix's, and for integers JAX's own floating type.

        Raises
        ------
        ValueError
            If ``matrix`` is no sound sparse matrix of real numbers, or ``width`` not a positive
            integer. Never for the values: a row that is not finite is a null record to a run.
        """
        if not scipy.sparse.issparse(matrix):
            raise ValueError(f"matrix must be one of scipy.sparse, got {type(matrix).__name__}")
        if width is not None and (type(width) is not int or width < 1):
            raise ValueError(f"width must be a positive integer, got {width!r}")
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ValueError(
                f"matrix must have shape (n, d) and real numbers, got {matrix.shape} of dtype "
                f"{matrix.dtype}"
            )
        rows = scipy.sparse.csr_array(matrix)
        try:
            rows.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(
                f"matrix must be a sound sparse matrix, got one with {error}"
            ) from None
        if dtype is None:
            dtype = rows.dtype if rows.dtype.kind == "f" else jnp.asarray(0.0).dtype
        lengths = np.diff(rows.indptr)
        width = width or max(1, int(lengths.max(initial=0)))
        places = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], lengths)
        kept = places < width
        where = np.repeat(np.arange(rows.shape[0]), lengths)[kept], places[kept]
        indices = np.zeros((rows.shape[0], width), np.int32)
        values = np.zeros((rows.shape[0], width), dtype)
        indices[where], values[where] = rows.indices[kept], rows.data[kept]
        return cls(jnp.asarray(indices), jnp.asarray(values), int(rows.shape[1]))

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, d)``."""
        return (*self.indices.shape[:-1], self.dim)

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return self.values.dtype

    def matvec(self, point: Array) -> Array:
        """``<x_i, w>``, by looking up what a row needs of ``w``."""
        if point.ndim == 2:
            return jax.vmap(self.matvec)(point)
        return jnp.sum(self.values * point[self.indices], axis=-1)

    def paired(self, points: Array, which: Array) -> Array:
        """``<x_i, w_k>`` with ``k = which_i``."""
        return jnp.sum(self.values * points[which[:, None], self.indices], axis=-1)

    def rmatvec(self, shares: Array) -> Array:
        """``sum_i s_i x_i``, each number added to its place."""
        if shares.ndim == 2:
            return jax.vmap(self.rmatvec)(shares)
        return jnp.zeros(self.dim, self.dtype).at[self.indices].add(shares[:, None] * self.values)

    def products(self) -> Products:
        """Those above: nothing is laid out anew."""
        return Products(self.matvec, self.rmatvec)

    def norms(self) -> Array:
        """``|x_i|_2``."""
        return norm(self.values)

    def take(self, rows: Array | slice) -> Self:
        """The rows of these numbers."""
        return jax.tree.map(lambda leaf: leaf[rows], self)

    def scaled(self, factors: Array) -> SparseFeatures:
        """``f_i x_i``."""
        return self._with(_scaled(self.values, factors))

    def block(self, start: ArrayLike, size: int) -> Array:
        """Rows that follow each other, with their zeros."""
        rows = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), self)
        none = jnp.zeros((size, self.dim), self.dtype)
        return none.at[jnp.arange(size)[:, None], rows.indices].add(rows.values)

    def _with(self, values: Array) -> SparseFeatures:
        """Other values at the same places, which are merged already."""
        return jax.tree.unflatten(jax.tree.structure(self), (self.indices, values))


def is_features(values: object) -> bool:
    """Whether these are features, or a matrix of ``scipy.sparse``, rather than an array."""
    own = all(hasattr(values, name) for name in ("matvec", "rmatvec", "norms", "take"))
    return own or bool(scipy.sparse.issparse(values))


def as_features(values: Any) -> Features:
    """``values`` if they are features; made some if an array or a matrix of ``scipy.sparse``."""
    if scipy.sparse.issparse(values):
        return SparseFeatures.of(values)
    found: Features = values if is_features(values) else DenseFeatures(jnp.asarray(values))
    return found


def shortened(features: Any, curvature: float, smoothness: float | None) -> Any:
    """``x_i min(1, B/|x_i|)`` with ``B^2 = H/c``: as long as the declared smoothness allows.

    ``curvature`` is ``c``, so that a record's loss is ``c |x|^2``-smooth. The bound holds for the
    numbers returned: their norms' round-off is allowed for. Features stay as they are where
    nothing, or all, is said: ``H`` undeclared, ``c`` 0 or infinite. Arrays stay arrays.
    """
    if smoothness is None or not 0.0 < curvature < math.inf:
        return features
    return _shortened(features, math.sqrt(smoothness / curvature))


@jax.jit
def _shortened(features: Any, longest: float) -> Any:
    rows = as_features(features)
    terms = max(leaf.shape[1] for leaf in jax.tree.leaves(rows))
    limits, norms = jnp.finfo(rows.dtype), rows.norms()
    bound = jnp.asarray(longest * (1.0 - (terms + 8) * float(limits.eps)), rows.dtype)
    long = (norms > bound) & jnp.isfinite(norms)
    factor = bound / jnp.where(long, norms, bound)
    factor = jnp.where(factor >= limits.smallest_normal, factor, 0.0)
    shorter = rows.scaled(jnp.where(long, factor, 1.0))
    return shorter.array if isinstance(features, Array) else shorter  # type: ignore[attr-defined]


def _scaled(rows: Array, factors: Array) -> Array:
    factors = factors[..., None]
    return jnp.where(factors == 0.0, 0.0, jnp.where(factors == 1.0, rows, factors * rows))


@jax.jit(static_argnames="dim")
def _merged(indices: Array, values: Array, dim: int) -> tuple[Array, Array]:
    """Every place once, ascending, with the sum of its values; then zeros at place 0."""
    if indices.dtype not in (jnp.int32, jnp.int64):
        indices = indices.astype(jnp.int32)
    inside = (indices >= 0) & (indices < dim)
    places = jnp.where(inside, indices, 0).astype(jnp.int32)
    places, values = jax.lax.sort((places, jnp.where(inside, values, 0.0)), num_keys=1)
    new = jnp.diff(places, axis=-1, prepend=places[..., :1]) != 0
    entry = jnp.cumsum(new, axis=-1)

    def summed(entry: Array, places: Array, values: Array) -> tuple[Array, Array]:
        return (
            jnp.zeros_like(places).at[entry].set(places),
            jnp.zeros_like(values).at[entry].add(values),
        )

    for _ in range(values.ndim - 1):
        summed = jax.vmap(summed)
    return summed(entry, places, values)
