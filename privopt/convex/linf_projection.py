"""Nearest members in the largest coordinate: ``argmin_{v in W} ||v - x||_inf``."""

from __future__ import annotations

from functools import singledispatch

import jax
import jax.numpy as jnp

from privopt.arguments import checked, shown
from privopt.convex.l1_l2_ball import L1L2Ball
from privopt.convex.sets import Box, ConstraintSet, L1Ball, L2Ball, Simplex, WholeSpace
from privopt.convex.thresholds import l1_threshold, l2_threshold, lowered
from privopt.convex.vectors import broadcast, cast, norm


@checked
@singledispatch
def linf_projection(constraint: ConstraintSet, x: jax.Array) -> jax.Array:
    """A member of ``W`` nearest to ``x`` in the largest coordinate; members keep their bits.

    *Balls.* A set is solid if it holds, with ``v``, every ``v'`` with ``|v'_j| <= |v_j|`` for all
    ``j``. The points within ``t`` of ``x`` are a box, and soft thresholding ``S_t(x)`` is its
    member of least modulus in every coordinate. So the box meets a solid set if and only if it
    holds ``S_t(x)``, and ``S_t(x)`` with the least such ``t`` is a nearest member: for the l1 ball
    the Euclidean projection too. A ball about ``c`` is solid about ``c``.

    *Simplex.* Members within ``t`` of ``x`` are those between ``(x - t)_+`` and ``(x + t)_+``;
    there are some if and only if ``x_j + t >= 0`` for all ``j`` and the sums of these two are on
    either side of ``total``. So ``t >= max(|theta|, -min_j x_j)``, ``theta`` the threshold of the
    Euclidean projection ``(x - theta)_+``. That projection moves a coordinate by ``theta``, or to 0
    by less than ``theta`` or by ``-x_j``. It attains the bound, so it is a nearest member.

    *Boxes and the whole space.* The Euclidean projection.

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
def _(constraint: Box | L1Ball | WholeSpace, x: jax.Array) -> jax.Array:
    return constraint.project(x)


@linf_projection.register
def _(constraint: L2Ball, x: jax.Array) -> jax.Array:
    centre, radius = broadcast(constraint.centre, x), cast(constraint.radius, x)
    offset = x - centre
    inside = (norm(offset) <= radius)[..., None]
    magnitude = lowered(jnp.abs(offset))
    shrunk = jnp.maximum(magnitude - l2_threshold(magnitude, radius), 0.0)
    return jnp.where(inside, x, centre + jnp.sign(offset) * shrunk)


@linf_projection.register
def _(constraint: L1L2Ball, x: jax.Array) -> jax.Array:
    l1, l2 = cast(constraint.l1_radius, x), cast(constraint.l2_radius, x)
    magnitude = lowered(jnp.abs(x))
    threshold = jnp.maximum(l1_threshold(magnitude, l1), l2_threshold(magnitude, l2))
    shrunk = jnp.maximum(magnitude - threshold, 0.0)
    return jnp.where(constraint.contains(x, 0.0)[..., None], x, jnp.sign(x) * shrunk)


@linf_projection.register
def _(constraint: Simplex, x: jax.Array) -> jax.Array:
    return jnp.where(constraint.contains(x, 0.0)[..., None], x, constraint.project(x))
