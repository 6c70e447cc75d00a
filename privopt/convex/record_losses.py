"""Losses of whole records: distances, and sums over coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from privopt.convex.features import Features, FeaturesLike, as_features, floats, is_features
from privopt.convex.pytree_dataclass import pytree_dataclass


@pytree_dataclass
@dataclass(frozen=True)
class SquaredDistance:
    """``loss(w; x) = (m/2) |w - x|_2^2``: both strongly convex and smooth with constant ``m``.

    ``m D``-Lipschitz where ``|w - x| <= D``. The minimiser is the mean of the records. Of a record
    that is a row of :class:`~privopt.convex.Features` the square is multiplied out, so that its
    zeros are not visited.

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

    def __call__(self, point: Array, example: FeaturesLike) -> Array:
        if not is_features(example):
            return 0.5 * self.modulus * jnp.sum((point - example) ** 2)  # type: ignore[operator]
        row = as_features(example)
        cross = jnp.square(row.norms()) - 2.0 * row.matvec(point)
        return 0.5 * self.modulus * (point @ point + cross)


class MeanAndSpread(NamedTuple):
    """Mean and spread of points, from which every mean squared distance to them follows.

    ``(1/n) sum_i |w - x_i|^2 = |w - mean|^2 + spread``.

    ``mean`` is ``(1/n) sum_i x_i``, ``spread`` is ``(1/n) sum_i |x_i|^2 - |mean|^2``.

    Examples
    --------
    >>> points = as_features(jnp.array([[3.0, 0.0], [1.0, 0.0]]))
    >>> found = MeanAndSpread.of(points, counts=None)
    >>> found.mean.tolist(), found.spread.item()
    ([2.0, 0.0], 1.0)
    """

    mean: Array
    spread: Array

    @classmethod
    def of(cls, points: Features, counts: Array | None) -> MeanAndSpread:
        """Of points with these multiplicities, ones for ``None``; work of order their entries."""
        weights = jnp.ones(points.shape[0], points.dtype) if counts is None else counts
        total = weights.sum()
        mean = points.rmatvec(weights) / total
        spread = weights @ jnp.square(points.norms()) / total - mean @ mean
        return cls(mean, jnp.maximum(spread, 0.0))

    def value(self, point: Array) -> Array:
        """``|w - mean|^2 + spread``."""
        return jnp.sum((point - self.mean) ** 2) + self.spread


class CoordinateLoss(Protocol):
    """``phi(w, x)`` of one coordinate and one number of a record, elementwise; ``phi(w, 0) = 0``.

    A record contributes nothing to a coordinate where it is zero, so its gradient has no more
    entries than the record.
    """

    def value(self, coordinate: Array, number: Array) -> Array:
        """``phi(w, x)``."""

    def slope(self, coordinate: Array, number: Array) -> Array:
        """``d phi / d w``."""


@pytree_dataclass
@dataclass(frozen=True)
class Sine:
    """``phi(w, x) = -x sin(w)``: ``|x|``-Lipschitz, ``|x|``-smooth and not convex.

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
    """``loss(w; x) = sum_j phi(w_j, x_j)``, where ``phi(w, 0) = 0``; records are features.

    Gradients ``(phi'(w_j, x_j))_j`` are features too, at the places of ``x``.

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

    def __call__(self, point: Array, example: FeaturesLike) -> Array:
        return self.each(point, as_features(example))

    def each(self, point: Array, records: Features) -> Array:
        """``loss(w; x_i)``, shape ``(n,)``."""
        return records.mapped(self.scalar.value, point).matvec(jnp.ones_like(point))

    def gradients(self, point: Array, records: Features) -> Features:
        """``grad loss(w; x_i)``, one a row."""
        return records.mapped(self.scalar.slope, point)
