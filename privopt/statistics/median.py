"""The median of bounded records, and how stable it is at the data at hand.

With records sorted, ``x_i = l`` left of the first and ``x_i = u`` right of the last, and ``m`` the
place of the median, replacing up to ``k`` records brings the local sensitivity to

    A_k = max_{0 <= t <= k+1} x_{m+t} - x_{m+t-k-1},

so everything here is about pairs ``i <= m <= j``, at the distance ``k = j - i - 1``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.mechanisms.round_off import two_sum
from privopt.statistics.records import Bounds, countable, numbers

_ROWS_AT_ONCE = 64  # of the table of pairs, looked at together
_FLOOR = 2.0**-80  # far enough above underflow to be scaled by the 2^-23 of a law of noise


class Median(NamedTuple):
    """The ``ceil(n/2)``-th smallest record, clamped into ``[l, u]``; ``n >= 1`` is public.

    The middle one of an odd number, the lower middle one of an even number. NaN is read as zero,
    and clamped.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from privopt.statistics import Median
    >>> float(Median.of(0.0, 2.0).answer(jnp.array([0.5, 1.0, 9.0])))
    1.0
    """

    lower: float
    upper: float

    @classmethod
    def of(cls, lower: float, upper: float) -> Median:
        """The median of records in ``[lower, upper]``."""
        Bounds.of(lower, upper)
        return cls(float(lower), float(upper))

    def answer(self, records: Array) -> Array:
        """The median, shape ``()``, in the dtype of ``records``, which have shape ``(n,)``."""
        return self._sides(records)[0][0]

    def smooth_sensitivity(self, records: Array, smoothness: float | Array) -> Array:
        """``max(S_0, max_{0 <= k <= n} e^(-beta k) A_k)`` under ``replace_one``. Secret.

        ``|ln S_beta(D) - ln S_beta(D')| <= beta + 2^-18`` between neighbours, round-off included.
        Shape ``()``, in the dtype of ``records``; ``n^2/4`` steps in memory ``O(n)``. (``O(n log
        n)`` steps would do, with round-off relative to ``u - l`` and so without the line above.)

        The floor ``S_0`` is ``u - l`` times the machine epsilon of the dtype, or ``2^-80`` if that
        is more (0 if ``l = u``). A constant is smooth for every ``beta``, and so is the maximum of
        two smooth bounds. Without it ``e^(-beta k)`` is 0 from ``beta k = 88`` on in float32, 709
        in float64: no noise at all for data that many records away from moving, a little for their
        neighbours.

        Source: Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling in private data
        analysis", STOC 2007.
        """
        below, above = self._sides(records)
        median, above = above[0], above[1:]
        steps = jnp.arange(below.size, dtype=below.dtype)
        decay = jnp.exp(-smoothness * jnp.arange(above.size, dtype=above.dtype))

        def widest(left: Array) -> Array:
            return jnp.max((above - left) * decay)

        across = jax.lax.map(widest, below, batch_size=_ROWS_AT_ONCE) * jnp.exp(-smoothness * steps)
        beside = (median - below) * jnp.exp(-smoothness * jnp.maximum(steps - 1.0, 0.0))
        return jnp.maximum(jnp.max(jnp.maximum(across, beside)), self._floor(below.dtype))

    def distance_to_instability(self, records: Array, bound: float | Array) -> Array:
        """The least ``k`` with ``A_k > bound``, ``n + 1`` if ``u - l <= bound``. Secret.

        Moves by at most one when a record is replaced. Shape ``()``, in the dtype of ``records``.
        Differences are compared exactly, however far from zero the bounds lie.
        """
        below, above = self._sides(records)
        furthest, missing = two_sum(below, jnp.full_like(below, bound))
        furthest = jnp.where(missing < 0.0, jnp.nextafter(furthest, -jnp.inf), furthest)
        reach = jnp.searchsorted(above, furthest, side="right")
        distance = jnp.arange(below.size, dtype=reach.dtype) + reach - 1
        records_and_one = below.size + above.size - 2
        unstable = jnp.where(reach < above.size, distance, records_and_one)
        return unstable.min().astype(below.dtype)

    def _floor(self, dtype: DTypeLike) -> Array:
        width = jnp.asarray(self.upper, dtype) - jnp.asarray(self.lower, dtype)
        resolved = jnp.maximum(width * jnp.finfo(dtype).eps, _FLOOR)
        return jnp.where(width > 0.0, resolved, 0.0)

    def _sides(self, records: Array) -> tuple[Array, Array]:
        """The median and all below it downwards to ``l``, the median and all above up to ``u``."""
        records = countable(numbers(records))
        if records.size == 0:
            raise ValueError(f"records must hold at least one, got shape {records.shape}")
        ordered = jnp.sort(jnp.clip(records, self.lower, self.upper))
        middle = (records.size - 1) // 2
        lower = jnp.full(1, self.lower, records.dtype)
        upper = jnp.full(1, self.upper, records.dtype)
        below = jnp.concatenate([ordered[middle::-1], lower])
        return below, jnp.concatenate([ordered[middle:], upper])
