"""Constraint sets outside of the package, as in code of a user."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from privopt.convex import pytree_dataclass
from privopt.convex.arrays import Number, broadcast, cast, one_hot
from privopt.convex.projections import project_simplex


@pytree_dataclass
@dataclass(frozen=True)
class Box:
    """``{v : lower <= v <= upper}`` by coordinate; bounds are numbers or of shape ``(dim,)``."""

    lower: Number
    upper: Number

    def project(self, x: jax.Array) -> jax.Array:
        lower, upper = self._bounds(x)
        return jnp.clip(x, lower, upper)

    def support(self, g: jax.Array) -> jax.Array:
        return jnp.sum(g * self.extreme_point(g), axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        lower, upper = self._bounds(g)
        return jnp.where(g > 0.0, upper, lower)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        lower, upper = self._bounds(x)
        slack = cast(tolerance, x)
        return jnp.all((lower - slack <= x) & (x <= upper + slack), axis=-1)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        lower, upper = self._bounds(jnp.zeros((dim,), dtype))
        return 0.5 * lower + 0.5 * upper

    def radius_about_centre(self, dim: int) -> float:
        return 0.5 * self.diameter(dim)

    def diameter(self, dim: int) -> float:
        sides = np.asarray(self.upper, np.float64) - np.asarray(self.lower, np.float64)
        return float(np.linalg.norm(np.broadcast_to(sides, (dim,))))

    def _bounds(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return broadcast(self.lower, x), broadcast(self.upper, x)


@pytree_dataclass
@dataclass(frozen=True)
class Simplex:
    """``{v >= 0, sum_j v_j = total}``, centred at the barycentre; it has no interior."""

    total: Number = 1.0

    def project(self, x: jax.Array) -> jax.Array:
        return project_simplex(x, cast(self.total, x))

    def support(self, g: jax.Array) -> jax.Array:
        return cast(self.total, g) * jnp.max(g, axis=-1)

    def extreme_point(self, g: jax.Array) -> jax.Array:
        return one_hot(g) * cast(self.total, g)

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        slack = cast(tolerance, x)
        balanced = jnp.abs(jnp.sum(x, axis=-1) - cast(self.total, x)) <= slack
        return balanced & jnp.all(x >= -slack, axis=-1)

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        return jnp.full((dim,), self.total / dim, dtype)

    def radius_about_centre(self, dim: int) -> float:
        return float(self.total) * math.sqrt(1.0 - 1.0 / dim)

    def diameter(self, dim: int) -> float:
        return float(self.total) * math.sqrt(2.0) if dim > 1 else 0.0
