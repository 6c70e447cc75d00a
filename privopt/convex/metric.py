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
    n, dim = features.shape
    scaled = features * jnp.sqrt(curvatures)[:, None]
    if dim <= n:
        return _inverse(scaled.T @ scaled, regularisation)
    inner = _inverse(scaled @ scaled.T, regularisation)
    return lambda v: (v - inner(v @ scaled.T) @ scaled) / regularisation


def sampled_newton(features: Array, curvatures: Array, regularisation: Array) -> Metric:
    """The same where the records stand for many more, at most as many coordinates as records.

    Their Hessian is shrunk towards a multiple of the identity, ``(1 - rho) H + rho (tr H/d) I``,
    with what is best for a Gaussian sample. Source: Chen, Wiesel, Eldar and Hero 2010, "Shrinkage
    algorithms for MMSE covariance estimation", equation 23.
    """
    size, dim = features.shape
    scaled = features * jnp.sqrt(curvatures)[:, None]
    hessian = scaled.T @ scaled
    trace, square = jnp.trace(hessian), jnp.sum(jnp.square(hessian))
    spread = (size + 1.0 - 2.0 / dim) * (square - trace**2 / dim)
    noise = (1.0 - 2.0 / dim) * square + trace**2
    share = jnp.where(spread > noise, noise / jnp.where(spread > noise, spread, 1.0), 1.0)
    level = share * trace / dim
    return _inverse((1.0 - share) * hessian, regularisation + level)


def _inverse(matrix: Array, shift: Array) -> Metric:
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    factor = jnp.linalg.cholesky(matrix + shift * eye)
    factor = jnp.where(jnp.isfinite(factor).all(), factor, eye)
    return lambda vectors: cho_solve((factor, True), vectors.T).T
