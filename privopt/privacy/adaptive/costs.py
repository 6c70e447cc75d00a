"""What one release costs, in the quantities that add up under composition.

``mu^2`` of Gaussian DP, ``rho`` of zero-concentrated DP and ``epsilon`` of pure DP. Each cost is
known before the release is run and bounds it for all data; a composition costs the sum.

Sources: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383); Bun
and Steinke, "Concentrated differential privacy", TCC 2016 (arXiv:1605.02065).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import dp_accounting as dp
from scipy.special import ndtri

from privopt.privacy.accountants.pure_dp import PureDP
from privopt.privacy.arguments import check_delta, check_epsilon
from privopt.privacy.events import BoundedRangeDpEvent
from privopt.privacy.leaves import leaves
from privopt.privacy.parameters import is_noise
from privopt.privacy.renyi import renyi_divergence
from privopt.privacy.sums import SMALLEST, total
from privopt.spec import Relation

__all__ = [
    "Cost",
    "Divergence",
    "Release",
    "gaussian_cost",
    "pure_cost",
    "renyi_cost",
    "round_up_cost",
    "zcdp_cost",
]

Release: TypeAlias = dp.DpEvent | tuple[float, float]
"""An event; or a pair ``(epsilon, delta)``, which stands for any mechanism that is so private."""

Cost: TypeAlias = Fraction | float
"""Exact, or a float rounded up; infinity for what no budget can pay."""

Divergence: TypeAlias = Callable[[dp.DpEvent, Relation, float], float]
"""An upper bound of the Renyi divergence of an event, for either order of the pair, at one order
``alpha``; infinity where none is known."""

_ROUNDING = 2.0**-49  # relative, for a handful of float operations
_PURE = PureDP()


def gaussian_cost(release: Release, relation: Relation) -> Cost | None:
    """``mu^2`` of a release that is ``mu``-GDP; None if it is not known to be.

    Gaussian noise has ``mu = m / z``. The trade-off curve of an ``epsilon``-DP release lies above
    the two segments from the corners to ``(p, p)`` with ``p = 1/(1 + e^epsilon)``; the convex
    curve ``G_mu`` through that point lies below them.
    """

    def leaf_cost(leaf: Release) -> Cost | None:
        if isinstance(leaf, dp.GaussianDpEvent):
            return _quotient(relation.multiple, leaf.noise_multiplier, 2)
        loss = _pure_loss(leaf, relation)
        if loss is None:
            return None
        shrink = math.exp(-round_up_cost(loss))
        mu = -2.0 * float(ndtri(shrink / (1.0 + shrink)))
        # Near epsilon = 0 the argument is next to one half: an absolute error.
        return 0 if loss == 0 else (mu * (1.0 + 2.0**-44) + 2.0**-48) ** 2 * (1.0 + _ROUNDING)

    return _sum(leaf_cost, release)


def zcdp_cost(release: Release, relation: Relation) -> Cost | None:
    """``rho`` with ``D_alpha <= rho alpha`` at all orders; None if none is known.

    Gaussian ``m^2 / (2 z^2)``; an ``epsilon``-DP release ``epsilon tanh(epsilon / 2)``; Laplace
    noise ``t + e^-t - 1`` with ``t = m / b``; a zCDP event its own. All are the divergence at
    order one, the least that any ``rho`` can be. For the two in the middle: with
    ``u = alpha - 1/2``, the function ``ln E_P e^((alpha - 1) L)`` is, up to a constant,
    ``ln cosh(epsilon u)`` and ``ln [cosh(t u) + sinh(t u) / (2u)]``. As entire functions of
    ``u^2``, of order 1/2, the arguments of these logarithms have negative zeros only (for the
    second these are the eigenvalues of ``-w'' = v^2 w``, ``w'(0) = w(0)/2``, ``w(t) = 0``). By
    Hadamard's product the logarithms are concave in ``u^2`` and lie below their tangents at
    ``u = 1/2``; and ``u^2 - 1/4 = alpha (alpha - 1)``.
    """

    def leaf_cost(leaf: Release) -> Cost | None:
        match leaf:
            case dp.GaussianDpEvent(noise_multiplier=z):
                cost = _quotient(relation.multiple, z, 2)
                return None if cost is None else cost / 2
            case dp.ZCDpEvent(rho=rho, xi=xi) if is_noise(rho) and is_noise(xi) and xi == 0.0:
                return float(rho)
            case BoundedRangeDpEvent(epsilon=span) if is_noise(span):
                return Fraction(float(span)) ** 2 / 8 if span < math.inf else math.inf
        loss = _pure_loss(leaf, relation)
        if loss is None or loss in (0, math.inf):
            return loss
        t = round_up_cost(loss)
        if isinstance(leaf, dp.LaplaceDpEvent):
            direct = t + math.expm1(-t) + 2.0**-50 * t
            cost = min(direct, t * t * (0.5 - t / 6.0 + t * t / 24.0))
        else:
            cost = t * math.tanh(0.5 * t)
        return max(cost * (1.0 + _ROUNDING), SMALLEST)

    return _sum(leaf_cost, release)


def pure_cost(release: Release, relation: Relation) -> Cost | None:
    """``epsilon`` of a pure release; None if it is not known to be pure."""
    return _sum(lambda leaf: _pure_loss(leaf, relation), release)


def renyi_cost(event: dp.DpEvent, relation: Relation, alpha: float) -> float:
    """An upper bound of the divergence of order ``alpha``; infinity where none is known.

    The ready-made ``divergence`` of ``renyi_filter``, ``best_order`` and ``RenyiOdometer``: that
    of ``renyi_divergence``, and at ``alpha = inf`` the pure loss.

    >>> renyi_cost(dp.GaussianDpEvent(2.0), Relation.ZERO_OUT, 8.0)  # doctest: +SKIP
    1.0000000000000009
    """
    if math.isinf(alpha):
        cost = pure_cost(event, relation)
        return math.inf if cost is None else round_up_cost(cost)
    divergences = renyi_divergence(event, relation, [alpha])
    return math.inf if divergences is None else float(divergences[0])


def _pure_loss(leaf: Release, relation: Relation) -> Cost | None:
    match leaf:
        case (epsilon, delta):
            return check_epsilon(epsilon) if check_delta(delta) == 0.0 else None
        case dp.ZCDpEvent(rho=rho, xi=loss) if is_noise(rho) and is_noise(loss) and rho == 0.0:
            return float(loss)
        case BoundedRangeDpEvent(epsilon=span) if is_noise(span):
            return float(span)
        case dp.LaplaceDpEvent(noise_multiplier=b):
            return _quotient(relation.multiple, b, 1)
        case dp.DpEvent() if _PURE.supports(leaf, relation):
            return _PURE.epsilon(leaf, relation, 0.0).upper
    return None


def _quotient(multiple: int, noise: float, power: int) -> Cost | None:
    """``(multiple / noise)^power``, exactly."""
    if not is_noise(noise):
        return None
    if math.isinf(noise):
        return 0.0
    return (Fraction(multiple) / Fraction(float(noise))) ** power if noise > 0.0 else math.inf


def _sum(leaf_cost: Callable[[Release], Cost | None], release: Release) -> Cost | None:
    """The cost of a composition: exact if it repeats one release, else rounded up."""
    if isinstance(release, tuple):
        return leaf_cost(release)
    counts: Counter[Cost] = Counter()
    for leaf, count in leaves(release):
        if (cost := leaf_cost(leaf)) is None:
            return None
        counts[cost] += count
    if len(counts) == 1:
        ((cost, count),) = counts.items()
        return Fraction(cost) * count if cost < math.inf else math.inf
    return total((round_up_cost(cost), count) for cost, count in counts.items()) * (1.0 + _ROUNDING)


def round_up_cost(cost: Cost) -> float:
    """A float that is not below ``cost``."""
    if isinstance(cost, float):
        return cost
    try:
        return math.nextafter(float(cost), math.inf) if cost else 0.0
    except OverflowError:
        return math.inf
