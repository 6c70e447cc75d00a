"""Number of records and bounded sum."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.mechanisms.round_off import MAX_TERMS, sum_error
from privopt.privacy import round_down, round_up
from privopt.spec import Relation
from privopt.statistics.records import Bounds, numbers, present_count, present_sum, summable


class Count(NamedTuple):
    """Number of records present, of fewer than ``2^24`` in float32.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.statistics import Count
    >>> int(Count().answer(jnp.zeros(5)))
    5
    """

    def sensitivity(self, relation: Relation) -> float:
        return 0.0 if Relation(relation) is Relation.REPLACE_ONE else 1.0

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the count, shape ``()``, in the dtype of ``records``."""
        return present_count(numbers(records), present)


class BoundedSum(NamedTuple):
    """``sum_i clamp(x_i, l, u)``; NaN is read as zero, and clamped.

    Where the number of records is public, ``n`` times a ``BoundedMean`` needs less noise: it is
    centred, so bounds far from zero cost nothing. ``l`` and ``u`` are representable in float32, so
    that the device clamps to the very numbers accounted.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.statistics import BoundedSum
    >>> float(BoundedSum.of(0.0, 2.0).answer(jnp.array([0.5, 1.0, 9.0])))
    3.5
    """

    lower: float
    upper: float

    @classmethod
    def of(cls, lower: float, upper: float) -> BoundedSum:
        """The sum of records in ``[lower, upper]``, which is widened to float32 numbers."""
        Bounds.of(lower, upper)
        return cls(round_down(lower), round_up(upper))

    def sensitivity(self, relation: Relation) -> float:
        """``u - l`` under ``replace_one``, ``max(|l|, |u|)`` else; for every data set.

        Round-off adds ``max(|l|, |u|)/60``, unless nothing moves the sum.
        """
        largest = max(abs(self.lower), abs(self.upper))
        moved = self.upper - self.lower if Relation(relation) is Relation.REPLACE_ONE else largest
        moved += 2.0 * sum_error(MAX_TERMS, largest) if moved > 0.0 else 0.0
        return math.nextafter(moved, math.inf) if moved > 0.0 else 0.0

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.sensitivity(relation)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the sum, shape ``()``, of at most 131,072 records in float32."""
        records = summable(numbers(records))
        return present_sum(jnp.clip(records, self.lower, self.upper), present)
