"""What one gradient proves about the minimum."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from privopt.convex.constraint import ConstraintSet
from privopt.convex.vectors import norm

__all__ = ["ROUND_OFF", "Certifier"]

ROUND_OFF = 64.0 * 2.0**-52


class Certifier(NamedTuple):
    """The public facts a certificate rests on.

    Attributes
    ----------
    constraint : ConstraintSet
        ``W``.
    diameter : scalar
        Of ``W``; may be infinite.
    strong_convexity : scalar
        ``mu >= 0`` of the objective.
    """

    constraint: ConstraintSet
    diameter: jax.Array
    strong_convexity: jax.Array

    def decrease(self, point: jax.Array, gradient: jax.Array, scale: jax.Array) -> jax.Array:
        """Upper bound on how far the objective can fall below its value at ``point``.

        ``max_{v in W} {<g, w - v> - (mu/2) ||v - w||^2}``. With ``mu = 0`` this is the
        Frank-Wolfe gap ``<g, w> + support(-g)``; with ``mu > 0`` the maximiser is
        ``Proj_W(w - g/mu)``, and on the whole space the bound reads ``||g||^2 / (2 mu)``.

        Round-off: the gradient is taken to be wrong by at most ``e = 64 eps scale``, where
        ``scale`` is the largest gradient norm met (the size its sums had before they cancelled).
        That moves the first form by at most ``e diameter`` and the second by
        ``e (||v - w|| + e/mu)``; ``e ||w||`` covers the inner products. On an unbounded set the
        first form is finite only where the computed gradient is exactly zero, and is then
        believed.
        """
        error, mu = ROUND_OFF * scale, self.strong_convexity
        reach = jnp.where(jnp.isfinite(self.diameter), self.diameter, 0.0)
        linear = gradient @ point + self.constraint.support(-gradient) + error * reach

        curved = mu > 0.0
        divisor = jnp.where(curved, mu, 1.0)
        move = self.constraint.project(point - gradient / divisor) - point
        quadratic = -(gradient @ move) - 0.5 * mu * (move @ move)
        quadratic += error * (norm(move) + error / divisor)
        return error * norm(point) + jnp.where(curved, jnp.minimum(linear, quadratic), linear)
