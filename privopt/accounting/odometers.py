"""A privacy odometer: a bound of the privacy loss that holds at all times simultaneously.

A filter fixes the budget. An odometer reports the budget spent so far, and the user may decide
later when to stop. With ``B_t`` the bound after release ``t`` and ``L_t`` the privacy loss,
``P(L_t > B_t for some t) <= delta``. Therefore stopping before ``B_t`` exceeds a *constant*
``epsilon``, by any rule that depends on the outputs, is ``(epsilon, delta)``-DP. If the stopping
rule makes ``B`` random, the statement concerns the loss with probability ``1 - delta``. It is not
``(B, delta)``-DP for a random ``B``. Proof: :ref:`Accountants, Theorem 6 <theory-accountants-6>`.

Sources: Rogers, Roth, Ullman and Vadhan 2016 (arXiv:1605.08294); Whitehouse, Ramdas, Rogers and Wu
2023 (arXiv:2203.05481); Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform Chernoff bounds via
nonnegative supermartingales", Probability Surveys 2020.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import log_ndtr

from privopt.arguments import shown
from privopt.privacy.mechanisms.base import Priced, round_up_cost, zcdp_cost
from privopt.privacy.numbers import bisect, check_count, check_delta, check_non_negative, real
from privopt.spec import Relation

_ROUNDING = 2.0**-48  # relative, for a handful of float operations


@dataclass(frozen=True)
class ZCDPOdometer:
    """The running bound for Gaussian, Laplace, pure and zCDP releases, from all orders at once.

    An odometer is immutable: ``after`` returns a new one. A compiled loop only counts the releases
    of each kind, and ``after(release, count)`` takes the counts.

    With ``V = 2 sum rho_s`` and ``r`` chosen from ``planned``, the bound is

        epsilon = V/2 + y sqrt(V + r),    y^2/2 + ln 2 Phi(y) = ln(1/delta) + ln(1 + V/r) / 2.

    Gaussian releases are the special case ``V = sum mu_s^2``.

    Parameters
    ----------
    delta : float
        In ``(0, 1)``: the probability that the bound ever fails.
    planned : float
        Positive: the ``sum rho_s`` at which the bound is about as tight as possible. The bound is
        valid for all other sums, too.
    spent : float
        ``sum rho_s`` so far.

    Formal guarantee
    ----------------
    With probability at least ``1 - delta`` the privacy loss never exceeds ``epsilon`` after any
    release, for each pair of neighbours and either of its orders. For stopping times, see the
    docstring of this module.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> odometer = ZCDPOdometer(1e-6, Relation.ZERO_OUT, planned=0.5)
    >>> odometer = odometer.after(dp.GaussianDpEvent(2.0), 4)
    >>> round(odometer.epsilon, 3)
    6.038
    """

    delta: float
    relation: Relation
    planned: float
    spent: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _check_delta(self.delta))
        object.__setattr__(self, "relation", Relation.named("relation", self.relation))
        if not 0.0 < real("planned", self.planned) < math.inf:
            raise ValueError(f"planned must be positive and finite, got {shown(self.planned)}")
        object.__setattr__(self, "planned", float(self.planned))
        object.__setattr__(self, "spent", check_non_negative("spent", self.spent))

    def after(self, release: Priced, count: int = 1) -> ZCDPOdometer:
        """Return the odometer after ``count`` more releases; this odometer is unchanged."""
        if check_count("count", count) == 0:
            return self
        cost = zcdp_cost(release, self.relation)
        if cost is None:
            raise ValueError(f"release must have a zCDP bound, got {shown(release)}")
        return dataclasses.replace(self, spent=_add(self.spent, round_up_cost(cost), count))

    @property
    def epsilon(self) -> float:
        """The bound after all releases so far, rounded up."""
        if self.spent in (0.0, math.inf):
            return self.spent
        log_delta = math.log(self.delta)
        # About the best r for the planned sum (Howard et al.); every fixed r is valid.
        r = 2.0 * self.planned / (1.0 - 2.0 * log_delta + math.log1p(-2.0 * log_delta))
        variance = 2.0 * self.spent
        threshold = 0.5 * math.log1p(variance / r) - log_delta

        def excluded(y: float) -> bool:
            value = 0.5 * y * y + math.log(2.0) + float(log_ndtr(y))
            return value >= threshold + _ROUNDING * (1.0 + threshold + y * y)

        y = _smallest(excluded, math.sqrt(2.0 * threshold))
        return (0.5 * variance + y * math.sqrt(variance + r)) * (1.0 + _ROUNDING)


def _smallest(excluded: Callable[[float], bool], start: float) -> float:
    """Return the smallest positive float with ``excluded``, which is monotone, near ``start``."""
    inside = max(start, 1e-300)
    while not excluded(inside):
        inside *= 2.0
    return bisect(excluded, inside, 0.0)


def _add(spent: float, cost: float, count: int) -> float:
    """Return ``spent + count * cost``, rounded up."""
    result = spent + count * cost
    return result * (1.0 + 2.0**-51) if cost > 0.0 else spent


def _check_delta(delta: float) -> float:
    if check_delta(delta) == 0.0:
        raise ValueError(f"delta must lie in (0, 1), got {shown(delta)}")
    return float(delta)
