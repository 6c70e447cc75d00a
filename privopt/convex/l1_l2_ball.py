"""The intersection of an l1 ball and an l2 ball, where means of sparse vectors lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp

from privopt.arguments import positive_integer, positive_number
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.sets import Ball
from privopt.convex.thresholds import in_range, l1_threshold, lowered, ratio_threshold
from privopt.convex.vectors import (
    Number,
    cast,
    dimension,
    inner,
    norm,
    require_positive,
    require_shape,
)


@pytree_dataclass
@dataclass(frozen=True)
class L1L2Ball(Ball):
    """``{v : ||v||_1 <= l1_radius, ||v||_2 <= l2_radius}``, centred at the origin.

    With ``l1_radius = sqrt(s) l2_radius`` it holds every vector of at most ``s`` numbers that are
    not 0 and of norm at most ``l2_radius``, and lies within ``sqrt(2)`` times their convex hull
    (Plan and Vershynin 2013, "One-bit compressed sensing by linear programming", lemma 3.1).

    Examples
    --------
    >>> ball = L1L2Ball(2.0**0.5, 1.0)
    >>> print(ball.project(jnp.array([3.0, 4.0, 0.0])).round(3), ball.diameter(3))
    [0.6 0.8 0. ] 2.0
    """

    l1_radius: Number
    l2_radius: Number

    def __post_init__(self) -> None:
        require_positive("l1_radius", self.l1_radius)
        require_positive("l2_radius", self.l2_radius)

    @classmethod
    def of(cls, lipschitz: float, sparsity: int) -> Self:
        """Around vectors of at most ``sparsity`` numbers, of norm at most ``lipschitz``.

        The radii are ``lipschitz sqrt(sparsity)`` and ``lipschitz``.
        """
        lipschitz = positive_number("lipschitz", lipschitz)
        return cls(lipschitz * math.sqrt(positive_integer("sparsity", sparsity)), lipschitz)

    def project(self, x: jax.Array) -> jax.Array:
        """``S_t(x) min(1, l2_radius / ||S_t(x)||_2)``; members keep their bits.

        ``S_t`` is soft thresholding and ``t >= 0`` the least at which that point has an l1 norm of
        at most ``l1_radius``. There is one, since ``||S_t||_1`` and ``||S_t||_1 / ||S_t||_2`` fall
        in ``t``. Either ``t = 0``, or ``S_t(x)`` is the projection onto the l1 ball, within the l2
        ball, or the quotient of the norms is that of the radii. The conditions of Karush, Kuhn and
        Tucker hold: the point is ``S_t(x)/(1 + u)`` with ``t = 0`` or the l1 constraint tight, and
        ``u = 0`` or the l2 constraint tight. ``t`` is at most the threshold of the l1 ball. That
        bound determines ``t`` well next to the boundary, where the quotient alone does not.
        """
        magnitude, (l1, l2) = jnp.abs(x), self._radii(x)
        inside = (jnp.sum(magnitude, axis=-1) <= l1) & (norm(x) <= l2)
        scaled, unit, share = _scaled(magnitude, l1)
        least = 16.0 * float(jnp.finfo(x.dtype).tiny)  # far below a rounding of the unit
        highest = jnp.clip(l1_threshold(scaled, share), -1.0, -least)
        shrunk = self._shrunk(scaled, highest)
        fitted = jnp.minimum(unit, _longest(shrunk, l1, l2))
        return jnp.where(inside[..., None], x, jnp.sign(x) * (shrunk * fitted))

    def support(self, g: jax.Array) -> jax.Array:
        """``min_{t >= 0} {l2_radius ||S_t(g)||_2 + t l1_radius}``."""
        return inner(g, self.extreme_point(g))

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """``S_t(g)``, of the length that fits, at the ``t`` of :meth:`support`; 0 where ``g = 0``.

        Coordinates that share the largest ``|g_j|`` get equal parts of ``l1_radius``.
        """
        magnitude, (l1, l2) = jnp.abs(g), self._radii(g)
        scaled, *_ = _scaled(magnitude, l1)
        shrunk = self._shrunk(scaled, jnp.full_like(scaled[..., :1], -0.125 * _eps(g)))
        return jnp.sign(g) * (shrunk * _longest(shrunk, l1, l2))

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        l1, l2 = self._radii(x)
        slack = cast(tolerance, x)
        return (jnp.sum(jnp.abs(x), axis=-1) <= l1 + slack) & (norm(x) <= l2 + slack)

    def radius_about_centre(self, dim: int) -> float:
        dimension(dim)
        require_shape("l1_radius", self.l1_radius, ())
        require_shape("l2_radius", self.l2_radius, ())
        return float(min(self.l1_radius, self.l2_radius))

    def _radii(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return cast(self.l1_radius, x), cast(self.l2_radius, x)

    def _shrunk(self, scaled: jax.Array, highest: jax.Array) -> jax.Array:
        l1, l2 = self._radii(scaled)
        threshold = ratio_threshold(scaled, l1 / l2, jnp.full_like(highest, -1.0), highest)
        return jnp.maximum(scaled - threshold, 0.0)


def _scaled(magnitude: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """``magnitude`` in units of its largest coordinate, less one; the unit; ``radius`` in it."""
    unit = _divisor(jnp.max(magnitude, axis=-1, keepdims=True))
    shift = in_range(unit)
    scaled = lowered(magnitude * shift) / (unit * shift)
    return scaled, unit, radius * shift / (unit * shift)


def _longest(v: jax.Array, l1: jax.Array, l2: jax.Array) -> jax.Array:
    """The largest number whose product with ``v >= 0`` has at most these norms; any if it is 0."""
    first = jnp.sum(v, axis=-1, keepdims=True)
    return jnp.minimum(l1 / _divisor(first), l2 / _divisor(norm(v)[..., None]))


def _divisor(number: jax.Array) -> jax.Array:
    return jnp.where(number > 0.0, number, 1.0)


def _eps(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).eps)
