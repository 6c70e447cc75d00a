"""Private gradients: a clipped mean over batches, noise, and an optional projection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from jax import Array
from jaxtyping import Int, Key

from privopt.arguments import answering, count, positive_number, shown
from privopt.convex import ConstraintSet, EmpiricalRisk, Oracle, pytree_dataclass
from privopt.mechanisms.batches import BATCHES, Batches, Draw
from privopt.mechanisms.calibration import check_calibration, drawable, noise_multiplier
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.noise import IndependentNoise, Noise, noise_of
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import calibrate, gaussian_noise_multiplier, round_down, round_up
from privopt.random import stream
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation

_Batch: TypeAlias = tuple[Array, Array]

_MAX_SAMPLES = 2**22  # normal numbers of a block that are sampled ahead


class StepSample(NamedTuple):
    """Random numbers that are sampled before a step: its batch, if any, and its noise."""

    batch: _Batch | None
    noise: Pytree


class BatchMean(NamedTuple):
    """Quantities of a step before noise; for experiments only, not to be published.

    ``gradient`` is the clipped mean. ``batch`` is ``(rows, mask)``, or None if all records are
    used.
    """

    losses: EmpiricalRisk
    gradient: Pytree
    batch: _Batch | None


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class PrivateGradient:
    r"""Private gradient of ``T`` steps: clipped, averaged over a batch, noisy, projected.

    ``g_t = post((1/b) \sum_{i \in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t)``.

    Attributes
    ----------
    query, batches
        The clipped gradient with norm ``C``; the batch sampler with divisor ``b``.
    noise : Noise or None
        ``z_t``; None for the gradient itself, without privacy.
    post : ConstraintSet or None
        A public set that contains the gradient without noise. The answer is projected onto it, a
        post-processing.
    scale : float
        ``sigma``, in units of the gradient; representable in float32, so that the device adds
        exactly this noise.
    steps : int
        ``T``, the number of answers that are accounted for.

    Formal guarantee
    ----------------
    All ``T`` adaptive answers together are the event that ``noise`` returns for these ``batches``
    at the noise multiplier ``sigma b/C``, round-off included, under ``relation``: for every data
    set and loss, since clipping enforces the sensitivity.

    Examples
    --------
    >>> from privopt.mechanisms import AllRecords
    >>> from privopt.spec import ProblemClass
    >>> query = ClippedGradient.of(ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0))
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> gradient = PrivateGradient.calibrated(query, budget, 100, AllRecords())
    >>> gradient.event(budget.relation).count
    100
    """

    query: ClippedGradient
    batches: Batches
    noise: Noise | None = field(default_factory=IndependentNoise)
    post: ConstraintSet | None = None
    scale: float
    steps: int

    @classmethod
    def calibrated(
        cls,
        query: ClippedGradient,
        budget: Budget,
        steps: int,
        batches: Batches,
        noise: Noise | None = None,
        post: ConstraintSet | None = None,
    ) -> PrivateGradient:
        """Return the mechanism with the least noise for ``steps`` answers within ``budget``."""
        check_calibration(query, budget, "record_sensitivity")
        steps = count("steps", steps)
        noise = noise_of(noise, steps)
        answering("batches", batches, BATCHES)
        unit = cls(query=query, batches=batches, noise=noise, post=post, scale=1.0, steps=steps)
        return unit.within(budget)

    def within(self, budget: Budget) -> PrivateGradient:
        """Return a copy with the least noise that keeps all answers within ``budget``."""
        noise, spendable = self.noise, drawable(budget, 2.0 * self.steps * self.query.dim)
        assert noise is not None

        def event(multiplier: float) -> DpEvent:
            return noise.event(self.batches, multiplier, self.steps, budget.relation)

        match event(1.0):
            case SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=1.0), count=times):
                least = gaussian_noise_multiplier(spendable, compositions=times)
            case GaussianDpEvent(noise_multiplier=unit):
                least = math.nextafter(gaussian_noise_multiplier(spendable) / unit, math.inf)
            case _:
                least = calibrate(event, spendable)
        return self.with_noise_multiplier(least)

    def with_noise_multiplier(self, noise_multiplier: float) -> PrivateGradient:
        """Return a copy with noise of ``noise_multiplier`` times the per-record sensitivity."""
        return replace(self, scale=round_up(noise_multiplier * self.record_sensitivity))

    @property
    def record_sensitivity(self) -> float:
        """Per-record sensitivity ``C/b`` of an answer."""
        divisor = float(self.batches.divisor(self.query.size))
        return self.query.record_sensitivity / round_down(positive_number("divisor", divisor))

    def event(self, relation: Relation) -> DpEvent:
        """Return the event of all ``T`` answers."""
        if self.noise is None:
            return NonPrivateDpEvent()
        noise = noise_multiplier(self.scale, self.record_sensitivity)
        return self.noise.event(self.batches, noise, self.steps, relation)

    def oracle(
        self, losses: EmpiricalRisk, key: Key[Array, ""], microbatch: int = MICROBATCH
    ) -> PrivateAnswers:
        """Return the gradient oracle of a run on the device.

        Batches use ``stream(key, "batches")``, noise uses ``stream(key, "noise")``. ``microbatch``
        gradients of a general loss are in memory at once.
        """
        if self.batches.by_number and losses.counts is not None:
            raise ValueError(
                "counts must be None for batches by record number, since replacing a record would "
                f"change the numbers of others, got multiplicities and {shown(self.batches)}"
            )
        batched = self.batches.block > 0
        clipped_sum = self.query.batch_sums_of if batched else self.query.gradient_of
        return PrivateAnswers(
            mechanism=self,
            losses=losses,
            noise_key=stream(key, "noise"),
            batches=self.draws_of(key, losses.records) if batched else None,
            single=self.batch_of(key, losses.records) if self._samples_single else None,
            clipped_sum=clipped_sum(losses, microbatch),
        )

    def draws_of(self, key: Key[Array, ""], records: Int[Array, ""] | int) -> Draw:
        """Return the batch sampler for this key."""
        return self.batches.draws_of(stream(key, "batches"), records)

    def batch_of(self, key: Array, records: Array | int) -> Draw:
        """Return the sampler ``t -> (rows, mask)`` of single batches for this key."""
        if self._samples_single:
            batch: Draw = self.batches.batch_of(stream(key, "batches"), records)  # type: ignore[attr-defined]
            return batch
        draw, block = self.draws_of(key, records), self.batches.block

        def batch_of_block(t: Array) -> tuple[Array, Array]:
            rows, mask = draw(t // block)
            return rows[t % block], mask[t % block]

        return batch_of_block

    @property
    def _samples_single(self) -> bool:
        return hasattr(self.batches, "batch_of")


@dataclass(frozen=True)
class PrivateAnswers(Oracle):
    """Oracle of a private gradient in one run."""

    mechanism: PrivateGradient
    losses: EmpiricalRisk
    noise_key: Key[Array, ""]
    batches: Draw | None
    single: Draw | None
    clipped_sum: Callable[..., Pytree]

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.mechanism.steps

    @property
    def block(self) -> int:  # type: ignore[override]
        return self.mechanism.batches.block

    def init(self, point: Pytree) -> Pytree:
        noise = self.mechanism.noise
        return () if noise is None else noise.init(point)

    def draw(self, k: Int[Array, ""]) -> _Batch:
        assert self.batches is not None
        return self.batches(k)

    def sample_ahead(self, first: Int[Array, ""], steps: int, point: Pytree) -> Pytree:
        """Return the batches of a block and, if it is independent and not too large, its noise."""
        batches, noise = super().sample_ahead(first, steps, point), self.mechanism.noise
        if type(noise) is not IndependentNoise or steps * _size(point) > _MAX_SAMPLES:
            return batches
        sample = jax.vmap(partial(noise.sample, key=self.noise_key, like=point))
        return StepSample(batches, sample(first + jnp.arange(steps, dtype=first.dtype)))

    def batch(self, t: Array) -> _Batch | None:
        return super().batch(t) if self.single is None else self.single(t)

    def update(
        self,
        state: Pytree,
        t: Array,
        point: Pytree,
        batch: _Batch | StepSample | None = None,
        anchor: Pytree = None,
    ) -> tuple[Pytree, Pytree]:
        """Return ``post(mean clip_C(g_i(w)) + sigma z_t)``, or that of differences to ``anchor``.

        The gradient of the public term of the losses is added last. It depends on no record, and
        needs neither noise nor ``post``.
        """
        noise, scale, post = self.mechanism.noise, self.mechanism.scale, self.mechanism.post
        batch, z = batch if isinstance(batch, StepSample) else (batch, None)
        batch = self.batch(jnp.asarray(t)) if batch is None else batch
        answer = self.mean(point, None if batch is None else release("batch", batch), anchor)
        if noise is not None:
            if z is None:
                z, state = noise.update(state, t, self.noise_key, answer)
            scaled = release("noise", jax.tree.map(lambda leaf: scale * leaf, z))
            answer = jax.tree.map(jnp.add, answer, scaled)
        if post is not None:
            answer = post.project(answer)
        return self._with_public_term(release("answer", answer), point, anchor), state

    def mean(self, point: Pytree, batch: _Batch | None, anchor: Pytree = None) -> Pytree:
        """Return ``(1/b) sum_{i in B} clip_C(grad l(w; x_i))``."""
        if batch is None:
            return self.clipped_sum(point)
        rows, mask = batch
        total = self.clipped_sum(point, rows, mask.astype(self.losses.dtype), anchor)
        divisor = self.mechanism.batches.divisor(self.mechanism.query.size)
        return jax.tree.map(lambda leaf: leaf / jnp.asarray(divisor, leaf.dtype), total)

    def secret(
        self, state: Pytree, t: Array, point: Pytree, batch: _Batch | StepSample | None = None
    ) -> BatchMean:
        del state
        batch = batch.batch if isinstance(batch, StepSample) else batch
        batch = self.batch(jnp.asarray(t)) if batch is None else batch
        return BatchMean(self.losses, self.mean(point, batch), batch)

    def _with_public_term(self, answer: Pytree, point: Pytree, anchor: Pytree) -> Pytree:
        if self.losses.public is None:
            return answer
        answer = jax.tree.map(jnp.add, answer, self.losses.public_gradient(point))
        if anchor is None:
            return answer
        return jax.tree.map(jnp.subtract, answer, self.losses.public_gradient(anchor))


def _size(point: Pytree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(point))
