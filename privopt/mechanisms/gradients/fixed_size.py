"""Batches of a fixed size, drawn without replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from jax import Array

from privopt.arguments import real
from privopt.convex import GradientOracle, record
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.events import drawable, require_public_size
from privopt.mechanisms.gaussian import GaussianMechanism
from privopt.mechanisms.gradients.sampling import require_numbered
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import calibrate, round_up
from privopt.spec import Budget, Relation

__all__ = ["FixedSizeGradient"]


@record
@dataclass(frozen=True)
class FixedSizeGradient:
    """``(1/m) sum_{i in batch} clip_C(g_i(w)) + N(0, scale^2 I)``, uniform batches of ``m``.

    Attributes
    ----------
    query : ClippedGradient
    scale : float
        Of the noise, in units of the gradient.
    batch_size, n : int
        ``m`` and ``n``.

    Formal guarantee
    ----------------
    ``T`` adaptive answers are the ``T``-fold composition of Gaussian mechanisms on samples without
    replacement, under ``replace_one`` only: a record added or removed would move another one into
    or out of the batch. It needs far more noise than a Poisson batch of the same size, since the
    record that is in the batch keeps another one out of it.
    """

    query: ClippedGradient
    scale: float
    batch_size: int = field(metadata={"static": True})
    n: int = field(metadata={"static": True})
    microbatch: int = field(default=MICROBATCH, metadata={"static": True})
    steps: int = 1

    @classmethod
    def calibrated(
        cls, query: ClippedGradient, budget: Budget, steps: int, *, batch_size: float, n: int
    ) -> FixedSizeGradient:
        """The least noise for ``steps`` answers within ``budget``.

        Raises
        ------
        ValueError
            If ``batch_size`` is no integer up to ``n``, ``n`` above 1.04e9, or the relation not
            ``replace_one``.
        """
        check_calibration(query, budget, "contribution")
        require_public_size(budget.relation, "batches of fixed size")
        require_numbered("n", n)
        if not real("batch_size", batch_size).is_integer() or not 1 <= batch_size <= n:
            raise ValueError(f"batch_size must be an integer from 1 to {n}, got {batch_size!r}")
        unit = cls(query, 1.0, int(batch_size), n)
        contribution = query.contribution / unit.batch_size
        multiplier = calibrate(lambda z: unit._composed(z, steps), drawable(budget))
        return cls(query, round_up(multiplier * contribution), unit.batch_size, n)

    def event(self, relation: Relation, steps: int | None = None) -> DpEvent:
        """``steps`` releases of a Gaussian mechanism from samples without replacement."""
        steps = self.steps if steps is None else steps
        del relation
        contribution = self.query.contribution / self.batch_size
        return self._composed(math.nextafter(self.scale / contribution, 0.0), steps)

    def _composed(self, multiplier: float, steps: int) -> DpEvent:
        one = SampledWithoutReplacementDpEvent(self.n, self.batch_size, GaussianDpEvent(multiplier))
        return SelfComposedDpEvent(one, steps)

    def bind(self, objective: Any, key: Array) -> GradientOracle:
        """The oracle; step ``t`` draws its batch and its noise from ``fold_in(key, t)``."""
        batch_sum = self.query.bind_batches(objective, self.microbatch)
        mechanism = GaussianMechanism(self.query, self.scale)
        weights = jnp.ones(self.batch_size, objective.dtype)

        def ask(memory: Any, t: Array, point: Any) -> tuple[Any, Any]:
            batch_key, noise_key = jax.random.split(jax.random.fold_in(key, t))
            rows = jax.random.permutation(batch_key, self.n)[: self.batch_size]
            total = batch_sum(point, rows, weights)
            mean = jax.tree.map(lambda leaf: leaf / self.batch_size, total)
            return mechanism.add_noise(noise_key, mean), memory

        return GradientOracle((), ask)
