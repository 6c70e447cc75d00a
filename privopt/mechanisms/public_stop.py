"""The rule that ends a run by what its public coins have cost, no later than a budget allows.

A step's cost depends on its level alone, and levels are public coins. So the number of steps ``T``
is a function of coins and constants. Given all coins, the run is an ordinary composition of ``T``
mechanisms with fixed parameters, and needs no filter for adaptive choices. It needs a rule under
which no sequence of coins spends more than the budget.

*Never reject a level.* A rule looks at the steps taken, before the next level is drawn. A rule that
draws a level and stops if its cost does not fit would never take the large batches, nor the largest
terms of the telescoping sum.

Costs are whole numbers of equal shares of a limit, rounded up: sums are exact on any device, and a
new budget is a new table, which enters by argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from dp_accounting import DpEvent, NonPrivateDpEvent
from jax import Array

from privopt.convex import pytree_dataclass
from privopt.privacy import approximate_event
from privopt.spec import Budget, Relation

_UNITS = 10**9

Shares = npt.NDArray[np.int32]


@pytree_dataclass
@dataclass(frozen=True)
class PublishedStop:
    """The published rule: stop once half of the budget may be spent, at the published noise.

    Every mean is ``(epsilon/32, delta/16)``-private by the classical Gaussian mechanism. So a step
    of level ``k`` is ``(a epsilon, a delta)``-private with ``a = b_0 (3 2^(k+1) + 1)/(16 n)``:
    three means on ``2 b_0 2^k`` records of ``n`` and one on ``b_0``, as ``ln(1 + q (exp(x) - 1)) <=
    2 q x`` for ``x <= 1``. Steps are taken while ::

        sqrt(2 ln(4/delta) sum a^2) + (epsilon/2) sum a^2 <= 1/2   and   sum a <= 1/4

    over the steps taken. By advanced composition with a slack of ``delta/4`` these steps are
    ``(epsilon/2, delta/2)``-private. The last step may exceed that, by ``a <= 1/4``: all steps
    together are ``(3 epsilon/4, 3 delta/4)``-private.

    Source: Ghazi et al. 2024 (arXiv:2404.10881), Section 5, with the filter of Whitehouse, Ramdas,
    Rogers and Wu 2023 (arXiv:2203.05481).

    Attributes
    ----------
    costs : ndarray
        Of every level, int32, shape ``(levels, 2)``: shares of the two limits.
    limits : ndarray
        int32, shape ``(2,)``.
    epsilon, delta : float
        Of all steps together: three quarters of the budget, from which the noise follows.
    """

    costs: Shares
    limits: Shares
    epsilon: float
    delta: float

    @classmethod
    def of(cls, budget: Budget, n: int, base: int, highest: int) -> PublishedStop:
        """The rule for batches from ``2 base`` to ``2^(highest + 1) base`` of ``n`` records."""
        costs = _published_shares(budget, n, base, highest)
        limits = np.array([_UNITS, _UNITS], np.int32)
        return cls(costs, limits, 0.75 * budget.epsilon, 0.75 * budget.delta)

    @property
    def most_steps(self) -> int:
        """The number of steps after which a run has ended, whatever the levels."""
        return int(np.min(self.limits // self.costs.min(axis=0))) + 1

    def begin(self) -> Array:
        """Nothing is spent."""
        return jnp.zeros(jnp.shape(self.limits), jnp.int32)

    def spend(self, spent: Array, level: Array) -> Array:
        """What is spent after a step of that level."""
        return spent + jnp.asarray(self.costs)[level]

    def is_over(self, spent: Array) -> Array:
        """Whether no further step is taken."""
        return jnp.any(spent > jnp.asarray(self.limits))

    def pays(self, costs: Shares) -> bool:
        """Whether levels are charged these costs at least; and a sum of shares fits into int32."""
        if costs.shape != self.costs.shape:
            return False
        return bool(np.all((costs <= self.costs) & (self.costs <= _UNITS + 1)))

    def event(self, multiplier: float, levels: Sequence[DpEvent], relation: Relation) -> DpEvent:
        """Three quarters of the budget, if noise, costs and limits are as published.

        Parameters
        ----------
        multiplier : float
            The noise on a sum over one record's largest share of it.
        levels : sequence of DpEvent
            What a step does to privacy at each level.
        relation : Relation
        """
        if not (self.epsilon > 0.0 and 0.0 < self.delta < 0.75):
            return NonPrivateDpEvent()
        single = levels[0].events[-1]  # of the base, in every step
        size, base = single.source_dataset_size, single.sample_size
        whole = self.epsilon / 0.75, self.delta / 0.75
        budget = Budget(epsilon=whole[0], delta=whole[1], relation=relation)
        costs = _published_shares(budget, size, base, len(levels) - 1)
        paid = self.pays(costs - 1)  # which these quotients may round up by
        if not paid or np.any(self.limits > _UNITS):
            return NonPrivateDpEvent()
        if multiplier < published_multiplier(budget) * (1.0 - 1e-12):
            return NonPrivateDpEvent()
        return approximate_event(self.epsilon, self.delta)


def published_multiplier(budget: Budget) -> float:
    """``2 z``, ``z = 32 sqrt(2 ln(20/delta))/epsilon``: the noise on a sum over a contribution.

    Raises
    ------
    ValueError
        If ``epsilon > 1``, where the classical Gaussian mechanism is not private.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> round(published_multiplier(budget), 1)
    371.1
    """
    if budget.epsilon > 1.0:
        raise ValueError(
            "epsilon must be at most 1 for the published constants, which rest on the classical "
            f"Gaussian mechanism, got {budget.epsilon!r}"
        )
    return 64.0 * math.sqrt(2.0 * math.log(20.0 / budget.delta)) / budget.epsilon


def _published_shares(budget: Budget, n: int, base: int, highest: int) -> Shares:
    """Shares of the largest ``sum a^2`` in the first condition, and of ``sum a <= 1/4``."""
    log = 2.0 * math.log(4.0 / budget.delta)
    root = 1.0 / (math.sqrt(log) + math.sqrt(log + budget.epsilon))
    square = root**2  # (epsilon/2) x^2 + sqrt(log) x = 1/2 at x = root
    shares = [base * (3 * 2 ** (level + 1) + 1) / (16 * n) for level in range(highest + 1)]
    return np.array([[_share(a**2, square), _share(a, 0.25)] for a in shares], np.int32)


def _share(cost: float, limit: float) -> int:
    """``cost/limit`` in shares, rounded up; one more than all where it is more."""
    share = cost / limit * (1.0 + 1e-12)
    return math.ceil(_UNITS * share) if share <= 1.0 else _UNITS + 1
