"""Accelerated descent with a fixed number of steps, and minimisers of quadratics over a set."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from privopt.arguments import checked
from privopt.convex.arrays import Number
from privopt.convex.loops import repeat, sequential_on_cpu
from privopt.convex.sets import ConstraintSet, L2Ball, WholeSpace

_HALVINGS = 128
_ERROR = 1e-12  # relative error of accelerated descent
FLATTEST = 1e-8  # smallest curvature used by descent, relative to the largest


@checked
def accelerated_descent(
    gradient: Callable[[Array], Array],
    project: Callable[[Array], Array],
    start: Float[Array, "*k d"],
    *,
    smoothness: Array | float,
    strong_convexity: Array | float,
    steps: Array | int,
) -> Float[Array, "*k d"]:
    """Run ``T`` steps of accelerated projected gradient descent with constant momentum.

    With ``theta = sqrt(a/b)``, ``x_0 = v_0``: ``y_t = (x_t + theta v_t)/(1 + theta)``,
    ``v_{t+1} = Proj((1 - theta) v_t + theta y_t - grad(y_t)/sqrt(a b))``,
    ``x_{t+1} = (1 - theta) x_t + theta v_{t+1}``. Every point is a convex combination of points of
    the set, so gradients are evaluated only in the set, where the declared constants hold. The
    number of steps is fixed, so the result depends on the data through the gradients only.

    The objective is ``b``-smooth and ``a``-strongly convex on the set, which contains ``start``;
    ``smoothness``, ``strong_convexity`` and ``steps`` are ``b >= a > 0`` and ``T``.

    Rate
    ----
    ``F(x_T) - F* <= (1 - kappa^{-1/2})^T (F(x_0) - F* + (a/2)|x_0 - x*|^2)``. Source: Tseng
    2008, "On accelerated proximal gradient methods"; d'Aspremont, Scieur and Taylor 2021,
    Acceleration Methods, section 4.

    Examples
    --------
    >>> scales = jnp.array([1.0, 4.0])
    >>> point = accelerated_descent(
    ...     lambda w: scales * (w - 0.5), L2Ball(2.0).project, jnp.zeros(2),
    ...     smoothness=4.0, strong_convexity=1.0, steps=50,
    ... )
    >>> point.round(4).tolist()
    [0.5, 0.5]
    """
    theta = jnp.sqrt(jnp.asarray(strong_convexity / smoothness, start.dtype))
    stride = theta / strong_convexity

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        point, lead = state
        middle = (point + theta * lead) / (1.0 + theta)
        lead = project((1.0 - theta) * lead + theta * middle - stride * gradient(middle))
        return (1.0 - theta) * point + theta * lead, lead

    point, _ = repeat(step, (start, start), steps)
    return point


@sequential_on_cpu
def eigenbasis(matrix: Float[Array, "d d"]) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """Return the eigenvalues, ascending, and the eigenvectors of a symmetric matrix.

    Under ``jax.vmap`` the matrices are decomposed sequentially on a CPU. The batched call deadlocks
    on its thread pool if a program uses several host devices (JAX 0.10.2).

    Examples
    --------
    >>> eigenbasis(jnp.diag(jnp.array([2.0, 1.0])))[0].tolist()
    [1.0, 2.0]
    """
    eigenvalues, vectors = jnp.linalg.eigh(matrix)
    return eigenvalues, vectors


def minimise_quadratic(
    eigenvalues: Float[Array, " d"],
    vectors: Float[Array, "d d"],
    linear: Float[Array, " d"],
    constraint: ConstraintSet,
    centre: Float[Array, " d"],
) -> Float[Array, " d"]:
    """Compute ``argmin_{w in W} v^T M v/2 - <b, v>``, ``v = w - c``, for ``M = Q diag(l) Q^T``.

    Over a Euclidean ball about ``c``, or the whole space, the result is exact: ``v = (M + t I)^{-1}
    b`` with ``t >= max(0, -l_1)`` such that ``|v| <= R``, by bisection. ``M`` may then have
    negative eigenvalues. (If ``b`` is orthogonal to the eigenspace of the least eigenvalue, a
    component in it is missing. A noisy ``b`` is not orthogonal.) Over other sets accelerated
    descent reduces the error to ``1e-12`` of its initial value; ``M`` must be positive definite
    with a condition number up to ``1e8``.

    ``eigenvalues`` is ``l``, ascending, ``vectors`` is ``Q``, ``linear`` is ``b``.

    Examples
    --------
    >>> ball, zero = L2Ball(1.0), jnp.zeros(2)
    >>> eigenvalues, linear = jnp.array([-1.0, 1.0]), jnp.array([1.0, 0.0])
    >>> minimise_quadratic(eigenvalues, jnp.eye(2), linear, ball, zero).round(6).tolist()
    [1.0, 0.0]
    """
    if isinstance(constraint, L2Ball | WholeSpace):
        radius = constraint.radius if isinstance(constraint, L2Ball) else math.inf
        rotated = jnp.matmul(linear, vectors, precision=jax.lax.Precision.HIGHEST)
        solution = _minimise_over_ball(eigenvalues, rotated, radius)
        offset = jnp.matmul(vectors, solution, precision=jax.lax.Precision.HIGHEST)
        return constraint.project(centre + offset)
    steepest, flattest = eigenvalues[-1], jnp.maximum(eigenvalues[0], FLATTEST * eigenvalues[-1])
    steps = jnp.ceil(jnp.sqrt(steepest / flattest) * -math.log(_ERROR))

    def gradient(point: Array) -> Array:
        offset = jnp.matmul(point - centre, vectors, precision=jax.lax.Precision.HIGHEST)
        product = jnp.matmul(vectors, eigenvalues * offset, precision=jax.lax.Precision.HIGHEST)
        return product - linear

    return accelerated_descent(
        gradient,
        constraint.project,
        constraint.project(centre),
        smoothness=steepest,
        strong_convexity=flattest,
        steps=jnp.where(jnp.isfinite(steps), steps, 0.0).astype(jnp.int32),
    )


def _minimise_over_ball(eigenvalues: Array, linear: Array, radius: Number) -> Array:
    """Minimise over a ball in the basis of eigenvectors."""
    least = jnp.maximum(-eigenvalues[0], 0.0)  # lower bound of t
    gaps = eigenvalues + least

    def point(more: Array) -> Array:
        curvature = gaps + more
        flat = jnp.where(linear == 0.0, 0.0, jnp.inf)  # unbounded, longer than every radius
        return jnp.where(curvature > 0.0, linear / jnp.where(curvature > 0.0, curvature, 1.0), flat)

    def is_long(more: Array) -> Array:
        return jnp.linalg.norm(point(more)) > radius

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        long = is_long(middle)
        return jnp.where(long, middle, low), jnp.where(long, high, middle)

    zero = jnp.zeros_like(least)
    ends = zero, jnp.linalg.norm(linear) / radius
    _, more = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
    return point(jnp.where(is_long(zero), more, zero))
