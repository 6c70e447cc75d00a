"""Counts of records in public bins."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.arguments import positive_number, real, shown
from privopt.spec import Relation
from privopt.statistics.records import countable, mask_of, numbers


class Histogram(NamedTuple):
    """Counts of records in bins with public edges; every record is in exactly one bin.

    Bins are closed at the end away from zero, and the bin that starts at zero is closed at both
    ends: ``[0, s], (s, sB], ...`` and ``[-s, 0), [-sB, -s), ...``. Records beyond the edges are in
    the outermost bins; NaN counts as zero. There are ``K + 1`` increasing ``edges`` for ``K`` bins.
    Their number is static, their values are not.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.statistics import Histogram
    >>> bins = Histogram.logarithmic(1.0, 2.0, 3, mirrored=False)
    >>> int(bins.answer(jnp.array([0.5, 1.5, 3.0, 100.0])).sum())
    4
    """

    edges: tuple[float, ...]

    @classmethod
    def logarithmic(cls, scale: float, base: float, count: int, *, mirrored: bool) -> Histogram:
        """Return bins ``[0, s]``, ``(s B^(i-1), s B^i]``, ``i < count``; mirrored ones too."""
        positive_number("scale", scale)
        if not 1.0 < real("base", base) < math.inf:
            raise ValueError(f"base must be above 1 and finite, got {shown(base)}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"count must be a positive integer, got {shown(count)}")
        if math.log(scale) + (count - 1) * math.log(base) > math.log(1e30):
            raise ValueError(f"count must keep the last edge below 1e30, got {shown(count)}")
        positive = tuple(scale * base**i for i in range(count))
        negative = tuple(-edge for edge in reversed(positive)) if mirrored else ()
        return cls((*negative, 0.0, *positive))

    @property
    def bins(self) -> int:
        """Number of bins ``K``."""
        return len(self.edges) - 1

    def sensitivity(self, relation: Relation) -> float:
        replaced = Relation(relation) is Relation.REPLACE_ONE
        return math.nextafter(math.sqrt(2.0), math.inf) if replaced else 1.0

    def l1_sensitivity(self, relation: Relation) -> float:
        return float(Relation(relation).multiple)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the counts, shape ``(K,)``, in the dtype of ``records``, of shape ``(n,)``.

        In float32 ``n`` must be below ``2^24``, so that counts are exact.
        """
        records = countable(numbers(records))
        inner = jnp.asarray(self.edges[1:-1], records.dtype)
        upward = jnp.searchsorted(inner, records, side="left")
        downward = jnp.searchsorted(inner, records, side="right")
        bins = jnp.where(records > 0.0, upward, downward)
        counts = jnp.zeros(self.bins, int).at[bins].add(mask_of(records, present).astype(int))
        return counts.astype(records.dtype)
