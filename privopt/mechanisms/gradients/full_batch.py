"""All records at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
from dp_accounting import DpEvent, SelfComposedDpEvent
from jax import Array

from privopt.convex import GradientOracle, record
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.gaussian import GaussianMechanism
from privopt.mechanisms.queries import ClippedGradient
from privopt.spec import Budget, Relation

__all__ = ["FullBatchGradient"]


@record
@dataclass(frozen=True)
class FullBatchGradient:
    """``(1/n) sum_i clip_C(g_i(w)) + N(0, scale^2 I)``.

    Attributes
    ----------
    query : ClippedGradient
    scale : float
        Of the noise, in units of the gradient.
    microbatch : int
        So many gradients of a general loss are in memory at once.

    Formal guarantee
    ----------------
    ``T`` adaptive answers are ``s sqrt(T)/scale``-Gaussian DP, exactly, ``s =
    query.sensitivity(relation)``, under every relation.
    """

    query: ClippedGradient
    scale: float
    microbatch: int = field(default=MICROBATCH, metadata={"static": True})
    steps: int = 1

    @classmethod
    def calibrated(cls, query: ClippedGradient, budget: Budget, steps: int) -> FullBatchGradient:
        """The least noise for ``steps`` answers within ``budget``."""
        mechanism = GaussianMechanism.calibrated(query, budget, compositions=steps)
        return cls(query, mechanism.scale)

    def event(self, relation: Relation, steps: int | None = None) -> DpEvent:
        """``steps`` releases of a Gaussian mechanism."""
        steps = self.steps if steps is None else steps
        return SelfComposedDpEvent(GaussianMechanism(self.query, self.scale).event(relation), steps)

    def bind(self, objective: Any, key: Array) -> GradientOracle:
        """The oracle; the noise of step ``t`` comes from ``fold_in(key, t)``."""
        gradient = self.query.bind(objective, self.microbatch)
        mechanism = GaussianMechanism(self.query, self.scale)

        def ask(memory: Any, t: Array, point: Any) -> tuple[Any, Any]:
            noise_key = jax.random.fold_in(key, t)
            return mechanism.add_noise(noise_key, gradient(point)), memory

        return GradientOracle((), ask)
