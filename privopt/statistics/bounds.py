"""A public interval, and records brought into it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.arguments import real
from privopt.statistics.records import numbers


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
                raise ValueError(f"{name} must be finite and at most 1e30, got {value!r}")
        if lower > upper:
            raise ValueError(f"lower must not exceed upper, got {lower!r} and {upper!r}")
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
