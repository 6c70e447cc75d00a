"""Exact sampling from log-concave densities on convex sets of at most three dimensions.

Rejection from an envelope about a bounding ellipsoid of a sublevel set. Affine minorants prove that
the ellipsoid contains the set: tangents at points of ``W``, and half-spaces that contain ``W``. The
points at which the search ends prove that it is tight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from privopt import random
from privopt.arguments import checked
from privopt.convex.arrays import norm
from privopt.convex.sets import ConstraintSet, WholeSpace
from privopt.convex.solver import ROUND_OFF

ValueAndGradient = Callable[[Array], tuple[Array, Array]]

INNER_RADIUS = {1: 0.8, 2: 1.0 / 3.0, 3: 0.2}  # cuts at distance up to 1.06 of these gain 1 %
MARGIN = 1e-3
SLACK = 0.15
MAX_ERROR = 2.0**-13
MAX_CUTS = 20_000
MIN_GAIN = 0.01
MINIMUM_SLACK = 0.125  # certified accuracy of the minimum
CUT_WEIGHTS = 3.0 ** np.arange(-2, 9)
MAX_SAMPLER_DIM = 3
HEIGHT = 1.5
ACCEPTED_SHARE = {1: 0.45, 2: 0.26, 3: 0.13}  # lower bounds for slack 0, in units of vol(K)/vol(E)


class Draw(NamedTuple):
    """Sample with diagnostics."""

    point: Float[Array, " d"]  # the centre of the set if no proposal is accepted
    proposals: Int[Array, ""]  # number of proposals; depends on the density
    log_acceptance: Float[
        Array, ""
    ]  # largest value; at most 0 for a convex potential, up to round-off
    minimiser: Float[Array, " d"]  # evaluated point with the lowest potential


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
    accepted = ACCEPTED_SHARE[dim] * fit * math.exp(-SLACK - 8.0 * MAX_ERROR)
    accepted /= (1.0 + MARGIN) ** dim
    return math.ceil(math.log(failure) / math.log1p(-accepted))


@checked
def sample_log_concave(
    key: Key[Array, ""],
    potential: ValueAndGradient,
    constraint: ConstraintSet,
    *,
    dim: int,
    radius: Float[Array, ""] | float,
    proposals: Int[Array, ""] | int,
    error: Float[Array, ""] | float = 0.0,
) -> Draw:
    """Sample exactly from the density proportional to ``exp(-phi(w))`` on ``W``, by rejection.

    The envelope is ``exp(-s g(w))`` outside the ellipsoid of :func:`bound_low_part` with gauge
    ``g``, ``s = 3/2``, and constant inside. Proof: :ref:`Solvers, Theorem 8 <theory-solvers-8>`.
    For every ``phi`` the acceptance probability is bounded from below (:func:`enough_proposals`).
    In practice about 0.6, 0.2 and 0.05 of the proposals are accepted in 1, 2 and 3 dimensions.

    ``potential`` is ``w -> (phi(w), subgradient)``, convex, evaluated at points of ``W`` only.
    ``W`` has an interior and is in the ball of ``radius`` about its centre. If all ``proposals``
    are rejected, the result is the centre, so the distribution differs from the exact one by the
    probability of this event. The result is also the centre if the ellipsoid is not proved, which
    depends on public numbers only. The computed ``phi`` is within ``error``, at most 2^-13, of a
    convex function of which the computed subgradients are subgradients. Proposal ``t`` uses
    ``fold_in(key, t)``.

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
    if isinstance(constraint, WholeSpace):
        raise ValueError("constraint must be bounded and have an interior, got WholeSpace")
    start = constraint.centre_point(dim, jnp.result_type(float))
    height = HEIGHT + 2.0 * error
    ellipsoid = bound_low_part(
        potential, constraint, start, radius=radius, height=height, error=error
    )
    inverse = jnp.linalg.inv(ellipsoid.axes)

    def attempt(trial: _Trial) -> _Trial:
        keys = jax.random.split(random.fold_in(key, trial.proposals), 3)
        normals = random.normal(keys[0], (dim + 2,), start.dtype)
        uniforms = jax.random.uniform(keys[1], (2,), start.dtype)
        exponentials = random.exponential(keys[2], (dim + 1,), start.dtype)
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


class BoundingEllipsoid(NamedTuple):
    """Set ``E = {c + A z : |z| <= 1}``, a superset of ``{w in W : phi(w) <= phi(a) + height}``."""

    centre: Float[Array, " d"]  # c
    axes: Float[Array, "d d"]  # A
    anchor: Float[Array, " d"]  # a, the best evaluated point of W, inside E
    value: Float[Array, ""]  # phi(a)
    slack: Float[Array, ""]  # certified: phi(a) - min_W phi <= slack
    proved: Bool[Array, ""]  # True if all statements of bound_low_part are proved


class _Search(NamedTuple):
    centre: Array
    axes: Array
    anchor: Array
    value: Array
    gain: Array
    cuts: Array


class _Evaluation(NamedTuple):
    """Value of ``phi`` at the projection of a point, with the outward normal (0 inside ``W``)."""

    point: Array
    value: Array
    gradient: Array
    normal: Array
    error: Array


def bound_low_part(
    value_and_gradient: ValueAndGradient,
    constraint: ConstraintSet,
    start: Float[Array, " d"],
    *,
    radius: Float[Array, ""] | float,
    height: Float[Array, ""] | float,
    error: Float[Array, ""] | float = 0.0,
) -> BoundingEllipsoid:
    """Compute an ellipsoid around ``{w in W : phi(w) <= phi(a) + height}``, and a bound of ``min
    phi``.

    The search starts from the ball about ``start``. It replaces the ellipsoid by the smallest one
    for a pair of cuts, until no pair reduces the volume by 1 %. There are three phases: first for
    ``height``; then, continued, for a height that finds the minimum; then for ``height`` again,
    with ``a`` near the minimum. Proof: :ref:`Solvers, Theorem 7 <theory-solvers-7>`. If 20,000 cuts
    do not suffice (a ratio of volumes of ``e^200``), or if ``error`` is above 2^-13, only the
    inclusion is guaranteed.

    ``value_and_gradient``, ``error`` and the set are as for :func:`sample_log_concave`; ``W`` is in
    the ball of ``radius`` about ``start``. ``dim`` is at most 3, because the
    number of directions grows as ``2^dim``.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> ellipsoid = bound_low_part(
    ...     lambda w: (w @ w, 2.0 * w), L2Ball(1.0), jnp.zeros(1), radius=1.0, height=0.25
    ... )
    >>> bool(ellipsoid.proved), ellipsoid.anchor.round(2).tolist()
    (True, [0.0])
    """
    dim = start.shape[-1]
    directions = _directions(dim)
    inner = INNER_RADIUS[dim] / np.sqrt(dim)
    one = jnp.ones((), start.dtype)
    ball = radius * (1.0 + MARGIN) * jnp.eye(dim, dtype=start.dtype)
    search = _Search(start, ball, start, jnp.inf * one, -one, jnp.zeros((), int))

    def evaluate(x: Array, search: _Search) -> _Evaluation:
        point = constraint.project(x)
        value, gradient = value_and_gradient(point)
        offset = x - point
        distance = norm(offset)
        outside = distance > 0.0
        safe = jnp.where(outside, distance, 1.0)
        # <normal, w - point> <= error for all w in W and E. Round-off in the projection rotates the
        # normal; the effect is bounded by the lengths of the axes.
        rotation = 2.0 + 2.0 * norm(search.axes.ravel()) / safe
        error = ROUND_OFF * (radius + norm(point)) * rotation
        return _Evaluation(point, value, gradient, jnp.where(outside, offset / safe, 0.0), error)

    def shrink(search: _Search, height: Array) -> _Search:
        def cut(search: _Search) -> _Search:
            at = jax.vmap(lambda z: evaluate(search.centre + search.axes @ z, search))(directions)
            best = jnp.argmin(at.value)
            better = at.value[best] < search.value
            anchor = jnp.where(better, at.point[best], search.anchor)
            value = jnp.where(better, at.value[best], search.value)
            normals, offsets = _cuts(at, search.centre, search.axes, value + height, error)
            move, shape, gain = _smallest(normals, offsets)
            return _Search(
                search.centre + search.axes @ move,
                search.axes @ shape,
                anchor,
                value,
                gain,
                search.cuts + 1,
            )

        def gains(search: _Search) -> Array:
            return (search.gain < -MIN_GAIN) & (search.cuts < MAX_CUTS)

        return jax.lax.while_loop(gains, cut, search._replace(gain=-one))

    def phase(
        number: Array, state: tuple[_Search, _Search, Array]
    ) -> tuple[_Search, _Search, Array]:
        search, wide, least = state
        last = search._replace(centre=wide.centre, axes=wide.axes)
        first = jax.tree.map(lambda a, b: jnp.where(number == 2, a, b), last, search)
        search = shrink(first, jnp.where(number == 1, MINIMUM_SLACK * inner, height))
        wide = jax.tree.map(lambda a, b: jnp.where(number == 0, a, b), search, wide)
        tolerance = error + ROUND_OFF * jnp.abs(search.value)
        bound = search.value - MINIMUM_SLACK - (2.0 + inner) / inner * tolerance
        return search, wide, jnp.where(number == 1, bound, least)

    search, _, least = jax.lax.fori_loop(0, 3, phase, (search, search, -jnp.inf * one))
    slack = jnp.maximum(search.value - least, 0.0)
    proved = (search.cuts < MAX_CUTS) & (slack <= SLACK) & (error <= MAX_ERROR)
    axes = (1.0 + MARGIN) * search.axes
    return BoundingEllipsoid(search.centre, axes, search.anchor, search.value, slack, proved)


def _directions(dim: int) -> Array:
    """Return test points of the unit ball: along its axes and towards the corners of a cube."""
    corners = np.array(list(itertools.product((1.0, -1.0), repeat=dim))) / np.sqrt(dim)
    faces = np.concatenate([np.eye(dim), -np.eye(dim)])
    diagonals = [0.5 * corners, corners] if dim > 1 else []
    near = INNER_RADIUS[dim] * faces
    return jnp.asarray(np.concatenate([np.zeros((1, dim)), near, faces, *diagonals]))


def _cuts(
    at: _Evaluation, centre: Array, axes: Array, level: Array, error: Array | float
) -> tuple[Array, Array]:
    """Return cuts ``<p_j, z> <= b_j`` for all ``c + A z`` in ``W`` with ``phi <= level``."""
    reach = centre[None] - at.point
    gradients, normals = at.gradient @ axes, at.normal @ axes
    allowance = 2.0 * error + ROUND_OFF * (jnp.abs(level) + jnp.abs(at.value))
    offsets = level + allowance - at.value - jnp.sum(at.gradient * reach, axis=-1)
    clearance = at.error - jnp.sum(at.normal * reach, axis=-1)
    slopes = jnp.concatenate([gradients, normals])
    limits = jnp.concatenate([offsets, clearance])
    sizes = norm(slopes)
    real = sizes > 0.0
    safe = jnp.where(real, sizes, 1.0)
    fallback = jnp.eye(centre.shape[-1], dtype=centre.dtype)[:1]  # z_1 <= 1 holds in the unit ball
    return (
        jnp.where(real[:, None], slopes / safe[:, None], fallback),
        jnp.where(real, limits / safe, 1.0),
    )


def _smallest(p: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the smallest ellipsoid around the unit ball with a pair of cuts, or with one cut.

    With ``q = sym(p_i p_j^T)`` it is ``z^T (I - nu q) z + nu <b_j p_i + b_i p_j, z> <= 1 + nu b_i
    b_j``. Its matrix has the eigenvectors ``p_i + p_j`` and ``p_i - p_j``. The result is its
    centre, the matrix that maps the unit ball onto the centred ellipsoid, and the logarithm of the
    ratio of the volumes.
    """
    dim = p.shape[-1]
    partners, limits = jnp.concatenate([p, -p]), jnp.concatenate([b, jnp.ones_like(b)])
    cosine = jnp.clip(p @ partners.T, -1.0, 1.0)[..., None]
    nu = jnp.asarray(CUT_WEIGHTS, p.dtype)[None, None, :]
    product = (b[:, None] * limits[None, :])[..., None]
    mean = (0.5 * (b[:, None] + limits[None, :]))[..., None]
    half = (0.5 * (b[:, None] - limits[None, :]))[..., None]
    along = 1.0 - 0.5 * nu * (1.0 + cosine)
    across = 1.0 + 0.5 * nu * (1.0 - cosine)
    positive = along > 1e-3
    safe = jnp.where(positive, along, 1.0)
    square = mean**2 * (1.0 + cosine) / safe + half**2 * (1.0 - cosine) / across
    square = 1.0 + nu * product + 0.5 * nu**2 * square
    usable = positive & (square > 0.0)
    logarithm = 0.5 * dim * jnp.log(jnp.where(usable, square, 1.0))
    logarithm -= 0.5 * (jnp.log(safe) + jnp.log(across))
    volume = jnp.where(usable, logarithm, jnp.inf)

    i, j, w = index = jnp.unravel_index(jnp.argmin(volume), volume.shape)
    up, down = p[i] + partners[j], p[i] - partners[j]
    along_best, across_best = safe[index], across[index]
    pull = mean[i, j, 0] * up / along_best - half[i, j, 0] * down / across_best
    centre = -0.5 * nu[0, 0, w] * pull
    shape = jnp.eye(dim, dtype=p.dtype)
    for vector, eigenvalue in ((up, along_best), (down, across_best)):
        unit = vector / jnp.maximum(norm(vector), jnp.finfo(p.dtype).tiny)
        shape += (1.0 / jnp.sqrt(eigenvalue) - 1.0) * jnp.outer(unit, unit)
    gain = volume[index]
    keep = gain < 0.0
    shape *= jnp.sqrt(jnp.where(keep, square[index], 1.0)) * (1.0 + ROUND_OFF)
    identity = jnp.eye(dim, dtype=p.dtype)
    return jnp.where(keep, centre, 0.0), jnp.where(keep, shape, identity), gain
