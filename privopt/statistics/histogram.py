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
    """How many records fall between public edges; each falls into one bin, whatever it is.

    Bins are closed on the side away from zero, and on both if they begin at zero from the right:
    ``[0, s], (s, sB], ...`` and ``[-s, 0), [-sB, -s), ...``. Records beyond the edges belong to the
    outermost bins; NaN is read as zero. ``edges`` increase, ``K + 1`` for ``K`` bins; their number
    shapes the program, their values do not.

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
        """Bins ``[0, s]``, ``(s B^(i-1), s B^i]`` for ``i < count``; ``mirrored``: also below."""
        positive_number("scale", scale)
        if not 1.0 < real("base", base) < math.inf:
            raise ValueError(f"base must be above 1 and finite, got {shown(base)}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"count must be a positive integer, got {shown(count)}")
        if math.log(scale) + (count - 1) * math.log(base) > math.log(1e30):
            raise ValueError(f"count must keep the last edge below 1e30, got {shown(count)}")
        above = tuple(scale * base**i for i in range(count))
        below = tuple(-edge for edge in reversed(above)) if mirrored else ()
        return cls((*below, 0.0, *above))

    @property
    def bins(self) -> int:
        """``K``."""
        return len(self.edges) - 1

    def sensitivity(self, relation: Relation) -> float:
        replaced = Relation(relation) is Relation.REPLACE_ONE
        return math.nextafter(math.sqrt(2.0), math.inf) if replaced else 1.0

    def l1_sensitivity(self, relation: Relation) -> float:
        return float(Relation(relation).multiple)

    def answer(self, records: Array, present: Array | None = None) -> Array:
        """Return the counts, shape ``(K,)``, in the dtype of ``records``, of shape ``(n,)``.

        ``n`` is less than ``2^24`` in float32, so that counts are exact.
        """
        records = countable(numbers(records))
        inner = jnp.asarray(self.edges[1:-1], records.dtype)
        upward = jnp.searchsorted(inner, records, side="left")
        downward = jnp.searchsorted(inner, records, side="right")
        bins = jnp.where(records > 0.0, upward, downward)
        counts = jnp.zeros(self.bins, int).at[bins].add(mask_of(records, present).astype(int))
        return counts.astype(records.dtype)
