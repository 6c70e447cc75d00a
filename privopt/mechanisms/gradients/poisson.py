"""Poisson batches: every record takes part in every step independently."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from jax import Array
from scipy import stats

from privopt.arguments import real
from privopt.convex import GradientOracle, record
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.events import drawable
from privopt.mechanisms.gaussian import GaussianMechanism
from privopt.mechanisms.gradients.sampling import poisson_sampler, require_numbered
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import calibrate, round_up
from privopt.spec import Budget, Relation

__all__ = ["PoissonGradient", "capacity_of"]

_ARITHMETIC = 2.0**-14  # relative; more than float32 moves a rate of inclusion by
_SHARE = 1e-3  # of delta, for records that find their batch full


@record
@dataclass(frozen=True)
class PoissonGradient:
    """``(1/b) sum_{i in batch} clip_C(g_i(w)) + N(0, scale^2 I)``, ``b`` the public batch size.

    Each of at most ``n`` records is in the batch with probability ``rate = b/n``, whatever the
    others do. The divisor is ``b``, never the number that came; nothing depends on that number
    but the sum. Batches have ``capacity`` places: beyond it records are left out, and so are all
    records after the ``n``-th.

    Attributes
    ----------
    query : ClippedGradient
    rate : float
        ``q``, representable in float32.
    batch_size : float
        ``b``, the expected size, representable in float32.
    scale : float
        Of the noise, in units of the gradient: ``noise multiplier times C/b``.
    capacity, most : int
        Places in a batch; the most records there may be, ``n``.
    microbatch : int
        So many gradients of a general loss are in memory at once.

    Formal guarantee
    ----------------
    ``T`` adaptive answers are the ``T``-fold composition of Poisson-sampled Gaussian mechanisms,
    under every relation, and with probability ``tau = P(Binomial(n - 1, q) >= capacity)`` a step
    reveals everything: unless the *others* fill the batch, which is as likely on either
    neighbour, the record takes part as if there were no limit. The rate is accounted ``2^-14``
    higher than it is, for the arithmetic of the sampler.

    Neighbours are data sets of at most ``n`` records, a public maximum (``Plan.most_records``).
    Beyond it nothing is claimed under ``add_or_remove_one``: a record that goes brings the
    ``(n + 1)``-th in.
    """

    query: ClippedGradient
    rate: float
    batch_size: float
    scale: float
    capacity: int = field(metadata={"static": True})
    most: int = field(metadata={"static": True})
    microbatch: int = field(default=MICROBATCH, metadata={"static": True})
    steps: int = 1

    @classmethod
    def calibrated(
        cls,
        query: ClippedGradient,
        budget: Budget,
        steps: int,
        *,
        batch_size: float,
        n: int,
        capacity: int | None = None,
    ) -> PoissonGradient:
        """The least noise for ``steps`` answers within ``budget``.

        Arguments and errors as for :meth:`of`.
        """
        unit = cls.of(query, budget, steps, batch_size=batch_size, n=n, capacity=capacity)
        multiplier = calibrate(lambda z: unit._composed(z, steps), drawable(budget))
        return unit.noised(multiplier)

    @classmethod
    def of(
        cls,
        query: ClippedGradient,
        budget: Budget,
        steps: int,
        *,
        batch_size: float,
        n: int,
        capacity: int | None = None,
    ) -> PoissonGradient:
        """Batches for ``steps`` answers, with noise yet to be calibrated.

        Places for all but a thousandth of ``delta``, unless ``capacity`` says how many.

        Raises
        ------
        ValueError
            If ``n`` is above 1.04e9, ``batch_size`` exceeds ``n``, or ``capacity`` is below
            ``batch_size`` or costs ``delta`` whole.
        """
        check_calibration(query, budget, "contribution")
        require_numbered("n", n)
        if not 0.0 < real("batch_size", batch_size) <= n:
            raise ValueError(f"batch_size must be positive and at most n = {n}, got {batch_size!r}")
        rate = min(1.0, round_up(batch_size / n))
        if capacity is None:
            capacity = _rounded(capacity_of(n - 1, _accounted(rate), _SHARE * budget.delta / steps))
        if not batch_size <= capacity:
            raise ValueError(
                f"capacity must be at least the batch size {batch_size}, got {capacity!r}"
            )
        overflow = stats.binom.sf(capacity - 1, n - 1, _accounted(rate)) * steps
        if overflow >= budget.delta:
            raise ValueError(
                f"capacity must be such that batches overflow with probability below delta "
                f"{budget.delta!r}, got {capacity!r}, at which it is {overflow:.2g}"
            )
        return cls(query, rate, round_up(batch_size), 1.0, min(capacity, n), n)

    def noised(self, multiplier: float) -> PoissonGradient:
        """The same with noise of so many times one record's contribution."""
        return replace(self, scale=round_up(multiplier * self._contribution))

    def event(self, relation: Relation, steps: int | None = None) -> DpEvent:
        """``steps`` releases of a Gaussian mechanism from truncated Poisson samples."""
        steps = self.steps if steps is None else steps
        del relation
        return self._composed(math.nextafter(self.scale / self._contribution, 0.0), steps)

    @property
    def _contribution(self) -> float:
        return self.query.contribution / self.batch_size

    def _composed(self, multiplier: float, steps: int) -> DpEvent:
        rate = _accounted(self.rate)
        one: DpEvent
        if self.capacity >= self.most:
            one = GaussianDpEvent(multiplier)
            one = one if rate == 1.0 else PoissonSampledDpEvent(rate, one)
        else:
            one = TruncatedSubsampledGaussianDpEvent(self.most, rate, self.capacity, multiplier)
        return SelfComposedDpEvent(one, steps)

    def bind(self, objective: Any, key: Array) -> GradientOracle:
        """The oracle; step ``t`` draws its batch and its noise from ``fold_in(key, t)``."""
        noisy_mean = self.noisy_mean(objective, key)
        return GradientOracle((), lambda memory, t, point: (noisy_mean(t, point), memory))

    def noisy_mean(self, objective: Any, key: Array) -> Callable[..., Any]:
        """``(t, w, anchor) -> answer``; with ``anchor`` of ``g_i(w) - g_i(anchor)``, clipped."""
        batch_sum = self.query.bind_batches(objective, self.microbatch)
        mechanism = GaussianMechanism(self.query, self.scale)
        sample = poisson_sampler(self.rate, self.capacity, self.most)

        def answer(t: Array, point: Any, anchor: Any = None) -> Any:
            batch_key, noise_key = jax.random.split(jax.random.fold_in(key, t))
            rows, weights = sample(batch_key, objective.records)
            total = batch_sum(point, rows, weights, anchor)
            mean = jax.tree.map(lambda leaf: leaf / self.batch_size, total)
            return mechanism.add_noise(noise_key, mean)

        return answer


def capacity_of(others: int, rate: float, chance: float) -> int:
    """The fewest places that so many others fill with at most this probability."""
    if rate >= 1.0 or chance <= 0.0:
        return others + 1
    capacity = int(stats.binom.isf(chance, others, rate)) + 1
    while stats.binom.sf(capacity - 1, others, rate) > chance:
        capacity += 1
    return max(1, min(capacity, others + 1))


def _rounded(capacity: int) -> int:
    """Up by an eighth at most, so that plans of about the same length share a program."""
    grain = max(1, 2 ** (capacity.bit_length() - 4))
    return -(-capacity // grain) * grain


def _accounted(rate: float) -> float:
    return min(1.0, rate * (1.0 + _ARITHMETIC))
