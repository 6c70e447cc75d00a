"""What one release costs, in the quantities that add up under composition.

``mu^2`` of Gaussian DP and ``rho`` of zero-concentrated DP. Each cost is known before the release
is run and bounds it for all data; a composition costs the sum.

Sources: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383); Bun
and Steinke, "Concentrated differential privacy", TCC 2016 (arXiv:1605.02065).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import dp_accounting as dp
from scipy.special import ndtri

from privopt.privacy.events import pure_event
from privopt.privacy.numbers import check_delta, check_epsilon, total
from privopt.privacy.releases import Cost, Release, asked, round_up_cost
from privopt.spec import Relation

Priced: TypeAlias = dp.DpEvent | tuple[float, float]
"""An event; or a pair ``(epsilon, delta)``, which stands for any mechanism that is so private."""

_ROUNDING = 2.0**-49  # relative, for a handful of float operations


def gaussian_cost(release: Priced, relation: Relation) -> Cost | None:
    """``mu^2`` of a release that is ``mu``-GDP; None if it is not known to be.

    Gaussian noise has ``mu = m / z``. The trade-off curve of an ``epsilon``-DP release lies above
    the two segments from the corners to ``(p, p)`` with ``p = 1/(1 + e^epsilon)``; the convex
    curve ``G_mu`` through that point lies below them.
    """

    def cost(one: Release) -> Cost | None:
        if (shifts := one.shifts(relation)) is not None:
            return shifts[0].square if len(shifts) == 1 else None
        if (loss := one.loss(relation)) is None:
            return None
        shrink = math.exp(-round_up_cost(loss.most))
        mu = -2.0 * float(ndtri(shrink / (1.0 + shrink)))
        # Near epsilon = 0 the argument is next to one half: an absolute error.
        return 0 if loss.most == 0 else (mu * (1.0 + 2.0**-44) + 2.0**-48) ** 2 * (1.0 + _ROUNDING)

    return _sum(cost, release)


def zcdp_cost(release: Priced, relation: Relation) -> Cost | None:
    """``rho`` with ``D_alpha <= rho alpha`` at all orders; None if none is known."""

    def cost(one: Release) -> Cost | None:
        bound = one.zcdp(relation)
        return bound.rho if bound is not None and bound.xi == 0.0 else None

    return _sum(cost, release)


def _sum(cost_of: Callable[[Release], Cost | None], release: Priced) -> Cost | None:
    """The cost of a composition: exact if it repeats one release, else rounded up."""
    if isinstance(release, tuple):
        epsilon, delta = release
        if check_delta(delta) > 0.0:
            return None
        release = pure_event(check_epsilon(epsilon))
    parts: list[tuple[Cost, int]] | None = asked(release, cost_of)
    if parts is None:
        return None
    counts: dict[Cost, int] = {}
    for cost, count in parts:
        counts[cost] = counts.get(cost, 0) + count
    if len(counts) == 1:
        ((cost, count),) = counts.items()
        return Fraction(cost) * count if cost < math.inf else math.inf
    return total((round_up_cost(cost), count) for cost, count in counts.items()) * (1.0 + _ROUNDING)
