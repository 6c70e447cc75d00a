"""Compositions: what every accountant adds up, asked of one release after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.leaves import leaves
from privopt.privacy.numbers import Interval, times, total
from privopt.privacy.releases.release import UP, Curve, Release, release_of, round_up_cost
from privopt.privacy.renyi.orders import check_orders
from privopt.spec import Relation

Answer = TypeVar("Answer")

_ROUNDING = 2.0**-48  # relative; a handful of operations, each within a unit or two of 2^-53
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


def renyi_divergence(
    event: dp.DpEvent, relation: Relation, orders: npt.ArrayLike
) -> npt.NDArray[np.float64] | None:
    """Upper bounds of the Rényi divergences of ``event`` between neighbours, in either order.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        A release, or any composition of releases; divergences of one order add up.
    relation : Relation or str
        The neighbouring relation.
    orders : array_like
        Real, increasing, above one.

    Returns
    -------
    array or None
        ``D_alpha``, rounding included, in ``[0, inf]``; None where no theorem covers a part of
        the event under the relation.

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
