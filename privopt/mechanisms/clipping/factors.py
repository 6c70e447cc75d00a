"""What sums of clipped gradients answer, and what a gradient of a given norm is multiplied by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import jax.numpy as jnp
from jax import Array

from privopt.convex.vectors import Number
from privopt.release import Pytree


class BatchSum(Protocol):
    """``(w, rows, m) -> sum_k m_k clip(g_k(w))`` over ``k``, the rows of a batch.

    With ``anchor``, of the differences ``clip(g_k(w) - g_k(anchor))``.
    """

    def __call__(self, point: Pytree, rows: Array, weights: Array, anchor: Pytree = None) -> Pytree:
        """The sum, of the shape of ``point``."""


class ClippedSums(Protocol):
    """Sums over ``clip(g_i(w))``, ``g_i = grad loss(.; x_i)``, for one kind of loss."""

    def gradient_sum(self) -> Callable[[Pytree], Pytree]:
        """``w -> sum_i m_i clip(g_i(w))`` over all records."""

    def batch_sum(
        self, point: Pytree, rows: Array, weights: Array, anchor: Pytree = None
    ) -> Pytree:
        """A :class:`BatchSum` over rows as they are stored."""

    def usable(self, point: Pytree) -> Array:
        """Which records have a gradient at ``point`` that can be clipped, shape ``(n,)``."""


def is_exact(size: Array, factor: Number) -> Array:
    """Whether a norm and its clipping factor are known to full relative precision.

    A subnormal factor is not, and a record that large counts as not finite.
    """
    return jnp.isfinite(size) & (factor >= jnp.finfo(size.dtype).smallest_normal)


def clipping_factors(sizes: Array, clip: Number, gamma: Number | None) -> Array:
    """What gradients of these norms are multiplied by: 0 where that is not known exactly."""
    factors = clip / sizes if gamma is None else clip / (sizes + gamma)
    known = is_exact(sizes, factors) & (sizes > 0.0)
    return jnp.where(known, jnp.minimum(1.0, factors) if gamma is None else factors, 0.0)
