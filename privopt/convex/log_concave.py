"""Exact sampling from a log-concave density on a convex set of at most three dimensions."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt import draws
from privopt.arguments import checked
from privopt.convex.bounding_ellipsoid import (
    INNER_RADIUS,
    MARGIN,
    MAX_ERROR,
    SLACK,
    BoundingEllipsoid,
    ValueAndGradient,
    bound_low_part,
)
from privopt.convex.sets import ConstraintSet, Simplex, WholeSpace
from privopt.convex.vectors import norm

MAX_SAMPLER_DIM = 3
HEIGHT = 1.5
ACCEPTED_SHARE = {1: 0.45, 2: 0.26, 3: 0.13}  # of proposals, for slack 0, in units of vol(K)/vol(E)


class Draw(NamedTuple):
    """A sample, and what it took."""

    point: Array  # shape (dim,); the centre of the set where no proposal was accepted
    proposals: Array  # how many were made; dependent on the density
    log_acceptance: Array  # the largest; at most 0 for a convex potential, up to round-off
    minimiser: Array  # the lowest point of the potential that was met


class _Trial(NamedTuple):
    point: Array
    accepted: Array
    proposals: Array
    log_acceptance: Array


@checked
def enough_proposals(dim: int, failure: float) -> int:
    """So many that all are rejected with a probability below ``failure``, whatever the density.

    With ``b = INNER_RADIUS[dim]`` at least ``0.45, 0.26, 0.13`` times
    ``e^-slack (2b)^d/(d! vol(ball))`` of them are accepted, in 1, 2 and 3 dimensions: see
    :func:`sample_log_concave`.

    Examples
    --------
    >>> enough_proposals(1, failure=1e-6)
    38
    """
    ball = math.pi ** (0.5 * dim) / math.gamma(0.5 * dim + 1.0)
    fit = (2.0 * INNER_RADIUS[dim]) ** dim / math.factorial(dim) / ball
    accepted = (
        ACCEPTED_SHARE[dim] * fit * math.exp(-SLACK - 8.0 * MAX_ERROR) / (1.0 + MARGIN) ** dim
    )
    return math.ceil(math.log(failure) / math.log1p(-accepted))


@checked
def sample_log_concave(
    key: Array,
    potential: ValueAndGradient,
    constraint: ConstraintSet,
    *,
    dim: int,
    radius: Array | float,
    proposals: Array | int,
    error: Array | float = 0.0,
) -> Draw:
    """One exact draw from the density proportional to ``exp(-phi(w))`` on ``W``, by rejection.

    Let ``E`` be an ellipsoid with ``phi > phi(a) + s`` in ``W`` outside of it, ``g`` its gauge
    about a member ``a`` (1 on its surface), and ``phi >= phi(a) - tau`` on ``W``. Where the
    segment from ``a`` to ``w`` leaves ``E`` the potential has risen by ``s`` in a ``1/g(w)``-th of
    the way, so convexity gives

        phi(w) - phi(a)  >=  s g(w) outside E,   -tau inside.

    Draws from the density proportional to ``exp`` of minus the right side have a direction uniform
    in ``E`` as seen from ``a`` and a gauge with an elementary law. Accepting them with
    probability ``exp`` of right side minus left, which is at most 1 and needs no clipping, makes
    the draw exact.

    *Arithmetic.* ``phi`` is what is computed. It need not be convex, only within ``error`` of a
    convex function whose subgradients the computed ones are. With ``E`` for a height of
    ``s + 2 error`` in the place of ``s``, both sides of the bound hold again.

    *How many proposals.* Let ``K`` be the part of ``W`` with ``phi <= phi(a) + s``, which ``E``
    holds. Shrunk about ``a`` by ``t/s`` it lies where ``phi <= phi(a) + t``, so the density, 1 at
    ``a``, has mass ``vol(K) d s^-d int_0^s e^-t t^(d-1) dt`` at least, the envelope
    ``vol(E) (e^tau + d int_1^inf e^(-s g) g^(d-1) dg)``: at ``s = 3/2`` and ``tau = 0`` at least
    0.45, 0.26 and 0.13 times ``vol(K)/vol(E)`` of the proposals are accepted in 1, 2 and 3
    dimensions, times ``e^-tau`` else. :func:`bound_low_part` proves ``tau <= 0.15`` and a
    ``vol(K)`` of at least 0.8, 0.07 and 0.0025 times ``vol(E)``, for every ``phi``; in practice
    about 0.6, 0.2 and 0.05 of the proposals are accepted, however peaked the density is.

    ``potential`` is ``w -> (phi(w), subgradient)``, convex, asked at members of ``W`` only. ``W``
    has an interior and lies within the ball of ``radius`` about its centre, which is drawn where
    all ``proposals`` are rejected: by the probability of that (:func:`enough_proposals`) the law
    differs from the exact one. The centre is also drawn where the ellipsoid is not proved to be
    one, which public numbers alone decide. ``error`` is at most 2^-13; proposal ``t`` draws from
    ``fold_in(key, t)``.

    Source: von Neumann 1951 (rejection); the envelope is ours, in the spirit of Devroye 1986,
    Non-Uniform Random Variate Generation, chapter VII.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> def potential(w):
    ...     return w @ w, 2.0 * w
    >>> draw = sample_log_concave(
    ...     jax.random.key(0), potential, L2Ball(1.0), dim=1, radius=1.0, proposals=100
    ... )
    >>> draw.point.shape, bool(draw.log_acceptance <= 1e-9)
    ((1,), True)
    """
    if dim > MAX_SAMPLER_DIM:
        raise ValueError(f"dim must be at most {MAX_SAMPLER_DIM}, got {dim}")
    if isinstance(constraint, Simplex | WholeSpace):
        raise ValueError(
            f"constraint must be bounded and have an interior, got {type(constraint).__name__}"
        )
    start = constraint.centre_point(dim, jnp.result_type(float))
    around = bound_low_part(
        potential,
        constraint,
        start,
        radius=radius,
        height=HEIGHT + 2.0 * error,
        error=error,
    )
    inverse = jnp.linalg.inv(around.axes)

    def attempt(trial: _Trial) -> _Trial:
        keys = jax.random.split(jax.random.fold_in(key, trial.proposals), 3)
        normals = draws.normal(keys[0], (dim + 2,), start.dtype)
        uniforms = jax.random.uniform(keys[1], (2,), start.dtype)
        exponentials = draws.exponential(keys[2], (dim + 1,), start.dtype)
        point, gauge = _propose(normals, uniforms, exponentials[1:], around, inverse)
        member = constraint.contains(point, 0.0)
        value, _ = potential(jnp.where(member, point, around.anchor))
        bound = jnp.where(gauge > 1.0, HEIGHT * gauge, -around.slack)
        log_acceptance = jnp.where(member, bound - (value - around.value), -jnp.inf)
        return _Trial(
            point,
            -exponentials[0] < log_acceptance,
            trial.proposals + 1,
            jnp.maximum(trial.log_acceptance, log_acceptance),
        )

    def unfinished(trial: _Trial) -> Array:
        return ~trial.accepted & (trial.proposals < limit)

    sound = around.proved & jnp.all(jnp.isfinite(inverse)) & jnp.isfinite(around.value)
    limit = jnp.where(sound, jnp.asarray(proposals, jnp.int32), 0)
    none = jnp.zeros((), bool)
    first = _Trial(start, none, jnp.zeros((), jnp.int32), jnp.full((), -jnp.inf, start.dtype))
    last = jax.lax.while_loop(unfinished, attempt, first)
    point = jnp.where(last.accepted, last.point, start)
    return Draw(point, last.proposals, last.log_acceptance, around.anchor)


def _propose(
    normals: Array, uniforms: Array, exponentials: Array, around: BoundingEllipsoid, inverse: Array
) -> tuple[Array, Array]:
    """A draw from the envelope, and its gauge; of ``dim + 2`` normals and ``dim`` exponentials."""
    dim = around.anchor.shape[-1]
    within_ball = normals[:dim] / norm(normals)
    origin = inverse @ (around.anchor - around.centre)
    ray = within_ball - origin
    length, tilt = ray @ ray, origin @ ray
    room = jnp.maximum(1.0 - origin @ origin, 0.0)
    to_surface = (jnp.sqrt(tilt**2 + length * room) - tilt) / length

    # The gauge has density g^(d-1), times e^tau up to 1 and e^(-s g) beyond: there it is 1 more
    # than a mixture of gamma variables of shapes 1 to d, with scale 1/s.
    terms = [math.comb(dim - 1, j) * math.factorial(j) / HEIGHT**j for j in range(dim)]
    beyond = sum(terms) * math.exp(-HEIGHT) / HEIGHT
    within = 1.0 / (1.0 + dim * beyond * jnp.exp(-around.slack))
    shares = jnp.cumsum(jnp.asarray(terms, uniforms.dtype)) / sum(terms)
    started = jnp.concatenate([jnp.zeros_like(shares[:1]), shares[:-1]])
    outer = 1.0 + jnp.sum(jnp.where(uniforms[1] >= started, exponentials, 0.0)) / HEIGHT
    inner = (1.0 - uniforms[1]) ** (1.0 / dim)
    gauge = jnp.where(uniforms[0] < within, inner, outer)
    return around.anchor + around.axes @ (gauge * to_surface * ray), gauge
