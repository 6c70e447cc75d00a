"""An ellipsoid around the low part of a convex function, and a certified bound on its minimum.

What the ellipsoid holds is proved by affine minorants: tangents of the function at members of
``W``, and the half-spaces through which ``W`` is seen from outside. How well it fits is proved by
the points it stops at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.convex.certificate import ROUND_OFF
from privopt.convex.sets import ConstraintSet
from privopt.convex.vectors import norm

ValueAndGradient = Callable[[Array], tuple[Array, Array]]

INNER_RADIUS = {1: 0.8, 2: 1.0 / 3.0, 3: 0.2}  # cuts no deeper than 1.06 of these gain a hundredth
MARGIN = 1e-3
SLACK = 0.15
MAX_ERROR = 2.0**-13
MAX_CUTS = 20_000
MIN_GAIN = 0.01
MINIMUM_SLACK = 0.125  # the minimum, where the search for it ends
CUT_WEIGHTS = 3.0 ** np.arange(-2, 9)


class BoundingEllipsoid(NamedTuple):
    """``E = {c + A z : |z| <= 1}`` holds all ``w`` in ``W`` with ``phi(w) <= phi(a) + height``."""

    centre: Array  # c, shape (dim,)
    axes: Array  # A, shape (dim, dim)
    anchor: Array  # a, the best member of W that was met, inside E
    value: Array  # phi(a)
    slack: Array  # certified: phi(a) - min_W phi <= slack
    proved: Array  # whether all of it is, and how well it fits: see bound_low_part


class _Search(NamedTuple):
    centre: Array
    axes: Array
    anchor: Array
    value: Array
    gain: Array
    cuts: Array


class _Seen(NamedTuple):
    """``phi`` from a point: at its projection, whose outward normal is 0 for members."""

    point: Array
    value: Array
    gradient: Array
    normal: Array
    error: Array


def bound_low_part(
    value_and_gradient: ValueAndGradient,
    constraint: ConstraintSet,
    start: Array,
    *,
    radius: Array | float,
    height: Array | float,
    error: Array | float = 0.0,
) -> BoundingEllipsoid:
    """Enclose ``{w in W : phi(w) <= phi(a) + height}`` and bound ``min_W phi`` from below.

    From the ball about ``start`` the ellipsoid shrinks by the best pair of cuts that points on its
    surface and within it give, until no pair takes another hundredth off it. Where ``u, v >= 0`` on
    a set within the unit ball, so is ``1 - |z|^2 + nu u v`` for every ``nu >= 0``: with affine
    ``u`` and ``v`` that is an ellipsoid. That is done three times: for ``height``, going on from
    there for a height ``h`` that finds the minimum, and again for ``height`` now that ``a`` is
    near it.

    *How well it fits.* Among the points are the centre and those ``b = INNER_RADIUS[dim]`` along
    the axes. Where one of them is not in ``K = {w in W : phi <= phi(a) + height}``, a cut passes no
    farther than ``b`` from the centre, and every such cut takes a hundredth off; so all are when
    it stops. They span a cross-polytope, and ``vol(K) >= (2 b)^d/d! vol(E)/vol(ball)``.

    *The minimum.* After the second time they lie where ``phi <= phi(a) + h``. For any other member
    ``z`` of the unit ball, in the coordinates of ``E``, ``-s z`` is in the cross-polytope,
    ``s = b/sqrt(d)``, and 0 lies between the two: ``phi(z) >= phi(a) - h/s``. Here ``h = s/8``.

    Every cut takes a hundredth off, so the number of cuts is at most 100 times the logarithm of
    the volume of the ball over that of the least ``K``; this is a number of the class, since
    ``K`` holds ``W`` shrunk by ``h`` over the variation of ``phi``. Where 20,000 do not suffice (a
    ratio of ``e^200``), or ``error`` is above 2^-13, nothing is promised but that ``E`` holds
    ``K``.

    ``value_and_gradient`` is ``w -> (phi(w), subgradient)``, convex, asked at members of ``W``;
    ``W`` lies within the ball of ``radius`` about ``start``, shape ``(dim,)``, ``dim`` at most 3,
    since directions grow as ``2^dim``. The computed values lie within ``error`` of a convex
    function on ``W``, whose subgradients are the computed ones. What is said above then holds of
    the computed values.

    Examples
    --------
    >>> from privopt.convex import L2Ball
    >>> found = bound_low_part(
    ...     lambda w: (w @ w, 2.0 * w), L2Ball(1.0), jnp.zeros(1), radius=1.0, height=0.25
    ... )
    >>> bool(found.proved), found.anchor.round(2).tolist()
    (True, [0.0])
    """
    dim = start.shape[-1]
    look = _watch(value_and_gradient, constraint.project, radius)
    directions = _directions(dim)
    inner = INNER_RADIUS[dim] / np.sqrt(dim)
    one = jnp.ones((), start.dtype)
    ball = radius * (1.0 + MARGIN) * jnp.eye(dim, dtype=start.dtype)
    search = _Search(start, ball, start, jnp.inf * one, -one, jnp.zeros((), int))

    def shrunk(search: _Search, height: Array) -> _Search:
        def cut(search: _Search) -> _Search:
            seen = jax.vmap(lambda z: look(search.centre, search.axes, z))(directions)
            best = jnp.argmin(seen.value)
            better = seen.value[best] < search.value
            anchor = jnp.where(better, seen.point[best], search.anchor)
            value = jnp.where(better, seen.value[best], search.value)
            normals, offsets = _cuts(seen, search.centre, search.axes, value + height, error)
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
        begun = jax.tree.map(lambda a, b: jnp.where(number == 2, a, b), last, search)
        search = shrunk(begun, jnp.where(number == 1, MINIMUM_SLACK * inner, height))
        wide = jax.tree.map(lambda a, b: jnp.where(number == 0, a, b), search, wide)
        unsure = error + ROUND_OFF * jnp.abs(search.value)
        below = search.value - MINIMUM_SLACK - (2.0 + inner) / inner * unsure
        return search, wide, jnp.where(number == 1, below, least)

    search, _, least = jax.lax.fori_loop(0, 3, phase, (search, search, -jnp.inf * one))
    slack = jnp.maximum(search.value - least, 0.0)
    proved = (search.cuts < MAX_CUTS) & (slack <= SLACK) & (error <= MAX_ERROR)
    axes = (1.0 + MARGIN) * search.axes
    return BoundingEllipsoid(search.centre, axes, search.anchor, search.value, slack, proved)


def _directions(dim: int) -> Array:
    """Where a ball is looked at: along its axes, and towards the corners of a cube."""
    corners = np.array(list(itertools.product((1.0, -1.0), repeat=dim))) / np.sqrt(dim)
    faces = np.concatenate([np.eye(dim), -np.eye(dim)])
    diagonals = [0.5 * corners, corners] if dim > 1 else []
    near = INNER_RADIUS[dim] * faces
    return jnp.asarray(np.concatenate([np.zeros((1, dim)), near, faces, *diagonals]))


def _watch(
    value_and_gradient: ValueAndGradient,
    project: Callable[[Array], Array],
    radius: Array | float,
) -> Callable[[Array, Array, Array], _Seen]:
    def look(centre: Array, axes: Array, direction: Array) -> _Seen:
        x = centre + axes @ direction
        point = project(x)
        value, gradient = value_and_gradient(point)
        away = x - point
        distance = norm(away)
        outside = distance > 0.0
        safe = jnp.where(outside, distance, 1.0)
        # <normal, w - point> <= error for all w in W and E, whatever round-off did to the
        # projection: it turns the normal, about which they lie within the axes' lengths
        turned = 2.0 + 2.0 * norm(axes.ravel()) / safe
        error = ROUND_OFF * (radius + norm(point)) * turned
        return _Seen(point, value, gradient, jnp.where(outside, away / safe, 0.0), error)

    return look


def _cuts(
    seen: _Seen, centre: Array, axes: Array, level: Array, error: Array | float
) -> tuple[Array, Array]:
    """``<p_j, z> <= b_j`` for every ``c + A z`` in ``W`` with ``phi <= level``; ``|p_j| = 1``."""
    reach = centre[None] - seen.point
    gradients, normals = seen.gradient @ axes, seen.normal @ axes
    allowance = 2.0 * error + ROUND_OFF * (jnp.abs(level) + jnp.abs(seen.value))
    room = level + allowance - seen.value - jnp.sum(seen.gradient * reach, axis=-1)
    clearance = seen.error - jnp.sum(seen.normal * reach, axis=-1)
    slopes = jnp.concatenate([gradients, normals])
    rooms = jnp.concatenate([room, clearance])
    sizes = norm(slopes)
    real = sizes > 0.0
    safe = jnp.where(real, sizes, 1.0)
    fallback = jnp.eye(centre.shape[-1], dtype=centre.dtype)[:1]  # z_1 <= 1 says nothing new
    return (
        jnp.where(real[:, None], slopes / safe[:, None], fallback),
        jnp.where(real, rooms / safe, 1.0),
    )


def _smallest(p: Array, b: Array) -> tuple[Array, Array, Array]:
    """The smallest of the ellipsoids that pairs of cuts, or a cut and the ball, leave of a ball.

    With ``q = sym(p_i p_j^T)``: ``z^T (I - nu q) z + nu <b_j p_i + b_i p_j, z> <= 1 + nu b_i b_j``,
    whose matrix has the eigenvectors ``p_i + p_j`` and ``p_i - p_j``. Returns its centre, a
    matrix that maps the unit ball onto it about 0, and the logarithm of its volume over the
    ball's.
    """
    dim = p.shape[-1]
    partners, rooms = jnp.concatenate([p, -p]), jnp.concatenate([b, jnp.ones_like(b)])
    cosine = jnp.clip(p @ partners.T, -1.0, 1.0)[..., None]
    nu = jnp.asarray(CUT_WEIGHTS, p.dtype)[None, None, :]
    product = (b[:, None] * rooms[None, :])[..., None]
    mean = (0.5 * (b[:, None] + rooms[None, :]))[..., None]
    half = (0.5 * (b[:, None] - rooms[None, :]))[..., None]
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

    best = jnp.argmin(volume)
    i, j, w = jnp.unravel_index(best, volume.shape)
    chosen = (i, j, w)
    up, down = p[i] + partners[j], p[i] - partners[j]
    lift, lean = safe[chosen], across[i, j, w]
    pull = mean[i, j, 0] * up / lift - half[i, j, 0] * down / lean
    centre = -0.5 * nu[0, 0, w] * pull
    shape = jnp.eye(dim, dtype=p.dtype)
    for vector, eigenvalue in ((up, lift), (down, lean)):
        unit = vector / jnp.maximum(norm(vector), jnp.finfo(p.dtype).tiny)
        shape += (1.0 / jnp.sqrt(eigenvalue) - 1.0) * jnp.outer(unit, unit)
    gain = volume[chosen]
    keep = gain < 0.0
    shape *= jnp.sqrt(jnp.where(keep, square[chosen], 1.0)) * (1.0 + ROUND_OFF)
    identity = jnp.eye(dim, dtype=p.dtype)
    return jnp.where(keep, centre, 0.0), jnp.where(keep, shape, identity), gain
