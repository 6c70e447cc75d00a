"""A full gradient now and then, and in between what has changed since, from batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from dp_accounting import ComposedDpEvent, DpEvent
from jax import Array

from privopt.convex import GradientOracle, record
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.events import drawable
from privopt.mechanisms.gradients.full_batch import FullBatchGradient
from privopt.mechanisms.gradients.poisson import PoissonGradient
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import calibrate, round_up
from privopt.spec import Budget, Relation

__all__ = ["VarianceReducedGradient"]


@record
@dataclass(frozen=True)
class VarianceReducedGradient:
    """``G + (1/b) sum_{i in batch} clip_{C'}(g_i(w) - g_i(a)) + N(0, scale'^2 I)``.

    Every ``period``-th question renews the anchor ``a``, the point asked about, and is answered
    by its gradient ``G = (1/n) sum_i clip_C(g_i(a)) + N(0, scale^2 I)`` itself. All that is
    remembered has been released.

    Attributes
    ----------
    query : ClippedGradient
        Of the gradients at anchors, clipped to ``C``.
    scale : float
        Of the noise on these.
    differences : PoissonGradient
        With a clip ``C'`` and noise of its own.
    period : int

    Formal guarantee
    ----------------
    ``T`` adaptive answers are ``K = ceil(T/period)`` releases of a Gaussian mechanism composed
    with ``T - K`` of one on Poisson samples, under one relation. A record's contribution to a
    difference is bounded by ``C'``, for it is what is clipped; whatever the losses.
    """

    query: ClippedGradient
    scale: float
    differences: PoissonGradient
    period: int
    steps: int = 1

    @classmethod
    def calibrated(
        cls,
        query: ClippedGradient,
        difference_query: ClippedGradient,
        budget: Budget,
        steps: int,
        *,
        period: int,
        batch_size: float,
        n: int,
        capacity: int | None = None,
        microbatch: int = MICROBATCH,
    ) -> VarianceReducedGradient:
        """The least noise for ``steps`` answers within ``budget``, in shares of a public rule.

        The noise of ``G`` is in all ``p`` answers of a period, that of differences fresh in each.
        With ``mu^2`` shared as ``u : u'`` the sum of the noises of a period has a variance in
        proportion to ``(p C)^2/u + ((p - 1) C')^2/u'``, least for shares as ``p C : (p - 1) C'``.
        The rule takes ``C : C'``. What ``mu^2`` a noise costs is read off the central limit, ``K
        /z^2`` and ``(T - K) q^2 (e^{1/z'^2} - 1)``; that decides the shares alone, the accountant
        how much noise there is.

        Raises
        ------
        ValueError
            As :meth:`PoissonGradient.of`.
        """
        check_calibration(query, budget, "contribution")
        check_calibration(difference_query, budget, "contribution")
        anchors = -(-steps // period)
        inner = max(1, steps - anchors)
        batches = PoissonGradient.of(
            difference_query, budget, inner, batch_size=batch_size, n=n, capacity=capacity
        )
        batches = replace(batches, microbatch=microbatch)
        share = query.clip / (query.clip + difference_query.clip)
        unit = cls(query, 1.0, batches, period)

        def noised(size: float) -> VarianceReducedGradient:
            """At ``mu = 1/size``."""
            cost = size**2 * inner * batches.rate**2
            squared = math.log1p((1.0 - share) / cost) if cost > 0.0 else math.inf
            return replace(
                unit,
                scale=round_up(size * math.sqrt(anchors / share) * query.contribution / query.size),
                differences=batches.noised(1.0 / math.sqrt(squared)),
            )

        budget = drawable(budget)
        return noised(calibrate(lambda size: noised(size).event(budget.relation, steps), budget))

    def event(self, relation: Relation, steps: int | None = None) -> DpEvent:
        """Gaussian releases, and ones from truncated Poisson samples."""
        steps = self.steps if steps is None else steps
        anchors = -(-steps // self.period)
        full = FullBatchGradient(self.query, self.scale).event(relation, anchors)
        if anchors == steps:
            return full
        return ComposedDpEvent((full, self.differences.event(relation, steps - anchors)))

    def bind(self, objective: Any, key: Array) -> GradientOracle:
        """The oracle; all randomness of step ``t`` comes from ``fold_in(key, t)``."""
        full = FullBatchGradient(self.query, self.scale, self.differences.microbatch)
        at_anchor = full.bind(objective, key)
        noisy_mean = self.differences.noisy_mean(objective, key)

        def renew(memory: Any, t: Array, point: Any) -> tuple[Any, Any]:
            del memory
            gradient, _ = at_anchor.ask((), t, point)
            return gradient, (point, gradient)

        def ask(memory: Any, t: Array, point: Any) -> tuple[Any, Any]:
            anchor, gradient = memory
            return jax.tree.map(jnp.add, gradient, noisy_mean(t, point, anchor)), memory

        return GradientOracle((), ask, renew, self.period)
