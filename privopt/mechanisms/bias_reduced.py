"""A gradient whose bias is that of nearly all records, from batches that are mostly small."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from jax import Array

from privopt.arguments import count
from privopt.convex import ConstraintSet, EmpiricalRisk, GradientOracle, pytree_dataclass
from privopt.mechanisms.batches import ordered_subset
from privopt.mechanisms.batches.batches import require_numbered
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.clipping import MICROBATCH
from privopt.mechanisms.events import drawable, require_public_size
from privopt.mechanisms.level_law import LevelLaw
from privopt.mechanisms.noise.vectors import drawn, restored
from privopt.mechanisms.queries import ClippedGradient
from privopt.mechanisms.scaled import scaled
from privopt.privacy import calibrate, round_up
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation
from privopt.streams import stream

__all__ = ["BiasReducedGradient"]


def PublicMixtureDpEvent(events, probabilities):  # stand-in
    return events[-1]


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class BiasReducedGradient:
    r"""``G = (1/p_N) (mean_{2b}(B) - (mean_b(O) + mean_b(E))/2) + mean_{b_0}(I)``, ``b = b_0 2^N``.

    ``N`` is a public level (:class:`LevelLaw`), ``B`` a random ordered set of ``2b`` records, ``O``
    and ``E`` its two halves, ``I`` another set, drawn independently. Each mean is private by
    itself: ``mean_b(B) = post((1/b) (sum_{i in B} clip_C(grad l(w; x_i)) + sigma z))``, with noise
    of its own, the same ``sigma`` on the *sum* of every size. ``G`` itself is not projected.

    Why. Projecting a noisy mean onto a small body makes its error small and biased. With ``m_b``
    the expectation of ``mean_b`` over sets and noise, ``E G = sum_k (m_{b_0 2^(k+1)} - m_{b_0 2^k})
    + m_{b_0} = m_{b_0 2^(M+1)}``: the bias of ``G`` is that of the largest batch, more than half
    of all records, while a step reads ``O(b_0 ln n)`` of them on average. It telescopes because
    a mean depends on nothing but the size of its batch, and levels are drawn by the very
    probabilities that ``G`` divides by.

    Attributes
    ----------
    query : ClippedGradient
        Clips every record's gradient to ``C``, before any sum.
    n : int
    base : int
        ``b_0``, at most ``n/2``.
    post : ConstraintSet or None
        The body that holds the means without noise; None for nothing.
    scale : float
        ``sigma``, of the noise on every sum; representable in float32.
    steps : int
        ``T``: so many answers are given and accounted for.

    Formal guarantee
    ----------------
    Under ``replace_one``, with ``z = sigma/(2C)``: given its level ``k`` a step is a Gaussian
    mechanism of shift ``sqrt(2)/z`` on a sample of ``2 b_0 2^k`` of ``n`` records without
    replacement, composed with one of shift ``1/z`` on ``b_0`` of ``n``. The levels are public
    and drawn without data, so a step is the public mixture of these over ``p_k``, and ``T``
    adaptive steps their composition. For every data set and loss.

    *Two of three.* Let record ``i`` be replaced. Where ``i`` is in ``B`` it is in exactly one of
    ``O`` and ``E``, so the other half's release has one law. The sum over ``B`` and the sum over
    ``i``'s half move by ``2C`` at most, each under its own noise: shifts ``1/z`` and ``1/z``,
    together ``sqrt(2)/z``. Averaging, projecting and combining are post-processing.

    *Sampling.* With ``q = 2b/n`` write the laws of the three releases as ``P = (1-q) P_0 + q P_1``
    and ``Q = (1-q) P_0 + q Q_1``, by whether ``i`` is in ``B``. For ``a >= 1`` and ``a' = 1 + q (a -
    1)``, ``D_{a'}(P||Q) = q D_a(P_1 || (1-c) P_0 + c Q_1)``, ``c = a'/a``, which is at most ``q
    ((1-c) D_a(P_1||P_0) + c D_a(P_1||Q_1))`` (advanced joint convexity). The second is the case
    above, places fixed. For the first, put a random record from outside ``B`` in the place of
    ``i``: an ordered set that contains ``i`` becomes a uniform one that does not, all other
    places unmoved, and so one half and ``B`` change by one record again: shift ``sqrt(2)/z``.
    It needs *random* halves: in those of a sorted set that swap would move other records between
    ``O`` and ``E``. The reverse order is the same. Sources: Balle, Barthe and Gaboardi 2018
    (arXiv:1807.01647), Theorems 2 and 9; two of three for Ghazi et al. 2024 (arXiv:2404.10881),
    section 5, who charge all three.

    *The single call.* ``I`` is independent of ``B`` and of its noise: a product of laws.

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> query = ClippedGradient.of(ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0))
    >>> gradient = BiasReducedGradient(query=query, n=1000, base=10, scale=4.0, steps=50)
    >>> gradient.law.highest, gradient.event(Relation.REPLACE_ONE).count
    (5, 50)
    """

    query: ClippedGradient
    n: int = field(metadata={"static": True})
    base: int = field(metadata={"static": True})
    post: ConstraintSet | None = None
    scale: float
    steps: int

    @classmethod
    def calibrated(
        cls,
        query: ClippedGradient,
        budget: Budget,
        steps: int,
        n: int,
        base: int = 1,
        post: ConstraintSet | None = None,
    ) -> BiasReducedGradient:
        """The least noise for ``steps`` answers within ``budget``.

        Raises
        ------
        ValueError
            If ``base`` is above ``n/2``, ``budget.relation`` is not ``replace_one``, or no noise
            meets ``budget``.
        """
        check_calibration(query, budget, "contribution")
        steps = count("steps", steps)
        unit = cls(query=query, n=n, base=base, post=post, scale=1.0, steps=steps)

        def event(multiplier: float) -> DpEvent:
            return unit.noised(multiplier).event(budget.relation)

        return unit.noised(calibrate(event, drawable(budget)))

    def noised(self, multiplier: float) -> BiasReducedGradient:
        """The same with noise of so many times one record's largest share of a sum."""
        return replace(self, scale=round_up(multiplier * self.query.contribution))

    def scaled(self, factor: float) -> BiasReducedGradient:
        """The same with all its noise times ``factor``, from 0 on: for experiments."""
        return replace(self, scale=scaled(self.scale, factor))

    @property
    def law(self) -> LevelLaw:
        """Of the level."""
        require_numbered("n", self.n)
        return LevelLaw.of(self.n, self.base)

    @property
    def multiplier(self) -> float:
        """``2 z``: the noise on a sum over one record's largest share of it."""
        return math.nextafter(self.scale / self.query.contribution, 0.0)

    def levels(self, relation: Relation) -> tuple[DpEvent, ...]:
        """What the means of ``B``, ``O`` and ``E`` together do to privacy, at each level.

        Raises
        ------
        ValueError
            Under any relation but ``replace_one``.
        """
        require_public_size(relation, "gradients of reduced bias")
        twice = math.nextafter(self.multiplier / math.sqrt(2.0), 0.0)
        levels = range(self.law.highest + 1)
        return tuple(self._sampled(self.base << level + 1, twice) for level in levels)

    @property
    def single(self) -> DpEvent:
        """What the mean of ``I`` does to privacy, in every step."""
        return self._sampled(self.base, self.multiplier)

    def event(self, relation: Relation) -> DpEvent:
        """``T`` times a public mixture of :meth:`levels`, and :attr:`single` beside it."""
        mixture = PublicMixtureDpEvent(self.levels(relation), self.law.probabilities)
        return SelfComposedDpEvent(ComposedDpEvent((mixture, self.single)), self.steps)

    def _sampled(self, batch: int, multiplier: float) -> DpEvent:
        return SampledWithoutReplacementDpEvent(self.n, batch, GaussianDpEvent(multiplier))

    def bind(
        self, objective: EmpiricalRisk, key: Array, coins: Array, microbatch: int = MICROBATCH
    ) -> GradientOracle:
        """The oracle of a run on the device.

        The level of step ``t`` comes from ``fold_in(coins, t)``, sets and noise from children of
        ``stream(key, "batches")`` and ``stream(key, "noise")``. Runs that share ``coins`` share
        levels, and only the branch of that level is computed.
        """
        law, total = self.law, self.query.bind_batches(objective, microbatch)
        batches, noise = stream(key, "batches"), stream(key, "noise")
        sums = [
            partial(self._sums, total, objective.dtype, self.base << level, 2)
            for level in range(law.highest + 1)
        ]

        def ask(memory: Pytree, t: Array, point: Pytree) -> tuple[Pytree, Pytree]:
            level = law.draw(jax.random.fold_in(coins, t))
            sets, own = jax.random.fold_in(batches, t), jax.random.fold_in(noise, t)
            halves = jax.lax.switch(level, sums, point, jax.random.fold_in(sets, 0))
            single = self._sums(
                total, objective.dtype, self.base, 1, point, jax.random.fold_in(sets, 1)
            )
            means = self._means(jax.tree.map(_four, halves, single), level, own, point)
            weight = law.weight(level, objective.dtype)

            def combined(mean: Array) -> Array:
                whole, first, second, alone = mean
                return weight * (whole - 0.5 * (first + second)) + alone

            return jax.tree.map(combined, means), memory

        return GradientOracle(self.steps, lambda point: (), ask)

    def _sums(
        self, total: Pytree, dtype: jnp.dtype, size: int, sets: int, point: Pytree, key: Array
    ) -> Pytree:
        """Clipped sums over so many disjoint sets of ``size`` records each, stacked."""
        rows = release("batch", ordered_subset(key, sets * size, self.n)).reshape(sets, size)
        return jax.lax.map(lambda part: total(point, part, jnp.ones(size, dtype)), rows)

    def _means(self, sums: Pytree, level: Array, key: Array, point: Pytree) -> Pytree:
        """The means of ``B``, ``O``, ``E`` and ``I`` with their noise, each in the body."""
        each = [restored(drawn(key, jnp.asarray(i), point), point) for i in range(4)]
        stacked = jax.tree.map(lambda *noise: jnp.stack(noise), *each)
        noise = release("noise", jax.tree.map(lambda z: self.scale * z, stacked))
        half = self.base * jnp.left_shift(1, level)
        sizes = jnp.stack([2 * half, half, half, jnp.full_like(half, self.base)])

        def mean(total: Array, noise: Array) -> Array:
            size = sizes.astype(total.dtype).reshape(4, *(1,) * (total.ndim - 1))
            return (total + noise) / size

        means = jax.tree.map(mean, sums, noise)
        return release("answer", means if self.post is None else self.post.project(means))


def _four(halves: Array, single: Array) -> Array:
    """The sums of ``B``, ``O``, ``E`` and ``I``."""
    return jnp.concatenate([halves.sum(0)[None], halves, single])
