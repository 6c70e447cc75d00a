"""Anderson mixing: steps of a fixed-point method, combined so that their residual is least."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex.vectors import inner

MAX_MEMORY, MIN_MEMORY = 10, 5  # steps
MIN_MEMORY_PROBLEMS = 4  # from so many on the memory is short, since each look costs more


class Mixing(NamedTuple):
    """The last point and proposed step of ``k`` problems, and the differences of those before.

    Attributes
    ----------
    point, step : Array
        Shape ``(k, dim)``.
    points, steps : Array
        Differences, shape ``(k, memory, dim)``, latest last.
    """

    point: Array
    step: Array
    points: Array
    steps: Array

    @classmethod
    def begin(cls, points: Array) -> Mixing:
        """With no memory."""
        memory = MAX_MEMORY if points.shape[0] < MIN_MEMORY_PROBLEMS else MIN_MEMORY
        none = jnp.zeros((points.shape[0], memory, points.shape[1]))
        return cls(points, jnp.zeros_like(points), none, none)

    def mixed(self, points: Array, steps: Array) -> tuple[Array, Mixing]:
        """``s - (dW + dS) gamma`` with ``gamma`` the least squares of ``s - dS gamma``.

        Source: Walker and Ni 2011, "Anderson acceleration for fixed-point iterations", SIAM Journal
        on Numerical Analysis (doi:10.1137/10078356X).
        """
        moved, changed = points - self.point, steps - self.step
        known = jnp.any(moved != 0.0, axis=-1) & jnp.any(self.step != 0.0, axis=-1)
        moved, changed = (jnp.where(known[:, None], each, 0.0) for each in (moved, changed))
        moves = jnp.concatenate([self.points[:, 1:], moved[:, None]], axis=1)
        changes = jnp.concatenate([self.steps[:, 1:], changed[:, None]], axis=1)
        sizes = jnp.sqrt(inner(changes, changes))
        sizes = jnp.where(sizes > 0.0, sizes, 1.0)
        units = changes / sizes[:, :, None]
        normal = units @ jnp.swapaxes(units, 1, 2) + 1e-12 * jnp.eye(units.shape[1])[None]
        right = jnp.einsum("kmd,kd->km", units, steps)
        weights = jnp.linalg.solve(normal, right[:, :, None])[:, :, 0]
        mixed = steps - jnp.einsum("km,kmd->kd", weights / sizes, moves + changes)
        mixed = jnp.where(jnp.isfinite(mixed).all(axis=-1, keepdims=True), mixed, steps)
        return mixed, Mixing(points, steps, moves, changes)

    def kept(self, good: Array) -> Mixing:
        """Without memory for the problems that are not ``good``, shape ``(k,)``."""
        kept = good[:, None, None].astype(self.points.dtype)
        return self._replace(points=kept * self.points, steps=kept * self.steps)
