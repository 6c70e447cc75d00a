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
from privopt.convex import ConstraintSet, EmpiricalRisk, Oracle, pytree_dataclass
from privopt.mechanisms.batches.batches import present, require_numbered
from privopt.mechanisms.calibration import (
    check_calibration,
    drawable,
    noise_multiplier,
    require_public_size,
)
from privopt.mechanisms.clipping import MICROBATCH, BatchSum
from privopt.mechanisms.multilevel import (
    LevelLaw,
    PublishedStop,
    published_multiplier,
)
from privopt.mechanisms.noise import IndependentNoise
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import PublicMixtureDpEvent, calibrate, round_up
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation
from privopt.streams import stream

_NAME = "gradients of reduced bias"
_LEAST_NOISE = 2.0**-20  # where delta alone pays for a sample: rates take logarithms of noise


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class BiasReducedGradient:
    """``G = (1/p_N) (mean_{2b}(B) - (mean_b(O) + mean_b(E))/2) + mean_{b_0}(I)``, ``b = b_0 2^N``.

    ``N`` is a public level (:class:`LevelLaw`), ``B`` a random ordered set of ``2b`` records,
    ``O`` and ``E`` its two halves, ``I`` another set, drawn independently. Each mean is private by
    itself: ``mean_b(B) = post((1/b) (sum_{i in B} clip_C(grad l(w; x_i)) + sigma xi))``, with
    noise ``xi`` of its own, the same ``sigma`` on the *sum* of every size. ``G`` itself is not
    projected.

    *Why.* A noisy mean, projected onto a small body, has a small error, with a bias. With ``m_b``
    the expectation of ``mean_b`` over sets and noise, ``E G = sum_k (m_{b_0 2^(k+1)} - m_{b_0
    2^k}) + m_{b_0} = m_{b_0 2^(M+1)}``: the bias of ``G`` is that of the largest batch, more than
    half of all records, while a step reads ``O(b_0 ln n)`` of them on average. It telescopes
    because a mean depends on nothing but the size of its batch, and levels are drawn by the very
    probabilities that ``G`` divides by.

    Attributes
    ----------
    query : ClippedGradient
        Clips every record's gradient to ``C``, before any sum.
    base : int
        ``b_0``, at most ``n/2``.
    post : ConstraintSet or None
        The body that holds the means without noise.
    scale : float
        ``sigma``, of the noise on every sum; representable in float32.
    steps : int
        ``T``, the number of answers; with ``stop`` the largest number that is possible.
    stop : PublishedStop or None
        Ends a run by what its levels have cost.

    Formal guarantee
    ----------------
    Under ``replace_one``, with ``z = sigma/(2C)``: given its level ``k`` a step is a Gaussian
    mechanism of shift ``sqrt(2)/z`` on a sample of ``2 b_0 2^k`` of ``n`` records without
    replacement, composed with one of shift ``1/z`` on ``b_0`` of ``n``. The levels are public and
    drawn without data, so a step is the public mixture of these over ``p_k``, and ``T`` adaptive
    steps their composition. For every data set and loss. With ``stop`` the number of steps follows
    from the levels alone, and all of them together are what the rule says.

    *Two of three.* Let record ``i`` be replaced. Where ``i`` is in ``B`` it is in exactly one of
    ``O`` and ``E``, so the other half's release has one law. The sum over ``B`` and the sum over
    ``i``'s half move by ``2C`` at most, each under its own noise: shifts ``1/z`` and ``1/z``,
    together ``sqrt(2)/z``. Averaging, projecting and combining are post-processing.

    *Sampling.* With ``q = 2b/n`` the laws of the three releases are ``P = (1 - q) P_0 + q P_1``
    and ``Q = (1 - q) P_0 + q Q_1``, by whether ``i`` is in ``B``. By advanced joint convexity, for
    ``a >= 1``, ``a' = 1 + q (a - 1)`` and ``c = a'/a``, their hockey stick at ``a'`` is ``q``
    times that of ``P_1`` and ``(1 - c) P_0 + c Q_1`` at ``a``, so at most ``q`` times the larger
    of those of ``P_1, P_0`` and of ``P_1, Q_1``. The latter is the case above, all places fixed.
    For the former, put a random record from outside ``B`` in the place of ``i``: an ordered set
    that contains ``i`` becomes a uniform one that does not, no other record moves, and so ``B``
    and one half change by one record: shift ``sqrt(2)/z`` again. It needs *random* halves: after a
    sort that exchange would move other records between ``O`` and ``E``. Both orders of the
    neighbours are alike. Sources: Balle, Barthe and Gaboardi 2018 (arXiv:1807.01647), Theorems 2
    and 9; two of three for Ghazi et al. 2024 (arXiv:2404.10881), section 5, who charge all three.

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
    stop: PublishedStop | None = None

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
        """The least noise for ``steps`` answers within ``budget``."""
        check_calibration(query, budget, "contribution")
        steps = count("steps", steps)
        unit = cls(query=query, n=n, base=base, post=post, scale=1.0, steps=steps)

        def event(noise: float) -> DpEvent:
            return unit.with_noise_multiplier(noise).event(budget.relation)

        return unit.with_noise_multiplier(max(_LEAST_NOISE, calibrate(event, drawable(budget))))

    @classmethod
    def published(
        cls,
        query: ClippedGradient,
        budget: Budget,
        n: int,
        base: int = 1,
        post: ConstraintSet | None = None,
    ) -> BiasReducedGradient:
        """The published noise and stopping rule: see :class:`PublishedStop`."""
        check_calibration(query, budget, "contribution")
        unit = cls(query=query, n=n, base=base, post=post, scale=1.0, steps=1)
        require_public_size(budget.relation, _NAME)
        spendable = drawable(budget)
        stop = PublishedStop.of(spendable, n, base, unit.law.highest)
        calibrated = unit.with_noise_multiplier(published_multiplier(spendable) * (1.0 + 2.0**-40))
        return replace(calibrated, steps=stop.most_steps, stop=stop)

    def with_noise_multiplier(self, noise_multiplier: float) -> BiasReducedGradient:
        """Return a copy with noise of ``noise_multiplier`` times the per-record sensitivity of a sum."""
        return replace(self, scale=round_up(noise_multiplier * self.query.contribution))

    @property
    def law(self) -> LevelLaw:
        """Of the level."""
        require_numbered("n", self.n)
        return LevelLaw.of(self.n, self.base)

    @property
    def noise_multiplier(self) -> float:
        """``2 z``: the noise on a sum over one record's largest share of it."""
        return noise_multiplier(self.scale, self.query.contribution)

    def levels(self, relation: Relation) -> tuple[DpEvent, ...]:
        """What the means of ``B``, ``O`` and ``E`` together do to privacy, at each level."""
        require_public_size(relation, _NAME)
        twice = math.nextafter(self.noise_multiplier / math.sqrt(2.0), 0.0)
        levels = range(self.law.highest + 1)
        return tuple(self._sampled(self.base << level + 1, twice) for level in levels)

    @property
    def single(self) -> DpEvent:
        """What the mean of ``I`` does to privacy, in every step."""
        return self._sampled(self.base, self.noise_multiplier)

    def level_events(self, relation: Relation) -> tuple[DpEvent, ...]:
        """What a whole step does to privacy at each level."""
        return tuple(ComposedDpEvent((level, self.single)) for level in self.levels(relation))

    def event(self, relation: Relation) -> DpEvent:
        """``T`` times a public mixture of :meth:`levels`, and :attr:`single` beside it.

        With ``stop``, what the rule is proved to keep.
        """
        if self.stop is not None:
            return self.stop.event(self.noise_multiplier, self.level_events(relation), relation)
        mixture = PublicMixtureDpEvent(self.levels(relation), self.law.probabilities)
        return SelfComposedDpEvent(ComposedDpEvent((mixture, self.single)), self.steps)

    def _sampled(self, batch: int, noise: float) -> DpEvent:
        return SampledWithoutReplacementDpEvent(self.n, batch, GaussianDpEvent(noise))

    def oracle(
        self, losses: EmpiricalRisk, key: Array, coins: Array, microbatch: int = MICROBATCH
    ) -> BiasReducedAnswers:
        """What a run on the device asks; runs that share ``coins`` share levels."""
        return BiasReducedAnswers(
            mechanism=self,
            losses=losses,
            coins=coins,
            batches_key=stream(key, "batches"),
            noise_key=stream(key, "noise"),
            clipped_sum=self.query.batch_sums_of(losses, microbatch),
        )


@dataclass(frozen=True)
class BiasReducedAnswers(Oracle):
    """The answers of one run.

    The level of step ``t`` comes from ``fold_in(coins, t)``, ``B`` and ``I`` from children 0 and 1
    of ``fold_in(stream(key, "batches"), t)``, the four noises are one draw from ``stream(key,
    "noise")``. Only the branch of the level that was drawn is computed.
    """

    mechanism: BiasReducedGradient
    losses: EmpiricalRisk
    coins: Array
    batches_key: Array
    noise_key: Array
    clipped_sum: BatchSum

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.mechanism.steps

    @property
    def stops(self) -> bool:  # type: ignore[override]
        return self.mechanism.stop is not None

    def init(self, point: Pytree) -> Pytree:
        stop = self.mechanism.stop
        return () if stop is None else stop.init()

    def is_over(self, state: Pytree) -> Array:
        assert self.mechanism.stop is not None
        return self.mechanism.stop.is_over(state)

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        """``G``, and the gradient of the public term of the losses, which is no record's."""
        mechanism, scale = self.mechanism, self.mechanism.scale
        level = mechanism.law.draw(jax.random.fold_in(self.coins, t))
        key = jax.random.fold_in(self.batches_key, t)
        order = self._order(level, jax.random.fold_in(key, 0))
        single = ordered_subset(jax.random.fold_in(key, 1), mechanism.base, mechanism.n)
        branches = [partial(self._halves, each) for each in range(mechanism.law.highest + 1)]
        halves = jax.lax.switch(level, branches, order, point)
        four = jax.tree.map(_four, halves, self._sums(single, mechanism.base, point))
        z, _ = IndependentNoise().update((), t, self.noise_key, four)
        added = release("noise", jax.tree.map(lambda leaf: scale * leaf, z))
        answer = self._combined(jax.tree.map(jnp.add, four, added), level)
        if self.losses.public is not None:
            answer = jax.tree.map(jnp.add, answer, self.losses.public_gradient(point))
        stop = mechanism.stop
        return answer, state if stop is None else stop.spend(state, level)

    def _halves(self, level: int, order: Array, point: Pytree) -> Pytree:
        """The clipped sums over ``O`` and ``E``, which together are that over ``B``."""
        size = self.mechanism.base << level
        return self._sums(order[: 2 * size], size, point)

    def _sums(self, rows: Array, size: int, point: Pytree) -> Pytree:
        """Clipped sums over consecutive sets of so many records."""
        parts = present(release("batch", rows).reshape(-1, size), self.losses.records)
        weighed = parts[0], parts[1].astype(self.losses.dtype)
        return jax.lax.map(lambda part: self.clipped_sum(point, *part), weighed)

    def _order(self, level: Array, key: Array) -> Array:
        """Numbers of records in an order of which the first ``2b`` are ``B``; the rest may be 0.

        The first of a random ordered set are one themselves, so one draw serves the levels of
        small batches, and one permutation all others.
        """
        n, base = self.mechanism.n, self.mechanism.base
        sizes = [2 * base << level for level in range(self.mechanism.law.highest + 1)]
        few = max((size for size in sizes if 2 * size**2 <= n), default=0)
        if few == 0:
            return ordered_subset(key, n, n)

        def short() -> Array:
            return jnp.zeros(n, jnp.int32).at[:few].set(ordered_subset(key, few, n))

        is_large = level >= sizes.index(few) + 1
        return jax.lax.cond(is_large, lambda: ordered_subset(key, n, n), short)

    def _combined(self, sums: Pytree, level: Array) -> Pytree:
        """``G`` of the noisy sums over ``B``, ``O``, ``E`` and ``I``."""
        mechanism, post = self.mechanism, self.mechanism.post
        half = mechanism.base * jnp.left_shift(1, level)
        sizes = jnp.stack([2 * half, half, half, jnp.full_like(half, mechanism.base)])

        def mean(total: Array) -> Array:
            return total / sizes.astype(total.dtype).reshape(4, *(1,) * (total.ndim - 1))

        def combined(mean: Array) -> Array:
            whole, first, second, single = mean
            weight = mechanism.law.weight(level, mean.dtype)
            return weight * (whole - 0.5 * (first + second)) + single

        means = jax.tree.map(mean, sums)
        means = release("answer", means if post is None else post.project(means))
        return jax.tree.map(combined, means)


def _four(halves: Array, single: Array) -> Array:
    """The sums of ``B``, ``O``, ``E`` and ``I``."""
    return jnp.concatenate([halves.sum(0)[None], halves, single])


def ordered_subset(key: Array, size: int, n: int) -> Array:
    """``size`` distinct numbers below ``n``, int32, uniform among the lists of such numbers.

    So the first half of the list is a random half of the set. ``1 <= size <= n`` are static. Up to
    ``sqrt(n/2)`` numbers are drawn together, and all again until they are distinct: four rounds of
    five succeed. A longer list is the beginning of a permutation.

    Examples
    --------
    >>> drawn = ordered_subset(jax.random.key(0), 4, 100)
    >>> len(set(drawn.tolist()))
    4
    """
    if 2 * size * size > n:
        return jax.random.permutation(key, jnp.arange(n, dtype=jnp.int32))[:size]

    def draw(turn: Array) -> Array:
        return jax.random.randint(jax.random.fold_in(key, turn), (size,), 0, n, jnp.int32)

    def repeats(state: tuple[Array, Array]) -> Array:
        ascending = jnp.sort(state[1])
        return jnp.any(ascending[1:] == ascending[:-1])

    def again(state: tuple[Array, Array]) -> tuple[Array, Array]:
        turn = state[0] + 1
        return turn, draw(turn)

    first = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(repeats, again, (first, draw(first)))[1]
