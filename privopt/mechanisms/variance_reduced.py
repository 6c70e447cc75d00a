"""Variance-reduced gradients: full gradients at anchors, and batches of gradient differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from dp_accounting import ComposedDpEvent, DpEvent
from jax import Array
from jaxtyping import Int, Key

from privopt.arguments import count
from privopt.convex import EmpiricalRisk, Oracle, pytree_dataclass
from privopt.mechanisms.batches import AllRecords, PoissonBatches
from privopt.mechanisms.calibration import check_calibration, drawable
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.private_gradient import PrivateAnswers, PrivateGradient
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import calibrate
from privopt.release import Pytree
from privopt.spec import Budget, Relation


@pytree_dataclass
@dataclass(frozen=True)
class VarianceReducedGradient:
    """Gradient ``G + (1/b) sum_{i in batch} clip_{C'}(g_i(w) - g_i(a)) + N(0, scale'^2 I)``.

    In every ``period``-th step the current point becomes the anchor ``a``, and the answer is its
    gradient ``G = (1/n) sum_i clip_C(g_i(a)) + N(0, scale^2 I)``. The state contains only released
    values.

    Gradients at anchors are clipped to ``C`` by ``query`` and get noise of ``scale``. Differences
    are clipped to ``C'`` by ``difference_query`` and get noise of ``difference_scale``.
    ``batches`` are the batches of the differences; ``steps``, ``T``, include the anchors.

    Formal guarantee
    ----------------
    ``T`` adaptive answers are ``K = ceil(T/period)`` releases of a Gaussian mechanism composed
    with ``T - K`` of one on Poisson samples, under one relation. The contribution of a record to a
    difference is at most ``C'`` for all losses, because the difference itself is clipped.

    Examples
    --------
    >>> query = ClippedGradient(clip_norm=1.0, size=1000.0, dim=5)
    >>> budget = Budget(epsilon=1.0, delta=1e-5, relation="zero_out")
    >>> batches = PoissonBatches.of(50.0, 1000, budget=budget, steps=90)
    >>> gradient = VarianceReducedGradient(query, 0.01, query, 0.01, batches, period=20, steps=90)
    >>> gradient.anchors.steps, gradient.differences.steps
    (5, 85)
    """

    query: ClippedGradient
    scale: float
    difference_query: ClippedGradient
    difference_scale: float
    batches: PoissonBatches
    period: int
    steps: int

    @classmethod
    def calibrated(
        cls,
        query: ClippedGradient,
        difference_query: ClippedGradient,
        budget: Budget,
        steps: int,
        *,
        period: int,
        batches: PoissonBatches,
    ) -> VarianceReducedGradient:
        """Return the mechanism with the least noise for ``steps`` answers within ``budget``.

        The budget is divided by a public rule, in proportion to ``C : C'``
        (:ref:`Mechanisms, Theorem 15 <theory-mechanisms-15>`). The rule determines only the ratio
        of the noises; the accountant determines their amount.
        """
        check_calibration(query, budget, "record_sensitivity")
        check_calibration(difference_query, budget, "record_sensitivity")
        count("period", period)
        share = query.clip_norm / (query.clip_norm + difference_query.clip_norm)
        unit = cls(query, 1.0, difference_query, 1.0, batches, period, steps)
        inner = max(1, unit.differences.steps)

        def at_noise(size: float) -> VarianceReducedGradient:
            """Return the mechanism at ``mu = 1/size``."""
            cost = size**2 * inner * batches.rate**2
            squared = math.log1p((1.0 - share) / cost) if cost > 0.0 else math.inf
            full = unit.anchors.with_noise_multiplier(size * math.sqrt(unit.anchors.steps / share))
            rest = unit.differences.with_noise_multiplier(1.0 / math.sqrt(squared))
            return replace(unit, scale=full.scale, difference_scale=rest.scale)

        budget = drawable(budget, 2.0 * steps * query.dim)
        return at_noise(calibrate(lambda size: at_noise(size).event(budget.relation), budget))

    @property
    def anchors(self) -> PrivateGradient:
        """Private gradient at the ``K`` anchors."""
        steps = -(-self.steps // self.period)
        return PrivateGradient(
            query=self.query, batches=AllRecords(), scale=self.scale, steps=steps
        )

    @property
    def differences(self) -> PrivateGradient:
        """Private gradient of the ``T - K`` differences."""
        return PrivateGradient(
            query=self.difference_query,
            batches=self.batches,
            scale=self.difference_scale,
            steps=self.steps - self.anchors.steps,
        )

    def event(self, relation: Relation) -> DpEvent:
        """Return the composition of Gaussian releases and truncated Poisson samples."""
        count("period", self.period)
        full = self.anchors.event(relation)
        if self.differences.steps == 0:
            return full
        return ComposedDpEvent((full, self.differences.event(relation)))

    def oracles(
        self, losses: EmpiricalRisk, key: Key[Array, ""], microbatch: int = MICROBATCH
    ) -> tuple[AnchorAnswers, ChangeAnswers]:
        """Return the oracles of a run at anchors and in between.

        The state of both is ``(a, G)``. Batches and noise of step ``t`` are those of
        :class:`PrivateGradient`.
        """
        return (
            AnchorAnswers(self.steps, self.anchors.oracle(losses, key, microbatch)),
            ChangeAnswers(self.steps, self.differences.oracle(losses, key, microbatch)),
        )


@dataclass(frozen=True)
class AnchorAnswers(Oracle):
    """Oracle of ``G``, the gradient at the new anchor."""

    steps: int
    inner: PrivateAnswers

    def init(self, point: Pytree) -> tuple[Pytree, Pytree]:
        return point, point

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        gradient, _ = self.inner.update((), t, point, None)
        return gradient, (point, gradient)


@dataclass(frozen=True)
class ChangeAnswers(Oracle):
    """Oracle of ``G`` plus the gradient difference to the anchor, over a batch."""

    steps: int
    inner: PrivateAnswers

    @property
    def block(self) -> int:  # type: ignore[override]
        return self.inner.block

    def draw(self, k: Int[Array, ""]) -> Pytree:
        return self.inner.draw(k)

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        anchor, gradient = state
        change, _ = self.inner.update((), t, point, batch, anchor)
        return jax.tree.map(jnp.add, gradient, change), state
