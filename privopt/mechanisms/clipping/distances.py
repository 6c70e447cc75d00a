"""Clipped gradients of squared distances to sparse points, without forming them.

The gradient of a record is ``m (w - x_i)``: dense, but the same ``w`` in all of them. With weights
``c_i`` and clipping factors ``f_i``,

    sum_i c_i f_i m (w - x_i)  =  m (w sum_i c_i f_i - sum_i c_i f_i x_i),

and the norm follows from ``|w|^2 - 2 <w, x_i> + |x_i|^2``. That difference may cancel, so it is
rounded up by the most that round-off can have taken from it: no gradient is thought shorter than it
is, and none is clipped to more than ``C``. Squares and products may also vanish, each by less than
the smallest normal number. A record whose square overflows counts as not finite.

The sum of gradients is a difference too, of two sums as long as ``sum_i c_i f_i m |w|``. Far from
the origin that is more than all gradients together, and its rounding more than what one record may
move. So no gradient is thought shorter than ``m |w|/8`` either: ``f_i m |w| <= 8C``, and the two
sums are no longer than ``8C`` a record. Within the declared class nothing changes: there ``C >= L
>= m |w|``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, Features, SparseFeatures
from privopt.convex.vectors import Number, norm
from privopt.mechanisms.clipping.factors import BatchSum, clipping_factors, is_exact

__all__ = ["batch_sum", "gradient_sum", "usable"]


def gradient_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None
) -> Callable[[Array], Array]:
    """``w -> sum_i m_i clip(m (w - x_i))``; work of order ``d`` and the entries of the points."""
    points, finite, modulus = _finite(risk)
    weights = finite if risk.counts is None else finite * risk.counts

    def whole_sum(point: Array) -> Array:
        shares = weights * clipping_factors(modulus * _lengths(points, point), clip, gamma)
        return modulus * (shares.sum() * point - points.rmatvec(shares))

    return whole_sum


def batch_sum(risk: EmpiricalRisk, clip: Number, gamma: Number | None) -> BatchSum:
    """The same over rows, as they are stored. Differences from an anchor hold no record."""
    points, finite, modulus = _finite(risk)

    def part_sum(point: Array, rows: Array, weights: Array, anchor: Array | None = None) -> Array:
        weights = weights * finite[rows]
        if anchor is not None:
            away = modulus * (point - anchor)
            return weights.sum() * clipping_factors(norm(away), clip, gamma) * away
        batch = points.take(rows)
        shares = weights * clipping_factors(modulus * _lengths(batch, point), clip, gamma)
        return modulus * (shares.sum() * point - batch.rmatvec(shares))

    return part_sum


def usable(risk: EmpiricalRisk, clip: Number, point: Array) -> Array:
    """Which records have a gradient at ``point`` that can be clipped; bool of shape ``(n,)``."""
    points, finite, modulus = _finite(risk)
    sizes = modulus * _lengths(points, point)
    return (finite > 0.0) & is_exact(sizes, clip / sizes)


def _finite(risk: EmpiricalRisk) -> tuple[Features, Array, Array]:
    """Points with zeros for those that are not finite, which are told apart; and ``m``."""
    assert risk.points is not None
    finite = jnp.isfinite(jnp.square(risk.points.norms())).astype(risk.points.dtype)
    modulus: Array = risk.loss.modulus  # type: ignore[attr-defined]
    return risk.points.scaled(finite), finite, modulus


def _lengths(points: Features, point: Array) -> Array:
    """``|w - x_i|``, rounded up, and at least ``|w|/8``."""
    own, squares = _square(point), jnp.square(points.norms())
    entries = points.values.shape[-1] if isinstance(points, SparseFeatures) else point.size
    terms = entries + 2 * math.isqrt(point.size) + 16
    numbers = jnp.finfo(point.dtype)
    vanished = 4 * (point.size + 1) * numbers.smallest_normal
    slack = terms * numbers.eps * (own + squares) + vanished
    apart = jnp.maximum(own - 2.0 * points.matvec(point) + squares, own / 64.0)
    return jnp.sqrt(apart + slack)


def _square(point: Array) -> Array:
    """``|w|^2`` as a sum of ``sqrt(d)`` sums, whose errors are of that order and not of ``d``."""
    side = math.isqrt(point.size - 1) + 1
    rows = jnp.pad(point, (0, side * side - point.size)).reshape(side, side)
    return jnp.einsum("ij,ij->i", rows, rows, precision="highest").sum()
