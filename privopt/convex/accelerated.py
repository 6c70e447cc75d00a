"""Accelerated projected gradient descent for a fixed number of steps."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from privopt.arguments import checked
from privopt.convex.turns import repeated


@checked
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

    With ``theta = sqrt(a/b)``, ``x_0 = v_0``: ``y_t = (x_t + theta v_t)/(1 + theta)``,
    ``v_{t+1} = Proj((1 - theta) v_t + theta y_t - grad(y_t)/sqrt(a b))``,
    ``x_{t+1} = (1 - theta) x_t + theta v_{t+1}``. Every point is a convex combination of members:
    gradients are asked for inside the set only, where the declared constants hold. The number of
    steps is fixed, so what is computed depends on the data through the gradients alone.

    The objective is ``b``-smooth and ``a``-strongly convex on the set projected on, which holds
    ``start``; ``smoothness``, ``strong_convexity`` and ``steps`` are ``b >= a > 0`` and ``T``.

    Rate
    ----
    ``F(x_T) - F* <= (1 - kappa^{-1/2})^T (F(x_0) - F* + (a/2)|x_0 - x*|^2)``. Source: Tseng
    2008, "On accelerated proximal gradient methods"; d'Aspremont, Scieur and Taylor 2021,
    Acceleration Methods, section 4.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> scales = jnp.array([1.0, 4.0])
    >>> found = accelerated_descent(
    ...     lambda w: scales * (w - 0.5), L2Ball(2.0).project, jnp.zeros(2),
    ...     smoothness=4.0, strong_convexity=1.0, steps=50,
    ... )
    >>> found.round(4).tolist()
    [0.5, 0.5]
    """
    theta = jnp.sqrt(jnp.asarray(strong_convexity / smoothness, start.dtype))
    stride = theta / strong_convexity

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, lead = state
        middle = (point + theta * lead) / (1.0 + theta)
        moved = project((1.0 - theta) * lead + theta * middle - stride * gradient(middle))
        return (1.0 - theta) * point + theta * moved, moved

    point, _ = repeated(step, (start, start), steps)
    return point
