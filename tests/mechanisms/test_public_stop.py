"""Stopping rules by public randomness: the cost of levels, on the host and in a run."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from scipy import stats

import privopt
from privopt import problems
from privopt.core.parameters import scaled
from privopt.spec import Budget, ProblemClass, Relation

N = 256
FACTS = ProblemClass(n=N, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=1)
BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")


def plan(budget=BUDGET, **choices):
    algorithm = privopt.ALGORITHMS["bias_reduced_sgd"]
    return algorithm.plan(FACTS, budget, **{"step_size": 0.1, "mode": "paper", **choices})


def sequences(stop, law, runs=10_000):
    """Levels at the steps that are taken, of many runs."""
    rng, costs = np.random.default_rng(0), stop.costs.astype(np.int64)
    drawn = rng.choice(law.highest + 1, size=(runs, stop.most_steps), p=law.probabilities)
    for levels in drawn:
        over = (costs[levels].cumsum(axis=0) > stop.limits).any(axis=1)
        assert over[-1]  # the cap is never what ends a run
        yield levels[: over.argmax() + 1]


def test_no_sequence_spends_more_than_the_published_rule_says():
    """Use advanced composition for all steps but the last, and add the cost of the last step.

    The levels follow their law.
    """
    mechanism = plan().params.mechanism
    stop, law, log = mechanism.stop, mechanism.law, 2.0 * math.log(4.0 / BUDGET.delta)
    shares = np.array([(3 * 2 ** (k + 1) + 1) / (16 * N) for k in range(law.highest + 1)])
    taken = np.zeros(law.highest + 1)
    for levels in sequences(stop, law):
        *before, last = shares[levels]
        square = float(np.square(before).sum())
        assert math.sqrt(log * square) + 0.5 * square + last <= 0.75
        assert sum(before) + last + 0.25 <= 0.75 + 1e-12
        taken += np.bincount(levels, minlength=law.highest + 1)
    expected = taken.sum() * np.array(law.probabilities)
    assert stats.chisquare(taken, expected).pvalue > 1e-6
    assert stop.most_steps <= 4 * N / 7 + 1


def test_a_run_stops_where_the_host_says():
    """The stop depends on the levels of the public randomness, for any key of the noise.

    The iterates are kept as given.
    """
    planned = plan(base=16)
    mechanism, descent = planned.params
    records = np.eye(3)[np.arange(N) % 3]
    where = problems.linear(records, problem_class=dataclasses.replace(FACTS, smoothness=0.0))

    @jax.jit
    def steps(coins, key):
        oracle = mechanism.oracle(where.objective, key, coins)
        return descent.of(oracle, where.objective.constraint, jnp.zeros(3), key).run().steps

    draw = jax.jit(lambda coins, t: mechanism.law.draw(jax.random.fold_in(coins, t)))
    for seed in range(3):
        coins, spent = jax.random.key(seed), np.zeros_like(mechanism.stop.limits, np.int64)
        for t in itertools.count():
            if (spent > mechanism.stop.limits).any() or t == mechanism.steps:
                break
            spent += mechanism.stop.costs[int(draw(coins, t))]
        assert {int(steps(coins, jax.random.key(k))) for k in (5, 6)} == {t}


def test_the_guarantee_of_all_steps_is_the_rule_s():
    """The noise is the classical one, of a replaced record, for ``epsilon/32, delta/16``."""
    planned = plan()
    spent = planned.guarantee.epsilon(BUDGET.delta)
    assert 0.74 < spent.upper <= 0.76
    classical = 2.0 * math.sqrt(2.0 * math.log(1.25 * 16.0 / BUDGET.delta)) * 32.0
    assert planned.params.mechanism.noise_multiplier == pytest.approx(classical, rel=1e-6)
    quieter = scaled(planned.params.mechanism, 0.99)
    assert quieter.event(BUDGET.relation) == NonPrivateDpEvent()
    with pytest.raises(ValueError, match="within the budget"):
        dataclasses.replace(planned, params=planned.params._replace(mechanism=quieter))
    assert planned.rate.upper == math.inf


def test_the_guarantee_is_of_the_very_rule():
    """A table that charges less, or overflows int32, has no guarantee."""
    mechanism = plan().params.mechanism
    stop, relation = mechanism.stop, Relation(BUDGET.relation)
    least, most = stop.costs // 2, stop.costs.copy()
    most[-1] = np.iinfo(np.int32).max
    once = stop.spend(stop.init(), 0)
    wrong = dataclasses.replace(stop, costs=most)
    assert not wrong.is_over(wrong.spend(once, most.shape[0] - 1))
    for changed in (dataclasses.replace(stop, costs=least), wrong):
        changed = dataclasses.replace(mechanism, stop=changed)
        assert changed.event(relation) == NonPrivateDpEvent()


@pytest.mark.thorough  # as in algorithms/test_contract.py
def test_a_new_budget_is_a_new_table_and_no_new_program():
    traces, original = [], privopt.ALGORITHMS["bias_reduced_sgd"]

    def run(*arguments):
        traces.append(1)
        return original.run(*arguments)

    algorithm = dataclasses.replace(original, run=run)
    where = problems.linear(np.eye(3)[np.arange(N) % 3], problem_class=FACTS)
    for epsilon in (1.0, 0.5):
        budget = dataclasses.replace(BUDGET, epsilon=epsilon)
        planned = plan(budget, base=32, output="random_iterate")
        released = privopt.run(
            dataclasses.replace(planned, algorithm=algorithm), where, jax.random.key(0)
        ).released
        assert np.isfinite(released).all()
    assert len(traces) == 1
