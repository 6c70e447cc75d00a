"""A release of which one Renyi divergence is known: what a filter of one order lets through."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from privopt.privacy.events import RenyiDpEvent
from privopt.privacy.pairs import Array
from privopt.privacy.parameters import is_noise
from privopt.privacy.releases.release import Curve, Release
from privopt.spec import Relation


@dataclass(frozen=True)
class OneOrder(Release, event=RenyiDpEvent):
    """``D_order <= divergence`` under every relation, and nothing of larger orders."""

    order: float
    divergence: float
    samples = False

    @classmethod
    def read(cls, event: RenyiDpEvent) -> OneOrder | None:
        order, divergence = event.order, event.divergence
        if not (is_noise(order) and 1.0 < float(order) < math.inf and is_noise(divergence)):
            return None
        return cls(float(order), float(divergence))

    def orders(self) -> tuple[float, ...]:
        return (self.order,)

    def renyi(self, relation: Relation) -> Curve:
        return partial(_step, self.order, self.divergence)

    def exported(self, relation: Relation) -> RenyiDpEvent:
        return RenyiDpEvent(self.order, self.divergence)


def _step(order: float, divergence: float, orders: Array) -> Array:
    return np.where(orders <= order, divergence, math.inf if divergence > 0.0 else 0.0)
