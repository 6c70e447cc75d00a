"""Records truncated to the sparsity and the length that are declared, each by itself."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp

from privopt.convex import (
    DenseFeatures,
    EmpiricalRisk,
    Features,
    GeneralisedLinear,
    SparseFeatures,
    as_features,
)
from privopt.convex.vectors import Number

__all__ = ["truncated_records"]


def truncated_records(objective: EmpiricalRisk, sparsity: int, clip: Number) -> EmpiricalRisk:
    """The records of a generalised linear loss, each made as sparse and as short as is declared.

    Of a row the ``s`` numbers of largest modulus are kept, and it is shortened until its length
    times the bound of the slope, if there is one, is at most ``L``. Every record is changed by
    itself, so neighbours stay neighbours; rows that are as declared keep their bits.

    Parameters
    ----------
    objective : EmpiricalRisk
    sparsity : int
        ``s``.
    clip : number
        ``L``.

    Raises
    ------
    ValueError
        If the loss is not one of a linear prediction.

    Examples
    --------
    >>> from privopt.convex import Linear, WholeSpace
    >>> rows = jnp.array([[3.0, 1.0, 4.0], [0.0, 0.5, 0.0]])
    >>> risk = EmpiricalRisk(GeneralisedLinear(Linear()), (rows, jnp.ones(2)), None, WholeSpace())
    >>> kept = truncated_records(risk, 2, 1.0).linear.features
    >>> kept.indices.tolist(), kept.norms().round(2).tolist()
    ([[0, 2], [0, 1]], [1.0, 0.5])
    """
    if not isinstance(objective.loss, GeneralisedLinear):
        raise ValueError(
            f"loss must be one of a linear prediction (GeneralisedLinear), got {objective.loss!r}"
        )
    features, labels = objective.data
    rows = _largest(as_features(features), sparsity)
    steepest = objective.loss.scalar.slope_bound
    if math.isfinite(steepest):  # else slopes are clipped, and nothing more is known
        norms, longest = rows.norms(), clip / steepest
        long = jnp.isfinite(norms) & (norms > longest)
        rows = rows.scaled(jnp.where(long, longest / jnp.where(long, norms, 1.0), 1.0))
    return replace(objective, data=(rows, labels))


def _largest(rows: Features, sparsity: int) -> Features:
    """The ``s`` numbers of largest modulus of every row."""
    if isinstance(rows, SparseFeatures):
        values, indices = rows.values, rows.indices
    else:
        values = rows.array if isinstance(rows, DenseFeatures) else rows.block(0, rows.shape[0])
        indices = jnp.broadcast_to(jnp.arange(values.shape[-1]), values.shape)
    if values.shape[-1] <= sparsity:
        return rows
    _, places = jax.lax.top_k(jnp.abs(values), sparsity)
    indices, values = (jnp.take_along_axis(each, places, axis=-1) for each in (indices, values))
    return SparseFeatures(indices, values, rows.shape[-1])
