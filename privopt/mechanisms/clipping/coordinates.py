"""Clipped gradients of losses of single coordinates, which stay as sparse as the records.

A gradient has the places of its record, so that those of a batch of ``b`` records of ``s`` entries
are ``b s`` numbers, and their sum is the first thing of ``d`` numbers that is made.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, Features, difference
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping.factors import BatchSum, clipping_factors, is_exact

__all__ = ["batch_sum", "gradient_sum", "usable"]


def gradient_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None
) -> Callable[[Array], Array]:
    """``w -> sum_i m_i clip(grad loss(w; x_i))``."""
    gradients = _gradients(risk)

    def whole_sum(point: Array) -> Array:
        return _summed(gradients(point), risk.counts, clip, gamma)

    return whole_sum


def batch_sum(risk: EmpiricalRisk, clip: Number, gamma: Number | None) -> BatchSum:
    """The same over rows, as they are stored."""
    gradients = _gradients(risk)

    def part_sum(point: Array, rows: Array, weights: Array, anchor: Array | None = None) -> Array:
        return _summed(gradients(point, rows, anchor), weights, clip, gamma)

    return part_sum


def usable(risk: EmpiricalRisk, clip: Number, point: Array) -> Array:
    """Which records have a gradient at ``point`` that can be clipped; bool of shape ``(n,)``."""
    sizes = _gradients(risk)(point).norms()
    return is_exact(sizes, clip / sizes)


def _gradients(risk: EmpiricalRisk) -> Callable[..., Features]:
    """``(w, rows, anchor) -> gradients`` of these rows, or of all; less those at the anchor."""
    assert risk.separable is not None
    scalar, features = risk.separable

    def gradients(point: Array, rows: Array | None = None, anchor: Array | None = None) -> Features:
        chosen = features if rows is None else features.take(rows)
        found = chosen.mapped(scalar.slope, point)
        if anchor is None:
            return found
        return difference(found, chosen.mapped(scalar.slope, anchor))

    return gradients


def _summed(
    gradients: Features, weights: Array | None, clip: Number, gamma: Number | None
) -> Array:
    factors = clipping_factors(gradients.norms(), clip, gamma)
    weights = jnp.ones_like(factors) if weights is None else weights
    return gradients.scaled(factors).rmatvec(weights)
