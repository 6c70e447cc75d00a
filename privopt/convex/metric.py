"""The Hessian of a linear model, factored once, as the metric of many descents."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from privopt.convex.vectors import products

__all__ = ["Metric", "gram", "identity", "newton", "sampled_newton"]

_BLOCK = 80_000  # numbers, that a block stays in the cache of a core

Metric = Callable[[Array], Array]


def identity(vectors: Array) -> Array:
    """``v``: no metric but the Euclidean one."""
    return vectors


def newton(features: Array, curvatures: Array, regularisation: Array) -> Metric:
    """``v -> (X^T diag(h) X + lambda I)^{-1} v`` along the last axis, by one Cholesky.

    Of the smaller of two systems: with more coordinates than records, of ``n`` equations by

        ``(X^T h X + lambda I)^{-1} = (I - A^T (lambda I + A A^T)^{-1} A)/lambda``,
        ``A = h^{1/2} X``.

    A factor that does not exist in float64 (lambda below the round-off of the sum) is replaced by
    the identity: it is the metric of a method, nothing rests on it.

    Parameters
    ----------
    features, curvatures : Array
        ``X`` of shape ``(n, dim)``, ``h >= 0`` of shape ``(n,)``.
    regularisation : Array
        ``lambda > 0``.
    """
    return _inverse(features, curvatures, gram(features, curvatures), regularisation)


def sampled_newton(features: Array, curvatures: Array, regularisation: Array) -> Metric:
    """The same where the records stand for many more.

    Their Hessian is shrunk towards a multiple of the identity, ``(1 - rho) H + rho (tr H/d) I``,
    with what is best for a Gaussian sample. Source: Chen, Wiesel, Eldar and Hero 2010, "Shrinkage
    algorithms for MMSE covariance estimation", equation 23.
    """
    size, dim = features.shape
    hessian = gram(features, curvatures)
    trace, square = jnp.trace(hessian), jnp.sum(jnp.square(hessian))
    spread = (size + 1.0 - 2.0 / dim) * (square - trace**2 / dim)
    noise = (1.0 - 2.0 / dim) * square + trace**2
    share = jnp.where(spread > noise, noise / jnp.where(spread > noise, spread, 1.0), 1.0)
    level, kept = share * trace / dim, 1.0 - share
    return _inverse(features, kept * curvatures, kept * hessian, regularisation + level)


def gram(features: Array, curvatures: Array) -> Array:
    """The smaller of ``A^T A`` and ``A A^T``, in blocks along the longer axis of ``A``.

    A whole ``A`` would be a second copy of the data, whose memory alone costs many products.
    """
    along = 0 if features.shape[1] <= features.shape[0] else 1
    long, short = features.shape[along], features.shape[1 - along]
    size = min(long, max(short // 4, _BLOCK // short, 1))

    def add(i: Array, sums: Array) -> Array:
        start = jnp.minimum(i * size, long - size)  # the last block overlaps the one before
        x = jax.lax.dynamic_slice_in_dim(features, start, size, along)
        new = jnp.expand_dims(start + jnp.arange(size) >= i * size, 1 - along)
        if along == 0:
            h = jax.lax.dynamic_slice_in_dim(curvatures, start, size)
            weighted = (jnp.where(new, h[:, None], 0.0) * x).T
            # laid out as it is read: a product with rows apart takes twice as long on a CPU
            return sums + jax.lax.optimization_barrier(weighted) @ x
        x = jnp.where(new, jnp.sqrt(curvatures)[:, None] * x, 0.0)
        return sums + x @ x.T

    return jax.lax.fori_loop(0, -(-long // size), add, jnp.zeros((short, short)))


def _inverse(features: Array, curvatures: Array, gram: Array, shift: Array) -> Metric:
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
    factor = jnp.linalg.cholesky(gram + shift * eye)
    factor = jnp.where(jnp.isfinite(factor).all(), factor, eye)

    def solved(vectors: Array) -> Array:
        return cho_solve((factor, True), vectors.T).T

    if features.shape[1] <= features.shape[0]:
        return solved
    root = jnp.sqrt(curvatures)[None]

    def inverted(vectors: Array) -> Array:
        inner = root * solved(root * products(features, vectors))
        return (vectors - inner @ features) / shift

    return inverted
