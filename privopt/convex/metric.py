"""The Hessian of a linear model, factored once, as the metric of many descents."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

__all__ = ["Metric", "identity", "newton"]

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
    small = scaled.T @ scaled if dim <= n else scaled @ scaled.T
    eye = jnp.eye(small.shape[0], dtype=small.dtype)
    factor = jnp.linalg.cholesky(small + regularisation * eye)
    usable = jnp.isfinite(factor).all()
    factor = jnp.where(usable, factor, eye)

    def solve(vectors: Array) -> Array:
        if dim <= n:
            return cho_solve((factor, True), vectors.T).T
        inner = cho_solve((factor, True), (vectors @ scaled.T).T).T
        return jnp.where(usable, (vectors - inner @ scaled) / regularisation, vectors)

    return solve
