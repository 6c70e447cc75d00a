"""Sums of clipped gradients, over a data set or over a batch of its rows, whatever the loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, is_features
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping import coordinates, distances, gradients, slopes
from privopt.mechanisms.clipping.factors import BatchSum
from privopt.release import Pytree

__all__ = [
    "MICROBATCH",
    "clipped_batch_sum",
    "clipped_gradient_sum",
    "without_null_records",
]

MICROBATCH = 512


def clipped_gradient_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None = None, microbatch: int = MICROBATCH
) -> Callable[[Pytree], Pytree]:
    """``w -> sum_i m_i clip(grad loss(w; x_i))`` over all records.

    What does not depend on ``w`` is computed once, before the loop that calls what is returned.

    Parameters
    ----------
    risk : EmpiricalRisk
    clip : Array
        ``C > 0``, scalar; ``inf`` leaves gradients as they are. The norm of a gradient that is a
        pytree is that of all its leaves together.
    gamma : Array, optional
        Positive: automatic clipping.
    microbatch : int
        So many gradients of a general loss are in memory at once.

    Examples
    --------
    >>> from privopt.convex import WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    >>> risk = EmpiricalRisk(lambda w, x: w @ x, records, None, WholeSpace())
    >>> print(clipped_gradient_sum(risk, 1.0)(jnp.zeros(2)).round(2))
    [0.6 1.3]
    """
    special = _special(risk)
    if special is not None:
        return special.gradient_sum(risk, clip, gamma)
    return gradients.gradient_sum(risk.loss, risk.data, risk.counts, clip, gamma, microbatch)


def clipped_batch_sum(
    risk: EmpiricalRisk, clip: Number, gamma: Number | None = None, microbatch: int = MICROBATCH
) -> BatchSum:
    """The same over a batch of records, which are numbered ``0..n-1``.

    They are found by :meth:`EmpiricalRisk.rows_by_number`. Where fewer rows are stored than a batch
    has, each is visited once, with its weight.

    Examples
    --------
    >>> from privopt.convex import WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    >>> risk = EmpiricalRisk(lambda w, x: w @ x, records, None, WholeSpace())
    >>> print(clipped_batch_sum(risk, 1.0)(jnp.zeros(2), jnp.array([0]), jnp.ones(1)).round(2))
    [0.6 0.8]
    """
    over_rows: BatchSum
    special = _special(risk)
    if special is not None:
        over_rows = special.batch_sum(risk, clip, gamma)
    else:
        over_rows = gradients.batch_sum(risk.loss, risk.data, clip, gamma, microbatch)
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
    special = _special(risk)
    if special is not None:
        usable = special.usable(risk, clip, point)
    else:
        usable = gradients.usable(risk.loss, risk.data, clip, point, MICROBATCH)
    counts = usable.astype(risk.dtype)
    return replace(risk, counts=counts if risk.counts is None else risk.counts * counts)


def _special(risk: EmpiricalRisk) -> ModuleType | None:
    """The module that sums the gradients of this loss without a dense one a record, if any does."""
    if risk.linear is not None:
        return slopes
    if risk.separable is not None:
        return coordinates
    if risk.points is not None and is_features(risk.data):
        return distances
    return None
