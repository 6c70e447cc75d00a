"""What every constraint set can do."""

from __future__ import annotations

from typing import Protocol

import jax
from jax.typing import DTypeLike

from privopt.convex.vectors import Number


class ConstraintSet(Protocol):
    """A closed convex set ``W`` of vectors with ``dim`` coordinates.

    Shapes: ``x`` and ``g`` are ``(..., dim)`` and floating point; vectors come back as
    ``(..., dim)``, numbers as ``(...)``, in the same dtype.
    """

    def project(self, x: jax.Array) -> jax.Array:
        """The nearest member of ``W``: ``argmin_{v in W} ||v - x||_2``."""

    def support(self, g: jax.Array) -> jax.Array:
        """The support function ``max_{v in W} <g, v>``."""

    def extreme_point(self, g: jax.Array) -> jax.Array:
        """A maximiser of ``<g, v>`` over ``v in W`` (with ``-g``, the Frank-Wolfe oracle)."""

    def contains(self, x: jax.Array, tolerance: Number) -> jax.Array:
        """Whether ``x`` meets every constraint of ``W`` up to ``tolerance``, in units of ``x``."""

    def centre_point(self, dim: int, dtype: DTypeLike) -> jax.Array:
        """The centre of ``W``, of shape ``(dim,)``."""

    def radius_about_centre(self, dim: int) -> float:
        """Largest distance of a member from the centre (host)."""

    def diameter(self, dim: int) -> float:
        """Largest distance between two members (host)."""
