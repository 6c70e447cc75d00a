"""Compositions: what every accountant adds up, asked of one release after the other.

Filters and odometers add costs: ``mu^2`` of Gaussian DP, or ``rho`` of zero-concentrated DP. Each
cost is known before the release is run and bounds it for all data.

Sources: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383); Bun
and Steinke, "Concentrated differential privacy", TCC 2016 (arXiv:1605.02065).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias, TypeVar

import dp_accounting as dp
import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from privopt.arguments import checked
from privopt.privacy.events import pure_event
from privopt.privacy.leaves import leaves, repeated
from privopt.privacy.numbers import Interval, check_delta, check_epsilon, times, total
from privopt.privacy.releases.release import UP, Cost, Curve, Release, release_of, round_up_cost
from privopt.privacy.renyi.orders import check_orders
from privopt.spec import Relation

Answer = TypeVar("Answer")
Priced: TypeAlias = dp.DpEvent | tuple[float, float]
"""An event; or a pair ``(epsilon, delta)``, which stands for any mechanism that is so private."""

_ROUNDING = 2.0**-48  # relative; a handful of operations, each within a unit or two of 2^-53
_COST_UP = 1.0 + 2.0**-49  # for a handful of float operations
_MAX_FLOAT = math.nextafter(math.inf, 0.0)


def asked(
    event: dp.DpEvent, question: Callable[[Release], Answer | None]
) -> list[tuple[Answer, int]] | None:
    """What each release of a composition answers, with its multiplicity.

    ``None`` where a release is unknown or has no answer: the whole has none then.
    """
    answers = []
    for leaf, count in leaves(event):
        release = release_of(leaf)
        answer = None if release is None else question(release)
        if answer is None:
            return None
        answers.append((answer, count))
    return answers


def grouped(event: dp.DpEvent, size: int, relation: Relation) -> dp.DpEvent | None:
    """The composition where up to ``size`` records come, go or change together, part by part."""
    parts = asked(event, lambda release: release.grouped(size, relation))
    return None if parts is None else dp.ComposedDpEvent([repeated(*each) for each in parts])


def composed_loss(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float] | None:
    """Bounds of the largest loss ``E`` of a composition, and a lower bound of ``ln h``.

    ``h`` is the probability that every release has the most typical outcome. ``None`` unless
    all releases are pure.
    """
    parts = asked(event, lambda release: release.loss(relation))
    if parts is None:
        return None
    least = total((loss.least, count) for loss, count in parts)
    most = total((round_up_cost(loss.most), count) for loss, count in parts)
    log_typical = total(
        (math.log(loss.typical) * (1.0 + _ROUNDING) - _ROUNDING, count) for loss, count in parts
    )
    if not any(math.isinf(loss.least) for loss, _ in parts):
        least = min(least, _MAX_FLOAT)
    return Interval(least * (1.0 - _ROUNDING), most * (1.0 + _ROUNDING)), log_typical


@checked
def renyi_divergence(
    event: dp.DpEvent, relation: Relation, orders: npt.ArrayLike
) -> npt.NDArray[np.float64] | None:
    """Upper bounds of the Rényi divergences of ``event`` between neighbours, in either order.

    At real, increasing ``orders`` above one. ``None`` where no theorem covers a part of the event
    under the relation. Divergences of one order add up under composition.

    Formal guarantee
    ----------------
    Every mechanism that ``event`` describes has at most these divergences under ``relation``.

    Source: Mironov, "Rényi differential privacy", CSF 2017 (arXiv:1702.07476), Proposition 1, for
    composition; the theorem of each release is cited in its file.

    Examples
    --------
    >>> renyi_divergence(dp.GaussianDpEvent(2.0), Relation.ZERO_OUT, [2.0, 8.0]).round(6).tolist()
    [0.25, 1.0]
    """
    curve = renyi_curve(event, Relation(relation))
    return None if curve is None else curve(check_orders(orders))


def renyi_orders(event: dp.DpEvent) -> tuple[float, ...]:
    """Orders that no grid may leave out: there a divergence of some release jumps."""
    found = asked(event, lambda release: release.orders()) or []
    return tuple(order for orders, _ in found for order in orders)


def renyi_curve(event: dp.DpEvent, relation: Relation) -> Curve | None:
    """The divergences of ``event`` as a function of the orders; None where not supported."""
    curves = asked(event, lambda release: release.renyi(relation))
    if curves is None:
        return None
    parts = [(curve, times(count, UP)) for curve, count in curves]

    def composition(orders: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        whole = np.zeros_like(orders)
        with np.errstate(over="ignore"):
            for curve, count in parts:
                each = curve(orders)
                whole[each > 0.0] += each[each > 0.0] * count
            return np.asarray(whole * UP)

    return composition


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
        return 0 if loss.most == 0 else (mu * (1.0 + 2.0**-44) + 2.0**-48) ** 2 * _COST_UP

    return _summed(cost, release)


def zcdp_cost(release: Priced, relation: Relation) -> Cost | None:
    """``rho`` with ``D_alpha <= rho alpha`` at all orders; None if none is known."""

    def cost(one: Release) -> Cost | None:
        bound = one.zcdp(relation)
        return bound.rho if bound is not None and bound.xi == 0.0 else None

    return _summed(cost, release)


def _summed(cost_of: Callable[[Release], Cost | None], release: Priced) -> Cost | None:
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
    return total((round_up_cost(cost), count) for cost, count in counts.items()) * _COST_UP
