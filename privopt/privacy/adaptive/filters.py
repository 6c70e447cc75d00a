"""The five privacy filters, and how to plan for them.

See ``privacy_filter`` for what a filter promises and why. Here: which costs are summed, and the
largest sum that a budget allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

import dp_accounting as dp

from privopt.privacy.adaptive.costs import (
    Cost,
    Divergence,
    Priced,
    gaussian_cost,
    pure_cost,
    zcdp_cost,
)
from privopt.privacy.adaptive.privacy_filter import UNITS, PrivacyFilter
from privopt.privacy.arguments import check_delta, real
from privopt.privacy.bracketing import bisect
from privopt.privacy.calibration import gaussian_noise_multiplier
from privopt.privacy.events import RenyiDpEvent, pure_event
from privopt.spec import Budget, Relation

__all__ = [
    "approximate_filter",
    "best_order",
    "gaussian_filter",
    "noise_that_fits",
    "pure_filter",
    "renyi_filter",
    "zcdp_filter",
]

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
    z = gaussian_noise_multiplier(budget)
    limit = (Fraction(budget.relation.multiple) / Fraction(z)) ** 2
    return PrivacyFilter(
        budget, _gaussian_costs, (limit,), event=dp.GaussianDpEvent(z), units=units
    )


def zcdp_filter(budget: Budget, units: int = UNITS) -> PrivacyFilter:
    """``sum rho_t <= rho``: Gaussian, Laplace, pure and zCDP releases.

    The limit is the largest ``rho`` for which some order converts to the budget:
    ``rho = max_alpha B(alpha) / alpha`` with ``B`` as in ``renyi_filter``. (All orders hold at
    once, so that this one need not be known beforehand.)

    Formal guarantee
    ----------------
    ``rho``-zCDP, hence ``budget``. Source: Feldman and Zrnic 2021; Whitehouse et al. 2023.

    Raises
    ------
    ValueError
        If ``budget.delta`` is zero.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> limit = zcdp_filter(Budget(epsilon=1.0, delta=1e-6, relation=Relation.ZERO_OUT))
    >>> limit.fits(dp.GaussianDpEvent(20.0))
    19
    """
    rho = _zcdp_limit(budget.epsilon, _positive(budget.delta))
    event = dp.ZCDpEvent(rho)
    return PrivacyFilter(budget, _zcdp_costs, (Fraction(rho),), event=event, units=units)


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
        Distinct, each finite and above one. See ``best_order``.
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
    delta = _positive(budget.delta)
    orders = tuple(real("orders", alpha) for alpha in orders)
    if not orders or len(set(orders)) < len(orders) or not all(1 < a < math.inf for a in orders):
        raise ValueError(f"orders must be distinct finite numbers above 1, got {orders!r}")
    share = delta / len(orders) * (1.0 - _ROUNDING)
    limits = tuple(_renyi_limit(budget.epsilon, share, alpha) for alpha in orders)
    if min(limits) <= 0.0:
        raise ValueError(
            f"orders must each leave something to spend at epsilon = {budget.epsilon!r}, "
            f"delta = {share!r}, got {orders!r} with limits {limits!r}"
        )
    costs = _RenyiCosts(orders, divergence)
    event = RenyiDpEvent(orders[0], limits[0]) if len(orders) == 1 else None
    exact = tuple(map(Fraction, limits))
    return PrivacyFilter(budget, costs, exact, every=False, event=event, units=units)


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
    event, limit = pure_event(budget.epsilon), Fraction(budget.epsilon)
    return PrivacyFilter(budget, _pure_costs, (limit,), event=event, units=units)


def approximate_filter(budget: Budget, slack: float, units: int = UNITS) -> PrivacyFilter:
    """``sum rho_t <= rho(epsilon, slack)`` and ``sum delta_t <= delta - slack``.

    Takes pairs ``(epsilon_t, delta_t)``, with ``rho_t = epsilon_t tanh(epsilon_t / 2)``, and all
    that ``zcdp_filter`` takes, with ``delta_t = 0``. Whitehouse et al. state the rule as

        sqrt(2 ln(1/slack) sum epsilon_t^2) + sum epsilon_t^2 / 2 <= epsilon,

    which is ``rho + 2 sqrt(rho ln(1/slack)) <= epsilon`` at ``rho_t = epsilon_t^2 / 2``; whatever
    theirs admits, ours does (but for the rounding to shares).

    Proof. An ``(epsilon_t, delta_t)``-DP pair is ``P = (1 - delta_t) P' + delta_t P''`` and
    likewise ``Q``, where ``P'`` and ``Q'`` are ``epsilon_t``-DP (Kairouz, Oh and Viswanath 2017).
    Carry on with ``(1 - delta_t) P'`` alone: by induction the parts so kept miss at most
    ``sum delta_t`` of ``P``, and their divergence of order ``alpha`` is at most ``alpha rho``.

    Parameters
    ----------
    slack : float
        The part of ``budget.delta`` that pays for concentration, in ``(0, budget.delta]``.

    Formal guarantee
    ----------------
    ``budget``. Source: Whitehouse et al. 2023, Theorem 1.

    Raises
    ------
    ValueError
        If ``budget.delta`` is zero, or ``slack`` outside ``(0, budget.delta]``.
    """
    delta, slack = _positive(budget.delta), real("slack", slack)
    if not 0.0 < slack <= delta:
        raise ValueError(f"slack must lie in (0, delta = {delta!r}], got {slack!r}")
    limits = (Fraction(_zcdp_limit(budget.epsilon, slack)), Fraction(delta) - Fraction(slack))
    return PrivacyFilter(budget, _approximate_costs, limits, units=units)


def best_order(
    budget: Budget, plan: dp.DpEvent, orders: Sequence[float], divergence: Divergence
) -> float:
    """The order at which ``plan`` would use the smallest part of its limit.

    The plan is what one expects to release; it decides how much fits, never whether the budget
    holds. The choice must not depend on the data.

    Raises
    ------
    ValueError
        If no order leaves anything to spend.
    """
    delta = _positive(budget.delta)
    limits = {alpha: _renyi_limit(budget.epsilon, delta, alpha) for alpha in orders}
    usable = {alpha: limit for alpha, limit in limits.items() if limit > 0.0}
    if not usable:
        raise ValueError(f"orders must leave something to spend under {budget!r}, got {orders!r}")
    return min(usable, key=lambda a: divergence(plan, budget.relation, a) / usable[a])


def noise_that_fits(
    limited: PrivacyFilter, make_release: Callable[[float], Priced], times: int
) -> float:
    """The smallest noise multiplier with which a release fits ``times`` times into a filter.

    ``make_release(z)`` must cost less the larger ``z`` is. Rounding included: the number returned
    has itself been asked of the filter.

    Raises
    ------
    ValueError
        If ``times`` is not a positive integer, or no noise below 10^150 is enough.
    """
    if isinstance(times, bool) or not isinstance(times, Integral) or times < 1:
        raise ValueError(f"times must be a positive integer, got {times!r}")

    def enough(z: float) -> bool:
        return limited.fits(make_release(z)) >= times

    inside = 1.0
    while not enough(inside):
        inside *= 2.0
        if inside > 1e150:
            raise ValueError(f"times must fit with some noise, got {times!r}")
    outside = 0.5 * inside
    while enough(outside) and outside > 1e-150:
        outside *= 0.5
    return bisect(enough, inside, outside)


def _gaussian_costs(release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
    cost = gaussian_cost(release, relation)
    return None if cost is None else (cost,)


def _zcdp_costs(release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
    cost = zcdp_cost(release, relation)
    return None if cost is None else (cost,)


def _pure_costs(release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
    cost = pure_cost(release, relation)
    return None if cost is None else (cost,)


def _approximate_costs(release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
    delta = 0.0
    if isinstance(release, tuple):
        epsilon, delta = release
        release, delta = (epsilon, 0.0), check_delta(delta)
    cost = zcdp_cost(release, relation)
    return None if cost is None else (cost, delta)


@dataclass(frozen=True)
class _RenyiCosts:
    """``rho(alpha)`` at each of the orders."""

    orders: tuple[float, ...]
    divergence: Divergence

    def __call__(self, release: Priced, relation: Relation) -> tuple[Cost, ...] | None:
        if isinstance(release, tuple):
            return None
        return tuple(
            real("divergence", self.divergence(release, relation, alpha)) for alpha in self.orders
        )


def _renyi_limit(epsilon: float, delta: float, alpha: float) -> float:
    """``B(alpha)``, rounded down: divergence ``B`` at order ``alpha`` gives ``(epsilon, delta)``.

    ``(1 - e^(epsilon - x))_+ <= c e^((alpha - 1) x)`` for all ``x``, with the least such ``c``.
    """
    tail = (math.log(delta) + math.log(alpha)) / (alpha - 1.0)
    gain = math.log1p(1.0 / (alpha - 1.0))
    size = epsilon + gain + (abs(math.log(delta)) + math.log(alpha)) / (alpha - 1.0)
    return epsilon + gain + tail - _ROUNDING * size


def _zcdp_limit(epsilon: float, delta: float) -> float:
    """The largest ``B(alpha) / alpha`` over a fine grid of orders, rounded down.

    ValueError if there is nothing to spend at any of them. Every order is valid. The quotient is
    flat near its maximum: the grid, refined once, gives up a relative 1e-8 at most.
    """

    def rho(log_excess: float) -> float:
        alpha = 1.0 + math.exp(log_excess)
        return _renyi_limit(epsilon, delta, alpha) / alpha * (1.0 - _ROUNDING)

    grid = [0.1 * i for i in range(-300, 701)]
    best = max(grid, key=rho)
    fine = max((best + 1e-4 * i for i in range(-1000, 1001)), key=rho)
    if (limit := rho(fine)) <= 0.0:
        raise ValueError(
            "budget must leave something to spend at one order at least, got "
            f"epsilon = {epsilon!r}, delta = {delta!r}"
        )
    return limit


def _positive(delta: float) -> float:
    if delta == 0.0:
        raise ValueError(f"delta must be positive for this filter, got {delta!r}")
    return delta
