"""The median of bounded records, its smooth sensitivity and its distance to instability.

Let records be sorted, with ``x_i = l`` before the first and ``x_i = u`` after the last, and ``m``
the index of the median. The largest local sensitivity after replacing ``k`` records is

    A_k = max_{0 <= t <= k+1} x_{m+t} - x_{m+t-k-1},

a maximum over pairs ``i <= m <= j`` with ``k = j - i - 1``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.mechanisms.round_off import two_sum
from privopt.statistics.records import Bounds, countable, numbers

_ROWS_AT_ONCE = 64  # rows of the table of pairs in one batch
_FLOOR = 2.0**-80  # noise times 2^-23 of it does not underflow


class Median(NamedTuple):
    """The ``ceil(n/2)``-th smallest record, clamped into ``[l, u]``; ``n >= 1`` is public.

    For an even number of records it is the lower of the two middle ones. NaN counts as zero and is
    clamped.

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
        """Return the median of records in ``[lower, upper]``."""
        Bounds.of(lower, upper)
        return cls(float(lower), float(upper))

    def answer(self, records: Array) -> Array:
        """Return the median, shape ``()``, in the dtype of ``records`` of shape ``(n,)``."""
        return self._sides(records)[0][0]

    def smooth_sensitivity(self, records: Array, smoothness: float | Array) -> Array:
        """Return ``max(S_0, max_{0 <= k <= n} e^(-beta k) A_k)`` under ``replace_one``. Secret.

        ``|ln S_beta(D) - ln S_beta(D')| <= beta + 2^-18`` between neighbours, round-off included.
        Shape ``()``, in the dtype of ``records``; ``n^2/4`` operations in memory ``O(n)``. (An
        algorithm with ``O(n log n)`` operations has round-off relative to ``u - l`` and violates
        the bound above.)

        The floor ``S_0`` is ``u - l`` times the machine epsilon of the dtype, at least ``2^-80``
        (0 if ``l = u``). It is smooth, because a constant and the maximum of two smooth bounds are.
        Without it ``e^(-beta k)`` underflows to 0 from ``beta k = 88`` on in float32 and 709 in
        float64, and stable data would get no noise while their neighbours get some.

        Source: Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling in private data
        analysis", STOC 2007.
        """
        lower_side, upper_side = self._sides(records)
        median, upper_side = upper_side[0], upper_side[1:]
        steps = jnp.arange(lower_side.size, dtype=lower_side.dtype)
        decay = jnp.exp(-smoothness * jnp.arange(upper_side.size, dtype=upper_side.dtype))

        def widest(lower: Array) -> Array:
            return jnp.max((upper_side - lower) * decay)

        across = jax.lax.map(widest, lower_side, batch_size=_ROWS_AT_ONCE) * jnp.exp(
            -smoothness * steps
        )
        to_median = (median - lower_side) * jnp.exp(-smoothness * jnp.maximum(steps - 1.0, 0.0))
        return jnp.maximum(jnp.max(jnp.maximum(across, to_median)), self._floor(lower_side.dtype))

    def distance_to_instability(self, records: Array, bound: float | Array) -> Array:
        """Return the smallest ``k`` with ``A_k > bound``, ``n + 1`` if ``u - l <= bound``. Secret.

        Its sensitivity is one under ``replace_one``. Shape ``()``, in the dtype of ``records``.
        Differences are compared exactly, for all bounds.
        """
        lower_side, upper_side = self._sides(records)
        furthest, missing = two_sum(lower_side, jnp.full_like(lower_side, bound))
        furthest = jnp.where(missing < 0.0, jnp.nextafter(furthest, -jnp.inf), furthest)
        reach = jnp.searchsorted(upper_side, furthest, side="right")
        distance = jnp.arange(lower_side.size, dtype=reach.dtype) + reach - 1
        records_and_one = lower_side.size + upper_side.size - 2
        unstable = jnp.where(reach < upper_side.size, distance, records_and_one)
        return unstable.min().astype(lower_side.dtype)

    def _floor(self, dtype: DTypeLike) -> Array:
        width = jnp.asarray(self.upper, dtype) - jnp.asarray(self.lower, dtype)
        resolved = jnp.maximum(width * jnp.finfo(dtype).eps, _FLOOR)
        return jnp.where(width > 0.0, resolved, 0.0)

    def _sides(self, records: Array) -> tuple[Array, Array]:
        """Return the median and records below it down to ``l``, and the same up to ``u``."""
        records = countable(numbers(records))
        if records.size == 0:
            raise ValueError(f"records must hold at least one, got shape {records.shape}")
        ordered = jnp.sort(jnp.clip(records, self.lower, self.upper))
        middle = (records.size - 1) // 2
        lower = jnp.full(1, self.lower, records.dtype)
        upper = jnp.full(1, self.upper, records.dtype)
        lower_side = jnp.concatenate([ordered[middle::-1], lower])
        return lower_side, jnp.concatenate([ordered[middle:], upper])
