"""The Hessian of a linear model, factored once, as the metric of many descents."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from privopt.convex.features import Features

__all__ = ["Metric", "gram", "hessian", "identity", "newton", "sampled_newton"]

_BLOCK = 80_000  # numbers, that a block stays in the cache of a core

Metric = Callable[[Array], Array]


def identity(vectors: Array) -> Array:
    """``v``: no metric but the Euclidean one."""
    return vectors


def newton(features: Features, curvatures: Array, regularisation: Array) -> Metric:
    """``v -> (X^T diag(h) X + lambda I)^{-1} v`` along the last axis, by one Cholesky.

    Of the smaller of two systems: with more coordinates than records, of ``n`` equations by

        ``(X^T h X + lambda I)^{-1} = (I - A^T (lambda I + A A^T)^{-1} A)/lambda``,
        ``A = h^{1/2} X``.

    A factor that does not exist in float64 (lambda below the round-off of the sum) is replaced by
    the identity: it is the metric of a method, nothing rests on it.

    Parameters
    ----------
    features : Features
        ``X``, shape ``(n, dim)``.
    curvatures : Array
        ``h >= 0``, shape ``(n,)``.
    regularisation : Array
        ``lambda > 0``.
    """
    return _inverse(features, curvatures, gram(features, curvatures), regularisation)


def sampled_newton(features: Features, curvatures: Array, regularisation: Array) -> Metric:
    """The same where the records stand for many more.

    Their Hessian is shrunk towards a multiple of the identity, ``(1 - rho) H + rho (tr H/d) I``,
    with what is best for a Gaussian sample. Source: Chen, Wiesel, Eldar and Hero 2010, "Shrinkage
    algorithms for MMSE covariance estimation", equation 23.
    """
    size, dim = features.shape
    sampled = gram(features, curvatures)
    trace, square = jnp.trace(sampled), jnp.sum(jnp.square(sampled))
    spread = (size + 1.0 - 2.0 / dim) * (square - trace**2 / dim)
    noise = (1.0 - 2.0 / dim) * square + trace**2
    share = jnp.where(spread > noise, noise / jnp.where(spread > noise, spread, 1.0), 1.0)
    level, kept = share * trace / dim, 1.0 - share
    return _inverse(features, kept * curvatures, kept * sampled, regularisation + level)


def hessian(features: Features, curvatures: Array) -> Array:
    """``X^T diag(h) X``, shape ``(dim, dim)``, in blocks of rows.

    A whole ``h X`` would be a second copy of the data, whose memory alone costs many products.
    """
    rows, dim = features.shape
    size = min(rows, max(dim // 4, _BLOCK // dim, 1))

    def add(i: Array, sums: Array) -> Array:
        start = jnp.minimum(i * size, rows - size)  # the last block overlaps the one before
        x = features.block(start, size)
        new = start + jnp.arange(size) >= i * size
        h = jnp.where(new, jax.lax.dynamic_slice_in_dim(curvatures, start, size), 0.0)
        # laid out as it is read: a product with rows apart takes twice as long on a CPU
        return sums + jax.lax.optimization_barrier((h[:, None] * x).T) @ x

    return jax.lax.fori_loop(0, -(-rows // size), add, jnp.zeros((dim, dim)))


def gram(features: Features, curvatures: Array) -> Array:
    """The smaller of ``A^T A`` and ``A A^T``."""
    rows, dim = features.shape
    if dim <= rows:
        return hessian(features, curvatures)
    size, root = min(rows, max(_BLOCK // dim, 1)), jnp.sqrt(curvatures)

    def put(i: Array, products: Array) -> Array:
        start = jnp.minimum(i * size, rows - size)
        new = features.matvec(features.block(start, size))
        return jax.lax.dynamic_update_slice_in_dim(products, new, start, 0)

    products = jax.lax.fori_loop(0, -(-rows // size), put, jnp.zeros((rows, rows)))
    return root[:, None] * products * root[None]


def _inverse(features: Features, curvatures: Array, gram: Array, shift: Array) -> Metric:
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
    factor = jnp.linalg.cholesky(gram + shift * eye)
    factor = jnp.where(jnp.isfinite(factor).all(), factor, eye)

    def solved(vectors: Array) -> Array:
        return cho_solve((factor, True), vectors.T).T

    if features.shape[1] <= features.shape[0]:
        return solved
    root = jnp.sqrt(curvatures)[None]

    def inverted(vectors: Array) -> Array:
        inner = root * solved(root * features.matvec(vectors))
        return (vectors - features.rmatvec(inner)) / shift

    return inverted
