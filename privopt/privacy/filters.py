"""A privacy filter: a budget that holds although earlier outputs decide what is released next.

Accounting for a fixed schedule says nothing about a loop whose length, noise or kind of step
depends on what it has already released. A filter is asked *before* each release and refuses the
one that would cross the budget; whatever it lets through, in whatever order and number, keeps it.

Why. Let a release have a cost ``c = mu^2`` that is known before it is run, and let ``b`` be what is
left. Claim: what follows is ``sqrt(b)``-GDP. By induction on the number of releases: the next one
costs some ``c <= b``, the rest is ``sqrt(b - c)``-GDP *whatever the output was*, and

    G_{sqrt c} (x) G_{sqrt(b - c)} = G_{sqrt b}

is the composition theorem for a first release followed by adaptively chosen ones. What is left must
not depend on the output just drawn; and since every finite part of an unending interaction keeps
the bound, so does the whole. General trade-off curves cannot be subtracted, so that composing the
curves or loss distributions of adaptively chosen releases is no filter (Tran, Koskela, Räisä and
Honkela, "f-differential privacy filters", 2026, arXiv:2602.06756).

Costs are whole numbers of equal shares of the budget, rounded up. So sums are exact in int32 on
any device, whatever its floats are, and the whole rule is ``spent + cost <= units``.

Sources: Rogers, Roth, Ullman and Vadhan, "Privacy odometers and filters", NeurIPS 2016
(arXiv:1605.08294); Smith and Thakurta, "Fully adaptive composition for Gaussian differential
privacy", 2022 (arXiv:2210.17520).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeAlias

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.arguments import check_fields, shown
from privopt.privacy.calibration import gaussian_noise_multiplier
from privopt.privacy.guarantee import Guarantee
from privopt.privacy.mechanisms import Priced, gaussian_cost
from privopt.spec import Budget

_UNITS = 756_000_000  # = 2^8 3^3 5^6 7: an even share (a tenth, a millionth) is a whole number

Count: TypeAlias = Any  # integers of Python, NumPy or JAX, which this room does not import


@dataclass(frozen=True)
class GaussianFilter:
    """A budget in equal shares of ``B^2``, and how many of them are spent.

    ``B``-GDP is all that the budget allows, and ``sum mu_t^2 <= B^2`` is kept: nothing is lost.
    The filter takes Gaussian and pure releases (an ``epsilon``-DP one is ``mu``-GDP with
    ``Phi(-mu/2) = 1/(1 + e^epsilon)``). Subsampled ones are refused: their trade-off curves
    cannot be subtracted.

    A filter is immutable and hashable. On the host, ``after`` keeps the ledger. In a compiled
    loop, close over the filter and carry an integer::

        table, spent = filter.costs(levels), filter.state     # int32, on the host
        go = filter.admits(spent, table[k])                   # in the loop; k drawn or released
        spent = filter.spend(spent, table[k])                 # a refused release spends nothing

    ``admits`` and ``spend`` take integers of Python, NumPy and JAX in any pair, signed and of at
    least 32 bits. Each is brought to 32 bits by itself, without wrapping: all that is negative or
    more than the whole budget is refused, however large. Any other type is a ``ValueError``, in a
    compiled loop while it is traced. What JAX cuts to 32 bits on the way into a compiled program,
    an int64 array where x64 is off, no filter sees: ``costs`` and ``state`` are int32 already.

    The state has *one* lineage. A filter is a value, and a value can be copied: two loops that
    start from one state, or two filters ``after`` one filter, each spend all that was left, and
    together twice that. Hand on what ``spend`` and ``after`` return, and forget what they were
    given; share a budget between branches by giving each a filter of its own part.

    Parameters
    ----------
    budget : Budget
        What may be spent, and under which relation; ``delta > 0``.
    units : int
        Shares of the limit, at most 10^9. A plan of equal releases fits without loss if its
        length divides ``units``.
    spent : int
        Shares spent so far, in ``[0, units]``. Once there are some, ``budget`` and ``units``
        cannot be replaced: they would be shares of something else.

    Formal guarantee
    ----------------
    All releases for which ``admits`` held beforehand, with the choice of each depending on the
    outputs of earlier ones and on fresh randomness but not otherwise on the data, are together
    ``B``-GDP, hence ``(budget.epsilon, budget.delta)``-DP, under ``budget.relation``, in whatever
    number. To be refused and then to try something cheaper is allowed, and costs nothing.

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
        _noise(self.budget)  # which refuses delta = 0
        object.__setattr__(self, "spent", self._checked(self.spent, 0))
        object.__setattr__(self, "opened", shares_of)

    @property
    def limit(self) -> Fraction:
        """``B^2``, which the sum of costs may reach."""
        return (Fraction(self.budget.relation.multiple) / Fraction(_noise(self.budget))) ** 2

    # --- in a compiled loop ---

    @property
    def state(self) -> np.int32:
        """What is spent."""
        return np.int32(self.spent)

    def cost(self, release: Priced) -> np.int32:
        """The shares that ``release`` costs, rounded up; at most ``units + 1``, always refused."""
        cost = gaussian_cost(release, self.budget.relation)
        if cost is None:
            raise ValueError(f"release must have a cost in this filter, got {shown(release)}")
        if cost > self.limit:
            return np.int32(self.units + 1)
        return np.int32(math.ceil(self.units * Fraction(cost) / self.limit))

    def costs(self, releases: Sequence[Priced]) -> npt.NDArray[np.int32]:
        """The costs of several releases: a table to index in a loop."""
        return np.stack([self.cost(release) for release in releases])

    def admits(self, spent: Count, cost: Count) -> Count:
        """Whether a release that costs ``cost`` may be run when ``spent`` is spent."""
        return self._refused(*self._counted(spent, cost)) == 0

    def spend(self, spent: Count, cost: Count) -> Count:
        """What is spent afterwards, in 32 bits: ``spent + cost`` if admitted, else ``spent``."""
        spent, cost = self._counted(spent, cost)
        return spent + (cost & ~self._refused(spent, cost))

    # --- on the host ---

    def supports(self, release: Priced) -> bool:
        """Whether some theorem bounds the cost of ``release``."""
        return gaussian_cost(release, self.budget.relation) is not None

    def fits(self, release: Priced) -> float:
        """How many more times ``release`` fits: an integer, or infinity if it costs nothing."""
        share = int(self.cost(release))
        return (self.units - self.spent) // share if share else math.inf

    def after(self, release: Priced) -> GaussianFilter:
        """The filter when ``release`` has been made; itself unchanged."""
        if self.fits(release) < 1:
            raise ValueError(
                f"release must fit into the remaining {self.remaining:.6g} of the budget, "
                f"got {shown(release)}"
            )
        return self.resume(self.spend(self.state, self.cost(release)))

    def resume(self, spent: Count) -> GaussianFilter:
        """The filter with ``spent``, not less than before, as a loop has left it."""
        return replace(self, spent=self._checked(np.asarray(spent).tolist(), self.spent))

    @property
    def remaining(self) -> float:
        """The share of the budget that is left, in ``[0, 1]``."""
        return (self.units - self.spent) / self.units

    def guarantee(self) -> Guarantee:
        """All that is let through, as one Gaussian release, to compose with what others release.

        It speaks of the whole limit, so that it holds whatever has been spent. Its certified
        epsilon does not exceed ``budget.epsilon``.
        """
        assumption = "every release passed the privacy filter before it was run"
        event = dp.GaussianDpEvent(_noise(self.budget))
        return Guarantee(event, self.budget.relation, (assumption,))

    def _checked(self, spent: Count, before: int) -> int:
        """``spent`` as an integer, if it lies between what was and what may be."""
        whole = isinstance(spent, Integral) and not isinstance(spent, bool)
        if not whole or not before <= int(spent) <= self.units:
            raise ValueError(f"spent must lie in [{before}, {self.units}], got {shown(spent)}")
        return int(spent)

    def _counted(self, spent: Count, cost: Count) -> tuple[Count, Count]:
        """Both from -1 to ``units + 1``, so that no sum of two overflows 32 bits."""
        most = self.units + 1
        return _narrowed("spent", spent, most), _narrowed("cost", cost, most)

    def _refused(self, spent: Count, cost: Count) -> Count:
        """0 where the release is admitted, -1 (all bits set) where it is not."""
        return (spent | cost | (self.units - (spent + cost))) >> 31


_noise = lru_cache(maxsize=256)(gaussian_noise_multiplier)


def _narrowed(name: str, count: Count, most: int) -> Count:
    """``count`` between -1 and ``most``, in 32 bits; refused by its type alone."""
    dtype = getattr(count, "dtype", None)
    if dtype is None and isinstance(count, int) and not isinstance(count, bool):
        return min(max(count, -1), most)
    if dtype is not None and np.issubdtype(dtype, np.signedinteger) and dtype.itemsize >= 4:
        clipped = count.clip(-1, most)
        if clipped.dtype == dtype:  # JAX cuts an int64 array to 32 bits where x64 is off
            return clipped.astype(np.int32)
    raise ValueError(f"{name} must be of signed integers of 32 bits or more, got {shown(count)}")
