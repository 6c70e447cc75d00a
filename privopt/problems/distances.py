"""Distances with curvature: strongly convex losses whose minimiser noise moves, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from privopt.convex import Distance, pytree_dataclass

__all__ = ["RegularisedDistance"]


@pytree_dataclass
@dataclass(frozen=True)
class RegularisedDistance:
    """``loss(w; x) = |w - x|_2 + (m/2) |w|_2^2``, or its Moreau envelope of positive ``width``.

    ``m``-strongly convex, ``(1 + m R)``-Lipschitz for ``|w| <= R``, and not smooth. Completing the
    square in ``v`` turns ``min_v |v - x| + (m/2)|v|^2 + |v - w|^2/(2h)`` into the envelope of the
    distance itself: with ``s = 1 + m h``,

        loss_h(w; x) = |.|_{h/s}(w/s - x) + m |w|^2 / (2 s),

    ``m/s``-strongly convex and ``1/h``-smooth.

    Examples
    --------
    >>> RegularisedDistance(0.5)(jnp.array([2.0, 0.0]), jnp.zeros(2)).item()
    3.0
    """

    modulus: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Array, example: Array) -> Array:
        """The loss of one record."""
        scale = 1.0 + self.modulus * self.width
        rounded = Distance(self.width / scale)
        return rounded(point / scale, example) + 0.5 * self.modulus * jnp.sum(point**2) / scale

    def smoothed(self, width: Array) -> RegularisedDistance:
        """The Moreau envelope; widths add."""
        return RegularisedDistance(self.modulus, self.width + width)
