"""The minimiser of a quadratic over a ball or any other set, from its eigenvectors."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex.accelerated import accelerated_descent
from privopt.convex.sets import ConstraintSet, L2Ball, WholeSpace
from privopt.convex.turns import in_turn_on_cpu
from privopt.convex.vectors import Number

_HALVINGS = 128
_ERROR = 1e-12  # relative, of accelerated descent
FLATTEST = 1e-8  # of the largest curvature: the least that descent can count on


@in_turn_on_cpu
def eigenbasis(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix.

    One matrix after another under ``jax.vmap`` on a CPU: the batched call waits for ever for the
    threads that run it, where a program is spread over several host devices (JAX 0.10.2).

    Examples
    --------
    >>> eigenbasis(jnp.diag(jnp.array([2.0, 1.0])))[0].tolist()
    [1.0, 2.0]
    """
    eigenvalues, vectors = jnp.linalg.eigh(matrix)
    return eigenvalues, vectors


def minimise_quadratic(
    eigenvalues: Array, vectors: Array, linear: Array, constraint: ConstraintSet, centre: Array
) -> Array:
    """``argmin_{w in W} v^T M v/2 - <b, v>``, ``v = w - c``, for ``M = Q diag(l) Q^T``.

    Over a Euclidean ball about ``c``, or the whole space, it is exact: ``v = (M + t I)^{-1} b``
    with ``t >= max(0, -l_1)`` such that ``|v| <= R``, by halvings; ``M`` may then have negative
    eigenvalues. (Where ``b`` is orthogonal to all vectors of the least one, which no noisy ``b``
    is, a multiple of these is missing.) Over another set accelerated descent runs until what is
    left is ``1e-12`` of the start's; ``M`` must be positive definite, of a condition number up to
    ``1e8``.

    ``eigenvalues`` are ``l``, ascending, ``vectors`` is ``Q``, ``linear`` is ``b``.

    Examples
    --------
    >>> ball, zero = L2Ball(1.0), jnp.zeros(2)
    >>> eigenvalues, linear = jnp.array([-1.0, 1.0]), jnp.array([1.0, 0.0])
    >>> minimise_quadratic(eigenvalues, jnp.eye(2), linear, ball, zero).round(6).tolist()
    [1.0, 0.0]
    """
    turned = jnp.matmul(linear, vectors, precision=jax.lax.Precision.HIGHEST)
    if isinstance(constraint, L2Ball | WholeSpace):
        radius = constraint.radius if isinstance(constraint, L2Ball) else math.inf
        inside = _over_ball(eigenvalues, turned, radius)
        moved = jnp.matmul(vectors, inside, precision=jax.lax.Precision.HIGHEST)
        return constraint.project(centre + moved)
    steepest, flattest = eigenvalues[-1], jnp.maximum(eigenvalues[0], FLATTEST * eigenvalues[-1])
    steps = jnp.ceil(jnp.sqrt(steepest / flattest) * -math.log(_ERROR))

    def gradient(point: Array) -> Array:
        away = jnp.matmul(point - centre, vectors, precision=jax.lax.Precision.HIGHEST)
        return jnp.matmul(vectors, eigenvalues * away, precision=jax.lax.Precision.HIGHEST) - linear

    return accelerated_descent(
        gradient,
        constraint.project,
        constraint.project(centre),
        smoothness=steepest,
        strong_convexity=flattest,
        steps=jnp.where(jnp.isfinite(steps), steps, 0.0).astype(jnp.int32),
    )


def _over_ball(eigenvalues: Array, linear: Array, radius: Number) -> Array:
    """In the basis of eigenvectors."""
    least = jnp.maximum(-eigenvalues[0], 0.0)  # of t
    gaps = eigenvalues + least

    def point(more: Array) -> Array:
        curvature = gaps + more
        flat = jnp.where(linear == 0.0, 0.0, jnp.inf)  # however far: longer than any radius
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
