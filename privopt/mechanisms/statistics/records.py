"""Records as statistics see them: a vector of floats, any of which may be strange or absent."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

__all__ = ["numbers", "present_sum"]


def numbers(records: Array) -> Array:
    """``records`` with zero for NaN; infinities stay, to be clamped.

    Raises
    ------
    ValueError
        If ``records`` is not a vector of a floating type; integers would cut bounds and noise.
    """
    if records.ndim != 1 or not jnp.issubdtype(records.dtype, jnp.floating):
        raise ValueError(
            "records must be a vector of a floating type, got "
            f"{records.dtype} of shape {records.shape}"
        )
    return jnp.where(jnp.isnan(records), 0.0, records)


def present_sum(contributions: Array, present: Array | None) -> Array:
    """``sum_i p_i c_i`` over the first axis.

    Parameters
    ----------
    contributions : Array
        Shape ``(n, ...)``; none at all is a sum of zero.
    present : Array or None
        Booleans of shape ``(n,)``: a record that is absent contributes nothing, so that data sets
        of different sizes share one program. ``None`` if all are present.
    """
    if present is not None:
        where = present.reshape(-1, *(1,) * (contributions.ndim - 1))
        contributions = jnp.where(where, contributions, 0.0)
    return contributions.sum(axis=0)
