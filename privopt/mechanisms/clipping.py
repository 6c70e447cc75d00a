"""Sums of per-record gradients, each clipped to a norm, over a data set or a batch of its rows.

Two forms of clipping: ``g min(1, C/|g|)`` leaves short gradients unchanged; automatic clipping ``g
C/(|g| + gamma)`` gives all gradients nearly the same norm (Bu, Wang, Zha and Karypis 2023). A
``gamma`` of None selects the first.

A record with a gradient or features that are not finite contributes zero, so the contribution of
every record is at most the clip norm. Norms are scaled so that no square vanishes or overflows.
Products that bound a record are computed in full precision: accelerators otherwise round float32
factors to ten bits.

Five kinds of losses: :class:`SlopeSums`, :class:`CoordinateSums` and :class:`DistanceSums` form no
dense per-record gradient. :class:`GeneralSums` forms a microbatch of them at once, and
:class:`LayerSums` forms those of all but a first linear layer. Each has ``gradient_sum()``, the
function ``w -> sum_i m_i clip(g_i(w))`` over all records; ``batch_sum``, a :class:`BatchSum` over
stored rows; and ``usable(w)``, the mask of records with an exact clipped gradient at ``w``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from privopt.arguments import checked
from privopt.convex import (
    EmpiricalRisk,
    Features,
    FirstLayer,
    LinearRecords,
    RegularisedGLM,
    ScalarLoss,
    SparseFeatures,
    as_features,
    difference,
    is_features,
)
from privopt.convex.arrays import Number, norm
from privopt.convex.record_losses import products
from privopt.release import Pytree
from privopt.spec import Norm

MICROBATCH = 512  # gradients of a general loss that are in memory at once


def is_exact(size: Float[Array, "*n"], factor: Number) -> Bool[Array, "*n"]:
    """Return True if a norm and its clipping factor have full relative precision.

    A subnormal factor has not, and a record of this size counts as not finite.
    """
    return jnp.isfinite(size) & (factor >= jnp.finfo(size.dtype).smallest_normal)


def clipping_factors(
    sizes: Float[Array, "*n"], clip_norm: Number, gamma: Number | None
) -> Float[Array, "*n"]:
    """Return the factors of gradients with these norms: 0 if a factor is not exact."""
    factors = clip_norm / sizes if gamma is None else clip_norm / (sizes + gamma)
    exact = is_exact(sizes, factors) & (sizes > 0.0)
    return jnp.where(exact, jnp.minimum(1.0, factors) if gamma is None else factors, 0.0)


class BatchSum(Protocol):
    """Function ``(w, rows, m) -> sum_k m_k clip(g_k(w))`` over the rows ``k`` of a batch.

    With ``anchor``, the sum of the differences ``clip(g_k(w) - g_k(anchor))``.
    """

    def __call__(
        self,
        point: Pytree,
        rows: Int[Array, " places"],
        weights: Float[Array, " places"],
        anchor: Pytree = None,
    ) -> Pytree:
        """Return the sum, of the shape of ``point``."""


class BoundedRecords(NamedTuple):
    """Records with the norms of their features; an invalid record has the norm NaN."""

    features: Features
    labels: Array
    norms: Array
    clip_norm: Number

    @property
    def bounds(self) -> Array:
        """Bounds ``C/|x|`` of the slopes; zero for an invalid record."""
        bounds = self.clip_norm / self.norms
        return jnp.where(is_exact(self.norms, bounds), bounds, 0.0)

    def take(self, rows: Array) -> BoundedRecords:
        """Return the records of these rows."""
        return BoundedRecords(
            self.features.take(rows), self.labels[rows], self.norms[rows], self.clip_norm
        )


class ClippedSlope(NamedTuple):
    """Loss with its slope clipped to a ``bound`` for every record; 0 if not finite."""

    loss: ScalarLoss
    bound: Float[Array, ""]

    def slope(self, prediction: Array, label: Array) -> Array:
        """Return ``clip(phi'(z_i, y_i), -b_i, b_i)``."""
        slopes = self.loss.slope(prediction, label)
        return jnp.where(jnp.isfinite(slopes), jnp.clip(slopes, -self.bound, self.bound), 0.0)


def bounded_records(
    records: LinearRecords, clip_norm: Number, measure: Norm = Norm.L2
) -> BoundedRecords:
    """Return records with bounds ``C/|x_i|``; ``vmap`` over clips shares the features."""
    _, features, labels, norms = records
    if norms is not None and measure is Norm.L2:
        return BoundedRecords(features, labels, norms, clip_norm)
    norms = features.norms(measure.order)
    finite = jnp.isfinite(norms) & jnp.isfinite(labels)
    return BoundedRecords(
        features.scaled(finite.astype(features.dtype)),
        jnp.where(finite, labels, 0.0),
        jnp.where(finite, norms, jnp.nan),
        clip_norm,
    )


def clipped_linear_model(
    risk: EmpiricalRisk, clip_norm: Number, size: Number, measure: Norm = Norm.L2
) -> RegularisedGLM | None:
    """Return ``sum_i (m_i/size) phi_i(<x_i, w>)``, without regulariser, linear term and centre.

    Its gradient is the sum of clipped gradients over ``size``. None for other losses.
    """
    if risk.linear is None:
        return None
    records = bounded_records(risk.linear, clip_norm, measure)
    features, labels = records.features, records.labels
    weights = (jnp.ones_like(labels) if risk.counts is None else risk.counts) / size
    none = jnp.zeros((0, features.shape[1]), features.dtype)
    loss = ClippedSlope(risk.linear.scalar, records.bounds)
    return RegularisedGLM(loss, features, labels, weights, none[:, 0], none, none)


class SlopeSums(NamedTuple):
    """Sums for a generalised linear loss, without the gradients ``phi'(<x_i, w>, y_i) x_i``.

    The norm of a gradient is ``|phi'| |x_i|``, so the slope ``phi'`` is clipped to ``C / |x_i|``.
    """

    records: BoundedRecords
    slope: Callable[[Array, Array], Array]
    counts: Float[Array, " n"] | None
    gamma: Number | None

    def gradient_sum(self) -> Callable[[Array], Array]:
        matvec, rmatvec = self.records.features.products()
        labels, norms, bounds = self.records.labels, self.records.norms, self.records.bounds

        def whole_sum(point: Array) -> Array:
            slopes = self._clipped(self.slope(matvec(point), labels), bounds, norms)
            return rmatvec(slopes if self.counts is None else self.counts * slopes)

        return whole_sum

    def batch_sum(
        self, point: Array, rows: Array, weights: Array, anchor: Array | None = None
    ) -> Array:
        batch = self.records.take(rows)
        slopes = self.slope(batch.features.matvec(point), batch.labels)
        if anchor is not None:
            slopes -= self.slope(batch.features.matvec(anchor), batch.labels)
        return batch.features.rmatvec(weights * self._clipped(slopes, batch.bounds, batch.norms))

    def usable(self, point: Float[Array, " d"]) -> Bool[Array, " n"]:
        del point
        return self.records.bounds > 0.0

    def _clipped(self, slopes: Array, bounds: Array, norms: Array) -> Array:
        if self.gamma is None:
            clipped = jnp.clip(slopes, -bounds, bounds)
        else:
            clipped = slopes * (bounds * norms / (jnp.abs(slopes) * norms + self.gamma))
        return jnp.where(jnp.isfinite(slopes) & jnp.isfinite(clipped), clipped, 0.0)


class CoordinateSums(NamedTuple):
    """Sums for losses of single coordinates: a gradient has the sparsity of its record.

    The gradients of a batch of ``b`` records of ``s`` entries are ``b s`` numbers; only their sum
    is dense.
    """

    risk: EmpiricalRisk
    clip_norm: Number
    gamma: Number | None
    measure: Norm

    def gradient_sum(self) -> Callable[[Array], Array]:
        return lambda point: self._sum(self._gradients(point), self.risk.counts)

    def batch_sum(
        self,
        point: Float[Array, " d"],
        rows: Int[Array, " places"],
        weights: Float[Array, " places"],
        anchor: Float[Array, " d"] | None = None,
    ) -> Float[Array, " d"]:
        return self._sum(self._gradients(point, rows, anchor), weights)

    def usable(self, point: Float[Array, " d"]) -> Bool[Array, " n"]:
        sizes = self._gradients(point).norms(self.measure.order)
        return is_exact(sizes, self.clip_norm / sizes)

    def _gradients(
        self, point: Array, rows: Array | None = None, anchor: Array | None = None
    ) -> Features:
        """Return the gradients of these rows, or of all, minus those at the anchor."""
        assert self.risk.separable is not None
        scalar, features = self.risk.separable
        batch = features if rows is None else features.take(rows)
        gradients = batch.mapped(scalar.slope, point)
        if anchor is None:
            return gradients
        return difference(gradients, batch.mapped(scalar.slope, anchor))

    def _sum(self, gradients: Features, weights: Array | None) -> Array:
        factors = clipping_factors(gradients.norms(self.measure.order), self.clip_norm, self.gamma)
        weights = jnp.ones_like(factors) if weights is None else weights
        return gradients.scaled(factors).rmatvec(weights)


class DistanceSums(NamedTuple):
    """Sums for squared distances ``m/2 |w - x_i|^2``: the gradients ``m (w - x_i)`` share ``w``.

    ``w`` and the records are summed separately: ``sum_i c_i f_i m (w - x_i) = m (w sum_i c_i f_i -
    sum_i c_i f_i x_i)`` with weights ``c_i`` and clipping factors ``f_i``. Norms are rounded up,
    and taken to be at least ``m |w|/8``, so that each of the two sums is at most ``8C`` per record.
    Proof: :ref:`Mechanisms, Theorem 13 <theory-mechanisms-13>`.
    """

    points: Features  # zero for records that are not finite
    finite: Float[Array, " n"]
    modulus: Float[Array, ""]
    counts: Float[Array, " n"] | None
    clip_norm: Number
    gamma: Number | None

    @classmethod
    def of(cls, risk: EmpiricalRisk, clip_norm: Number, gamma: Number | None) -> DistanceSums:
        """Return the sums for a risk with ``points`` as features."""
        assert risk.points is not None
        modulus: Array = risk.loss.modulus  # type: ignore[attr-defined]
        norms = risk.points.norms() if risk.norms is None else risk.norms
        finite = jnp.isfinite(jnp.square(norms)).astype(risk.points.dtype)
        points = risk.points.scaled(finite) if risk.norms is None else risk.points
        return cls(points, finite, modulus, risk.counts, clip_norm, gamma)

    def gradient_sum(self) -> Callable[[Array], Array]:
        weights = self.finite if self.counts is None else self.finite * self.counts
        return lambda point: self._sum(self.points, weights, point)

    def batch_sum(
        self,
        point: Float[Array, " d"],
        rows: Int[Array, " places"],
        weights: Float[Array, " places"],
        anchor: Float[Array, " d"] | None = None,
    ) -> Float[Array, " d"]:
        weights = weights * self.finite[rows]
        if anchor is None:
            return self._sum(self.points.take(rows), weights, point)
        change = self.modulus * (point - anchor)
        return weights.sum() * clipping_factors(norm(change), self.clip_norm, self.gamma) * change

    def usable(self, point: Float[Array, " d"]) -> Bool[Array, " n"]:
        sizes = self.modulus * _distances(self.points, point)
        return (self.finite > 0.0) & is_exact(sizes, self.clip_norm / sizes)

    def _sum(self, points: Features, weights: Array, point: Array) -> Array:
        sizes = self.modulus * _distances(points, point)
        shares = weights * clipping_factors(sizes, self.clip_norm, self.gamma)
        return self.modulus * (shares.sum() * point - points.rmatvec(shares))


def _distances(points: Features, point: Array) -> Array:
    """Return ``|w - x_i|``, rounded up, and at least ``|w|/8``."""
    square, squares = _square(point), jnp.square(points.norms())
    entries = points.values.shape[-1] if isinstance(points, SparseFeatures) else point.size
    terms = entries + 2 * math.isqrt(point.size) + 16
    numbers = jnp.finfo(point.dtype)
    vanished = 4 * (point.size + 1) * numbers.smallest_normal
    slack = terms * numbers.eps * (square + squares) + vanished
    squared = jnp.maximum(square - 2.0 * points.matvec(point) + squares, square / 64.0)
    return jnp.sqrt(squared + slack)


def _square(point: Array) -> Array:
    """Return ``|w|^2`` as a sum of ``sqrt(d)`` sums, with errors of order ``sqrt(d)``."""
    side = math.isqrt(point.size - 1) + 1
    rows = jnp.pad(point, (0, side * side - point.size)).reshape(side, side)
    return jnp.einsum("ij,ij->i", rows, rows, precision="highest").sum()


class GeneralSums(NamedTuple):
    """Sums for any loss ``loss(w, x)``; ``w`` may be any pytree."""

    loss: Callable[[Pytree, Pytree], Array]
    data: Pytree
    counts: Float[Array, " n"] | None
    clip_norm: Number
    gamma: Number | None
    microbatch: int
    measure: Norm

    def gradient_sum(self) -> Callable[[Pytree], Pytree]:
        def whole_sum(point: Pytree) -> Pytree:
            weights = self.counts
            if weights is None:
                rows = jax.tree.leaves(self.data)[0].shape[0]
                weights = jnp.ones(rows, jax.tree.leaves(point)[0].dtype)
            return _in_parts(
                lambda part: self._sum(point, *part), (self.data, weights), self.microbatch
            )

        return whole_sum

    def batch_sum(
        self,
        point: Pytree,
        rows: Int[Array, " places"],
        weights: Float[Array, " places"],
        anchor: Pytree = None,
    ) -> Pytree:

        def part_sum(part: tuple[Array, Array]) -> Pytree:
            examples = jax.tree.map(lambda leaf: leaf[part[0]], self.data)
            return self._sum(point, examples, part[1], anchor)

        places = jnp.arange(1, weights.shape[0] + 1)
        return _in_parts(
            part_sum,
            (rows, weights),
            self.microbatch,
            jnp.max(jnp.where(weights != 0.0, places, 0)),
        )

    def usable(self, point: Pytree) -> Bool[Array, " n"]:

        def is_usable(example: Pytree) -> Array:
            size = self._size(self._gradient(point, example), example)
            return is_exact(size, self.clip_norm / size)

        return jax.lax.map(is_usable, self.data, batch_size=self.microbatch)

    def _sum(
        self, point: Pytree, examples: Pytree, weights: Array, anchor: Pytree = None
    ) -> Pytree:
        """Compute ``sum_i m_i clip(...)``, all examples at once."""

        def one(example: Pytree) -> tuple[Pytree, Array]:
            gradient = self._gradient(point, example)
            if anchor is not None:
                gradient = jax.tree.map(jnp.subtract, gradient, self._gradient(anchor, example))
            return gradient, clipping_factors(
                self._size(gradient, example), self.clip_norm, self.gamma
            )

        gradients, factors = jax.vmap(one)(examples)

        def usable(leaf: Array) -> Array:
            shape = -1, *(1,) * (leaf.ndim - 1)
            return jnp.where((factors > 0.0).reshape(shape), leaf, 0.0)

        return self._total(jax.tree.map(usable, gradients), weights * factors, examples)

    def _gradient(self, point: Pytree, example: Pytree) -> Pytree:
        return jax.grad(self.loss)(point, example)

    def _size(self, gradient: Pytree, example: Pytree) -> Array:
        del example
        return _size(gradient, self.measure.order)

    def _total(self, gradients: Pytree, weights: Array, examples: Pytree) -> Pytree:
        """Compute ``sum_i k_i g_i``."""
        del examples
        return jax.tree.map(lambda g: jnp.tensordot(weights, g, 1, precision="highest"), gradients)


class LayerSums(GeneralSums):
    """Sums for a :class:`~privopt.convex.FirstLayer`, without the gradients ``x h^T``.

    ``h`` and the gradients in all other parameters are formed; the norm of a layer's gradient is
    ``|x| |h|``.
    """

    def _gradient(self, point: Pytree, example: Pytree) -> Pytree:
        (weights, rest), (row, other) = point, example
        slopes = jax.grad(self.loss.head, (1, 0))  # type: ignore[attr-defined]
        return slopes(rest, products(weights, row), other)

    def _size(self, gradient: Pytree, example: Pytree) -> Array:
        (slopes, rest), (row, _) = gradient, example
        sizes = jax.tree.map(lambda h, x: as_features(x).norms() * norm(h), slopes, row)
        return _size((sizes, rest), 2.0)

    def _total(self, gradients: Pytree, weights: Array, examples: Pytree) -> Pytree:
        (slopes, rest), (rows, _) = gradients, examples

        def layer(slopes: Array, rows: Pytree) -> Array:
            used = as_features(rows).scaled((weights != 0.0).astype(slopes.dtype))
            return used.rmatvec(weights[None] * slopes.T).T

        return jax.tree.map(layer, slopes, rows), super()._total(rest, weights, examples)


def _in_parts(
    part_sum: Callable[[Pytree], Pytree], records: Pytree, size: int, used: Array | None = None
) -> Pytree:
    """Sum ``part_sum`` over consecutive parts of ``size`` records.

    Parts after the first ``used`` records are empty and are skipped.
    """
    count = jax.tree.leaves(records)[0].shape[0]
    whole = count - count % size
    if whole == 0 or whole == count == size:
        return part_sum(records)

    def part(k: Array) -> Pytree:
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k * size, size), records
        )

    def add(k: Array, total: Pytree) -> Pytree:
        return jax.tree.map(jnp.add, total, part_sum(part(k)))

    total = part_sum(part(jnp.asarray(0)))
    parts = whole // size if used is None else jnp.minimum(whole, used + size - 1) // size
    total = jax.lax.fori_loop(1, parts, add, total)
    if whole < count:
        rest = jax.tree.map(lambda leaf: leaf[whole:], records)
        total = jax.tree.map(jnp.add, total, part_sum(rest))
    return total


def _size(tree: Pytree, order: float) -> Array:
    return norm(jnp.stack([norm(leaf.ravel(), order) for leaf in jax.tree.leaves(tree)]), order)


@checked
def clipped_gradient_sum(
    risk: EmpiricalRisk,
    clip_norm: Number,
    gamma: Number | None = None,
    microbatch: int = MICROBATCH,
    measure: Norm = Norm.L2,
) -> Callable[[Pytree], Pytree]:
    """Return ``w -> sum_i m_i clip(grad loss(w; x_i))`` over all records.

    ``clip_norm`` is ``C > 0``; ``inf`` disables clipping. ``measure`` is the clipped norm; the norm
    of a pytree covers all its arrays together. For a general loss, ``microbatch`` gradients are in
    memory at once. Terms that do not depend on ``w`` are computed before the function is called.

    Examples
    --------
    >>> from privopt.convex import WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    >>> risk = EmpiricalRisk(lambda w, x: w @ x, records, None, WholeSpace())
    >>> [round(float(each), 2) for each in clipped_gradient_sum(risk, 1.0)(jnp.zeros(2))]
    [0.6, 1.3]
    """
    return _sums(risk, clip_norm, gamma, microbatch, measure).gradient_sum()


@checked
def clipped_batch_sum(
    risk: EmpiricalRisk,
    clip_norm: Number,
    gamma: Number | None = None,
    microbatch: int = MICROBATCH,
    measure: Norm = Norm.L2,
) -> BatchSum:
    """Return the clipped sum over a batch of records, which are numbered ``0..n-1``.

    :meth:`EmpiricalRisk.rows_by_number` maps numbers to rows. If fewer rows are stored than a
    batch has, the sum visits each stored row once, with its weight.
    """
    over_rows = _sums(risk, clip_norm, gamma, microbatch, measure).batch_sum
    stored = jax.tree.leaves(risk.data)[0].shape[0]
    rows_of = risk.rows_by_number()

    def batch_sum(point: Pytree, rows: Array, weights: Array, anchor: Pytree = None) -> Pytree:
        rows, present = rows_of(rows)
        weights = jnp.where(present, weights, 0.0)
        if stored < rows.shape[0]:
            weights = jnp.zeros(stored, weights.dtype).at[rows].add(weights)
            rows = jnp.arange(stored)
        return over_rows(point, rows, weights, anchor)

    return batch_sum


def without_null_records(
    risk: EmpiricalRisk, clip_norm: Number, point: Float[Array, " d"]
) -> EmpiricalRisk:
    """Return the risk without records of non-finite gradient at ``point``."""
    counts = _sums(risk, clip_norm, None, MICROBATCH, Norm.L2).usable(point).astype(risk.dtype)
    return replace(risk, counts=counts if risk.counts is None else risk.counts * counts)


def _sums(
    risk: EmpiricalRisk, clip_norm: Number, gamma: Number | None, microbatch: int, measure: Norm
) -> SlopeSums | CoordinateSums | DistanceSums | GeneralSums:
    """Return the sums without dense per-record gradients, if the loss has such sums."""
    if risk.linear is not None:
        records = bounded_records(risk.linear, clip_norm, measure)
        return SlopeSums(records, risk.linear.scalar.slope, risk.counts, gamma)
    if risk.separable is not None:
        return CoordinateSums(risk, clip_norm, gamma, measure)
    if measure is Norm.L2 and risk.points is not None and is_features(risk.data):
        return DistanceSums.of(risk, clip_norm, gamma)
    kind = GeneralSums
    if measure is Norm.L2 and isinstance(risk.loss, FirstLayer):
        kind = LayerSums
    return kind(risk.loss, risk.data, risk.counts, clip_norm, gamma, microbatch, measure)
