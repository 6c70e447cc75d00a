"""Accelerated projected gradient descent for a fixed number of steps."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["accelerated_descent"]


def accelerated_descent(
    gradient: Callable[[Array], Array],
    project: Callable[[Array], Array],
    start: Array,
    *,
    smoothness: Array | float,
    strong_convexity: Array | float,
    steps: Array | int,
) -> Array:
    """``T`` steps of accelerated projected descent with constant momentum.

    ``x_{t+1} = Proj(y_t - grad(y_t)/b)``, ``y_{t+1} = x_{t+1} + beta (x_{t+1} - x_t)``,
    ``beta = (sqrt(kappa) - 1)/(sqrt(kappa) + 1)``, ``kappa = b/a``. The number of steps is fixed,
    so what is computed depends on the data through the gradients alone.

    Parameters
    ----------
    gradient, project : callable
        ``(dim,) -> (dim,)``. The objective is defined, ``b``-smooth and ``a``-strongly convex on
        the whole space; ``y_t`` may leave the set.
    start : Array
        Shape ``(dim,)``.
    smoothness, strong_convexity, steps : scalar
        ``b >= a > 0`` and ``T``; may be traced.

    Rate
    ----
    ``F(x_T) - F* <= (1 - kappa^{-1/2})^T (F(x_0) - F* + (a/2)|x_0 - x*|^2)``. Source: Beck 2017,
    First-Order Methods in Optimization, Theorem 10.42.
    """
    root = jnp.sqrt(jnp.asarray(smoothness / strong_convexity, start.dtype))
    momentum = (root - 1.0) / (root + 1.0)

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, lead = state
        moved = project(lead - gradient(lead) / smoothness)
        return moved, moved + momentum * (moved - point)

    point, _ = jax.lax.fori_loop(0, steps, step, (start, start))
    return point
