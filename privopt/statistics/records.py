"""Records of statistics: conversion, masks of present records, sums and public intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.arguments import described, real, shown
from privopt.mechanisms.round_off import compensated_sum, max_terms
from privopt.records import as_floats


def numbers(records: Array) -> Array:
    """Return the vector ``records`` as floats with zero for NaN; infinities are clamped later.

    The types are those of :func:`privopt.records.as_floats`.
    """
    records = as_floats(records, "records", ndim=1)
    return jnp.where(jnp.isnan(records), 0.0, records)


def summable(records: Array) -> Array:
    """Return ``records`` if the round-off of their sum in their dtype is within the charged one.

    At most 131,072 in float32, ``2^46`` in float64; else ``ValueError``. The length of the array is
    public, like every shape. A private number of records is expressed by ``present``.
    """
    limit = max_terms(records.dtype)
    if records.shape[0] > limit:
        raise ValueError(
            f"records must number at most {limit} for a sum in {records.dtype}, "
            f"got {records.shape[0]}"
        )
    return records


def countable(records: Array) -> Array:
    """Return ``records`` if their dtype represents all counts up to their number exactly.

    Fewer than ``2^24`` in float32, ``2^53`` in float64; else ``ValueError``. Rounded counts of
    neighbours could differ by two.
    """
    limit = int(2.0 / float(jnp.finfo(records.dtype).eps)) - 1
    if records.shape[0] > limit:
        raise ValueError(
            f"records must number at most {limit} for counts in {records.dtype}, "
            f"got {records.shape[0]}"
        )
    return records


def mask_of(records: Array, present: Array | None) -> Array:
    """Return the mask of the present records, by default all of them."""
    if present is None:
        return jnp.ones(records.shape[:1], bool)
    boolean = getattr(present, "dtype", None) == jnp.bool_
    if not boolean or present.shape != records.shape[:1]:
        raise ValueError(
            f"present must be booleans of shape {records.shape[:1]}, as the records, got "
            f"{described(present)}"
        )
    return jnp.asarray(present)


def present_count(records: Array, present: Array | None) -> Array:
    """Return the exact number of present records in the dtype of ``records``."""
    return jnp.count_nonzero(mask_of(countable(records), present)).astype(records.dtype)


def present_sum(terms: Array, present: Array | None) -> Array:
    """Return ``sum_i p_i t_i`` over the first axis, with the round-off of a single rounding.

    ``terms`` have shape ``(n, ...)``; an empty sum is zero. Records with ``present`` False are
    excluded, so that data sets of different sizes share one program.
    """
    if present is not None:
        mask = mask_of(terms, present).reshape(-1, *(1,) * (terms.ndim - 1))
        terms = jnp.where(mask, terms, 0.0)
    return compensated_sum(terms)


class Bounds(NamedTuple):
    """Public interval ``[m - h, m + h]`` to which records are clamped.

    ``m = (l + u)/2`` and ``h = (u - l)/2 >= 0``.

    Examples
    --------
    >>> Bounds.of(0.0, 4.0)
    Bounds(centre=2.0, half_width=2.0)
    """

    centre: Any
    half_width: Any

    @classmethod
    def of(cls, lower: float, upper: float) -> Bounds:
        """Return the interval ``[lower, upper]`` of finite numbers, at most 1e30 in size."""
        for name, value in (("lower", lower), ("upper", upper)):
            if not abs(real(name, value)) <= 1e30:
                raise ValueError(f"{name} must be finite and at most 1e30, got {shown(value)}")
        if lower > upper:
            raise ValueError(f"lower must not exceed upper, got {shown(lower)} and {shown(upper)}")
        half_width = 0.5 * (upper - lower)
        return cls(math.fsum((0.5 * lower, 0.5 * upper)), half_width)

    def standardise(self, records: Array) -> Array:
        """Return ``(x - m)/h`` clamped to ``[-1, 1]``; zero for NaN, and everywhere if ``h = 0``.

        The result is in the interval for every record, rounding included.
        """
        records = as_floats(records, "records", ndim=1)
        width = jnp.where(self.half_width > 0.0, self.half_width, jnp.inf)
        offset = (records - self.centre) / width.astype(records.dtype)
        unknown = jnp.isnan(records) | jnp.isnan(offset)
        return jnp.clip(jnp.where(unknown, 0.0, offset), -1.0, 1.0)
