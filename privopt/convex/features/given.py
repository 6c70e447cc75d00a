"""Features as they are given, and as long as is declared."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import scipy.sparse
from jax import Array

from privopt.convex.features.dense import DenseFeatures
from privopt.convex.features.features import Features, FeaturesLike
from privopt.convex.features.sparse import SparseFeatures


def is_features(values: object) -> bool:
    """Whether these are features, or a matrix of ``scipy.sparse``, rather than an array.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> is_features(np.eye(2)), is_features(scipy.sparse.eye_array(2))
    (False, True)
    """
    own = all(hasattr(values, name) for name in ("matvec", "rmatvec", "norms", "take"))
    return own or bool(scipy.sparse.issparse(values))


def as_features(values: FeaturesLike) -> Features:
    """``values`` if they are features; made some if an array or a matrix of ``scipy.sparse``.

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
    return DenseFeatures(jnp.asarray(values))


def difference(features: Features, others: Features) -> Features:
    """``x_i - y_i`` of rows that have their numbers at the same places.

    Examples
    --------
    >>> rows = as_features(jnp.array([[3.0, 4.0]]))
    >>> difference(rows, rows.scaled(jnp.array([0.5]))).array.tolist()
    [[1.5, 2.0]]
    """

    def less(numbers: Array, subtracted: Array) -> Array:
        return numbers - subtracted if jnp.issubdtype(numbers.dtype, jnp.floating) else numbers

    found: Features = jax.tree.map(less, features, others)
    return found


def shortened(features: FeaturesLike, curvature: float, smoothness: float | None) -> FeaturesLike:
    """``x_i min(1, B/|x_i|)`` with ``B^2 = H/c``: as long as the declared smoothness allows.

    ``curvature`` is ``c``, so that a record's loss is ``c |x|^2``-smooth. The bound holds for the
    numbers returned: their norms' round-off is allowed for. Features stay as they are where
    nothing, or all, is said: ``H`` undeclared, ``c`` 0 or infinite. Arrays stay arrays.

    Examples
    --------
    >>> rows = jnp.array([[3.0, 4.0], [0.0, 1.0]])
    >>> shortened(rows, curvature=0.25, smoothness=1.0).round(4).tolist()
    [[1.2, 1.6], [0.0, 1.0]]
    """
    if smoothness is None or not 0.0 < curvature < math.inf:
        return features
    return _shortened(features, math.sqrt(smoothness / curvature))


@jax.jit
def _shortened(features: FeaturesLike, longest: float) -> FeaturesLike:
    rows = as_features(features)
    terms = max(leaf.shape[1] for leaf in jax.tree.leaves(rows))
    limits, norms = jnp.finfo(rows.dtype), rows.norms()
    bound = jnp.asarray(longest * (1.0 - (terms + 8) * float(limits.eps)), rows.dtype)
    long = (norms > bound) & jnp.isfinite(norms)
    factor = bound / jnp.where(long, norms, bound)
    factor = jnp.where(factor >= limits.smallest_normal, factor, 0.0)
    shorter = rows.scaled(jnp.where(long, factor, 1.0))
    return shorter.array if isinstance(features, Array) else shorter  # type: ignore[attr-defined]
