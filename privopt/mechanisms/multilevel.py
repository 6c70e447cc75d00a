"""Multilevel estimators: the law of the levels, and stopping rules by their privacy cost.

A rule depends on the levels of the steps taken, which are public randomness, and rejects no level
(:ref:`Sparse gradients, Theorem 10 <theory-sparse-10>`). Costs are integer multiples of equal
shares of a limit, rounded up: sums are exact on every device, and a new budget is a new table,
which is an argument of the program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from dp_accounting import DpEvent, NonPrivateDpEvent
from jax import Array

from privopt.arguments import count, shown
from privopt.convex import pytree_dataclass
from privopt.privacy import approximate_event
from privopt.spec import Budget, Relation


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

    def draw(self, key: Array) -> Array:
        """Sample one level, int32, by rejection of words that are all zeros."""
        spare = 31 - self.highest

        def word(attempt: Array) -> Array:
            return jax.random.bits(jax.random.fold_in(key, attempt), (), jnp.uint32) >> spare

        def retry(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return state[0] + 1, word(state[0])

        first = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.uint32)
        _, accepted = jax.lax.while_loop(lambda state: state[1] == 0, retry, first)
        return jax.lax.clz(accepted).astype(jnp.int32) - spare

    def weight(self, level: Array, dtype: jnp.dtype) -> Array:
        """Return ``1/P(N = level)``, the weight of an increment."""
        words = 2.0 ** (self.highest + 1) - 1.0
        return jnp.ldexp(jnp.asarray(words, dtype), level - self.highest)


_UNITS = 10**9

Shares = npt.NDArray[np.int32]


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

    def spend(self, cost: Array, level: Array) -> Array:
        """Return the cost after a step of this level."""
        return cost + jnp.asarray(self.costs)[level]

    def is_over(self, cost: Array) -> Array:
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
