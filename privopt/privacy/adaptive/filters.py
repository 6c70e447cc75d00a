"""The three privacy filters: which costs are summed, and the largest sum that a budget allows.

See ``privacy_filter`` for what a filter promises and why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import dp_accounting as dp

from privopt.privacy.adaptive.costs import Cost, Divergence, Priced, gaussian_cost, pure_cost
from privopt.privacy.adaptive.privacy_filter import UNITS, PrivacyFilter
from privopt.privacy.arguments import real
from privopt.privacy.calibration import gaussian_noise_multiplier
from privopt.privacy.events import RenyiDpEvent, pure_event
from privopt.spec import Budget, Relation

__all__ = ["gaussian_filter", "pure_filter", "renyi_filter"]

_ROUNDING = 2.0**-49  # relative, for a handful of float operations


def gaussian_filter(budget: Budget, units: int = UNITS) -> PrivacyFilter:
    """``sum mu_t^2 <= B^2``, where ``B``-GDP is all that the budget allows: nothing is lost.

    Takes Gaussian and pure releases (an ``epsilon``-DP one is ``mu``-GDP with
    ``Phi(-mu/2) = 1/(1 + e^epsilon)``). Subsampled ones are refused: their trade-off curves
    cannot be subtracted.

    Formal guarantee
    ----------------
    ``B``-GDP, hence ``budget``; ``guarantee()`` is one Gaussian release with noise ``m / B`` and
    its certified epsilon does not exceed ``budget.epsilon``. Source: Smith and Thakurta 2022.

    Raises
    ------
    ValueError
        If ``budget.delta`` is zero.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> limit = gaussian_filter(Budget(epsilon=1.0, delta=1e-6, relation=Relation.ZERO_OUT))
    >>> limit.fits(dp.GaussianDpEvent(20.0))
    22
    """
    return PrivacyFilter(budget, _GaussianRule(), units)


def renyi_filter(
    budget: Budget,
    orders: Sequence[float],
    divergence: Divergence,
    units: int = UNITS,
) -> PrivacyFilter:
    """``sum rho_t(alpha) <= B(alpha)`` at an order chosen in advance, or at some one of several.

    One order gets all of ``delta``. If there are ``k``, a release is admitted while *some* order
    still fits, and each gets ``delta / k``: which order survives depends on the outputs, and
    without the division the budget does not hold. The conversion is

        B(alpha) = epsilon + ln(alpha / (alpha - 1)) + (ln delta + ln alpha) / (alpha - 1).

    Proof for several: truncate the interaction where order ``i`` would be crossed; then it has
    ``E_P (1 - e^(epsilon - L))_+ <= delta / k``. The full interaction ends with some order
    uncrossed, hence equals one of the ``k`` truncated ones, and the expectations add.

    Parameters
    ----------
    orders : sequence of float
        Distinct, each finite and above one; chosen without the data. The best one for a planned
        release has the least quotient of its divergence and ``B(alpha)``.
    divergence : callable
        ``(event, relation, alpha) -> float``, an upper bound for both orders of the pair:
        ``renyi_cost``, or one of yours.

    Formal guarantee
    ----------------
    ``budget``; of one order ``guarantee()`` is the divergence itself, which selections and
    compositions may use further. Source: Feldman and Zrnic 2021 for one order; Canonne, Kamath
    and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020
    (arXiv:2004.00010), for ``B``.

    Raises
    ------
    ValueError
        If ``budget.delta`` is zero, or an order is no such number or can pay for nothing.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt.privacy import renyi_cost
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation=Relation.ZERO_OUT)
    >>> limit = renyi_filter(budget, (24.0, 32.0), renyi_cost)
    >>> limit.fits(dp.GaussianDpEvent(20.0))
    18
    """
    orders = tuple(real("orders", alpha) for alpha in orders)
    if not orders or len(set(orders)) < len(orders) or not all(1 < a < math.inf for a in orders):
        raise ValueError(f"orders must be distinct finite numbers above 1, got {orders!r}")
    return PrivacyFilter(budget, _RenyiRule(orders, divergence), units)


def pure_filter(budget: Budget, units: int = UNITS) -> PrivacyFilter:
    """``sum epsilon_t <= epsilon``: Laplace, randomised response, pairs ``(epsilon_t, 0)``.

    Formal guarantee
    ----------------
    ``budget.epsilon``-DP, which is what ``guarantee()`` says; ``budget.delta`` is not spent.
    Source: Rogers et al. 2016.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> limit = pure_filter(Budget(epsilon=1.0, delta=0.0, relation=Relation.ZERO_OUT))
    >>> limit.fits(dp.LaplaceDpEvent(10.0))
    10
    """
    return PrivacyFilter(budget, _PureRule(), units)


@dataclass(frozen=True)
class _GaussianRule:
    def costs(self, release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
        cost = gaussian_cost(release, relation)
        return None if cost is None else (cost,)

    def limits(self, budget: Budget) -> tuple[Fraction, ...]:
        return ((Fraction(budget.relation.multiple) / Fraction(_noise(budget))) ** 2,)

    def event(self, budget: Budget) -> dp.DpEvent:
        return dp.GaussianDpEvent(_noise(budget))


@dataclass(frozen=True)
class _PureRule:
    def costs(self, release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
        cost = pure_cost(release, relation)
        return None if cost is None else (cost,)

    def limits(self, budget: Budget) -> tuple[Fraction, ...]:
        return (Fraction(budget.epsilon),)

    def event(self, budget: Budget) -> dp.DpEvent:
        return pure_event(budget.epsilon)


@dataclass(frozen=True)
class _RenyiRule:
    orders: tuple[float, ...]
    divergence: Divergence

    def costs(self, release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
        if isinstance(release, tuple):
            return None
        return tuple(
            real("divergence", self.divergence(release, relation, alpha)) for alpha in self.orders
        )

    def limits(self, budget: Budget) -> tuple[Fraction, ...]:
        return tuple(map(Fraction, self._limits(budget)))

    def event(self, budget: Budget) -> dp.DpEvent | None:
        if len(self.orders) > 1:
            return None
        return RenyiDpEvent(self.orders[0], self._limits(budget)[0])

    def _limits(self, budget: Budget) -> tuple[float, ...]:
        if budget.delta == 0.0:
            raise ValueError(f"delta must be positive for this filter, got {budget.delta!r}")
        delta = budget.delta / len(self.orders) * (1.0 - _ROUNDING)
        limits = tuple(_renyi_limit(budget.epsilon, delta, alpha) for alpha in self.orders)
        if min(limits) <= 0.0:
            raise ValueError(
                f"orders must each leave something to spend at epsilon = {budget.epsilon!r}, "
                f"delta = {delta!r}, got {self.orders!r} with limits {limits!r}"
            )
        return limits


_noise = lru_cache(maxsize=256)(gaussian_noise_multiplier)


def _renyi_limit(epsilon: float, delta: float, alpha: float) -> float:
    """``B(alpha)``, rounded down: divergence ``B`` at order ``alpha`` gives ``(epsilon, delta)``.

    ``(1 - e^(epsilon - x))_+ <= c e^((alpha - 1) x)`` for all ``x``, with the least such ``c``.
    """
    tail = (math.log(delta) + math.log(alpha)) / (alpha - 1.0)
    gain = math.log1p(1.0 / (alpha - 1.0))
    size = epsilon + gain + (abs(math.log(delta)) + math.log(alpha)) / (alpha - 1.0)
    return epsilon + gain + tail - _ROUNDING * size
