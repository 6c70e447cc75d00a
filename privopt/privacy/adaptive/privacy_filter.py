"""Privacy filters: a budget that holds although earlier outputs decide what is released next.

Accounting for a fixed schedule says nothing about a loop whose length, noise or kind of step
depends on what it has already released. A filter is asked *before* each release and refuses the
one that would cross the budget; whatever it lets through, in whatever order and number, keeps it.

Why. Let a release have a cost that is known before it is run, and let ``b`` be what is left.
Claim: what follows is at most ``b``, where *at most* means ``sqrt(b)``-GDP, or Renyi divergence
``<= b`` at one fixed order, or pure loss ``<= b``. By induction on the number of releases: the
next one costs some ``c <= b``, the rest is at most ``b - c`` *whatever the output was*, and

    G_{sqrt c} (x) G_{sqrt(b - c)} = G_{sqrt b},        c + (b - c) = b

are the composition theorems for a first release ``c`` followed by adaptively chosen ones ``b - c``.
What is left must not depend on the output just drawn; and since every finite part of an unending
interaction keeps the bound, so does the whole. The limits of the method: the order is fixed in
advance, and general trade-off curves cannot be subtracted, so that composing the curves or loss
distributions of adaptively chosen releases is no filter (Tran, Koskela, Räisä and Honkela,
"f-differential privacy filters", 2026, arXiv:2602.06756).

Costs are whole numbers of equal shares of the budget, rounded up. So sums are exact in int32 on
any device, whatever its floats are, and the whole rule is ``spent + cost <= units``.

Sources: Rogers, Roth, Ullman and Vadhan, "Privacy odometers and filters", NeurIPS 2016
(arXiv:1605.08294); Feldman and Zrnic, "Individual privacy accounting via a Renyi filter",
NeurIPS 2021 (arXiv:2008.11193); Smith and Thakurta, "Fully adaptive composition for Gaussian
differential privacy", 2022 (arXiv:2210.17520); Whitehouse, Ramdas, Rogers and Wu,
"Fully-adaptive composition in differential privacy", ICML 2023 (arXiv:2203.05481).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from numbers import Integral
from operator import and_, or_
from typing import Any, Protocol, TypeAlias

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.adaptive.costs import Cost, Priced
from privopt.privacy.guarantee import Guarantee
from privopt.spec import Budget, Relation

__all__ = ["UNITS", "PrivacyFilter", "Rule"]

UNITS = 756_000_000  # = 2^8 3^3 5^6 7: an even share (a tenth, a millionth) is a whole number

Counts: TypeAlias = Any  # integers of Python, NumPy or JAX, which this room does not import
Shares: TypeAlias = np.int32 | npt.NDArray[np.int32]


class Rule(Protocol):
    """Which costs are summed, how far each sum may reach under a budget, and what that proves."""

    def costs(self, release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
        """What a release adds to each sum; None where no theorem bounds it."""

    def limits(self, budget: Budget) -> tuple[Fraction, ...]:
        """What some one of the sums must stay within."""

    def event(self, budget: Budget) -> dp.DpEvent | None:
        """One release that dominates everything within the limits, where there is one."""


@dataclass(frozen=True)
class PrivacyFilter:
    """A budget in equal shares, and how many of them are spent.

    Made by ``gaussian_filter``, ``renyi_filter`` or ``pure_filter``. It is immutable and hashable.
    On the host, ``after`` keeps the ledger. In a compiled loop, close over the filter and carry an
    integer array::

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
        What may be spent, and under which relation.
    rule : Rule
        The limits and the guarantee follow from this and the budget.
    units : int
        Shares of each limit, at most 10^9. A plan of equal releases fits without loss if its
        length divides ``units``.
    spent : tuple of int
        Shares spent so far, each in ``[0, units]``, or one more where some other limit suffices.

    Formal guarantee
    ----------------
    All releases for which ``admits`` held beforehand, with the choice of each depending on the
    outputs of earlier ones and on fresh randomness but not otherwise on the data, are together
    ``(budget.epsilon, budget.delta)``-DP under ``budget.relation``, in whatever number. To be
    refused and then to try something cheaper is allowed, and costs nothing.

    Raises
    ------
    ValueError
        If ``units`` or ``spent`` is out of its range, or the budget leaves nothing to spend. If
        something is spent and ``budget``, ``rule`` or ``units`` is replaced: its shares are not
        shares of the new limits.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt.privacy import pure_filter
    >>> limit = pure_filter(Budget(epsilon=1.0, delta=0.0, relation=Relation.ZERO_OUT))
    >>> limit = limit.after(dp.LaplaceDpEvent(4.0))
    >>> limit.remaining
    0.75
    """

    budget: Budget
    rule: Rule
    units: int = UNITS
    spent: tuple[int, ...] = ()
    opened: tuple[object, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        units = self.units
        if isinstance(units, bool) or not isinstance(units, Integral) or not 1 <= units <= 10**9:
            raise ValueError(f"units must be an integer in [1, 10^9], got {units!r}")
        shares_of, nothing = (self.budget, self.rule, units), (0,) * len(self.limits)
        if any(self.spent) and self.opened not in ((), shares_of):
            raise ValueError(
                f"budget, rule and units must stay once something is spent, got {self.spent!r} "
                "spent of others"
            )
        object.__setattr__(self, "spent", self._checked(tuple(self.spent) or nothing, nothing))
        object.__setattr__(self, "opened", shares_of)

    @property
    def limits(self) -> tuple[Fraction, ...]:
        """What the sums of costs may reach: the one, or some one of several."""
        return self.rule.limits(self.budget)

    # --- in a compiled loop ---

    @property
    def state(self) -> Shares:
        """What is spent, as int32: a scalar, or one number for each limit."""
        return _int32(self.spent)

    def cost(self, release: Priced) -> Shares:
        """The shares that ``release`` costs, rounded up, as int32 of the shape of ``state``.

        At most ``units + 1``, which is always refused.

        Raises
        ------
        ValueError
            If no theorem known here bounds the cost of the release.
        """
        return _int32(self._shares(release))

    def costs(self, releases: Sequence[Priced]) -> npt.NDArray[np.int32]:
        """The costs of several releases, stacked: a table to index in a loop."""
        return np.stack([self.cost(release) for release in releases])

    def admits(self, spent: Counts, cost: Counts) -> Counts:
        """Whether a release that costs ``cost`` may be run when ``spent`` is spent."""
        return self._refused(*self._counted(spent, cost)) == 0

    def spend(self, spent: Counts, cost: Counts) -> Counts:
        """What is spent afterwards, in 32 bits: ``spent + cost`` if admitted, else ``spent``."""
        spent, cost = self._counted(spent, cost)
        refused = self._refused(spent, cost)
        if len(self.spent) == 1:
            return spent + (cost & ~refused)
        # An order that is lost already, if some suffices, stays where it is lost.
        total = spent + (cost & ~refused[..., None])
        return total.clip(-1, self.units + 1)

    # --- on the host ---

    def supports(self, release: Priced) -> bool:
        """Whether some theorem bounds the cost of ``release``."""
        return self.rule.costs(release, self.budget.relation) is not None

    def fits(self, release: Priced) -> float:
        """How many more times ``release`` fits: an integer, or infinity if it costs nothing."""
        pairs = zip(self.spent, self._shares(release), strict=True)
        return max(_repetitions(self.units - spent, share) for spent, share in pairs)

    def after(self, release: Priced) -> PrivacyFilter:
        """The filter when ``release`` has been made; itself unchanged.

        Raises
        ------
        ValueError
            If the release does not fit, or no theorem known here bounds its cost.
        """
        if self.fits(release) < 1:
            raise ValueError(
                f"release must fit into the remaining {self.remaining:.6g} of the budget, "
                f"got {release!r}"
            )
        return self.resume(self.spend(self.state, self.cost(release)))

    def resume(self, spent: Counts) -> PrivacyFilter:
        """The filter with ``spent`` as a loop has left it.

        Raises
        ------
        ValueError
            If ``spent`` is less than before or above the limit.
        """
        counts = tuple(np.atleast_1d(np.asarray(spent)).tolist())
        return replace(self, spent=self._checked(counts, self.spent))

    @property
    def remaining(self) -> float:
        """The share of the budget that is left, in ``[0, 1]``."""
        return max(0, self.units - min(self.spent)) / self.units

    def guarantee(self) -> Guarantee | None:
        """All that is let through, as one event, to compose with what the filter did not see.

        None where no event says it (Renyi filters of several orders); then ``budget`` does. It
        speaks of the whole limit, so that it holds whatever has been spent.
        """
        event = self.rule.event(self.budget)
        if event is None:
            return None
        assumption = "every release passed the privacy filter before it was run"
        return Guarantee(event, self.budget.relation, (assumption,))

    def _checked(self, spent: tuple[Counts, ...], before: tuple[int, ...]) -> tuple[int, ...]:
        """``spent`` as integers, if each lies between what was and what may be."""
        most = self.units + (len(before) > 1)
        if len(spent) != len(before) or not all(
            isinstance(new, Integral) and not isinstance(new, bool) and old <= int(new) <= most
            for old, new in zip(before, spent, strict=False)
        ):
            raise ValueError(f"spent must lie in [{before}, {most}], got {spent!r}")
        return tuple(int(count) for count in spent)

    def _shares(self, release: Priced) -> tuple[int, ...]:
        costs = self.rule.costs(release, self.budget.relation)
        if costs is None:
            raise ValueError(f"release must have a cost in this filter, got {release!r}")
        return tuple(
            _shares(cost, limit, self.units) for cost, limit in zip(costs, self.limits, strict=True)
        )

    def _counted(self, spent: Counts, cost: Counts) -> tuple[Counts, Counts]:
        """Both from -1 to ``units + 1``, so that no sum of two overflows 32 bits."""
        most = self.units + 1
        return _narrowed("spent", spent, most), _narrowed("cost", cost, most)

    def _refused(self, spent: Counts, cost: Counts) -> Counts:
        """0 where the release is admitted, -1 (all bits set) where it is not."""
        wrong, left = spent | cost, self.units - (spent + cost)
        if len(self.spent) == 1:
            return (wrong | left) >> 31
        each = range(len(self.spent))
        return (reduce(or_, (wrong[..., i] for i in each)) >> 31) | (
            reduce(and_, (left[..., i] for i in each)) >> 31
        )


def _narrowed(name: str, count: Counts, most: int) -> Counts:
    """``count`` between -1 and ``most``, in 32 bits; refused by its type alone."""
    dtype = getattr(count, "dtype", None)
    if dtype is None and isinstance(count, int) and not isinstance(count, bool):
        return min(max(count, -1), most)
    if dtype is not None and np.issubdtype(dtype, np.signedinteger) and dtype.itemsize >= 4:
        clipped = count.clip(-1, most)
        if clipped.dtype == dtype:  # JAX cuts an int64 array to 32 bits where x64 is off
            return clipped.astype(np.int32)
    raise ValueError(f"{name} must be of signed integers of 32 bits or more, got {count!r}")


def _int32(shares: tuple[int, ...]) -> Shares:
    counts = np.array(shares, dtype=np.int32)
    return counts if len(shares) > 1 else counts[0]


def _shares(cost: Cost, limit: Fraction, units: int) -> int:
    """``ceil(units cost / limit)``, or ``units + 1`` if that is less."""
    if not cost >= 0.0:
        raise ValueError(f"the cost of a release must be non-negative, got {cost!r}")
    if cost == 0:
        return 0
    if limit <= 0 or cost == math.inf or cost > limit:
        return units + 1
    return math.ceil(units * Fraction(cost) / limit)


def _repetitions(room: int, share: int) -> float:
    """How often ``share`` fits into ``room``, which is negative where a limit is lost."""
    if room < 0:
        return 0
    return room // share if share else math.inf
