"""A privacy filter: a budget that holds for adaptively chosen releases.

The account of a fixed schedule does not cover a loop with a length, noise or kind of step that
depends on earlier outputs. A filter is called *before* each release and rejects a release that
would exceed the budget. The releases that it admits meet the budget, in any order and number.

Proof: :ref:`Accountants, Theorem 5 <theory-accountants-5>`. General trade-off curves cannot be
subtracted, so the composition of curves or loss distributions of adaptively chosen releases is no
filter (Tran, Koskela, Räisä and Honkela 2026, arXiv:2602.06756).

Costs are integer multiples of equal shares of the budget, rounded up. Sums are therefore exact in
int32 on every device, and the rule is ``spent + cost <= units``.

Sources: Rogers, Roth, Ullman and Vadhan 2016 (arXiv:1605.08294); Smith and Thakurta 2022
(arXiv:2210.17520).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Integral
from typing import Any, TypeAlias

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.arguments import check_fields, shown
from privopt.privacy.calibration import gaussian_noise_multiplier
from privopt.privacy.guarantee import Guarantee
from privopt.privacy.mechanisms.base import Priced, gaussian_cost
from privopt.spec import Budget

_UNITS = 756_000_000  # = 2^8 3^3 5^6 7: an even share (a tenth, a millionth) is a whole number

Count: TypeAlias = Any  # integers of Python, NumPy or JAX; JAX is not imported here


@dataclass(frozen=True)
class GaussianFilter:
    """A budget in equal shares of ``B^2``, and the number of shares spent.

    The budget allows ``B``-GDP, and the filter keeps ``sum mu_t^2 <= B^2`` without any loss. It
    accepts Gaussian and pure releases (an ``epsilon``-DP release is ``mu``-GDP with
    ``Phi(-mu/2) = 1/(1 + e^epsilon)``). It rejects subsampled releases, because their trade-off
    curves cannot be subtracted.

    A filter is immutable and hashable. On the host, ``after`` returns the next state. In a compiled
    loop, close over the filter and carry an integer::

        table, spent = filter.costs(levels), filter.state     # int32, on the host
        go = filter.admits(spent, table[k])                   # in the loop; k drawn or released
        spent = filter.spend(spent, table[k])                 # a rejected release is free

    ``admits`` and ``spend`` take integers of Python, NumPy and JAX in any combination, signed and
    of at least 32 bits. Each is converted to 32 bits without wrapping. Negative numbers and numbers
    above the whole budget are rejected. Any other type raises a ``ValueError``, in a compiled loop
    while it is traced. JAX truncates an int64 array to 32 bits before the program if x64 is off,
    which a filter cannot detect. ``costs`` and ``state`` are int32 already.

    Use a state only *once*. Two loops that start from one state, or two filters ``after`` one
    filter, each spend the remaining budget, together twice that. Always use the returned state of
    ``spend`` and ``after``, and do not reuse the old one. To share a budget between branches, give
    each branch a filter with its own part.

    Parameters
    ----------
    budget : Budget
        The privacy budget and the relation; ``delta > 0``.
    units : int
        Number of shares, at most 10^9. A plan of equal releases fits without loss if its length
        divides ``units``.
    spent : int
        Number of shares spent, in ``[0, units]``. If it is positive, ``budget`` and ``units``
        cannot be replaced, because the shares would change.

    Formal guarantee
    ----------------
    Assume that the choice of each release depends on the outputs of earlier ones and on independent
    randomness, but not otherwise on the data. All releases for which ``admits`` held before the
    release are together ``B``-GDP, hence ``(budget.epsilon, budget.delta)``-DP, under
    ``budget.relation``. A rejected release may be replaced by a cheaper one at no cost.

    Examples
    --------
    >>> limit = GaussianFilter(Budget(epsilon=1.0, delta=1e-6, relation="zero_out"))
    >>> limit.fits(dp.GaussianDpEvent(20.0))
    22
    >>> limit.after(dp.GaussianDpEvent(20.0)).fits(dp.GaussianDpEvent(20.0))
    21
    """

    budget: Budget
    units: int = _UNITS
    spent: int = 0
    opened: tuple[object, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields("filter", self)
        units, shares_of = self.units, (self.budget, self.units)
        if isinstance(units, bool) or not isinstance(units, Integral) or not 1 <= units <= 10**9:
            raise ValueError(f"units must be an integer in [1, 10^9], got {shown(units)}")
        if self.spent and self.opened not in ((), shares_of):
            raise ValueError(
                f"budget and units must stay once something is spent, got {shown(self.spent)} "
                "spent of "
                "others"
            )
        gaussian_noise_multiplier(self.budget)  # raises if delta = 0
        object.__setattr__(self, "spent", self._check_spent(self.spent, 0))
        object.__setattr__(self, "opened", shares_of)

    @property
    def limit(self) -> Fraction:
        """``B^2``, the largest sum of costs."""
        return (
            Fraction(self.budget.relation.multiple)
            / Fraction(gaussian_noise_multiplier(self.budget))
        ) ** 2

    # --- in a compiled loop ---

    @property
    def state(self) -> np.int32:
        """The shares spent."""
        return np.int32(self.spent)

    def cost(self, release: Priced) -> np.int32:
        """Return the shares that ``release`` costs, rounded up; at most ``units + 1``."""
        cost = gaussian_cost(release, self.budget.relation)
        if cost is None:
            raise ValueError(f"release must have a cost in this filter, got {shown(release)}")
        if cost > self.limit:
            return np.int32(self.units + 1)
        return np.int32(math.ceil(self.units * Fraction(cost) / self.limit))

    def costs(self, releases: Sequence[Priced]) -> npt.NDArray[np.int32]:
        """Return the costs of several releases: a table for a compiled loop."""
        return np.stack([self.cost(release) for release in releases])

    def admits(self, spent: Count, cost: Count) -> Count:
        """Return True if a release of cost ``cost`` is allowed when ``spent`` is spent."""
        return self._rejection(*self._clip(spent, cost)) == 0

    def spend(self, spent: Count, cost: Count) -> Count:
        """Return the new state, in 32 bits: ``spent + cost`` if admitted, otherwise ``spent``."""
        spent, cost = self._clip(spent, cost)
        return spent + (cost & ~self._rejection(spent, cost))

    # --- on the host ---

    def supports(self, release: Priced) -> bool:
        """Return True if a theorem bounds the cost of ``release``."""
        return gaussian_cost(release, self.budget.relation) is not None

    def fits(self, release: Priced) -> float:
        """Return how many more times ``release`` fits; infinity if its cost is zero."""
        share = int(self.cost(release))
        return (self.units - self.spent) // share if share else math.inf

    def after(self, release: Priced) -> GaussianFilter:
        """Return the filter after ``release``; this filter is unchanged."""
        if self.fits(release) < 1:
            raise ValueError(
                f"release must fit into the remaining {self.remaining:.6g} of the budget, "
                f"got {shown(release)}"
            )
        return self.resume(self.spend(self.state, self.cost(release)))

    def resume(self, spent: Count) -> GaussianFilter:
        """Return the filter with ``spent`` from a compiled loop, at least the current value."""
        return replace(self, spent=self._check_spent(np.asarray(spent).tolist(), self.spent))

    @property
    def remaining(self) -> float:
        """The remaining share of the budget, in ``[0, 1]``."""
        return (self.units - self.spent) / self.units

    def guarantee(self) -> Guarantee:
        """Return the guarantee of all admitted releases, as one Gaussian release.

        It is that of the whole limit, for any amount spent. Its certified epsilon does not exceed
        ``budget.epsilon``.
        """
        assumption = "every release passed the privacy filter before it was run"
        event = dp.GaussianDpEvent(gaussian_noise_multiplier(self.budget))
        return Guarantee(event, self.budget.relation, (assumption,))

    def _check_spent(self, spent: Count, before: int) -> int:
        """Return ``spent`` as an integer; raise unless it is in ``[before, units]``."""
        whole = isinstance(spent, Integral) and not isinstance(spent, bool)
        if not whole or not before <= int(spent) <= self.units:
            raise ValueError(f"spent must lie in [{before}, {self.units}], got {shown(spent)}")
        return int(spent)

    def _clip(self, spent: Count, cost: Count) -> tuple[Count, Count]:
        """Return both clipped to ``[-1, units + 1]``, so that their sum does not overflow."""
        most = self.units + 1
        return _clip_count("spent", spent, most), _clip_count("cost", cost, most)

    def _rejection(self, spent: Count, cost: Count) -> Count:
        """Return 0 if the release is admitted, otherwise -1 (all bits set)."""
        return (spent | cost | (self.units - (spent + cost))) >> 31


def _clip_count(name: str, count: Count, most: int) -> Count:
    """Return ``count`` clipped to ``[-1, most]``, in 32 bits; raise if its type is invalid."""
    dtype = getattr(count, "dtype", None)
    if dtype is None and isinstance(count, int) and not isinstance(count, bool):
        return min(max(count, -1), most)
    if dtype is not None and np.issubdtype(dtype, np.signedinteger) and dtype.itemsize >= 4:
        clipped = count.clip(-1, most)
        if clipped.dtype == dtype:  # JAX cuts an int64 array to 32 bits where x64 is off
            return clipped.astype(np.int32)
    raise ValueError(f"{name} must be of signed integers of 32 bits or more, got {shown(count)}")
