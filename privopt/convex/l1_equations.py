"""The equations ``A x = b`` of basis pursuit, and the best known of a point and of a dual point."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

from privopt.convex.vectors import inner

__all__ = ["Certified", "Equations"]

MAX_RESIDUAL = 1e-12  # of ||x||_1, for rows of norm about one


class Equations(NamedTuple):
    """``A x = b``; ``A``, ``(m, d)``, has rows of norm about one. With a factor of ``A A^T``."""

    matrix: Array
    factor: Array
    right_hand_side: Array

    def restored(self, point: Array) -> Array:
        """The solution nearest to ``point``: ``x + A^T (A A^T)^{-1} (b - A x)``."""
        return point + cho_solve((self.factor, True), self.residual(point)) @ self.matrix

    def residual(self, point: Array) -> Array:
        """``b - A x``."""
        return self.right_hand_side - self.matrix @ point


class Certified(NamedTuple):
    """A solution of the equations and a dual feasible point: the best of each seen.

    Attributes
    ----------
    point, value : Array
        ``x`` of shape ``(d,)``, and ``||x||_1``.
    dual, bound : Array
        ``y`` of shape ``(m,)`` with ``|A^T y| <= 1``, and ``<b, y> <= min ||x||_1``.
    steps : Array
        Each is one factorisation of an ``m`` by ``m`` matrix.
    """

    point: Array
    value: Array
    dual: Array
    bound: Array
    steps: Array

    def with_point(self, equations: Equations, point: Array) -> Certified:
        """The better of two points; one that misses the equations is not taken."""
        value = jnp.sum(jnp.abs(point))
        missed = jnp.max(jnp.abs(equations.residual(point)))
        better = (value < self.value) & (missed <= MAX_RESIDUAL * value)
        return self._replace(
            point=jnp.where(better, point, self.point), value=jnp.where(better, value, self.value)
        )

    def with_dual(self, equations: Equations, dual: Array) -> Certified:
        """The better of two dual points, the new one scaled until it is feasible."""
        dual = dual / jnp.maximum(1.0, jnp.max(jnp.abs(dual @ equations.matrix)))
        bound = inner(equations.right_hand_side, dual)
        better = bound > self.bound
        return self._replace(
            dual=jnp.where(better, dual, self.dual), bound=jnp.where(better, bound, self.bound)
        )
