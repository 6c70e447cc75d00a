"""Regularised generalised linear models (GLMs) with a linear term, several at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.convex.features import Features, FeaturesLike, as_features, is_features
from privopt.convex.losses import ScalarSlope

__all__ = ["RegularisedGLM", "float64_array", "positive_array"]


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

    @classmethod
    def of(
        cls,
        loss: ScalarSlope,
        features: FeaturesLike,
        labels: ArrayLike,
        *,
        regularisation: ArrayLike,
        linear_terms: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        divisor: ArrayLike | None = None,
        centre: ArrayLike | None = None,
    ) -> RegularisedGLM:
        """``(1/n) sum_i m_i phi(<x_i, w>, y_i) + (lambda_k/2) |w - c|^2 + <b_k, w>`` in float64.

        Parameters
        ----------
        loss : pytree
            ``phi``.
        features : Features, array or scipy.sparse matrix
            ``x``, shape ``(n, dim)``.
        labels : array
            ``y``, shape ``(n,)``.
        regularisation : number or array
            ``lambda > 0``, scalar or of shape ``(k,)``.
        linear_terms : array, optional
            ``b``, shape ``(k, dim)``; default 0.
        counts : array, optional
            ``m_i >= 0``, shape ``(n,)``; default 1. A record of count 0 is a null record.
        divisor : number, optional
            The public ``n`` of the mean; default the number of rows.
        centre : array, optional
            ``c``, shape ``(dim,)``; default 0.

        Raises
        ------
        ValueError
            For shapes that do not fit, numbers that break their rule (where they are known when
            tracing), and when x64 is off.

        Examples
        --------
        >>> import jax, numpy as np
        >>> from privopt.convex import RegularisedGLM
        >>> from privopt.problems import Logistic
        >>> with jax.enable_x64(True):
        ...     glm = RegularisedGLM.of(Logistic(), np.eye(2), np.ones(2), regularisation=0.1)
        ...     print(glm.linear_terms.shape)
        (1, 2)
        """
        if not jax.enable_x64.value:
            raise ValueError("x64 must be on, got it off: wrap the call in `jax.enable_x64(True)`")
        if not is_features(features):
            features = float64_array("features", features, 2)  # type: ignore[arg-type]
        features = as_features(features)
        rows, dim = features.shape
        labels = float64_array("labels", labels, 1, (rows,))
        counts = float64_array("counts", np.ones(rows) if counts is None else counts, 1, (rows,))
        if jnp.ndim(regularisation) > 1:
            raise ValueError(
                f"regularisation must be a number or a vector, got {jnp.shape(regularisation)}"
            )
        lambdas = positive_array("regularisation", regularisation, jnp.ndim(regularisation))
        if linear_terms is None:
            linear_terms = np.zeros((lambdas.size, dim))
        linear_terms = float64_array("linear_terms", linear_terms, 2)
        if linear_terms.shape[1] != dim or lambdas.shape not in ((), linear_terms.shape[:1]):
            raise ValueError(
                f"linear_terms must have shape (k, {dim}) with k that of regularisation, got "
                f"{linear_terms.shape} and {lambdas.shape}"
            )
        centre = float64_array("centre", np.zeros(dim) if centre is None else centre, 1, (dim,))
        divisor = positive_array("divisor", rows if divisor is None else divisor, 0)
        lambdas = lambdas * np.ones(linear_terms.shape[0])
        return cls(loss, features, labels, counts / divisor, lambdas, linear_terms, centre)

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


def float64_array(
    name: str, value: ArrayLike, ndim: int, shape: tuple[int, ...] | None = None
) -> Array:
    """In float64, and on the host what is there: an operation on the device costs a step."""
    array: Any = value if isinstance(value, Array) else np.asarray(value, np.float64)
    if array.dtype != jnp.float64:
        array = array.astype(jnp.float64)
    if array.ndim != ndim or array.size == 0 or (shape is not None and array.shape != shape):
        wanted = f"shape {shape}" if shape is not None else f"{ndim} axes and some entries"
        raise ValueError(f"{name} must have {wanted}, got shape {array.shape}")
    return array


def positive_array(name: str, value: ArrayLike, ndim: int) -> Array:
    """The same, of numbers that are seen to be positive and finite, or are traced."""
    array = float64_array(name, value, ndim)
    if isinstance(array, jax.core.Tracer) or np.all((np.asarray(array) > 0.0) & np.isfinite(array)):
        return array
    raise ValueError(f"{name} must be positive and finite, got {value}")
