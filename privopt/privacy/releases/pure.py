"""Releases known by one or two numbers: any pure release, any concentrated one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import dp_accounting as dp

from privopt.privacy.pairs import EVERYTHING, Array, Pair
from privopt.privacy.releases.release import (
    UP,
    Concentration,
    Curve,
    Loss,
    Release,
    pure_pair,
)
from privopt.spec import Relation


@dataclass(frozen=True)
class Concentrated(Release, event=dp.ZCDpEvent, numbers=("rho", "xi")):
    """``D_alpha <= xi + rho alpha``; with ``rho = 0`` any ``xi``-DP release, ``pure_event``."""

    rho: float
    xi: float

    def loss(self, relation: Relation) -> Loss | None:
        if self.rho > 0.0:
            return None
        return Loss(self.xi, self.xi, 1.0 / (1.0 + math.exp(-self.xi)))

    def pair(self, relation: Relation) -> Pair | None:
        return None if self.rho > 0.0 else pure_pair(self.xi)

    def renyi(self, relation: Relation) -> Curve | None:
        return partial(self._divergence) if self.rho > 0.0 else super().renyi(relation)

    def zcdp(self, relation: Relation) -> Concentration | None:
        return Concentration(self.rho, self.xi) if self.rho > 0.0 else super().zcdp(relation)

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.ZCDpEvent(self.rho, self.xi)

    def _divergence(self, orders: Array) -> Array:
        return (self.xi + self.rho * orders) * UP


@dataclass(frozen=True)
class NoRelease(Release, event=dp.NoOpDpEvent):
    """Nothing was released."""

    def loss(self, relation: Relation) -> Loss:
        return Loss(0.0)

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.NoOpDpEvent()


@dataclass(frozen=True)
class NonPrivate(Release, event=dp.NonPrivateDpEvent):
    """Everything was released."""

    def pair(self, relation: Relation) -> Pair:
        return EVERYTHING

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()
