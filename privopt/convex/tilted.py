"""Regularised, linearly tilted losses of a linear model, several at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["Tilted"]


class Tilted(NamedTuple):
    """``J_k(w) = sum_i v_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>``, ``k`` lanes.

    Points, tilts and gradients are ``(k, dim)``; predictions and slopes ``(k, n)``.

    Attributes
    ----------
    loss : pytree
        ``phi``: ``value`` and ``slope`` of (prediction, label), elementwise.
    features, labels, weights : Array
        ``x`` of shape ``(n, dim)``; ``y`` and ``v >= 0`` of shape ``(n,)``.
    regularisation, tilts, centre : Array
        ``lambda`` of shape ``(k,)``, ``b`` of shape ``(k, dim)``, ``c`` of shape ``(dim,)``.
    """

    loss: Any
    features: Array
    labels: Array
    weights: Array
    regularisation: Array
    tilts: Array
    centre: Array

    def predictions(self, points: Array) -> Array:
        """``<x_i, w_k>``. A single lane is a product with a vector, the fast one on a CPU."""
        if points.shape[0] == 1:
            return (self.features @ points[0])[None]
        return points @ self.features.T

    def slopes(self, predictions: Array) -> Array:
        """``v_i phi'(z_ki, y_i)``."""
        return jax.vmap(lambda z: self.weights * self.loss.slope(z, self.labels))(predictions)

    def curvatures(self, predictions: Array) -> Array:
        """``v_i phi''(z_ki, y_i)``; at a kink of the slope, the derivative of one side."""

        def of_lane(z: Array) -> Array:
            _, second = jax.jvp(
                lambda z: self.loss.slope(z, self.labels), (z,), (jnp.ones_like(z),)
            )
            return self.weights * jnp.maximum(second, 0.0)

        return jax.vmap(of_lane)(predictions)

    def pull(self, points: Array) -> Array:
        """Gradient of all but the losses: ``lambda (w - c) + b``."""
        return self.regularisation[:, None] * (points - self.centre[None]) + self.tilts

    def gradients(self, points: Array, slopes: Array) -> Array:
        """``sum_i slope_i x_i + lambda (w - c) + b``."""
        return slopes @ self.features + self.pull(points)
