"""An ellipsoid around the low part of a convex function, and a certified bound on its minimum.

Everything is proved by affine minorants: tangents of the function at members of ``W``, and the
half-spaces through which ``W`` is seen from outside. What they imply holds for every convex
function and however the points were chosen; only how tight it is depends on the choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.convex.vectors import norm

__all__ = ["Enclosure", "ValueAndGradient", "enclose"]

ValueAndGradient = Callable[[Array], tuple[Array, Array]]

_CUTS = 300
_LEAST_GAIN = 0.01
_DESCENT_STEPS = 100
_WEIGHTS = 3.0 ** np.arange(-2, 9)
_ROUND_OFF = 64.0 * 2.0**-52
_MARGIN = 1e-3


class Enclosure(NamedTuple):
    """``E = {c + A z : |z| <= 1}`` holds all ``w`` in ``W`` with ``phi(w) <= phi(a) + height``.

    Attributes
    ----------
    centre, axes : Array
        ``c`` and ``A``, shapes ``(dim,)`` and ``(dim, dim)``.
    anchor : Array
        ``a``, the best member of ``W`` that was met, inside ``E``; shape ``(dim,)``.
    value : Array
        ``phi(a)``.
    slack : Array
        Certified: ``phi(a) - min_W phi <= slack``.
    """

    centre: Array
    axes: Array
    anchor: Array
    value: Array
    slack: Array


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


def enclose(
    value_and_gradient: ValueAndGradient,
    constraint: Any,
    start: Array,
    *,
    radius: Array | float,
    height: float,
) -> Enclosure:
    """Enclose ``{w in W : phi(w) <= phi(a) + height}`` and bound ``min_W phi`` from below.

    From the ball about ``start`` the ellipsoid shrinks by the best pair of cuts that its centre and
    points halfway to and on its surface give, until no pair takes another hundredth off it (or
    300 cuts are spent). Where ``u, v >= 0`` on a set within the unit ball, so is
    ``1 - |z|^2 + nu u v`` for every ``nu >= 0``: with affine ``u`` and ``v`` that is an ellipsoid.
    Then a subgradient method in the ellipsoid's own coordinates averages its tangents, which
    bound the minimum to a tenth of their slope, the rate of the method.

    Parameters
    ----------
    value_and_gradient : callable
        ``w -> (phi(w), subgradient)``, convex, asked at members of ``W`` only.
    constraint : ConstraintSet
        ``W``, within the ball of ``radius`` about ``start``.
    start : Array
        Shape ``(dim,)``; ``dim`` at most 3, since directions grow as ``2^dim``.
    """
    look = _watch(value_and_gradient, constraint.project, radius)
    directions = _directions(start.shape[-1])
    one = jnp.ones((), start.dtype)
    ball = radius * (1.0 + _MARGIN) * jnp.eye(start.shape[-1], dtype=start.dtype)
    search = _Search(start, ball, start, jnp.inf * one, -one, jnp.zeros((), int))

    def cut(search: _Search) -> _Search:
        seen = jax.vmap(lambda z: look(search.centre + search.axes @ z))(directions)
        best = jnp.argmin(seen.value)
        better = seen.value[best] < search.value
        anchor = jnp.where(better, seen.point[best], search.anchor)
        value = jnp.where(better, seen.value[best], search.value)
        normals, offsets = _cuts(seen, search.centre, search.axes, value + height)
        move, shape, gain = _smallest(normals, offsets)
        return _Search(
            search.centre + search.axes @ move,
            search.axes @ shape,
            anchor,
            value,
            gain,
            search.cuts + 1,
        )

    search = jax.lax.while_loop(lambda s: (s.gain < -_LEAST_GAIN) & (s.cuts < _CUTS), cut, search)
    anchor, value, bound = _descend(look, search)
    slack = jnp.maximum(value - bound, 0.0) + _ROUND_OFF * jnp.abs(value)
    return Enclosure(search.centre, (1.0 + _MARGIN) * search.axes, anchor, value, slack)


def _directions(dim: int) -> Array:
    """Where a ball is looked at: its centre, and halfway to and at faces and corners of a cube."""
    corners = np.array(list(itertools.product((1.0, -1.0), repeat=dim))) / np.sqrt(dim)
    faces = np.concatenate([np.eye(dim), -np.eye(dim)])
    towards = np.concatenate([faces, corners]) if dim > 1 else faces
    return jnp.asarray(np.concatenate([np.zeros((1, dim)), 0.5 * towards, towards]))


def _watch(
    value_and_gradient: ValueAndGradient,
    project: Callable[[Array], Array],
    radius: Array | float,
) -> Callable[[Array], _Seen]:
    def look(x: Array) -> _Seen:
        point = project(x)
        value, gradient = value_and_gradient(point)
        away = x - point
        distance = norm(away)
        outside = distance > 0.0
        safe = jnp.where(outside, distance, 1.0)
        # <normal, w - point> <= error for all w in W, whatever round-off did to the projection
        error = _ROUND_OFF * (radius + norm(point)) * (1.0 + 2.0 * radius / safe)
        return _Seen(point, value, gradient, jnp.where(outside, away / safe, 0.0), error)

    return look


def _cuts(seen: _Seen, centre: Array, axes: Array, level: Array) -> tuple[Array, Array]:
    """``<p_j, z> <= b_j`` for every ``c + A z`` in ``W`` with ``phi <= level``; ``|p_j| = 1``."""
    reach = centre[None] - seen.point
    gradients, normals = seen.gradient @ axes, seen.normal @ axes
    allowance = _ROUND_OFF * (jnp.abs(level) + jnp.abs(seen.value))
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
    nu = jnp.asarray(_WEIGHTS, p.dtype)[None, None, :]
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
    shape *= jnp.sqrt(jnp.where(keep, square[chosen], 1.0)) * (1.0 + _ROUND_OFF)
    identity = jnp.eye(dim, dtype=p.dtype)
    return jnp.where(keep, centre, 0.0), jnp.where(keep, shape, identity), gain


def _descend(look: Callable[[Array], _Seen], search: _Search) -> tuple[Array, Array, Array]:
    """The best member met, its value, and a lower bound on ``min phi`` over ``W`` within ``E``.

    Outside ``W`` a minorant is the tangent at the projection plus twice its slope times the
    distance to ``W`` along the normal, which is not positive on ``W``.
    """

    def step(
        _: Array, state: tuple[Array, Array, Array, Array, Array, Array, Array]
    ) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
        z, anchor, value, weight, offset, slope, bound = state
        seen = look(search.centre + search.axes @ z)
        better = seen.value < value
        anchor = jnp.where(better, seen.point, anchor)
        value = jnp.where(better, seen.value, value)
        pull = 2.0 * norm(seen.gradient)
        total = seen.gradient + pull * seen.normal
        here = seen.value + total @ (search.centre - seen.point)
        here -= jnp.where(norm(seen.normal) > 0.0, pull * seen.error, 0.0)
        downhill = total @ search.axes
        size = norm(downhill)
        bound = jnp.maximum(bound, here - size)
        share = jnp.where(size > 0.0, 1.0 / jnp.where(size > 0.0, size, 1.0), 0.0)
        z = z - share * downhill / np.sqrt(_DESCENT_STEPS)
        z = z / jnp.maximum(norm(z), 1.0)
        return (
            z,
            anchor,
            value,
            weight + share,
            offset + share * here,
            slope + share * downhill,
            bound,
        )

    zero = jnp.zeros_like(search.value)
    none = jnp.zeros_like(search.centre)
    state = (none, search.anchor, search.value, zero, zero, none, -jnp.inf + zero)
    _, anchor, value, weight, offset, slope, bound = jax.lax.fori_loop(
        0, _DESCENT_STEPS, step, state
    )
    mean = (offset - norm(slope)) / jnp.where(weight > 0.0, weight, 1.0)
    return anchor, value, jnp.maximum(bound, jnp.where(weight > 0.0, mean, -jnp.inf))
