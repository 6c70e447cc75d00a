"""Clipped gradients of two kinds of losses of sparse records, without a dense one a record."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, Features, SparseFeatures, difference
from privopt.convex.vectors import Number, norm
from privopt.mechanisms.clipping.factors import clipping_factors, is_exact


class CoordinateSums(NamedTuple):
    """Of losses of single coordinates: a gradient has the places of its record.

    Those of a batch of ``b`` records of ``s`` entries are ``b s`` numbers; only their sum is dense.
    """

    risk: EmpiricalRisk
    clip: Number
    gamma: Number | None

    def gradient_sum(self) -> Callable[[Array], Array]:
        """``w -> sum_i m_i clip(g_i(w))``."""
        return lambda point: self._sum(self._gradients(point), self.risk.counts)

    def batch_sum(
        self, point: Array, rows: Array, weights: Array, anchor: Array | None = None
    ) -> Array:
        """The same over rows, as they are stored."""
        return self._sum(self._gradients(point, rows, anchor), weights)

    def usable(self, point: Array) -> Array:
        """Which records have a gradient at ``point`` that can be clipped."""
        sizes = self._gradients(point).norms()
        return is_exact(sizes, self.clip / sizes)

    def _gradients(
        self, point: Array, rows: Array | None = None, anchor: Array | None = None
    ) -> Features:
        """Of these rows, or of all; less those at the anchor."""
        assert self.risk.separable is not None
        scalar, features = self.risk.separable
        chosen = features if rows is None else features.take(rows)
        found = chosen.mapped(scalar.slope, point)
        return found if anchor is None else difference(found, chosen.mapped(scalar.slope, anchor))

    def _sum(self, gradients: Features, weights: Array | None) -> Array:
        factors = clipping_factors(gradients.norms(), self.clip, self.gamma)
        weights = jnp.ones_like(factors) if weights is None else weights
        return gradients.scaled(factors).rmatvec(weights)


class DistanceSums(NamedTuple):
    """Of squared distances ``m/2 |w - x_i|^2``: the gradients ``m (w - x_i)`` share a dense ``w``.

    With weights ``c_i`` and clipping factors ``f_i``,

        sum_i c_i f_i m (w - x_i)  =  m (w sum_i c_i f_i - sum_i c_i f_i x_i),

    and the norm follows from ``|w|^2 - 2 <w, x_i> + |x_i|^2``. That difference may cancel, so it is
    rounded up by the most that round-off can have taken from it: none is clipped to more than
    ``C``. Squares and products may also vanish, each by less than the smallest normal number. A
    record whose square overflows counts as not finite.

    Far from the origin the two sums on the right are longer than all gradients together, and their
    rounding more than what one record may move. So no gradient is taken for shorter than ``m
    |w|/8``: then ``f_i m |w| <= 8C``, and the two sums are no longer than ``8C`` a record. Within
    the declared class nothing changes: there ``C >= L >= m |w|``.
    """

    points: Features  # zero for those that are not finite
    finite: Array
    modulus: Array
    counts: Array | None
    clip: Number
    gamma: Number | None

    @classmethod
    def of(cls, risk: EmpiricalRisk, clip: Number, gamma: Number | None) -> DistanceSums:
        """The sums for a risk whose ``points`` are features."""
        assert risk.points is not None
        finite = jnp.isfinite(jnp.square(risk.points.norms())).astype(risk.points.dtype)
        modulus: Array = risk.loss.modulus  # type: ignore[attr-defined]
        return cls(risk.points.scaled(finite), finite, modulus, risk.counts, clip, gamma)

    def gradient_sum(self) -> Callable[[Array], Array]:
        """Work of order ``d`` and the entries of the points."""
        weights = self.finite if self.counts is None else self.finite * self.counts
        return lambda point: self._sum(self.points, weights, point)

    def batch_sum(
        self, point: Array, rows: Array, weights: Array, anchor: Array | None = None
    ) -> Array:
        """The same over rows, as they are stored. Differences from an anchor hold no record."""
        weights = weights * self.finite[rows]
        if anchor is None:
            return self._sum(self.points.take(rows), weights, point)
        away = self.modulus * (point - anchor)
        return weights.sum() * clipping_factors(norm(away), self.clip, self.gamma) * away

    def usable(self, point: Array) -> Array:
        """Which records have a gradient at ``point`` that can be clipped."""
        sizes = self.modulus * _distances(self.points, point)
        return (self.finite > 0.0) & is_exact(sizes, self.clip / sizes)

    def _sum(self, points: Features, weights: Array, point: Array) -> Array:
        sizes = self.modulus * _distances(points, point)
        shares = weights * clipping_factors(sizes, self.clip, self.gamma)
        return self.modulus * (shares.sum() * point - points.rmatvec(shares))


def _distances(points: Features, point: Array) -> Array:
    """``|w - x_i|``, rounded up, and at least ``|w|/8``."""
    own, squares = _square(point), jnp.square(points.norms())
    entries = points.values.shape[-1] if isinstance(points, SparseFeatures) else point.size
    terms = entries + 2 * math.isqrt(point.size) + 16
    numbers = jnp.finfo(point.dtype)
    vanished = 4 * (point.size + 1) * numbers.smallest_normal
    slack = terms * numbers.eps * (own + squares) + vanished
    apart = jnp.maximum(own - 2.0 * points.matvec(point) + squares, own / 64.0)
    return jnp.sqrt(apart + slack)


def _square(point: Array) -> Array:
    """``|w|^2`` as a sum of ``sqrt(d)`` sums, whose errors are of that order and not of ``d``."""
    side = math.isqrt(point.size - 1) + 1
    rows = jnp.pad(point, (0, side * side - point.size)).reshape(side, side)
    return jnp.einsum("ij,ij->i", rows, rows, precision="highest").sum()
