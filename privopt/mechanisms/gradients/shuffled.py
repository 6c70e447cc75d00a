"""Passes over the data in random order, each record in one batch of every pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from jax import Array

from privopt.arguments import real
from privopt.convex import GradientOracle, record
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.events import drawable
from privopt.mechanisms.gaussian import GaussianMechanism
from privopt.mechanisms.gradients.sampling import require_numbered
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import gaussian_noise_multiplier, round_up
from privopt.spec import Budget, Relation

__all__ = ["ShuffledGradient"]


@record
@dataclass(frozen=True)
class ShuffledGradient:
    """``(k/n) sum_{i in batch} clip_C(g_i(w)) + N(0, scale^2 I)``, ``k`` batches a pass.

    Every pass goes through a fresh permutation of the ``n`` records, whatever they are. Where
    ``k`` does not divide ``n`` the last batch is smaller, its divisor the same.

    Attributes
    ----------
    query : ClippedGradient
    scale : float
        Of the noise, in units of the gradient.
    batches, n : int

    Formal guarantee
    ----------------
    A record is in one batch of every pass, so ``T`` adaptive answers are ``ceil(T/k)`` releases of
    a Gaussian mechanism: ``s sqrt(ceil(T/k)) k/(n scale)``-Gaussian DP with ``s = 2C``
    (``replace_one``) or ``C`` (``zero_out``). **No amplification by shuffling is claimed**: the
    numbers of Poisson sampling do not hold for shuffled passes. Under ``add_or_remove_one``
    the batches of others would move, and it is refused.
    """

    query: ClippedGradient
    scale: float
    batches: int = field(metadata={"static": True})
    n: int = field(metadata={"static": True})
    microbatch: int = field(default=MICROBATCH, metadata={"static": True})
    steps: int = 1

    @classmethod
    def calibrated(
        cls, query: ClippedGradient, budget: Budget, steps: int, *, batch_size: float, n: int
    ) -> ShuffledGradient:
        """The least noise for ``steps`` answers within ``budget``, in batches of about this size.

        Raises
        ------
        ValueError
            If ``batch_size`` is not in ``(0, n]``, ``n`` above 1.04e9, or the relation
            ``add_or_remove_one``.
        """
        check_calibration(query, budget, "contribution")
        require_numbered("n", n)
        if not 0.0 < real("batch_size", batch_size) <= n:
            raise ValueError(f"batch_size must be positive and at most n = {n}, got {batch_size!r}")
        if budget.relation is Relation.ADD_OR_REMOVE_ONE:
            raise ValueError(
                "relation must be replace_one or zero_out for shuffled passes, where a record "
                f"added moves others to other batches, got {budget.relation}"
            )
        unit = cls(query, 1.0, max(1, round(n / batch_size)), n)
        budget = drawable(budget)
        multiplier = gaussian_noise_multiplier(budget, compositions=unit._passes(steps))
        return cls(query, round_up(multiplier * unit._contribution), unit.batches, n)

    def event(self, relation: Relation, steps: int | None = None) -> DpEvent:
        """One release of a Gaussian mechanism a pass."""
        steps = self.steps if steps is None else steps
        del relation
        multiplier = math.nextafter(self.scale / self._contribution, 0.0)
        return SelfComposedDpEvent(GaussianDpEvent(multiplier), self._passes(steps))

    @property
    def _contribution(self) -> float:
        return self.query.contribution * self.batches / self.n * (1.0 + 1e-6)

    def _passes(self, steps: int) -> int:
        return -(-steps // self.batches)

    def bind(self, objective: Any, key: Array) -> GradientOracle:
        """The oracle; pass ``p`` draws its order, step ``t`` its noise, from ``fold_in``."""
        batch_sum = self.query.bind_batches(objective, self.microbatch)
        mechanism = GaussianMechanism(self.query, self.scale)
        order_stream, noise_stream = jax.random.split(key)
        size = -(-self.n // self.batches)
        padding = jnp.arange(size * self.batches) >= self.n
        weights = jnp.where(padding, 0.0, 1.0).astype(objective.dtype)
        divisor = jnp.asarray(self.n / self.batches, objective.dtype)

        def ask(order: Array, t: Array, point: Any) -> tuple[Any, Array]:
            number, place = t // self.batches, t % self.batches

            def shuffled() -> Array:
                fresh = jax.random.permutation(jax.random.fold_in(order_stream, number), self.n)
                return jnp.pad(fresh, (0, size * self.batches - self.n))

            order = jax.lax.cond(place == 0, shuffled, lambda: order)
            rows = jax.lax.dynamic_slice(order, (place * size,), (size,))
            kept = jax.lax.dynamic_slice(weights, (place * size,), (size,))
            total = batch_sum(point, rows, kept)
            mean = jax.tree.map(lambda leaf: leaf / divisor, total)
            noise_key = jax.random.fold_in(noise_stream, t)
            return mechanism.add_noise(noise_key, mean), order

        return GradientOracle(jnp.zeros(size * self.batches, int), ask)
