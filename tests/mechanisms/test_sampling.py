"""Poisson batches: independent Bernoulli inclusion, against enumeration and against other laws."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value
from scipy import stats
from selection import choose, few

from privopt.mechanisms import (
    CyclicPoissonBatches,
    FixedSizeBatches,
    OrderedBatches,
    PoissonBatches,
)
from privopt.mechanisms.batches import poisson_sampler
from privopt.mechanisms.batches.poisson import capacity_of
from privopt.spec import Budget


def inclusions(rate, records, *, capacity=None, most=None, draws=20_000, seed=0, dtype=np.float64):
    """Shape ``(draws, records)`` of booleans, and the rows and weights they come from."""
    most = most or records
    capacity = capacity or records

    @jax.jit
    @jax.vmap
    def draw(key):
        return poisson_sampler(jnp.asarray(rate, dtype), capacity, most)(key, records)

    rows, weights = map(np.asarray, draw(jax.random.split(jax.random.key(seed), draws)))
    taken = np.zeros((draws, records), bool)
    draw_of, place = np.nonzero(weights)
    taken[draw_of, rows[draw_of, place]] = True
    return taken, rows, weights


def pairwise_p_value(taken, rate):
    """Return the p-value of independent inclusion of records, by the number of pairs.

    The size ``N`` of a batch has variance ``n q (1 - q)`` if and only if pairs are uncorrelated.
    """
    draws, records = taken.shape
    sizes = taken.sum(axis=1)
    variance = records * rate * (1.0 - rate)
    fourth = variance * (1.0 + 3.0 * variance - 6.0 * rate * (1.0 - rate))  # of a binomial
    spread = np.sqrt((fourth - variance**2) / draws)
    score = (np.mean((sizes - records * rate) ** 2) - variance) / spread
    return 2.0 * stats.norm.sf(abs(score))


@pytest.mark.cases(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.97])
def test_every_subset_has_its_probability(rate, dtype):
    """Chi-square over the 16 subsets of four records, level 1e-6."""
    taken, _, _ = inclusions(rate, 4, draws=100_000, dtype=dtype)
    codes = taken @ (2 ** np.arange(4))
    expected = np.array(
        [
            np.prod([rate if coin else 1.0 - rate for coin in coins[::-1]])
            for coins in itertools.product((0, 1), repeat=4)
        ]
    )
    observed = np.bincount(codes, minlength=16)
    common = expected * 100_000 >= 5.0
    assert observed[~common].sum() <= 60
    statistic = np.sum((observed - expected * 1e5)[common] ** 2 / (expected * 1e5)[common])
    assert stats.chi2.sf(statistic, common.sum()) > 1e-6


@pytest.mark.parametrize("rate", [0.01, 0.2])
@pytest.mark.parametrize("records", few([200, 1500], [1500]))
def test_inclusion_is_bernoulli_for_every_record(records, rate):
    """Every marginal within six standard errors (false alarm below 1e-5), and none depends."""
    draws, capacity = choose(20_000, 8_000), int(records * rate) + 120
    taken, rows, weights = inclusions(rate, records, capacity=capacity, draws=draws)
    error = np.sqrt(rate * (1.0 - rate) / len(taken))
    assert np.abs(taken.mean(axis=0) - rate).max() <= 6.0 * error
    assert pairwise_p_value(taken, rate) > 1e-6
    assert np.all(np.diff(np.where(weights > 0, rows, records), axis=1) >= 0)


def test_gaps_over_many_digits_are_geometric():
    """Gaps at a rate of 1e-4 take three digits; Kolmogorov-Smirnov of the first, level 1e-6."""
    sample = poisson_sampler(jnp.float64(1e-4), 4, 40_000)
    keys = jax.random.split(jax.random.key(0), 40_000)
    rows, weights = map(np.asarray, jax.jit(jax.vmap(lambda key: sample(key, 40_000)))(keys))
    first = rows[:, 0] + np.random.default_rng(1).random(len(rows))  # to the right of no atom
    law = stats.geom(1e-4, loc=-1)

    def cdf(x):
        whole = np.floor(x)
        return law.cdf(whole - 1) + (x - whole) * law.pmf(whole)

    inside = (weights[:, 0] > 0) & (rows[:, 0] < 20_000)
    assert ks_p_value(first[inside], lambda x: cdf(x) / law.cdf(19_999)) > 1e-6
    assert ks_p_value(first[inside] * 1.05, lambda x: cdf(x) / law.cdf(19_999)) < 1e-6


def test_fewer_records_than_the_most_are_the_first_of_them():
    """Under add-or-remove the number of records is not in the program, nor in the randomness."""
    larger, _, _ = inclusions(0.3, 21, capacity=30, most=21, draws=500)
    smaller, _, _ = inclusions(0.3, 20, capacity=30, most=21, draws=500)
    np.testing.assert_array_equal(larger[:, :20], smaller)


def test_records_beyond_the_maximum_are_never_sampled():
    """Gaps without an end stop at the row after the last, which is never sampled."""
    within, rows, weights = inclusions(0.25, 16, most=16, capacity=12, draws=2000)
    beyond = inclusions(0.25, 20, most=16, capacity=12, draws=2000)
    np.testing.assert_array_equal(within, beyond[0][:, :16])
    assert not beyond[0][:, 16:].any()
    np.testing.assert_array_equal(rows, beyond[1])
    np.testing.assert_array_equal(weights, beyond[2])


def test_as_many_records_as_numbers_reach():
    """Row numbers do not overflow at 31 * 32^5.

    The first row is that of a Poisson process, by Kolmogorov-Smirnov at 1e-6.
    """
    most = 31 * 32**5
    sample = poisson_sampler(jnp.float64(20.0 / most), 60, most)
    draw = jax.jit(jax.vmap(lambda key: sample(key, most)))
    rows, weights = map(np.asarray, draw(jax.random.split(jax.random.key(0), 4000)))
    assert rows.min() == 0
    assert most - most // 20 < rows.max() < most
    assert np.all(np.diff(np.where(weights > 0, rows, most).astype(float), axis=1) >= 0)
    assert weights.sum(axis=1).mean() == pytest.approx(20.0, abs=6 * np.sqrt(20 / 4000))
    assert ks_p_value(rows[:, 0] * (20.0 / most), stats.expon.cdf) > 1e-6


def test_beyond_capacity_the_first_stay():
    whole, _, _ = inclusions(0.5, 40, draws=300)
    cut, _, weights = inclusions(0.5, 40, capacity=10, draws=300)
    assert weights.sum(axis=1).max() == 10
    # Other capacities draw other words: laws are compared, not draws.
    assert cut[:, :5].mean() == pytest.approx(whole[:, :5].mean(), abs=0.06)
    assert cut[:, -5:].mean() < 0.05


def test_large_data_cost_no_more_words():
    """A million records with batches of about ten: no array of size n is created."""
    sample = poisson_sampler(jnp.float32(1e-5), 40, 10**6)
    jaxpr = jax.make_jaxpr(lambda key: sample(key, 10**6))(jax.random.key(0))
    largest = max(
        (np.prod(v.aval.shape, dtype=int) for e in jaxpr.eqns for v in e.outvars), default=0
    )
    assert largest < 10_000
    keys = jax.random.split(jax.random.key(0), 200)
    taken = np.asarray(jax.jit(jax.vmap(lambda key: sample(key, 10**6)))(keys)[1])
    assert taken.sum() == pytest.approx(2000, abs=6 * np.sqrt(2000))


@pytest.mark.parametrize(
    ("others", "rate", "chance"), [(9999, 0.0256, 1e-13), (50, 0.5, 1e-3), (99_999, 0.00341, 1e-19)]
)
def test_capacity_is_the_least_that_suffices(others, rate, chance):
    capacity = capacity_of(others, rate, chance)
    assert stats.binom.sf(capacity - 1, others, rate) <= chance
    assert stats.binom.sf(capacity - 2, others, rate) > chance
    assert capacity_of(others, 1.0, chance) == others + 1


BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
PADDED = {
    "poisson": PoissonBatches.of(9, 100, budget=BUDGET, steps=20),
    "cyclic_poisson": CyclicPoissonBatches.of(9, 100, 3, budget=BUDGET, steps=20),
    "fixed_size": FixedSizeBatches.of(9, 100),
    "stored": OrderedBatches.of(9, 100, epochs=2),
    "random": OrderedBatches.of(9, 100, epochs=2, order="random"),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_changes_no_batch(name):
    """Plans that share a program by padding sample the records that they sample alone."""
    batches, key = PADDED[name], jax.random.key(5)
    wider = batches.padded(2 * batches.places)
    assert wider.places > batches.places

    def sampled(sampler):
        draw = jax.jit(sampler.draws_of(key, 100))
        drawn = [np.asarray(draw(t // sampler.block))[:, t % sampler.block] for t in range(20)]
        return [rows[taken.astype(bool)].tolist() for rows, taken in drawn]

    assert sampled(wider) == sampled(batches)
