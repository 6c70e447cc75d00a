"""From a budget to the noise that meets it, before any data is in sight.

All answers are the accountants' own: a candidate is kept only if its guarantee, rounding
included, stays within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral

import dp_accounting as dp

from privopt.privacy.arguments import real
from privopt.privacy.gaussian import gaussian_mu
from privopt.privacy.guarantee import Guarantee
from privopt.spec import Budget, Relation

__all__ = ["gaussian_noise_multiplier", "pure_event", "pure_noise_multiplier"]


def gaussian_noise_multiplier(budget: Budget, compositions: int = 1) -> float:
    """The smallest noise with which ``compositions`` Gaussian releases meet ``budget``.

    ``z = m sqrt(compositions) / mu(epsilon, delta)`` with ``m = budget.relation.multiple`` and
    ``mu`` the exact inverse of the Gaussian curve. Source: Balle and Wang, "Improving the
    Gaussian mechanism for differential privacy", ICML 2018, Algorithm 1.

    Returns
    -------
    float
        Noise standard deviation over the norm bound of one record's contribution; above the
        real optimum by a relative 1e-9 at most, for budgets with ``epsilon <= 1e5`` and
        ``delta >= 1e-300``.

    Formal guarantee
    ----------------
    The composition has ``epsilon(budget.delta).upper <= budget.epsilon`` and
    ``delta(budget.epsilon).upper <= budget.delta`` under ``budget.relation``.

    Raises
    ------
    ValueError
        If ``budget.delta`` is zero, or ``compositions`` is not a positive integer.
    """
    if budget.delta == 0.0:
        raise ValueError(
            f"delta must be positive for Gaussian noise, got {budget.delta!r}; "
            "for pure differential privacy use pure_noise_multiplier"
        )
    if isinstance(compositions, bool) or not isinstance(compositions, Integral) or compositions < 1:
        raise ValueError(f"compositions must be a positive integer, got {compositions!r}")

    def guarantee(z: float) -> Guarantee:
        return Guarantee(dp.GaussianDpEvent(z), budget.relation).times(compositions)

    def meets(z: float) -> bool:
        return (
            guarantee(z).delta(budget.epsilon).upper <= budget.delta
            and guarantee(z).epsilon(budget.delta).upper <= budget.epsilon
        )

    mu = gaussian_mu(budget.epsilon, budget.delta)
    return _raise_until(meets, budget.relation.multiple * math.sqrt(compositions) / mu)


def pure_noise_multiplier(budget: Budget) -> float:
    """The smallest Laplace-like noise that is ``budget.epsilon``-DP.

    ``b = budget.relation.multiple / budget.epsilon``, the scale ``b`` of noise with density
    proportional to ``exp(-||z|| / b)`` over the bound of one record's contribution in the same
    norm. ``budget.delta`` is not spent.

    Formal guarantee
    ----------------
    ``LaplaceDpEvent(b)`` has ``epsilon(0).upper <= budget.epsilon`` under ``budget.relation``.
    """

    def meets(b: float) -> bool:
        proved = Guarantee(dp.LaplaceDpEvent(b), budget.relation).epsilon(0.0)
        return proved.upper <= budget.epsilon

    return _raise_until(meets, budget.relation.multiple / budget.epsilon)


def pure_event(epsilon: float) -> dp.RandomizedResponseDpEvent:
    """The event that stands for any ``epsilon``-DP release: randomised response on one bit.

    Its noise parameter is ``2 / (1 + e^epsilon)``, rounded so that the event's own loss is not
    below ``epsilon``; it is above by a relative 1e-12 at most, or by 2^-50 where that is more
    (a float64 next to one cannot describe a smaller loss).

    Formal guarantee
    ----------------
    The event dominates every ``epsilon``-DP mechanism under any one relation. Source: Kairouz,
    Oh and Viswanath, "The composition theorem for differential privacy", IEEE Trans. Inf.
    Theory 2017 (arXiv:1311.0776), proof of Theorem 3.3.

    Raises
    ------
    ValueError
        If ``epsilon`` is not in ``(0, 700]``.
    """
    epsilon = real("epsilon", epsilon)
    if not 0.0 < epsilon <= 700.0:
        raise ValueError(f"epsilon must lie in (0, 700], got {epsilon!r}")

    def one_bit(loss: float) -> dp.RandomizedResponseDpEvent:
        return dp.RandomizedResponseDpEvent(2.0 / (1.0 + math.exp(loss)), num_buckets=2)

    def dominates(loss: float) -> bool:
        return Guarantee(one_bit(loss), Relation.REPLACE_ONE).epsilon(0.0).lower >= epsilon

    return one_bit(_raise_until(dominates, epsilon))


def _raise_until(holds: Callable[[float], bool], value: float) -> float:
    """``value``, raised by relative steps of one ulp, two, four ... until it ``holds``."""
    raised, step = value, 2.0**-52
    while not holds(raised):
        raised, step = value * (1.0 + step), 2.0 * step
    return raised
