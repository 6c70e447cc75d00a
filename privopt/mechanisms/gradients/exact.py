"""The gradient itself: for the non-private twins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dp_accounting import DpEvent, NonPrivateDpEvent
from jax import Array

from privopt.convex import GradientOracle, record
from privopt.mechanisms.queries import ClippedGradient
from privopt.spec import Relation

__all__ = ["ExactGradient"]


@record
@dataclass(frozen=True)
class ExactGradient:
    """The mean gradient of all records, without noise and without privacy."""

    query: ClippedGradient

    def event(self, relation: Relation, steps: int = 1) -> DpEvent:
        """No privacy."""
        del relation, steps
        return NonPrivateDpEvent()

    def bind(self, objective: Any, key: Array) -> GradientOracle:
        """The oracle; ``key`` is unused."""
        del key
        gradient = self.query.bind(objective)
        return GradientOracle((), lambda memory, _, point: (gradient(point), memory))
