"""Squared distances to records: a loss whose risk is known from two numbers of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex.features import Features, FeaturesLike, as_features, is_features
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

    def __call__(self, point: Array, example: FeaturesLike) -> Array:
        """The loss of one record."""
        if not is_features(example):
            return 0.5 * self.modulus * jnp.sum((point - example) ** 2)  # type: ignore[operator]
        row = as_features(example)
        cross = jnp.square(row.norms()) - 2.0 * row.matvec(point)
        return 0.5 * self.modulus * (point @ point + cross)


class MeanAndSpread(NamedTuple):
    """Mean and spread of points, from which every mean squared distance to them follows.

    ``(1/n) sum_i |w - x_i|^2 = |w - mean|^2 + spread``.

    Attributes
    ----------
    mean : Array
        ``(1/n) sum_i x_i``, shape ``(d,)``.
    spread : Array
        ``(1/n) sum_i |x_i|^2 - |mean|^2``, scalar.

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
