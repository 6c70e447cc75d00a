"""Bias-reduced gradients: the bias of a large batch at the average cost of small ones.

A step uses batches of a random level. Levels are public randomness, and no level is rejected. The
costs of a stopping rule are integer multiples of equal shares of a limit, rounded up: sums are
exact on every device, and a new budget is a new table, which is an argument of the program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from privopt.arguments import count, shown
from privopt.convex import ConstraintSet, EmpiricalRisk, Oracle, pytree_dataclass
from privopt.mechanisms.batches.batches import present, require_numbered
from privopt.mechanisms.calibration import (
    check_calibration,
    drawable,
    noise_multiplier,
    require_public_size,
)
from privopt.mechanisms.clipping import MICROBATCH, BatchSum
from privopt.mechanisms.noise import IndependentNoise
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import PublicMixtureDpEvent, approximate_event, calibrate, round_up
from privopt.random import fold_in, stream
from privopt.release import Pytree, release
from privopt.spec import Budget, Relation

_NAME = "gradients of reduced bias"
_UNITS = 10**9  # shares of a limit
_LEAST_NOISE = 2.0**-20  # noise multiplier; rates use its logarithm, and delta may cover everything

Shares = npt.NDArray[np.int32]


@pytree_dataclass
@dataclass(frozen=True)
class LevelLaw:
    """Truncated halving law ``P(N = k) = 2^(M - k)/(2^(M + 1) - 1)`` for ``k = 0..M``.

    ``N`` is the number of leading zeros of a word of ``M + 1`` fair bits which is not all zeros.
    ``highest`` is ``M``, at most 30.

    Examples
    --------
    >>> [round(p, 3) for p in LevelLaw.of(100, 10).probabilities]
    [0.571, 0.286, 0.143]
    """

    highest: int = field(metadata={"static": True})

    @classmethod
    def of(cls, n: int, base: int) -> LevelLaw:
        """Return the law with ``M = floor(log2(n/b)) - 1``; the top level uses at most ``n``."""
        count("n", n)
        if count("base", base) > n // 2:
            raise ValueError(f"base must be at most n/2 = {n / 2:g}, got {base}")
        return cls((n // base).bit_length() - 2)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Probability of each level, from 0 on."""
        words = 2 ** (self.highest + 1) - 1
        return tuple(2 ** (self.highest - level) / words for level in range(self.highest + 1))

    def draw(self, key: Key[Array, ""]) -> Int[Array, ""]:
        """Sample one level, int32, by rejection of words that are all zeros."""
        spare = 31 - self.highest

        def word(attempt: Array) -> Array:
            return jax.random.bits(fold_in(key, attempt), (), jnp.uint32) >> spare

        def retry(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return state[0] + 1, word(state[0])

        first = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.uint32)
        _, accepted = jax.lax.while_loop(lambda state: state[1] == 0, retry, first)
        return jax.lax.clz(accepted).astype(jnp.int32) - spare

    def weight(self, level: Int[Array, ""], dtype: jnp.dtype) -> Float[Array, ""]:
        """Return ``1/P(N = level)``, the weight of an increment."""
        words = 2.0 ** (self.highest + 1) - 1.0
        return jnp.ldexp(jnp.asarray(words, dtype), level - self.highest)


@pytree_dataclass
@dataclass(frozen=True)
class PublishedStop:
    """Published stopping rule: stop if half of the budget may be spent, at the published noise.

    With ``a = b_0 (3 2^(k+1) + 1)/(16 n)`` for a step of level ``k``, steps are taken while ::

        sqrt(2 ln(4/delta) sum a^2) + (epsilon/2) sum a^2 <= 1/2   and   sum a <= 1/4

    over the steps taken. All steps together are ``(3 epsilon/4, 3 delta/4)``-private. Proof:
    :ref:`Sparse gradients, Theorem 10 <theory-sparse-10>`.

    Source: Ghazi et al. 2024 (arXiv:2404.10881), Section 5, with the filter of Whitehouse, Ramdas,
    Rogers and Wu 2023 (arXiv:2203.05481).

    ``costs`` of every level and ``limits`` are shares of the two limits, int32. ``epsilon`` and
    ``delta`` cover all steps together: three quarters of the budget, which determines the noise.
    """

    costs: Shares
    limits: Shares
    epsilon: float
    delta: float

    @classmethod
    def of(cls, budget: Budget, n: int, base: int, highest: int) -> PublishedStop:
        """Return the rule for ``2 base`` to ``2^(highest + 1) base`` records of ``n``."""
        costs = _published_shares(budget, n, base, highest)
        limits = np.array([_UNITS, _UNITS], np.int32)
        return cls(costs, limits, 0.75 * budget.epsilon, 0.75 * budget.delta)

    @property
    def most_steps(self) -> int:
        """Largest possible number of steps, for all levels."""
        return int(np.min(self.limits // self.costs.min(axis=0))) + 1

    def init(self) -> Array:
        """Return the initial cost, zero."""
        return jnp.zeros(jnp.shape(self.limits), jnp.int32)

    def spend(self, cost: Array, level: Int[Array, ""]) -> Array:
        """Return the cost after a step of this level."""
        return cost + jnp.asarray(self.costs)[level]

    def is_over(self, cost: Array) -> Bool[Array, ""]:
        """Return True if the run ends."""
        return jnp.any(cost > jnp.asarray(self.limits))

    def event(
        self, noise_multiplier: float, n: int, base: int, highest: int, relation: Relation
    ) -> DpEvent:
        """Return three quarters of the budget, if noise, costs and limits are as published.

        ``noise_multiplier`` is the noise on a sum over the per-record sensitivity.
        """
        if not (self.epsilon > 0.0 and 0.0 < self.delta < 0.75):
            return NonPrivateDpEvent()
        budget = Budget(epsilon=self.epsilon / 0.75, delta=self.delta / 0.75, relation=relation)
        least = _published_shares(budget, n, base, highest) - 1  # quotients may be rounded up by 1
        if self.costs.shape != least.shape:
            return NonPrivateDpEvent()
        is_paid = (least <= self.costs) & (self.costs <= _UNITS + 1)  # sums fit into int32
        if not (np.all(is_paid) and np.all(self.limits <= _UNITS)):
            return NonPrivateDpEvent()
        if noise_multiplier < published_multiplier(budget) * (1.0 - 1e-12):
            return NonPrivateDpEvent()
        return approximate_event(self.epsilon, self.delta)


def published_multiplier(budget: Budget) -> float:
    """Return the noise multiplier of a sum, ``2 z``, ``z = 32 sqrt(2 ln(20/delta))/epsilon``."""
    if budget.epsilon > 1.0:
        raise ValueError(
            "epsilon must be at most 1 for the published constants, which use the classical "
            f"Gaussian mechanism, got {shown(budget.epsilon)}"
        )
    return 64.0 * math.sqrt(2.0 * math.log(20.0 / budget.delta)) / budget.epsilon


def _published_shares(budget: Budget, n: int, base: int, highest: int) -> Shares:
    """Return shares of the largest ``sum a^2`` in the first condition, and of ``sum a <= 1/4``."""
    log = 2.0 * math.log(4.0 / budget.delta)
    root = 1.0 / (math.sqrt(log) + math.sqrt(log + budget.epsilon))
    square = root**2  # (epsilon/2) x^2 + sqrt(log) x = 1/2 at x = root
    shares = [base * (3 * 2 ** (level + 1) + 1) / (16 * n) for level in range(highest + 1)]
    return np.array([[_share(a**2, square), _share(a, 0.25)] for a in shares], np.int32)


def _share(cost: float, limit: float) -> int:
    """Return ``cost/limit`` in shares, rounded up; one more than all shares if it exceeds 1."""
    share = cost / limit * (1.0 + 1e-12)
    return math.ceil(_UNITS * share) if share <= 1.0 else _UNITS + 1


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class BiasReducedGradient:
    """Multilevel gradient, an estimate with the bias of a large batch.

    ``G = (1/p_N) (mean_{2b}(B) - (mean_b(O) + mean_b(E))/2) + mean_{b_0}(I)``, ``b = b_0 2^N``.
    ``N`` is a public level (:class:`LevelLaw`), ``B`` a random ordered set of ``2b`` records,
    ``O`` and ``E`` its two halves, ``I`` an independent set. Each mean is private by itself:
    ``mean_b(B) = post((1/b) (sum_{i in B} clip_C(grad l(w; x_i)) + sigma xi))``, with independent
    noise ``xi``, the same ``sigma`` on the *sum* of every size. ``G`` itself is not projected.

    The bias of ``G`` is that of the largest batch, more than half of all records, while a step
    reads ``O(b_0 ln n)`` of them on average.

    Attributes
    ----------
    query : ClippedGradient
        Clips the gradient of every record to ``C``, before any sum.
    base : int
        ``b_0``, at most ``n/2``.
    post : ConstraintSet or None
        Convex set that contains the means without noise.
    scale : float
        ``sigma``, of the noise on every sum; representable in float32.
    steps : int
        ``T``, the number of answers; with ``stop`` the largest possible number.
    stop : PublishedStop or None
        Ends a run by the cost of its levels.

    Formal guarantee
    ----------------
    Under ``replace_one``, with ``z = sigma/(2C)``: given its level ``k`` a step is a Gaussian
    mechanism of shift ``sqrt(2)/z`` on a sample of ``2 b_0 2^k`` of ``n`` records without
    replacement, composed with one of shift ``1/z`` on ``b_0`` of ``n``. The levels are public and
    independent of the data, so a step is the public mixture of these over ``p_k``, and ``T``
    adaptive steps are their composition, for every data set and loss. With ``stop`` the number of
    steps is a function of the levels, and the guarantee of all steps is that of the rule.

    Proof of bias and privacy: :ref:`Sparse gradients, Theorem 9 <theory-sparse-9>`.

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
        """Return the mechanism with the least noise for ``steps`` answers within ``budget``."""
        check_calibration(query, budget, "record_sensitivity")
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
        """Return the mechanism with published noise and stopping rule (:class:`PublishedStop`)."""
        check_calibration(query, budget, "record_sensitivity")
        unit = cls(query=query, n=n, base=base, post=post, scale=1.0, steps=1)
        require_public_size(budget.relation, _NAME)
        spendable = drawable(budget)
        stop = PublishedStop.of(spendable, n, base, unit.law.highest)
        calibrated = unit.with_noise_multiplier(published_multiplier(spendable) * (1.0 + 2.0**-40))
        return replace(calibrated, steps=stop.most_steps, stop=stop)

    def with_noise_multiplier(self, noise_multiplier: float) -> BiasReducedGradient:
        """Return a copy with noise of ``noise_multiplier`` times the sensitivity of a sum."""
        return replace(self, scale=round_up(noise_multiplier * self.query.record_sensitivity))

    @property
    def law(self) -> LevelLaw:
        """Law of the level."""
        require_numbered("n", self.n)
        return LevelLaw.of(self.n, self.base)

    @property
    def noise_multiplier(self) -> float:
        """Noise multiplier ``2 z`` of a sum."""
        return noise_multiplier(self.scale, self.query.record_sensitivity)

    def event(self, relation: Relation) -> DpEvent:
        """Return ``T`` times a public mixture over the levels, composed with the mean of ``I``.

        With ``stop``, return the guarantee of the rule.
        """
        require_public_size(relation, _NAME)
        law, noise = self.law, self.noise_multiplier
        if self.stop is not None:
            return self.stop.event(noise, self.n, self.base, law.highest, relation)
        joint = math.nextafter(self.noise_multiplier / math.sqrt(2.0), 0.0)  # B, O and E
        levels = [self._sampled(self.base << level + 1, joint) for level in range(law.highest + 1)]
        mixture = PublicMixtureDpEvent(tuple(levels), law.probabilities)
        step = ComposedDpEvent((mixture, self._sampled(self.base, noise)))
        return SelfComposedDpEvent(step, self.steps)

    def _sampled(self, batch: int, noise: float) -> DpEvent:
        return SampledWithoutReplacementDpEvent(self.n, batch, GaussianDpEvent(noise))

    def oracle(
        self,
        losses: EmpiricalRisk,
        key: Key[Array, ""],
        public_key: Key[Array, ""],
        microbatch: int = MICROBATCH,
    ) -> BiasReducedAnswers:
        """Return the oracle of a run; runs with the same ``public_key`` share levels."""
        return BiasReducedAnswers(
            mechanism=self,
            losses=losses,
            public_key=public_key,
            batches_key=stream(key, "batches"),
            noise_key=stream(key, "noise"),
            clipped_sum=self.query.batch_sums_of(losses, microbatch),
        )


@dataclass(frozen=True)
class BiasReducedAnswers(Oracle):
    """Oracle of a bias-reduced gradient in one run.

    The level of step ``t`` uses ``fold_in(public_key, t)``, ``B`` and ``I`` use children 0 and 1
    of ``fold_in(stream(key, "batches"), t)``, and the four noises are one sample from
    ``stream(key, "noise")``. Only the branch of the sampled level is computed.
    """

    mechanism: BiasReducedGradient
    losses: EmpiricalRisk
    public_key: Key[Array, ""]
    batches_key: Key[Array, ""]
    noise_key: Key[Array, ""]
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

    def is_over(self, state: Pytree) -> Bool[Array, ""]:
        assert self.mechanism.stop is not None
        return self.mechanism.stop.is_over(state)

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        """Return ``G`` plus the gradient of the public term of the losses, which needs no noise."""
        mechanism, scale = self.mechanism, self.mechanism.scale
        level = mechanism.law.draw(fold_in(self.public_key, t))
        key = fold_in(self.batches_key, t)
        order = self._order(level, fold_in(key, 0))
        single = ordered_subset(fold_in(key, 1), mechanism.base, mechanism.n)
        branches = [partial(self._halves, each) for each in range(mechanism.law.highest + 1)]
        halves = jax.lax.switch(level, branches, order, point)
        sums = jax.tree.map(
            lambda parts, one: jnp.concatenate([parts.sum(0)[None], parts, one]),
            halves,
            self._sums(single, mechanism.base, point),
        )  # over B, O, E and I
        z, _ = IndependentNoise().update((), t, self.noise_key, sums)
        scaled = release("noise", jax.tree.map(lambda leaf: scale * leaf, z))
        answer = self._combined(jax.tree.map(jnp.add, sums, scaled), level)
        if self.losses.public is not None:
            answer = jax.tree.map(jnp.add, answer, self.losses.public_gradient(point))
        stop = mechanism.stop
        return answer, state if stop is None else stop.spend(state, level)

    def _halves(self, level: int, order: Array, point: Pytree) -> Pytree:
        """Return the clipped sums over ``O`` and ``E``, which add up to the sum over ``B``."""
        size = self.mechanism.base << level
        return self._sums(order[: 2 * size], size, point)

    def _sums(self, rows: Array, size: int, point: Pytree) -> Pytree:
        """Return clipped sums over consecutive sets of ``size`` records."""
        parts = present(release("batch", rows).reshape(-1, size), self.losses.records)
        weighted = parts[0], parts[1].astype(self.losses.dtype)
        return jax.lax.map(lambda part: self.clipped_sum(point, *part), weighted)

    def _order(self, level: Array, key: Array) -> Array:
        """Return record numbers in an order with ``B`` as first ``2b``; the rest may be 0.

        The beginning of a random ordered set is a random ordered set. One sample therefore serves
        all levels with small batches, and one permutation serves the others.
        """
        n, base = self.mechanism.n, self.mechanism.base
        sizes = [2 * base << level for level in range(self.mechanism.law.highest + 1)]
        small_size = max((size for size in sizes if 2 * size**2 <= n), default=0)
        if small_size == 0:
            return ordered_subset(key, n, n)

        def short() -> Array:
            return jnp.zeros(n, jnp.int32).at[:small_size].set(ordered_subset(key, small_size, n))

        is_large = level >= sizes.index(small_size) + 1
        return jax.lax.cond(is_large, lambda: ordered_subset(key, n, n), short)

    def _combined(self, sums: Pytree, level: Array) -> Pytree:
        """Return ``G`` from the noisy sums over ``B``, ``O``, ``E`` and ``I``."""
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


def ordered_subset(key: Key[Array, ""], size: int, n: int) -> Int[Array, " size"]:
    """Sample ``size`` distinct numbers below ``n``, int32, uniform among ordered lists.

    The first half of the list is then a random half of the set. ``1 <= size <= n`` are static. Up
    to ``sqrt(n/2)`` numbers are sampled jointly, and again until they are distinct: four of five
    rounds succeed. A longer list is the beginning of a permutation.

    Examples
    --------
    >>> numbers = ordered_subset(jax.random.key(0), 4, 100)
    >>> len(set(numbers.tolist()))
    4
    """
    if 2 * size * size > n:
        return jax.random.permutation(key, jnp.arange(n, dtype=jnp.int32))[:size]

    def draw(attempt: Array) -> Array:
        return jax.random.randint(fold_in(key, attempt), (size,), 0, n, jnp.int32)

    def repeats(state: tuple[Array, Array]) -> Array:
        ascending = jnp.sort(state[1])
        return jnp.any(ascending[1:] == ascending[:-1])

    def retry(state: tuple[Array, Array]) -> tuple[Array, Array]:
        attempt = state[0] + 1
        return attempt, draw(attempt)

    first = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(repeats, retry, (first, draw(first)))[1]
