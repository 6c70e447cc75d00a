"""Exact sampling from log-concave densities on convex sets of at most three dimensions."""

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
ACCEPTED_SHARE = {1: 0.45, 2: 0.26, 3: 0.13}  # lower bounds for slack 0, in units of vol(K)/vol(E)


class Draw(NamedTuple):
    """Sample with diagnostics."""

    point: Array  # shape (dim,); the centre of the set if no proposal is accepted
    proposals: Array  # number of proposals; depends on the density
    log_acceptance: Array  # largest value; at most 0 for a convex potential, up to round-off
    minimiser: Array  # evaluated point with the lowest potential


class _Trial(NamedTuple):
    point: Array
    accepted: Array
    proposals: Array
    log_acceptance: Array


@checked
def enough_proposals(dim: int, failure: float) -> int:
    """Return a number of proposals that all fail with probability below ``failure``.

    The number is valid for every density. With ``b = INNER_RADIUS[dim]`` the acceptance probability
    is at least ``0.45, 0.26, 0.13`` times ``e^-slack (2b)^d/(d! vol(ball))`` in 1, 2 and 3
    dimensions, see :func:`sample_log_concave`.

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
    """Sample exactly from the density proportional to ``exp(-phi(w))`` on ``W``, by rejection.

    *Envelope.* Let ``E`` be an ellipsoid with ``phi > phi(a) + s`` on ``W`` outside ``E``, let
    ``g`` be its gauge about a point ``a`` of ``W`` (1 on its surface), and let ``phi >= phi(a) -
    tau`` on ``W``. At the boundary of ``E``, a fraction ``1/g(w)`` of the segment from ``a`` to
    ``w``, the potential has increased by ``s``. Convexity therefore gives

        phi(w) - phi(a)  >=  s g(w) outside E,   -tau inside.

    The proposal density is proportional to ``exp`` of minus the right side. Its direction is that
    of a uniform point in ``E`` relative to ``a``, and its gauge has an elementary distribution. A
    proposal is accepted with probability ``exp`` of right side minus left side, which is at most 1
    and needs no clipping. The sample is therefore exact.

    *Arithmetic.* ``phi`` is the computed function. It must be within ``error`` of a convex
    function, and the computed subgradients must be subgradients of that function. If ``E`` is
    computed for the height ``s + 2 error`` instead of ``s``, both bounds hold.

    *Number of proposals.* Let ``K`` be the subset of ``W`` with ``phi <= phi(a) + s``; ``E``
    contains it. ``K`` shrunk about ``a`` by ``t/s`` is in the set ``phi <= phi(a) + t``. The
    density, normalised to 1 at ``a``, therefore has mass at least ``vol(K) d s^-d int_0^s e^-t
    t^(d-1) dt``. The envelope has mass ``vol(E) (e^tau + d int_1^inf e^(-s g) g^(d-1) dg)``. At ``s
    = 3/2`` the acceptance probability is at least ``e^-tau vol(K)/vol(E)`` times 0.45, 0.26 and
    0.13 in 1, 2 and 3 dimensions. For every ``phi``, :func:`bound_low_part` proves ``tau <= 0.15``
    and ``vol(K)/vol(E)`` of at least 0.8, 0.07 and 0.0025. In practice about 0.6, 0.2 and 0.05 of
    the proposals are accepted, also for sharply peaked densities.

    *Arguments.* ``potential`` is ``w -> (phi(w), subgradient)``, convex, evaluated at points of
    ``W`` only. ``W`` has an interior and is in the ball of ``radius`` about its centre. If all
    ``proposals`` are rejected, the result is the centre, so the distribution differs from the exact
    one by the probability of this event (:func:`enough_proposals`). The result is also the centre
    if the ellipsoid is not proved, which depends on public numbers only. ``error`` is at most
    2^-13. Proposal ``t`` uses ``fold_in(key, t)``.

    Source: von Neumann 1951 (rejection). The envelope is similar to those of Devroye 1986,
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
    height = HEIGHT + 2.0 * error
    ellipsoid = bound_low_part(
        potential, constraint, start, radius=radius, height=height, error=error
    )
    inverse = jnp.linalg.inv(ellipsoid.axes)

    def attempt(trial: _Trial) -> _Trial:
        keys = jax.random.split(jax.random.fold_in(key, trial.proposals), 3)
        normals = draws.normal(keys[0], (dim + 2,), start.dtype)
        uniforms = jax.random.uniform(keys[1], (2,), start.dtype)
        exponentials = draws.exponential(keys[2], (dim + 1,), start.dtype)
        point, gauge = _propose(normals, uniforms, exponentials[1:], ellipsoid, inverse)
        member = constraint.contains(point, 0.0)
        value, _ = potential(jnp.where(member, point, ellipsoid.anchor))
        bound = jnp.where(gauge > 1.0, HEIGHT * gauge, -ellipsoid.slack)
        log_acceptance = jnp.where(member, bound - (value - ellipsoid.value), -jnp.inf)
        return _Trial(
            point,
            -exponentials[0] < log_acceptance,
            trial.proposals + 1,
            jnp.maximum(trial.log_acceptance, log_acceptance),
        )

    def unfinished(trial: _Trial) -> Array:
        return ~trial.accepted & (trial.proposals < limit)

    sound = ellipsoid.proved & jnp.all(jnp.isfinite(inverse)) & jnp.isfinite(ellipsoid.value)
    limit = jnp.where(sound, jnp.asarray(proposals, jnp.int32), 0)
    none = jnp.zeros((), bool)
    first = _Trial(start, none, jnp.zeros((), jnp.int32), jnp.full((), -jnp.inf, start.dtype))
    last = jax.lax.while_loop(unfinished, attempt, first)
    point = jnp.where(last.accepted, last.point, start)
    return Draw(point, last.proposals, last.log_acceptance, ellipsoid.anchor)


def _propose(
    normals: Array,
    uniforms: Array,
    exponentials: Array,
    ellipsoid: BoundingEllipsoid,
    inverse: Array,
) -> tuple[Array, Array]:
    """Sample from the envelope with its gauge, from ``dim + 2`` normals, ``dim`` exponentials."""
    dim = ellipsoid.anchor.shape[-1]
    within_ball = normals[:dim] / norm(normals)
    origin = inverse @ (ellipsoid.anchor - ellipsoid.centre)
    ray = within_ball - origin
    length, tilt = ray @ ray, origin @ ray
    margin = jnp.maximum(1.0 - origin @ origin, 0.0)
    to_surface = (jnp.sqrt(tilt**2 + length * margin) - tilt) / length

    # The gauge has density g^(d-1), times e^tau up to 1 and e^(-s g) beyond 1. Beyond 1 it is 1
    # plus a mixture of gamma variables of shapes 1 to d and scale 1/s.
    terms = [math.comb(dim - 1, j) * math.factorial(j) / HEIGHT**j for j in range(dim)]
    beyond = sum(terms) * math.exp(-HEIGHT) / HEIGHT
    within = 1.0 / (1.0 + dim * beyond * jnp.exp(-ellipsoid.slack))
    ends = jnp.cumsum(jnp.asarray(terms, uniforms.dtype)) / sum(terms)
    starts = jnp.concatenate([jnp.zeros_like(ends[:1]), ends[:-1]])
    outer = 1.0 + jnp.sum(jnp.where(uniforms[1] >= starts, exponentials, 0.0)) / HEIGHT
    inner = (1.0 - uniforms[1]) ** (1.0 / dim)
    gauge = jnp.where(uniforms[0] < within, inner, outer)
    return ellipsoid.anchor + ellipsoid.axes @ (gauge * to_surface * ray), gauge
