"""Accountant of what was released without any privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.leaves import leaves
from privopt.privacy.numbers import Interval
from privopt.spec import Relation


@dataclass(frozen=True)
class NonPrivate:
    """One non-private release spoils the whole composition, whatever else is in it."""

    name = "non-private"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf, _ in leaves(event))

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        return Interval(math.inf, math.inf)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        return Interval(1.0, 1.0)

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        return np.zeros_like(alphas)
