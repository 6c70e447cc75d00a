"""Losses of whole records: squared distances, sums over coordinates, first layers of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from privopt.arguments import described
from privopt.convex.arrays import pytree_dataclass
from privopt.convex.features import Features, FeaturesLike, as_features, floats, is_features
from privopt.release import Pytree


@pytree_dataclass
@dataclass(frozen=True)
class SquaredDistance:
    """Squared distance ``(m/2) |w - x|_2^2``: ``m``-strongly convex and ``m``-smooth.

    The loss is ``m D``-Lipschitz for ``|w - x| <= D``. The minimiser is the mean of the records.
    For rows of :class:`~privopt.convex.Features` the square is expanded, so that zeros are
    skipped.

    Examples
    --------
    >>> SquaredDistance(0.5)(jnp.array([2.0, 0.0]), jnp.zeros(2)).item()
    1.0
    """

    modulus: Array | float

    def prepare(self, data: FeaturesLike, *, dim: int, smoothness: float | None) -> FeaturesLike:
        del dim, smoothness
        prepared: FeaturesLike = floats(data)
        return prepared

    def __call__(self, point: Float[Array, " d"], example: FeaturesLike) -> Float[Array, ""]:
        if not is_features(example):
            return 0.5 * self.modulus * jnp.sum((point - example) ** 2)  # type: ignore[operator]
        row = as_features(example)
        cross = jnp.square(row.norms()) - 2.0 * row.matvec(point)
        return 0.5 * self.modulus * (point @ point + cross)


class MeanAndSpread(NamedTuple):
    """Sufficient statistics of squared distances.

    ``(1/n) sum_i |w - x_i|^2 = |w - mean|^2 + spread`` with ``mean = (1/n) sum_i x_i`` and ``spread
    = (1/n) sum_i |x_i|^2 - |mean|^2``.

    Examples
    --------
    >>> points = as_features(jnp.array([[3.0, 0.0], [1.0, 0.0]]))
    >>> statistics = MeanAndSpread.of(points, counts=None)
    >>> statistics.mean.tolist(), statistics.spread.item()
    ([2.0, 0.0], 1.0)
    """

    mean: Float[Array, " d"]
    spread: Float[Array, ""]

    @classmethod
    def of(cls, points: Features, counts: Float[Array, " n"] | None) -> MeanAndSpread:
        """Compute the statistics of points with multiplicities; work of order the entries."""
        weights = jnp.ones(points.shape[0], points.dtype) if counts is None else counts
        total = weights.sum()
        mean = points.rmatvec(weights) / total
        spread = weights @ jnp.square(points.norms()) / total - mean @ mean
        return cls(mean, jnp.maximum(spread, 0.0))

    def value(self, point: Float[Array, " d"]) -> Float[Array, ""]:
        """Return ``|w - mean|^2 + spread``."""
        return jnp.sum((point - self.mean) ** 2) + self.spread


class CoordinateLoss(Protocol):
    """Loss ``phi(w, x)`` of one coordinate and one number of a record, elementwise.

    ``phi(w, 0) = 0``, so a gradient has no more nonzero entries than the record.
    """

    def value(self, coordinate: Array, number: Array) -> Array:
        """Compute ``phi(w, x)``."""

    def slope(self, coordinate: Array, number: Array) -> Array:
        """Compute ``d phi / d w``."""


@pytree_dataclass
@dataclass(frozen=True)
class Sine:
    """Coordinate loss ``-x sin(w)``: ``|x|``-Lipschitz, ``|x|``-smooth and not convex.

    Examples
    --------
    >>> Sine().slope(jnp.array(0.0), jnp.array(0.5)).item()
    -0.5
    """

    def value(self, coordinate: Array, number: Array) -> Array:
        return -number * jnp.sin(coordinate)

    def slope(self, coordinate: Array, number: Array) -> Array:
        return -number * jnp.cos(coordinate)


@pytree_dataclass
@dataclass(frozen=True)
class Separable:
    """Loss ``sum_j phi(w_j, x_j)`` with ``phi(w, 0) = 0``; records are features.

    Gradients ``(phi'(w_j, x_j))_j`` are features with the sparsity pattern of ``x``.

    Examples
    --------
    >>> rows = as_features(jnp.array([[0.5, 0.0], [0.0, 0.25]]))
    >>> Separable(Sine()).gradients(jnp.zeros(2), rows).array.tolist()
    [[-0.5, 0.0], [0.0, -0.25]]
    """

    scalar: CoordinateLoss

    def prepare(self, data: FeaturesLike, *, dim: int, smoothness: float | None) -> FeaturesLike:
        del dim, smoothness
        prepared: FeaturesLike = floats(data)
        return prepared

    def __call__(self, point: Float[Array, " d"], example: FeaturesLike) -> Float[Array, ""]:
        return self.each(point, as_features(example))

    def each(self, point: Float[Array, " d"], records: Features) -> Float[Array, "*n"]:
        """Compute ``loss(w; x_i)``."""
        return records.mapped(self.scalar.value, point).matvec(jnp.ones_like(point))

    def gradients(self, point: Float[Array, " d"], records: Features) -> Features:
        """Compute ``grad loss(w; x_i)`` as rows."""
        return records.mapped(self.scalar.slope, point)


@pytree_dataclass
@dataclass(frozen=True)
class FirstLayer:
    """Loss ``head(v, x W, y)`` of a model with a linear first layer ``W``.

    The gradient in ``W``, shape ``(dim, k)``, is ``x h^T`` with the gradient ``h`` of ``head`` in
    ``x W``, and its norm is ``|x| |h|``. Clipped sums are therefore computed without per-record
    gradients, which saves most for sparse ``x``. For example, the mean embedding of a text is such
    a layer: ``x`` contains the word frequencies and ``W`` the embeddings.

    ``W`` may be a pytree of matrices. Then ``x`` has the same structure, and ``head`` receives the
    products in the same structure. For example, a rating model with user factors and item factors
    has two layers.

    Examples
    --------
    >>> loss = FirstLayer(lambda v, hidden, y: 0.5 * (hidden @ v - y) ** 2)
    >>> point = jnp.array([[1.0, 0.0], [0.0, 2.0]]), jnp.array([1.0, -1.0])
    >>> loss(point, (jnp.array([0.5, 0.5]), 1.0)).item()
    1.125
    >>> rating = FirstLayer(lambda v, both, y: 0.5 * (both[0] @ both[1] + v - y) ** 2)
    >>> factors = jnp.eye(2), jnp.array([[3.0, 1.0]])
    >>> user, item = jnp.array([1.0, 0.0]), jnp.array([1.0])
    >>> rating((factors, 0.5), ((user, item), 4.0)).item()
    0.125
    """

    head: Callable[[Pytree, Pytree, Pytree], Array] = field(metadata={"static": True})

    def prepare(self, data: Pytree, *, dim: int, smoothness: float | None) -> Pytree:
        """Return ``(x, y)`` with the features ``x`` as floats."""
        del dim, smoothness
        if not (isinstance(data, tuple | list) and len(data) == 2):
            raise ValueError(
                f"data must be (features, other) for a FirstLayer, got {described(data)}"
            )
        features, other = data
        return jax.tree.map(floats, features, is_leaf=is_features), other

    def __call__(self, point: Pytree, record: Pytree) -> Float[Array, ""]:
        (weights, rest), (row, other) = point, record
        return self.head(rest, products(weights, row), other)


def products(weights: Pytree, row: Pytree) -> Pytree:
    """Compute ``x W`` for each layer."""

    def product(layer: Array, row: FeaturesLike) -> Array:
        features = as_features(row)
        if jnp.ndim(layer) != 2 or layer.shape[0] != features.shape[-1]:
            raise ValueError(
                f"a layer on {features.shape[-1]} features must have shape "
                f"({features.shape[-1]}, k), got {jnp.shape(layer)}"
            )
        return features.matvec(jnp.transpose(layer))

    return jax.tree.map(product, weights, row)
