"""Regularised, linearly tilted losses of a linear model, several at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex.features import Features

__all__ = ["Tilted"]


class Tilted(NamedTuple):
    """``J_k(w) = sum_i v_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>``, ``k`` lanes.

    Points, tilts and gradients are ``(k, dim)``; predictions and slopes ``(k, n)``.

    Attributes
    ----------
    loss : pytree
        ``phi``: ``value`` and ``slope`` of (prediction, label), elementwise; its numbers
        are scalars or of shape ``(n,)``, one a record.
    features : Features
        ``x`` of shape ``(n, dim)``.
    labels, weights : Array
        ``y`` and ``v >= 0`` of shape ``(n,)``.
    regularisation, tilts, centre : Array
        ``lambda`` of shape ``(k,)``, ``b`` of shape ``(k, dim)``, ``c`` of shape ``(dim,)``.
    """

    loss: Any
    features: Features
    labels: Array
    weights: Array
    regularisation: Array
    tilts: Array
    centre: Array

    def every(self, stride: int) -> Tilted:
        """Of every ``stride``-th record, that many times; numbers of the loss go with theirs."""

        def some(leaf: Array | float) -> Array:
            leaf = jnp.asarray(leaf)
            return leaf[::stride] if leaf.shape == self.labels.shape else leaf

        return self._replace(
            loss=jax.tree.map(some, self.loss),
            features=self.features.take(slice(None, None, stride)),
            labels=self.labels[::stride],
            weights=stride * self.weights[::stride],
        )

    def predictions(self, points: Array) -> Array:
        """``<x_i, w_k>``."""
        return self.features.matvec(points)

    def slopes(self, predictions: Array) -> Array:
        """``v_i phi'(z_ki, y_i)``."""
        return jax.vmap(lambda z: self.weights * self.loss.slope(z, self.labels))(predictions)

    def curvatures(self, predictions: Array, reach: Array) -> Array:
        """``v_i (phi'(z_ki + r_k) - phi'(z_ki - r_k))/(2 r_k)``, ``r`` of shape ``(k,)``.

        What a step of that reach meets on average: where the slope has kinks closer than that,
        more telling than ``phi''``, which it tends to.
        """
        ahead, behind = (self.slopes(predictions + side * reach[:, None]) for side in (1.0, -1.0))
        return jnp.maximum(ahead - behind, 0.0) / (2.0 * reach[:, None])

    def pull(self, points: Array) -> Array:
        """Gradient of all but the losses: ``lambda (w - c) + b``."""
        return self.regularisation[:, None] * (points - self.centre[None]) + self.tilts

    def gradients(self, points: Array, slopes: Array) -> Array:
        """``sum_i s_ki x_i + lambda_k (w_k - c) + b_k``, ``s`` the slopes at these points."""
        return self.features.rmatvec(slopes) + self.pull(points)
