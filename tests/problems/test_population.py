"""Tests of populations: every run draws its own records, and the rest of the run is unchanged.

Statistical tests use a fixed key and state the level at which a correct law would be rejected.
"""

import dataclasses

import jax
import numpy as np
import pytest
from scipy import stats

import privopt
from privopt import problems
from privopt.core import Algorithm, Plan, Run
from privopt.problems import family

SHARES = np.array([0.5, 0.2, 0.0, 0.3, 0.0])
FEATURES = np.array([[0.9, 0.1], [-0.3, 0.5], [0.2, 0.2], [0.0, -0.8], [0.6, 0.0]])
LABELS = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
FACTS = privopt.ProblemClass(n=40, dim=2, lipschitz=1.0, radius=2.0, smoothness=0.25)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def population(n=40, dtype=np.float64, **options):
    facts = dataclasses.replace(FACTS, n=n)
    options = {"probabilities": SHARES, **options}
    return problems.logistic(
        FEATURES.astype(dtype), LABELS.astype(dtype), problem_class=facts, **options
    )


def counts_seen(where, keys):
    """Return the count of each stored record in the run of each key."""
    return np.asarray(
        jax.vmap(lambda key: where.source.sample(where.source.keys(key)[0]).counts)(keys)
    )


def test_risk_is_that_of_the_population():
    where, point = population(), np.array([0.7, -0.4])
    expected = SHARES @ np.log1p(np.exp(-LABELS * (FEATURES @ point)))
    assert where.measures == "population"
    assert where.risk(point) == pytest.approx(expected, rel=1e-14)
    assert where.reference.gap <= 1e-8
    # What n is does not matter to it.
    assert population(n=7).risk(point) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_are_independent_draws(dtype):
    """Multinomial counts: their means by chi-square at level 1e-6, their variances to 15 %."""
    where = population(dtype=dtype)
    counts = counts_seen(where, jax.random.split(jax.random.key(1), 4000))
    assert counts.dtype == dtype
    assert np.all(counts.sum(axis=1) == 40)
    assert not counts[:, SHARES == 0.0].any()
    totals, drawn = counts.sum(axis=0)[SHARES > 0.0], SHARES[SHARES > 0.0]
    assert stats.chisquare(totals, totals.sum() * drawn).pvalue > 1e-6
    np.testing.assert_allclose(
        counts.var(axis=0)[SHARES > 0.0], 40 * drawn * (1 - drawn), rtol=0.15
    )


def test_every_run_draws_its_own_records_and_the_loop_agrees():
    where, keys = population(), jax.random.split(jax.random.key(2), 3)
    plans = [privopt.gradient_descent(FACTS, BUDGET, steps=20)]
    many = np.asarray(privopt.run_many(plans, where, keys).released[0])
    assert (
        len(np.unique(many, axis=0)) == 3
    )  # without noise, other records alone make the runs differ
    for key, one in zip(keys, many, strict=True):
        np.testing.assert_allclose(privopt.run(plans[0], where, key).released, one, rtol=1e-12)
        counts = np.asarray(where.source.sample(where.source.keys(key)[0]).counts)
        given = problems.logistic(FEATURES, LABELS, problem_class=FACTS, counts=counts)
        np.testing.assert_allclose(privopt.run(plans[0], given, key).released, one, rtol=1e-12)


def spy(static, params, objective, key, execution):
    """Releases the words of its key and how often records occur."""
    del static, params, execution
    return Run(jax.random.key_data(key), objective.counts)


SPY = Algorithm("spy", "nothing", plan=None, run=spy, private=False)


def spy_plan():
    made = privopt.gradient_descent(FACTS, BUDGET, steps=1)
    return Plan(**{**vars(made), "algorithm": SPY, "declared": None})


def spied(where, key):
    return privopt.run(spy_plan(), where, key)


def test_the_key_of_the_data_is_not_the_key_of_the_run():
    key = jax.random.key(3)
    data_key, run_key = jax.random.split(key)
    seen = spied(population(), key)
    np.testing.assert_array_equal(seen.released, jax.random.key_data(run_key))
    assert not np.array_equal(jax.random.key_data(data_key), jax.random.key_data(run_key))


def test_plans_see_the_same_records_and_draw_their_own_noise():
    key, made = jax.random.key(3), spy_plan()
    seen = privopt.run_many([made] * 3, population(), key[None])
    np.testing.assert_array_equal(seen.secret, np.broadcast_to(seen.secret[:1], (3, 1, 5)))
    assert len({tuple(words) for words in np.asarray(seen.released)[:, 0].tolist()}) == 3
    for stream in range(3):
        alone = privopt.run(made, population(), key, stream=stream)
        np.testing.assert_array_equal(alone.released, seen.released[stream, 0])
        np.testing.assert_array_equal(alone.secret, seen.secret[stream, 0])


def test_given_records_leave_the_key_whole():
    """Results on given records are the same as before populations existed."""
    key, counts = jax.random.key(3), np.array([20, 8, 0, 12, 0])
    given = problems.logistic(FEATURES, LABELS, problem_class=FACTS, counts=counts)
    seen = spied(given, key)
    assert given.measures == "empirical"
    np.testing.assert_array_equal(seen.released, jax.random.key_data(key))
    np.testing.assert_array_equal(seen.secret, counts)


def test_other_shares_and_keys_compile_nothing():
    traces = []

    def counted(*arguments):
        traces.append(1)
        return spy(*arguments)

    made = privopt.gradient_descent(FACTS, BUDGET, steps=1)
    algorithm = dataclasses.replace(SPY, run=counted)
    planned = Plan(**{**vars(made), "algorithm": algorithm, "declared": None})
    for shares in (SHARES, SHARES[::-1].copy()):
        for seed in (0, 1):
            privopt.run(planned, population(probabilities=shares), jax.random.key(seed))
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (SHARES[:4], r"probabilities must have shape \(5,\), got \(4,\)"),
        (np.array([1.2, -0.2, 0.0, 0.0, 0.0]), "probabilities must be non-negative"),
        (SHARES / 2.0, r"probabilities must sum to 1, got 0\.5"),
        (np.full(5, np.nan), "probabilities must be non-negative"),
    ],
)
def test_what_is_no_distribution_is_refused(shares, message):
    with pytest.raises(ValueError, match=message):
        population(probabilities=shares)


def test_counts_and_probabilities_exclude_each_other():
    with pytest.raises(ValueError, match="counts must be left out if probabilities are given"):
        population(counts=np.full(5, 8))


def test_linear_population_in_closed_form():
    """``F_P(w) = -v w_1``."""
    where = family("linear_population").build(n=100, dim=3, noise_ratio=0.02, strength=8.0)
    points = np.array([[0.3, -0.5, 0.1], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(where.risk(points), -0.16 * points[:, 0], atol=1e-15)
    np.testing.assert_allclose(where.excess_risk(points), 0.16 * (1.0 - points[:, 0]), atol=1e-9)
    where.check()


def test_sphere_logistic_population_is_the_records_of_the_empirical_family():
    point = np.linspace(-1.0, 1.0, 4)
    sizes = {"dim": 4, "noise_ratio": 0.1, "strength": 1.0}
    whole = family("sphere_logistic").build(n=2**13, **sizes)
    for n in (50, 20_000):
        where = family("sphere_logistic_population").build(n=n, **sizes)
        assert where.problem_class.n == n
        assert where.risk(point) == pytest.approx(whole.risk(point), rel=1e-12)
        where.check()
