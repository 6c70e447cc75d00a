"""Losses that are sums over coordinates, with gradients as sparse as the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
from jax import Array

from privopt.convex.features import Features, FeaturesLike, as_features
from privopt.convex.pytree_dataclass import pytree_dataclass


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
        """``-x sin(w)``."""
        return -number * jnp.sin(coordinate)

    def slope(self, coordinate: Array, number: Array) -> Array:
        """``-x cos(w)``."""
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

    def __call__(self, point: Array, example: FeaturesLike) -> Array:
        """The loss of one record."""
        return self.each(point, as_features(example))

    def each(self, point: Array, records: Features) -> Array:
        """``loss(w; x_i)``, shape ``(n,)``."""
        return records.mapped(self.scalar.value, point).matvec(jnp.ones_like(point))

    def gradients(self, point: Array, records: Features) -> Features:
        """``grad loss(w; x_i)``, one a row."""
        return records.mapped(self.scalar.slope, point)
