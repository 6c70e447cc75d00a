"""Sums of clipped gradients, over a data set or over a batch of its rows, whatever the loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, is_features
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping.factors import BatchSum, ClippedSums
from privopt.mechanisms.clipping.gradients import GeneralSums
from privopt.mechanisms.clipping.slopes import SlopeSums
from privopt.mechanisms.clipping.sparse import CoordinateSums, DistanceSums
from privopt.release import Pytree

MICROBATCH = 512


def clipped_gradient_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None = None, microbatch: int = MICROBATCH
) -> Callable[[Pytree], Pytree]:
    """``w -> sum_i m_i clip(grad loss(w; x_i))`` over all records.

    ``clip`` is ``C > 0``; ``inf`` leaves gradients as they are. The norm of a gradient that is a
    pytree is that of all its leaves together. A positive ``gamma`` asks for automatic clipping. Of
    a general loss, ``microbatch`` gradients are in memory at once. What does not depend on ``w`` is
    computed before the returned function is called.

    Examples
    --------
    >>> from privopt.convex import WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    >>> risk = EmpiricalRisk(lambda w, x: w @ x, records, None, WholeSpace())
    >>> print(clipped_gradient_sum(risk, 1.0)(jnp.zeros(2)).round(2))
    [0.6 1.3]
    """
    return _sums(risk, clip, gamma, microbatch).gradient_sum()


def clipped_batch_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None = None, microbatch: int = MICROBATCH
) -> BatchSum:
    """The same over a batch of records, which are numbered ``0..n-1``.

    :meth:`EmpiricalRisk.rows_by_number` finds their rows. Where fewer rows are stored than a batch
    has, the sum visits each stored row once, with its weight.

    Examples
    --------
    >>> from privopt.convex import WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    >>> risk = EmpiricalRisk(lambda w, x: w @ x, records, None, WholeSpace())
    >>> print(clipped_batch_sum(risk, 1.0)(jnp.zeros(2), jnp.array([0]), jnp.ones(1)).round(2))
    [0.6 0.8]
    """
    over_rows = _sums(risk, clip, gamma, microbatch).batch_sum
    stored = jax.tree.leaves(risk.data)[0].shape[0]
    rows_of = risk.rows_by_number()

    def batch_sum(point: Pytree, rows: Array, weights: Array, anchor: Pytree = None) -> Pytree:
        rows, there = rows_of(rows)
        weights = jnp.where(there, weights, 0.0)
        if stored < rows.shape[0]:
            weights = jnp.zeros(stored, weights.dtype).at[rows].add(weights)
            rows = jnp.arange(stored)
        return over_rows(point, rows, weights, anchor)

    return batch_sum


def without_null_records(risk: EmpiricalRisk, clip: Number, point: Array) -> EmpiricalRisk:
    """The same without the records that contribute zero for not being finite at ``point``."""
    counts = _sums(risk, clip, None, MICROBATCH).usable(point).astype(risk.dtype)
    return replace(risk, counts=counts if risk.counts is None else risk.counts * counts)


def _sums(risk: EmpiricalRisk, clip: Number, gamma: Number | None, microbatch: int) -> ClippedSums:
    """The sums that make no dense gradient for each record, if the loss has such."""
    if risk.linear is not None:
        return SlopeSums.of(risk, clip, gamma)
    if risk.separable is not None:
        return CoordinateSums(risk, clip, gamma)
    if risk.points is not None and is_features(risk.data):
        return DistanceSums.of(risk, clip, gamma)
    return GeneralSums(risk.loss, risk.data, risk.counts, clip, gamma, microbatch)
