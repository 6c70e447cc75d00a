"""Clipped gradients of a generalised linear loss, without forming them.

The gradient of a record is ``phi'(<x_i, w>, y_i) x_i``, of norm ``|phi'| |x_i|``: it is clipped by
clipping the slope ``phi'`` to ``C / |x_i|``. Sparse features stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, Features, LinearRecords, RegularisedGLM, ScalarLoss
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping.factors import is_exact


class BoundedRecords(NamedTuple):
    """Records with the bounds of their slopes; the bound of one that is not usable is zero."""

    features: Features
    labels: Array  # y
    bound: Array  # C/|x|
    norms: Array  # |x|


class ClippedSlope(NamedTuple):
    """A loss whose slope is clipped to ``bound``, one for every record; 0 if not finite."""

    loss: ScalarLoss
    bound: Array

    def slope(self, prediction: Array, label: Array) -> Array:
        """``clip(phi'(z_i, y_i), -b_i, b_i)``."""
        slopes = self.loss.slope(prediction, label)
        return jnp.where(jnp.isfinite(slopes), jnp.clip(slopes, -self.bound, self.bound), 0.0)


def bounded_records(records: LinearRecords, clip: Number) -> BoundedRecords:
    """Records with the bounds ``C/|x_i|``; under ``vmap`` over clips the features are shared."""
    _, features, labels = records
    norms = features.norms()
    finite = jnp.isfinite(norms) & jnp.isfinite(labels)
    return BoundedRecords(
        features.scaled(finite.astype(features.dtype)),
        jnp.where(finite, labels, 0.0),
        jnp.where(finite & is_exact(norms, clip / norms), clip / norms, 0.0),
        jnp.where(finite, norms, 0.0),
    )


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


class SlopeSums(NamedTuple):
    """Of a generalised linear loss: ``clip(phi'(<x_i, w>, y_i) x_i)``."""

    records: BoundedRecords
    slope: Callable[[Array, Array], Array]
    counts: Array | None
    gamma: Number | None

    @classmethod
    def of(cls, risk: EmpiricalRisk, clip: Number, gamma: Number | None) -> SlopeSums:
        """The sums for a risk that is ``linear``."""
        assert risk.linear is not None
        return cls(bounded_records(risk.linear, clip), risk.linear.scalar.slope, risk.counts, gamma)

    def gradient_sum(self) -> Callable[[Array], Array]:
        """``w -> sum_i m_i clip(phi'(<x_i, w>, y_i) x_i)``."""
        features, labels, bound, norms = self.records
        matvec, rmatvec = features.products()

        def whole_sum(point: Array) -> Array:
            slopes = self._clipped(self.slope(matvec(point), labels), bound, norms)
            return rmatvec(slopes if self.counts is None else self.counts * slopes)

        return whole_sum

    def batch_sum(
        self, point: Array, rows: Array, weights: Array, anchor: Array | None = None
    ) -> Array:
        """The same over rows, as they are stored."""
        features, labels, bound, norms = self.records
        batch, targets = features.take(rows), labels[rows]
        slopes = self.slope(batch.matvec(point), targets)
        if anchor is not None:
            slopes -= self.slope(batch.matvec(anchor), targets)
        return batch.rmatvec(weights * self._clipped(slopes, bound[rows], norms[rows]))

    def usable(self, point: Array) -> Array:
        """Which records contribute, at this and every point."""
        del point
        return self.records.bound > 0.0

    def _clipped(self, slopes: Array, bound: Array, norms: Array) -> Array:
        if self.gamma is None:
            clipped = jnp.clip(slopes, -bound, bound)
        else:
            clipped = slopes * (bound * norms / (jnp.abs(slopes) * norms + self.gamma))
        return jnp.where(jnp.isfinite(slopes) & jnp.isfinite(clipped), clipped, 0.0)
