"""Bounding ellipsoid of a sublevel set of a convex function, with a bound on its minimum.

Affine minorants prove that the ellipsoid contains the sublevel set: tangents of the function at
points of ``W``, and half-spaces that contain ``W``. The points at which the search ends prove that
the ellipsoid is tight.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.convex.sets import ConstraintSet
from privopt.convex.solver import ROUND_OFF
from privopt.convex.vectors import norm

ValueAndGradient = Callable[[Array], tuple[Array, Array]]

INNER_RADIUS = {1: 0.8, 2: 1.0 / 3.0, 3: 0.2}  # cuts at distance up to 1.06 of these gain 1 %
MARGIN = 1e-3
SLACK = 0.15
MAX_ERROR = 2.0**-13
MAX_CUTS = 20_000
MIN_GAIN = 0.01
MINIMUM_SLACK = 0.125  # certified accuracy of the minimum
CUT_WEIGHTS = 3.0 ** np.arange(-2, 9)


class BoundingEllipsoid(NamedTuple):
    """Set ``E = {c + A z : |z| <= 1}``, a superset of ``{w in W : phi(w) <= phi(a) + height}``."""

    centre: Array  # c, shape (dim,)
    axes: Array  # A, shape (dim, dim)
    anchor: Array  # a, the best evaluated point of W, inside E
    value: Array  # phi(a)
    slack: Array  # certified: phi(a) - min_W phi <= slack
    proved: Array  # True if all statements of bound_low_part are proved


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
    start: Array,
    *,
    radius: Array | float,
    height: Array | float,
    error: Array | float = 0.0,
) -> BoundingEllipsoid:
    """Compute an ellipsoid around a sublevel set of ``phi``, and a lower bound of its minimum.

    The set is ``{w in W : phi(w) <= phi(a) + height}``.

    The search starts from the ball about ``start``. Points on the surface and in the interior of
    the ellipsoid give cuts. The ellipsoid is replaced by the smallest one for a pair of cuts, until
    no pair reduces the volume by 1 %. If ``u, v >= 0`` on a subset of the unit ball, then ``1 -
    |z|^2 + nu u v >= 0`` on it for every ``nu >= 0``, and for affine ``u`` and ``v`` this is an
    ellipsoid. There are three phases: first for ``height``; then, continued, for a height ``h``
    that finds the minimum; then for ``height`` again, with ``a`` near the minimum.

    *Tightness.* The points include the centre and points at distance ``b = INNER_RADIUS[dim]``
    along the axes. If one of them is not in ``K = {w in W : phi <= phi(a) + height}``, a cut has
    distance at most ``b`` from the centre, and every such cut reduces the volume by 1 %. When the
    search ends, all are therefore in ``K``. They span a cross-polytope, and ``vol(K) >= (2 b)^d/d!
    vol(E)/vol(ball)``.

    *Minimum.* After the second phase ``phi <= phi(a) + h`` at these points. For any other point
    ``z`` of the unit ball, in the coordinates of ``E``, ``-s z`` is in the cross-polytope with ``s
    = b/sqrt(d)``, and 0 is between the two. Therefore ``phi(z) >= phi(a) - h/s``. Here ``h = s/8``.

    *Number of cuts.* Every cut reduces the volume by 1 %, so there are at most 100 times ``log
    (vol(ball)/vol(K))`` for the smallest ``K``. This number depends on the problem class, because
    ``K`` contains ``W`` shrunk by ``h`` over the variation of ``phi``. If 20,000 cuts do not
    suffice (a ratio of ``e^200``), or if ``error`` is above 2^-13, only ``K`` in ``E`` is
    guaranteed.

    *Arguments.* ``value_and_gradient`` is ``w -> (phi(w), subgradient)``, convex, evaluated at
    points of ``W``. ``W`` is in the ball of ``radius`` about ``start``, shape ``(dim,)``. ``dim``
    is at most 3, because the number of directions grows as ``2^dim``. The computed values are
    within ``error`` of a convex function on ``W``, and the computed subgradients are subgradients
    of that function. All statements then hold for the computed values.

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
    evaluate = _evaluator(value_and_gradient, constraint.project, radius)
    directions = _directions(dim)
    inner = INNER_RADIUS[dim] / np.sqrt(dim)
    one = jnp.ones((), start.dtype)
    ball = radius * (1.0 + MARGIN) * jnp.eye(dim, dtype=start.dtype)
    search = _Search(start, ball, start, jnp.inf * one, -one, jnp.zeros((), int))

    def shrink(search: _Search, height: Array) -> _Search:
        def cut(search: _Search) -> _Search:
            at = jax.vmap(lambda z: evaluate(search.centre, search.axes, z))(directions)
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


def _evaluator(
    value_and_gradient: ValueAndGradient,
    project: Callable[[Array], Array],
    radius: Array | float,
) -> Callable[[Array, Array, Array], _Evaluation]:
    def evaluate(centre: Array, axes: Array, direction: Array) -> _Evaluation:
        x = centre + axes @ direction
        point = project(x)
        value, gradient = value_and_gradient(point)
        offset = x - point
        distance = norm(offset)
        outside = distance > 0.0
        safe = jnp.where(outside, distance, 1.0)
        # <normal, w - point> <= error for all w in W and E. Round-off in the projection rotates the
        # normal; the effect is bounded by the lengths of the axes.
        rotation = 2.0 + 2.0 * norm(axes.ravel()) / safe
        error = ROUND_OFF * (radius + norm(point)) * rotation
        return _Evaluation(point, value, gradient, jnp.where(outside, offset / safe, 0.0), error)

    return evaluate


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

    best = jnp.argmin(volume)
    i, j, w = jnp.unravel_index(best, volume.shape)
    index = (i, j, w)
    up, down = p[i] + partners[j], p[i] - partners[j]
    along_best, across_best = safe[index], across[i, j, w]
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
