"""The Hessian of a linear model, factored once, as the metric of many descents."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

__all__ = ["Metric", "identity", "newton", "sampled_newton"]

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
    scaled, gram = _scaled(features, curvatures)
    return _inverse(scaled, gram, regularisation)


def sampled_newton(features: Array, curvatures: Array, regularisation: Array) -> Metric:
    """The same where the records stand for many more.

    Their Hessian is shrunk towards a multiple of the identity, ``(1 - rho) H + rho (tr H/d) I``,
    with what is best for a Gaussian sample. Source: Chen, Wiesel, Eldar and Hero 2010, "Shrinkage
    algorithms for MMSE covariance estimation", equation 23.
    """
    size, dim = features.shape
    scaled, gram = _scaled(features, curvatures)
    trace, square = jnp.trace(gram), jnp.sum(jnp.square(gram))
    spread = (size + 1.0 - 2.0 / dim) * (square - trace**2 / dim)
    noise = (1.0 - 2.0 / dim) * square + trace**2
    share = jnp.where(spread > noise, noise / jnp.where(spread > noise, spread, 1.0), 1.0)
    level, kept = share * trace / dim, 1.0 - share
    return _inverse(jnp.sqrt(kept) * scaled, kept * gram, regularisation + level)


def _scaled(features: Array, curvatures: Array) -> tuple[Array, Array]:
    """``A`` and the smaller of ``A^T A`` and ``A A^T``."""
    scaled = features * jnp.sqrt(curvatures)[:, None]
    n, dim = features.shape
    return scaled, scaled.T @ scaled if dim <= n else scaled @ scaled.T


def _inverse(scaled: Array, gram: Array, shift: Array) -> Metric:
    eye = jnp.eye(gram.shape[0], dtype=gram.dtype)
    factor = jnp.linalg.cholesky(gram + shift * eye)
    factor = jnp.where(jnp.isfinite(factor).all(), factor, eye)

    def solved(vectors: Array) -> Array:
        return cho_solve((factor, True), vectors.T).T

    if scaled.shape[1] <= scaled.shape[0]:
        return solved
    return lambda vectors: (vectors - solved(vectors @ scaled.T) @ scaled) / shift
