"""Regularised generalised linear models (GLMs) with a linear term, several at once."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex.features import Features
from privopt.convex.losses import ScalarSlope


class RegularisedGLM(NamedTuple):
    """``J_k(w) = sum_i v_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>``, ``k`` of them.

    The problems share the data and differ in ``lambda`` and in the linear term. Points, linear
    terms and gradients have shape ``(k, dim)``; predictions and slopes ``(k, n)``.

    Attributes
    ----------
    loss : pytree
        Convex ``phi`` with ``slope(prediction, label)``, elementwise; its numbers are scalars
        or of shape ``(n,)``, one a record.
    features : Features
        ``x`` of shape ``(n, dim)``.
    labels, weights : Array
        ``y`` and ``v >= 0`` of shape ``(n,)``.
    regularisation, linear_terms, centre : Array
        ``lambda`` of shape ``(k,)``, ``b`` of shape ``(k, dim)``, ``c`` of shape ``(dim,)``.
    """

    loss: ScalarSlope
    features: Features
    labels: Array
    weights: Array
    regularisation: Array
    linear_terms: Array
    centre: Array

    def every(self, stride: int) -> RegularisedGLM:
        """Every ``stride``-th record, that many times; numbers of the loss go with theirs."""

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

    def gradients(self, points: Array, slopes: Array) -> Array:
        """``sum_i s_ki x_i + lambda_k (w_k - c) + b_k``, ``s`` the slopes at these points."""
        away = points - self.centre[None]
        return (
            self.features.rmatvec(slopes) + self.regularisation[:, None] * away + self.linear_terms
        )

    def curvatures(self, points: Array, reach: Array, order: Array, number: Array) -> Array:
        """``v_i (phi'(z_i + r) - phi'(z_i - r))/(2 r)``, shape ``(n,)``; the mean over problems.

        What a step of that reach meets on average: where the slope has kinks closer than that, it
        says more than ``phi''``, which it tends to. Of several problems each record looks at one
        in turn: slopes cost what those of a single problem do.

        Parameters
        ----------
        points, reach : Array
            Shapes ``(k, dim)`` and ``(k,)``.
        order, number : Array
            The problems looked at are the first ``number`` of ``order``, shape ``(k,)``.
        """
        if points.shape[0] == 1:
            predictions, near = self.predictions(points)[0], reach[0]
        else:
            problem = order[jnp.arange(self.labels.size) % number]
            predictions, near = self.features.paired(points, problem), reach[problem]
        ahead, behind = (self.slopes((predictions + r)[None])[0] for r in (near, -near))
        return jnp.maximum(ahead - behind, 0.0) / (2.0 * near)
