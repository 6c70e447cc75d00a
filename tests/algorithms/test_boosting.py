"""The best of a geometric number of runs: its law, its price, and which run is released."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import privopt
from privopt import problems
from privopt.core.parameters import scaled
from privopt.mechanisms import PointScore
from privopt.privacy import Repetitions
from privopt.spec import Relation
from privopt.streams import stream

N, DIM = 40, 4
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.25, sparsity=2)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def plan(problem_class=FACTS, **choices):
    given = {"steps": 3, "base": 4, "boost": 0.5, **choices}
    return privopt.ALGORITHMS["bias_reduced_sgd"].plan(problem_class, BUDGET, **given)


@pytest.fixture(scope="module")
def problem():
    rng, rows = np.random.default_rng(0), np.zeros((N, DIM))
    for row in rows:
        row[rng.choice(DIM, 2, replace=False)] = rng.normal(size=2)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return problems.logistic(rows, rng.choice([-1.0, 1.0], N), problem_class=FACTS)


@pytest.mark.parametrize("gamma", [0.5, 0.25, 0.05])
def test_all_runs_fail_as_often_as_the_sum_says(gamma):
    """``sum_k (1 - gamma)^(k-1) gamma 2^-k = gamma/(1 + gamma)``."""
    law = Repetitions.geometric(1.0 / gamma)
    failed = math.fsum(law.probability(k) * 0.5**k for k in range(1, 200))
    assert failed == pytest.approx(gamma / (1.0 + gamma), rel=1e-9)


def test_the_coin_after_a_run_has_the_odds_accounted_for():
    """At level 1e-6 on 50,000 coins."""
    mechanism = plan().params.mechanism
    assert mechanism.odds == 2**28
    assert mechanism.repetitions == Repetitions.geometric(4.0)
    keys = jax.random.split(jax.random.key(0), 50_000)
    ended = int(jax.vmap(mechanism.is_last)(keys).sum())
    assert stats.binomtest(ended, 50_000, 0.25).pvalue > 1e-6


def test_the_price_is_that_of_a_selection_and_within_the_budget():
    planned = plan()
    mechanism, event = planned.params.mechanism, planned.guarantee.event
    run, score = event.event.events
    assert (event.mean, event.shape) == (4.0, 1.0)
    assert run == mechanism.run.event(BUDGET.relation)
    assert score.noise_multiplier == pytest.approx(2.0 * mechanism.run.multiplier, rel=1e-5)
    assert 0.99 < planned.guarantee.epsilon(BUDGET.delta).upper <= 1.0
    assert mechanism.run.scale > 1.5 * plan(boost=None).params.mechanism.scale
    quieter = scaled(mechanism, 0.9)
    with pytest.raises(ValueError, match="within the budget"):
        dataclasses.replace(planned, params=planned.params._replace(mechanism=quieter))


@pytest.mark.parametrize("radius", [0.01, 1.0, 100.0])
def test_what_is_scored_and_what_noise_is_for_are_one_choice(radius):
    """A score by the gradient needs the gradient's noise, however small the ball is."""
    facts = dataclasses.replace(FACTS, radius=radius)
    risk = plan(facts, step_size=0.1).params.mechanism
    slope = plan(facts, gap=0.1).params.mechanism
    leaves = [field.name for field in dataclasses.fields(risk)]
    assert leaves == ["run", "score", "scale", "odds"]
    moved = slope.score.sensitivity(Relation.REPLACE_ONE)
    assert risk.score.sensitivity(Relation.REPLACE_ONE) == pytest.approx(radius * moved)


def test_the_run_of_the_least_score_is_released(problem):
    """Without noise: by hand over all runs of several keys, of which some have many."""
    planned = plan().with_noise(0.0)
    mechanism, descent = planned.params
    risk, counts = problem.objective, []

    @jax.jit
    def attempt(key, number):
        own = jax.random.fold_in(stream(key, "selection"), number)
        oracle = mechanism.run.bind(risk, own, stream(own, "coins"))
        point = descent.minimise(oracle, risk.constraint, jnp.zeros(DIM), own).output
        return point, risk.value(point), mechanism.is_last(stream(own, "selection"))

    for seed in range(4):
        key, found = jax.random.key(seed), []
        while not found or not found[-1][2]:
            found.append(attempt(key, len(found)))
        best = min(found, key=lambda run: run[1])[0]
        released = privopt.run(planned, problem, key).released
        np.testing.assert_allclose(released, best, rtol=1e-9, atol=1e-12)
        counts.append(len(found))
    assert max(counts) > 2


def test_scores_move_by_their_sensitivity_at_most(problem):
    """A record is replaced by the worst other one; records that are not finite count as nothing."""
    gradient = plan().params.mechanism.run.query
    features, labels = (np.asarray(leaf).copy() for leaf in problem.data)
    other = features.copy()
    other[0] *= -1.0
    there = problems.logistic(other, labels, problem_class=FACTS)
    other[0] = np.nan
    broken = problems.logistic(other, labels, problem_class=FACTS)
    point = jnp.asarray(features[0]) / np.linalg.norm(features[0])
    for radius in (None, 1.0):
        score = PointScore(gradient, radius)
        most = score.sensitivity(Relation.REPLACE_ONE)
        values = [float(score.bind(each.objective)(point)) for each in (problem, there, broken)]
        assert np.isfinite(values).all()
        assert 0.0 < abs(values[0] - values[1]) <= most
        assert abs(values[0] - values[2]) <= most


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"boost": 1.0}, "boost must be a chance of failure below 1"),
        ({"boost": 0.0}, "boost must be positive"),
        ({"accounting": "reserve"}, "boost must be None but for fixed steps"),
        ({"record": 5}, "boost must be None but for fixed steps"),
    ],
)
def test_refusals(choices, match):
    with pytest.raises(ValueError, match=match):
        plan(**choices)
    assert plan().rate.upper == math.inf
