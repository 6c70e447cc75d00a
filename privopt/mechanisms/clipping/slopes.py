"""Clipped gradients of a generalised linear loss, without forming them.

The gradient of a record is ``phi'(<x_i, w>, y_i) x_i``, of norm ``|phi'| |x_i|``: to clip its slope
to ``C / |x_i|`` is to clip it. All that is asked of the features are two products, norms and rows,
so sparse ones stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, Features, LinearRecords, RegularisedGLM, ScalarLoss
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping.factors import BatchSum, is_exact

__all__ = [
    "BoundedRecords",
    "ClippedSlope",
    "batch_sum",
    "bounded_records",
    "clipped_linear_model",
    "gradient_sum",
    "usable",
]


class BoundedRecords(NamedTuple):
    """Records with the bounds of their slopes; zero in all of it for one that is not usable.

    Attributes
    ----------
    features : Features
    labels, bound, norms : Array
        ``y``, ``C/|x|`` and ``|x|``, shape ``(n,)``.
    """

    features: Features
    labels: Array
    bound: Array
    norms: Array


class ClippedSlope(NamedTuple):
    """A loss whose slope is kept within a bound of its own for every record; 0 if not finite.

    Attributes
    ----------
    loss : ScalarLoss
    bound : Array
        ``b_i``, shape ``(n,)``.
    """

    loss: ScalarLoss
    bound: Array

    def slope(self, prediction: Array, label: Array) -> Array:
        """``clip(phi'(z_i, y_i), -b_i, b_i)``."""
        slopes = self.loss.slope(prediction, label)
        return jnp.where(jnp.isfinite(slopes), jnp.clip(slopes, -self.bound, self.bound), 0.0)


def bounded_records(records: LinearRecords, clip: Number) -> BoundedRecords:
    """Features do not depend on ``clip``: where many clips are run at once they stay one array."""
    _, features, labels = records
    norms = features.norms()
    finite = jnp.isfinite(norms) & jnp.isfinite(labels)
    return BoundedRecords(
        features.scaled(finite.astype(features.dtype)),
        jnp.where(finite, labels, 0.0),
        jnp.where(finite & is_exact(norms, clip / norms), clip / norms, 0.0),
        jnp.where(finite, norms, 0.0),
    )


def usable(risk: EmpiricalRisk, clip: Number, point: Array) -> Array:
    """Which records contribute, at this and every point; bool of shape ``(n,)``."""
    del point
    _, features, labels = _linear(risk)
    norms = features.norms()
    return jnp.isfinite(labels) & is_exact(norms, clip / norms)


def clipped_linear_model(risk: EmpiricalRisk, clip: Number, size: Number) -> RegularisedGLM | None:
    """``sum_i (m_i/size) phi_i(<x_i, w>)``, without regulariser, tilt and centre.

    Its gradient is the sum of clipped gradients over ``size``. ``None`` for a loss that is not one
    of a linear prediction.
    """
    if risk.linear is None:
        return None
    features, labels, bound, _ = bounded_records(risk.linear, clip)
    weights = (jnp.ones_like(labels) if risk.counts is None else risk.counts) / size
    none = jnp.zeros((0, features.shape[1]), features.dtype)
    loss = ClippedSlope(risk.linear.scalar, bound)
    return RegularisedGLM(loss, features, labels, weights, none[:, 0], none, none)


def gradient_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None
) -> Callable[[Array], Array]:
    """``w -> sum_i m_i clip(phi'(<x_i, w>, y_i) x_i)``."""
    records, counts = _linear(risk), risk.counts
    features, labels, bound, norms = bounded_records(records, clip)
    matvec, rmatvec = features.products()

    def whole_sum(point: Array) -> Array:
        slopes = records.scalar.slope(matvec(point), labels)
        slopes = _clipped(slopes, bound, norms, gamma)
        return rmatvec(slopes if counts is None else counts * slopes)

    return whole_sum


def batch_sum(risk: EmpiricalRisk, clip: Number, gamma: Number | None) -> BatchSum:
    """The same over rows, as they are stored."""
    records = _linear(risk)
    features, labels, bound, norms = bounded_records(records, clip)
    slope = records.scalar.slope

    def part_sum(point: Array, rows: Array, weights: Array, anchor: Array | None = None) -> Array:
        batch, targets = features.take(rows), labels[rows]
        slopes = slope(batch.matvec(point), targets)
        if anchor is not None:
            slopes -= slope(batch.matvec(anchor), targets)
        return batch.rmatvec(weights * _clipped(slopes, bound[rows], norms[rows], gamma))

    return part_sum


def _linear(risk: EmpiricalRisk) -> LinearRecords:
    assert risk.linear is not None
    return risk.linear


def _clipped(slopes: Array, bound: Array, norms: Array, gamma: Number | None) -> Array:
    if gamma is None:
        clipped = jnp.clip(slopes, -bound, bound)
    else:
        clipped = slopes * (bound * norms / (jnp.abs(slopes) * norms + gamma))
    return jnp.where(jnp.isfinite(slopes) & jnp.isfinite(clipped), clipped, 0.0)
