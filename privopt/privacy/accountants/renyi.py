"""Accountant of Rényi differential privacy: divergences add, order by order.

Its bounds are valid for every event it supports, but not tight: a curve of divergences contains
less information than the distribution of the privacy loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import dp_accounting as dp
import numpy as np

from privopt.arguments import shown
from privopt.privacy.mechanisms.base import Curve, renyi_curve, renyi_orders
from privopt.privacy.numbers import Array, Interval
from privopt.privacy.renyi import (
    ORDERS,
    check_orders,
    envelope,
    minimise_over_orders,
    renyi_delta,
    renyi_epsilon,
    renyi_epsilons,
    renyi_log_deltas,
    round_delta,
)
from privopt.spec import Relation

_DELTAS = np.concatenate([np.geomspace(1e-12, 0.1, 34), np.linspace(0.15, 0.95, 17)])


@dataclass(frozen=True)
class Renyi:
    """Compositions of releases with known Rényi divergences, under the relations of their theorems.

    Parameters
    ----------
    orders : sequence of float, optional
        Increasing, above one. The best order is refined over the real orders next to it.

    Formal guarantee
    ----------------
    The upper ends hold, rounding included. The lower ends are zero.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> release = dp.GaussianDpEvent(1.0)
    >>> round(Renyi().epsilon(release, Relation.ADD_OR_REMOVE_ONE, 1e-5).upper, 3)
    4.728
    """

    name = "Rényi DP"
    cites = ("mironov2017", "asoodeh2020")
    orders: tuple[float, ...] = ORDERS
    improved: ClassVar[bool] = True  # the best conversion, at the best real order

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(check_orders(self.orders).tolist()))

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return renyi_curve(event, relation) is not None

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        curve = self._curve(event, relation)
        if curve is None:
            return Interval(0.0, 0.0)
        if delta == 0.0:
            return Interval(0.0, math.inf)
        best = self._lowest(
            event, lambda some: renyi_epsilons(some, curve(some), delta, improved=self.improved)
        )
        own = np.unique(renyi_orders(event))
        if self.improved and own.size:  # the lossless conversion of a few orders
            best = min(best, renyi_epsilon(own, curve(own), delta))
        return Interval(0.0, max(0.0, best))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        curve = self._curve(event, relation)
        if curve is None:
            return Interval(0.0, 0.0)
        best = round_delta(
            self._lowest(
                event,
                lambda some: renyi_log_deltas(some, curve(some), epsilon, improved=self.improved),
            )
        )
        own = np.unique(renyi_orders(event))
        if self.improved and own.size:
            best = min(best, renyi_delta(own, curve(own), epsilon))
        return Interval(0.0, best)

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        curve, orders = self._curve(event, relation), self._orders(event)
        if curve is None:
            return envelope(np.zeros(1), np.zeros(1), alphas)
        losses = renyi_epsilons(orders, curve(orders), _DELTAS[:, None], improved=self.improved)
        return envelope(np.maximum(np.min(losses, axis=1), 0.0), _DELTAS, alphas)

    def _curve(self, event: dp.DpEvent, relation: Relation) -> Curve | None:
        """Return the divergences, or None if one of them is zero, which means no privacy loss."""
        curve = renyi_curve(event, relation)
        if curve is None:
            raise ValueError(f"event must be supported under {relation.value}, got {shown(event)}")
        return curve if np.all(curve(np.asarray(self.orders)) > 0.0) else None

    def _orders(self, event: dp.DpEvent) -> Array:
        return np.union1d(self.orders, renyi_orders(event))

    def _lowest(self, event: dp.DpEvent, objective: Callable[[Array], Array]) -> float:
        return minimise_over_orders(objective, self._orders(event), 3 if self.improved else 0)
