"""Projections in the maximum norm: ``argmin_{v in W} ||v - x||_inf``."""

from __future__ import annotations

from functools import singledispatch

import jax
import jax.numpy as jnp

from privopt.arguments import checked, shown
from privopt.convex.projections import l1_threshold, l2_threshold, shift_maximum
from privopt.convex.sets import ConstraintSet, L1Ball, L1L2Ball, L2Ball, Simplex, WholeSpace
from privopt.convex.vectors import broadcast, cast, norm


@checked
@singledispatch
def linf_projection(constraint: ConstraintSet, x: jax.Array) -> jax.Array:
    """Return a point of ``W`` nearest to ``x`` in the maximum norm; points of ``W`` are unchanged.

    *Balls.* A set is solid if, with ``v``, it contains every ``v'`` with ``|v'_j| <= |v_j|`` for
    all ``j``. The points within ``t`` of ``x`` form a box, and soft thresholding ``S_t(x)`` has the
    least modulus in it, in every coordinate. So the box intersects a solid set if and only if the
    set contains ``S_t(x)``, and ``S_t(x)`` with the least such ``t`` is a nearest point. For the l1
    ball it is also the Euclidean projection. A ball about ``c`` is solid about ``c``.

    *Simplex.* The points of the simplex within ``t`` of ``x`` are between ``(x - t)_+`` and ``(x +
    t)_+``. They exist if and only if ``x_j + t >= 0`` for all ``j`` and ``total`` is between the
    sums of these two vectors. So ``t >= max(|theta|, -min_j x_j)`` with the threshold ``theta`` of
    the Euclidean projection ``(x - theta)_+``. The projection changes a coordinate by ``theta``, or
    sets it to 0, which is a change by less than ``theta`` or by ``-x_j``. It attains the bound, so
    it is a nearest point.

    *Whole space.* The identity.

    Examples
    --------
    >>> from privopt.convex import L2Ball, linf_projection
    >>> linf_projection(L2Ball(1.0), jnp.array([3.0, 0.5])).tolist()
    [1.0, 0.0]
    """
    raise TypeError(
        f"constraint must be a set with a known l_inf projection, got {shown(constraint)}"
    )


@linf_projection.register
def _(constraint: L1Ball | WholeSpace, x: jax.Array) -> jax.Array:
    return constraint.project(x)


@linf_projection.register
def _(constraint: L2Ball, x: jax.Array) -> jax.Array:
    centre, radius = broadcast(constraint.centre, x), cast(constraint.radius, x)
    offset = x - centre
    inside = (norm(offset) <= radius)[..., None]
    magnitude = shift_maximum(jnp.abs(offset))
    shrunk = jnp.maximum(magnitude - l2_threshold(magnitude, radius), 0.0)
    return jnp.where(inside, x, centre + jnp.sign(offset) * shrunk)


@linf_projection.register
def _(constraint: L1L2Ball, x: jax.Array) -> jax.Array:
    l1, l2 = cast(constraint.l1_radius, x), cast(constraint.l2_radius, x)
    magnitude = shift_maximum(jnp.abs(x))
    threshold = jnp.maximum(l1_threshold(magnitude, l1), l2_threshold(magnitude, l2))
    shrunk = jnp.maximum(magnitude - threshold, 0.0)
    return jnp.where(constraint.contains(x, 0.0)[..., None], x, jnp.sign(x) * shrunk)


@linf_projection.register
def _(constraint: Simplex, x: jax.Array) -> jax.Array:
    return jnp.where(constraint.contains(x, 0.0)[..., None], x, constraint.project(x))
