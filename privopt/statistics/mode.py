"""The fullest of public bins, and how far a data set is from another one."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.statistics.histogram import Histogram

__all__ = ["Mode"]


class Mode(NamedTuple):
    """The index of the bin with most records, the first of several; ``n`` is public.

    Attributes
    ----------
    histogram : Histogram

    Examples
    --------
    >>> query = Mode(Histogram.logarithmic(1.0, 2.0, 2, mirrored=False))
    >>> int(query.answer(jnp.array([0.5, 1.5, 1.6, 1.7])))
    1
    """

    histogram: Histogram

    def answer(self, records: Array) -> Array:
        """The index, shape ``()``, in the dtype of ``records``, which have shape ``(n,)``."""
        return jnp.argmax(self.histogram.answer(records)).astype(records.dtype)

    def distance_to_change(self, records: Array) -> Array:
        """Fewest records to replace until some neighbour has another mode. Secret.

        A replacement brings another bin closer by two at most, taking a record from the fullest
        bin into it. So a bin that is ``g`` behind becomes the mode after ``k = floor(g/2) + 1`` of
        them, or ``ceil(g/2)`` if it stands before the fullest and wins a tie; and the data set
        before the last one has a neighbour that differs: ``min k - 1``. Moves by at most one
        when a record is replaced. ``n`` if there is one bin only. Shape ``()``.
        """
        counts = self.histogram.answer(records)
        fullest = jnp.argmax(counts)
        places = jnp.arange(counts.size)
        behind = counts[fullest] - counts
        needed = jnp.where(places < fullest, jnp.ceil(0.5 * behind), jnp.floor(0.5 * behind) + 1.0)
        never = jnp.asarray(records.size + 1, counts.dtype)
        return jnp.where(places == fullest, never, needed).min() - 1.0
