"""Accountant of Rényi differential privacy: divergences add, order by order.

A valid bound of every event it supports, but never the exact value: a curve of divergences cannot
reach what the whole distribution of the privacy loss would prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.interval import Interval
from privopt.privacy.releases import Curve, renyi_curve
from privopt.privacy.renyi.conversion import envelope, epsilons, log_deltas, round_delta
from privopt.privacy.renyi.orders import ORDERS, check_orders, lowest
from privopt.spec import Relation

__all__ = ["Renyi"]

Array = npt.NDArray[np.float64]

_DELTAS = np.concatenate([np.geomspace(1e-12, 0.1, 34), np.linspace(0.15, 0.95, 17)])


@dataclass(frozen=True)
class Renyi:
    """Every event of ``renyi_divergence``, under its relations.

    Parameters
    ----------
    orders : sequence of float, optional
        Increasing, above one. The best of them is refined over the real orders beside it.

    Formal guarantee
    ----------------
    The upper ends hold, rounding included; the lower ends are zero, which says nothing.

    Raises
    ------
    ValueError
        If the orders are not increasing, finite and above one.
    """

    orders: tuple[float, ...] = ORDERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(check_orders(self.orders).tolist()))

    @property
    def name(self) -> str:
        """What reports call this accountant."""
        return "Rényi DP"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        """Whether the Rényi divergences of every leaf are known."""
        return renyi_curve(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """The best conversion at ``delta``."""
        curve, orders = _curve(event, relation), np.asarray(self.orders)
        if not np.all(curve(orders) > 0.0):
            return Interval(0.0, 0.0)
        if delta == 0.0:
            return Interval(0.0, math.inf)
        best = lowest(lambda some: epsilons(some, curve(some), delta), orders)
        return Interval(0.0, max(0.0, best))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        """The best conversion at ``epsilon``."""
        curve, orders = _curve(event, relation), np.asarray(self.orders)
        if not np.all(curve(orders) > 0.0):
            return Interval(0.0, 0.0)
        best = lowest(lambda some: log_deltas(some, curve(some), epsilon), orders)
        return Interval(0.0, round_delta(best))

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        """The envelope of what ``epsilon`` proves at some fifty ``delta``."""
        orders = np.asarray(self.orders)
        divergences = _curve(event, relation)(orders)
        if not np.all(divergences > 0.0):
            return envelope(np.zeros(1), np.zeros(1), alphas)
        losses = np.min(epsilons(orders, divergences, _DELTAS[:, None]), axis=1)
        return envelope(np.maximum(losses, 0.0), _DELTAS, alphas)


def _curve(event: dp.DpEvent, relation: Relation) -> Curve:
    curve = renyi_curve(event, relation)
    if curve is None:
        raise ValueError(f"event must be supported under {relation.value}, got {event!r}")
    return curve
