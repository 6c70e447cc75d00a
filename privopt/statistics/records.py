"""Records as statistics see them: floats, any of them strange or absent, and public intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.arguments import real, shown
from privopt.mechanisms.round_off import compensated_sum, max_terms


def numbers(records: Array) -> Array:
    """``records``, a vector of floats, with zero for NaN; infinities stay, to be clamped."""
    if records.ndim != 1 or not jnp.issubdtype(records.dtype, jnp.floating):
        raise ValueError(
            "records must be a vector of a floating type, got "
            f"{records.dtype} of shape {records.shape}"
        )
    return jnp.where(jnp.isnan(records), 0.0, records)


def few_enough(records: Array) -> Array:
    """``records``, of a number that their dtype adds up with the round-off that is charged.

    131,072 in float32, ``2^46`` in float64; else ValueError. The length is that of the array, which
    is public like every shape; a private number of records is in ``present``.
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

    ``contributions`` have shape ``(n, ...)``; none at all is a sum of zero. A record for which
    ``present`` is False contributes nothing, so that data sets of different sizes share one
    program.
    """
    if present is not None:
        where = present.reshape(-1, *(1,) * (contributions.ndim - 1))
        contributions = jnp.where(where, contributions, 0.0)
    return compensated_sum(contributions)


def as_floats(counts: Array, dtype: DTypeLike) -> Array:
    """Integers in ``dtype``, exactly; those above ``2^24`` in float32 (``2^53``) as that number.

    Rounded instead, two counts one apart could end two apart, or further.
    """
    last = min(2.0 / float(jnp.finfo(dtype).eps), float(jnp.iinfo(counts.dtype).max))
    return jnp.minimum(counts, int(last)).astype(dtype)


class Bounds(NamedTuple):
    """``[m - h, m + h]``: where a record is taken to lie, whatever it is.

    ``m = (l + u)/2`` and ``h = (u - l)/2 >= 0``; traced where a program takes many.

    Examples
    --------
    >>> Bounds.of(0.0, 4.0)
    Bounds(centre=2.0, half_width=2.0)
    """

    centre: Any
    half_width: Any

    @classmethod
    def of(cls, lower: float, upper: float) -> Bounds:
        """The interval ``[lower, upper]``, public and never taken from the data.
        No bound is beyond 1e30.
        """
        for name, value in (("lower", lower), ("upper", upper)):
            if not abs(real(name, value)) <= 1e30:
                raise ValueError(f"{name} must be finite and at most 1e30, got {shown(value)}")
        if lower > upper:
            raise ValueError(f"lower must not exceed upper, got {shown(lower)} and {shown(upper)}")
        half_width = 0.5 * (upper - lower)
        return cls(math.fsum((0.5 * lower, 0.5 * upper)), half_width)

    def standardise(self, records: Array) -> Array:
        """``t = (x - m)/h`` clamped into ``[-1, 1]``; zero for NaN, and for all if ``h = 0``.

        No record leaves the interval, rounding included.
        """
        width = jnp.where(self.half_width > 0.0, self.half_width, jnp.inf)
        offset = (numbers(records) - self.centre) / width.astype(records.dtype)
        unknown = jnp.isnan(records) | jnp.isnan(offset)
        return jnp.clip(jnp.where(unknown, 0.0, offset), -1.0, 1.0)
