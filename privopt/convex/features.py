"""Features of the records: dense or sparse matrices of ``n`` rows and ``d`` columns.

All products of features and parameters are computed here. ``matvec`` and ``rmatvec`` accept one
vector, or several as rows. A single row of features, as a loss receives it under ``jax.vmap``, has
the same class with one axis less. Products use full precision; by default, accelerators round the
factors of a float32 product to ten bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from privopt.arguments import check_type, checked, described, shown
from privopt.convex.arrays import norm, pytree_dataclass, scaled_rows


class Features(Protocol):
    """Matrix of ``n`` rows ``x_i``; a pytree of arrays with the records along the first axis."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape ``(n, d)``; ``(d,)`` for a single row."""

    @property
    def dtype(self) -> jnp.dtype:
        """Data type of the numbers."""

    def matvec(self, point: Float[Array, "*k d"]) -> Float[Array, ...]:
        """Compute ``<x_i, w>``, shape ``(n,)``; ``(k, n)`` for points of shape ``(k, d)``."""

    def paired(self, points: Float[Array, "k d"], index: Int[Array, " n"]) -> Float[Array, " n"]:
        """Compute ``<x_i, w_k>`` with ``k = index_i``."""

    def rmatvec(self, weights: Float[Array, "*k n"]) -> Float[Array, "*k d"]:
        """Compute ``sum_i s_i x_i``."""

    def products(self) -> Products:
        """Return both products for single vectors, with shared work done in advance."""

    def norms(self, order: float = 2.0) -> Float[Array, "*n"]:
        """Compute ``|x_i|`` of order 1, 2 or infinity; see ``convex.norm``."""

    def take(self, rows: Int[Array, "*rows"] | slice) -> Features:
        """Return the rows with these indices, in this order."""

    def scaled(self, factors: Float[Array, "*n"]) -> Features:
        """Return ``f_i x_i``; factor 0 gives zeros for every row, factor 1 the same bits."""

    def mapped(
        self, function: Callable[[Array, Array], Array], point: Float[Array, "*n d"]
    ) -> Features:
        """Replace every nonzero ``x_ij`` by ``f(w_j, x_ij)``; ``f`` is elementwise."""

    def block(self, start: ArrayLike, size: int) -> Float[Array, "size d"]:
        """Return ``size`` rows from row ``start`` on as an array."""


FeaturesLike = Features | ArrayLike  # or a matrix of scipy.sparse, which has no type annotations
Products = tuple[Callable[[Array], Array], Callable[[Array], Array]]  # matvec and rmatvec

_PRECISION = jax.lax.Precision.HIGHEST
_PART_COUNTS = (20, 5, 2, 3, 7)  # parts of a sum over records; the first that divides n
_MIN_BLOCKED = 2**16  # numbers of the sums of all blocks that are always allowed


@pytree_dataclass
@dataclass(frozen=True, repr=False)
class DenseFeatures:
    """Dense matrix.

    Examples
    --------
    >>> features = DenseFeatures(jnp.array([[3.0, 4.0], [0.0, 1.0]]))
    >>> features.norms().tolist(), features.rmatvec(jnp.ones(2)).tolist()
    ([5.0, 1.0], [3.0, 5.0])
    """

    array: Float[Array, "*n d"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "array", floats(self.array))

    def __repr__(self) -> str:
        return f"<DenseFeatures: shape {self.shape}, {self.dtype}>"  # never records

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> jnp.dtype:
        return self.array.dtype

    def matvec(self, point: Float[Array, "*k d"]) -> Float[Array, ...]:
        # a matrix-vector product is faster on a CPU than a matrix product with one row
        if point.ndim == 2 and point.shape[0] > 1:
            return jnp.matmul(point, self.array.T, precision=_PRECISION)
        return jnp.matmul(self.array, point.reshape(-1), precision=_PRECISION).reshape(
            *point.shape[:-1], *self.array.shape[:-1]
        )

    def paired(self, points: Float[Array, "k d"], index: Int[Array, " n"]) -> Float[Array, " n"]:
        return jnp.sum(self.array * points[index], axis=-1)

    def rmatvec(self, weights: Float[Array, "*k n"]) -> Float[Array, "*k d"]:
        n, dim = self.array.shape  # on a CPU a long vector is faster in parts
        parts = next((parts for parts in _PART_COUNTS if n % parts == 0), 1)
        if weights.ndim == 1 or weights.shape[0] > 1 or parts == 1:
            return jnp.matmul(weights, self.array, precision=_PRECISION)
        split = weights.reshape(parts, 1, -1), self.array.reshape(parts, -1, dim)
        return jnp.matmul(*split, precision=_PRECISION).sum(axis=0)

    def products(self) -> Products:
        columns = self.array.T  # both products are then contiguous in memory
        return (
            lambda point: jnp.matmul(point, columns, precision=_PRECISION),
            lambda weights: jnp.einsum("n,dn->d", weights, columns, precision=_PRECISION),
        )

    def norms(self, order: float = 2.0) -> Float[Array, "*n"]:
        return norm(self.array, order)

    def take(self, rows: Int[Array, "*rows"] | slice) -> DenseFeatures:
        return DenseFeatures(self.array[rows])

    def scaled(self, factors: Float[Array, "*n"]) -> DenseFeatures:
        return DenseFeatures(scaled_rows(self.array, factors))

    def mapped(
        self, function: Callable[[Array, Array], Array], point: Float[Array, "*n d"]
    ) -> DenseFeatures:
        values = function(jnp.broadcast_to(point, self.array.shape), self.array)
        return DenseFeatures(jnp.where(self.array == 0.0, 0.0, values))

    def block(self, start: ArrayLike, size: int) -> Float[Array, "size d"]:
        return jax.lax.dynamic_slice_in_dim(self.array, start, size)


@pytree_dataclass
@dataclass(frozen=True, repr=False)
class SparseFeatures:
    """Sparse matrix with at most ``s`` entries per row, in memory of order ``n s``.

    ``indices``, int32, and ``values`` have shape ``(n, s)``; ``dim`` is ``d``. Indices may be in
    any order. The constructor sums the values of equal indices, so that norms and products refer to
    the same numbers, and drops entries with an index outside ``0..dim-1``. Shorter rows are padded
    with zeros at index 0. On a GPU, the sum makes subnormal values 0.

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

    indices: Int[Array, "*n s"]
    values: Float[Array, "*n s"]
    dim: int = field(metadata={"static": True})

    def __post_init__(self) -> None:
        if type(self.dim) is not int or not 0 < self.dim < 2**31:
            raise ValueError(f"dim must be an integer from 1 to 2^31 - 1, got {shown(self.dim)}")
        indices, values = _valid_indices(self.indices, self.dim), self.values
        if not isinstance(values, np.ndarray | Array):
            values = jnp.asarray(values)
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
        indices: Any = np.zeros((rows.shape[0], width), np.int32)
        values: Any = np.zeros((rows.shape[0], width), dtype)
        indices[slots], values[slots] = rows.indices[inside], rows.data[inside]
        return cls(indices, values, int(rows.shape[1]))

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.indices.shape[:-1], self.dim)

    @property
    def dtype(self) -> jnp.dtype:
        return self.values.dtype

    def matvec(self, point: Float[Array, "*k d"]) -> Float[Array, ...]:
        if point.ndim == 2:
            return jax.vmap(self.matvec)(point)
        return jnp.sum(self.values * point[self.indices], axis=-1)

    def paired(self, points: Float[Array, "k d"], index: Int[Array, " n"]) -> Float[Array, " n"]:
        return jnp.sum(self.values * points[index[:, None], self.indices], axis=-1)

    def rmatvec(self, weights: Float[Array, "*k n"]) -> Float[Array, "*k d"]:
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

    def products(self) -> Products:
        return self.matvec, self.rmatvec

    def norms(self, order: float = 2.0) -> Float[Array, "*n"]:
        return norm(self.values, order)

    def take(self, rows: Int[Array, "*rows"] | slice) -> Self:
        return jax.tree.map(lambda leaf: leaf[rows], self)

    def scaled(self, factors: Float[Array, "*n"]) -> SparseFeatures:
        return self._with(scaled_rows(self.values, factors))

    def mapped(
        self, function: Callable[[Array, Array], Array], point: Float[Array, "*n d"]
    ) -> SparseFeatures:
        values = function(point[self.indices], self.values)
        return self._with(jnp.where(self.values == 0.0, 0.0, values))

    def block(self, start: ArrayLike, size: int) -> Float[Array, "size d"]:
        rows = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), self)
        zeros = jnp.zeros((size, self.dim), self.dtype)
        return zeros.at[jnp.arange(size)[:, None], rows.indices].add(rows.values)

    def _with(self, values: Array) -> SparseFeatures:
        """Return features with other values at the same indices, without another merge."""
        return jax.tree.unflatten(jax.tree.structure(self), (self.indices, values))


def floats(values: Any) -> Any:
    """Return an array of floating-point numbers; other types become JAX's default float.

    Norms and slopes need floats: the absolute value of the most negative integer is negative.
    Features are returned unchanged.

    Examples
    --------
    >>> floats(jnp.array([-(2**31)])).tolist()
    [-2147483648.0]
    """
    if is_features(values):
        return as_features(values)
    numeric = isinstance(values, Real) or (
        isinstance(values, Array | np.ndarray)
        and any(jnp.issubdtype(values.dtype, kind) for kind in (jnp.number, jnp.bool_))
        and values.dtype.kind not in "cm"  # complex numbers and durations
    )
    if not numeric:
        raise ValueError(f"features must be an array of numbers, got {described(values)}")
    array = jnp.asarray(values)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array
    return array.astype(jnp.result_type(float))


@checked
def is_features(values: object) -> bool:
    """Return True for features and for matrices of ``scipy.sparse``, False for other arrays.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> is_features(np.eye(2)), is_features(scipy.sparse.eye_array(2))
    (False, True)
    """
    own = all(hasattr(values, name) for name in ("matvec", "rmatvec", "norms", "take"))
    return own or bool(scipy.sparse.issparse(values))


def as_features(values: FeaturesLike) -> Features:
    """Convert an array or a matrix of ``scipy.sparse`` to features; return features unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> as_features(np.eye(2)).matvec(jnp.array([3.0, 4.0])).tolist()
    [3.0, 4.0]
    """
    if scipy.sparse.issparse(values):
        return SparseFeatures.of(values)
    if is_features(values):
        return values  # type: ignore[return-value]
    check_type("values", values, Array)
    return DenseFeatures(jnp.asarray(values))


@checked
def difference(features: Features, others: Features) -> Features:
    """Return ``x_i - y_i`` for rows with nonzero entries in the same columns.

    Examples
    --------
    >>> rows = as_features(jnp.array([[3.0, 4.0]]))
    >>> difference(rows, rows.scaled(jnp.array([0.5]))).array.tolist()
    [[1.5, 2.0]]
    """

    def subtract(leaf: Array, other: Array) -> Array:
        return leaf - other if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    result: Features = jax.tree.map(subtract, features, others)
    return result


def shortened(features: FeaturesLike, curvature: float, smoothness: float | None) -> FeaturesLike:
    """Return ``x_i min(1, B/|x_i|)`` with ``B^2 = H/c``, so that the declared smoothness holds.

    ``curvature`` is ``c``; the loss of a record is ``c |x|^2``-smooth. The bound holds for the
    returned numbers, with an allowance for the round-off of their norms. Features are unchanged if
    ``H`` is not declared, if ``c`` is 0 or infinite, and if no row is too long. Arrays stay arrays.

    Examples
    --------
    >>> rows = jnp.array([[3.0, 4.0], [0.0, 1.0]])
    >>> shortened(rows, curvature=0.25, smoothness=1.0).round(4).tolist()
    [[1.2, 1.6], [0.0, 1.0]]
    """
    if smoothness is None or not 0.0 < curvature < math.inf:
        return features
    rows = as_features(features)
    terms = max(leaf.shape[1] for leaf in jax.tree.leaves(rows))
    limits, norms = jnp.finfo(rows.dtype), rows.norms()
    bound = math.sqrt(smoothness / curvature) * (1.0 - (terms + 8) * float(limits.eps))
    numpy = numpy_for(norms)
    bound, norms = numpy.asarray(bound, rows.dtype), numpy.asarray(norms)
    long = (norms > bound) & numpy.isfinite(norms)
    if not isinstance(norms, jax.core.Tracer) and not long.any():
        return features  # without a copy
    factors = bound / numpy.where(long, norms, bound)
    factors = numpy.where(factors >= limits.smallest_normal, factors, 0.0)
    return _shorten(features, numpy.where(long, factors, 1.0))


def numpy_for(array: Array) -> Any:
    """Return the module for computations on ``array`` outside of the programs of runs.

    It is NumPy, which compiles nothing, unless the array is traced or shared with other processes.
    """
    traced = isinstance(array, jax.core.Tracer)
    return np if not traced and array.is_fully_addressable else jnp


@jax.jit
def _shorten(features: FeaturesLike, factors: Array) -> FeaturesLike:
    shorter = as_features(features).scaled(factors)
    return shorter.array if isinstance(features, Array) else shorter  # type: ignore[attr-defined]


def _valid_indices(indices: ArrayLike, dim: int) -> Any:
    """Convert to int32; invalid indices become -1, so that none wraps around."""
    traced = isinstance(indices, jax.core.Tracer)
    places: Any = indices if traced else np.asarray(indices)
    if places.dtype.kind not in "iu" and not all(isinstance(each, int) for each in places.flat):
        raise ValueError(f"indices must be integers, got dtype {places.dtype.type.__name__}")
    if traced:
        return places
    inside = (places >= 0) & (places < dim)
    return np.where(inside, np.where(inside, places, 0).astype(np.int32), np.int32(-1))


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
