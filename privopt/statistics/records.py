"""Records as statistics see them: a vector of floats, any of which may be strange or absent."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.mechanisms.round_off import compensated_sum, max_terms


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


def few_enough(records: Array) -> Array:
    """``records``, of a number that their dtype adds up with the round-off that is charged.

    Raises
    ------
    ValueError
        If there are more: 131,072 in float32, ``2^46`` in float64. The length is that of the
        array, which is public like every shape; a private number of records is in ``present``.
    """
    most = max_terms(records.dtype)
    if records.shape[0] > most:
        raise ValueError(
            f"records must number at most {most} for a sum in {records.dtype}, "
            f"got {records.shape[0]}"
        )
    return records


def present_count(records: Array, present: Array | None) -> Array:
    """The number of records present, counted in integers, in the dtype of ``records``."""
    count = jnp.asarray(records.shape[0]) if present is None else jnp.count_nonzero(present)
    return as_floats(count, records.dtype)


def present_sum(contributions: Array, present: Array | None) -> Array:
    """``sum_i p_i c_i`` over the first axis, with the round-off of a single rounding.

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
    return compensated_sum(contributions)


def as_floats(counts: Array, dtype: DTypeLike) -> Array:
    """Integers in ``dtype``, exactly; those above ``2^24`` in float32 (``2^53``) as that number.

    It is the last that the type tells from the next one. Rounded instead, two counts one apart
    could end two apart, or further; like this they end no further apart than they are.
    """
    last = min(2.0 / float(jnp.finfo(dtype).eps), float(jnp.iinfo(counts.dtype).max))
    return jnp.minimum(counts, int(last)).astype(dtype)
