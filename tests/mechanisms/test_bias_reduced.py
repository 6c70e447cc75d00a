"""Gradients of reduced bias: levels, sets, the telescope, one branch, the event."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import operations
from scipy import stats

from privopt.convex import EmpiricalRisk, L1L2Ball, WholeSpace
from privopt.mechanisms import BiasReducedGradient, ClippedGradient, LevelLaw
from privopt.mechanisms.bias_reduced import ordered_subset
from privopt.spec import ProblemClass, Relation
from privopt.theory import bias_reduced_moments

N, DIM, SPARSITY, NOISE = 16, 8, 2, 2.0
FACTS = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0, sparsity=SPARSITY)
BODY = L1L2Ball.of(1.0, SPARSITY)
RUNS = 4000


def records(seed=0):
    """``SPARSITY`` numbers each, of norm one, half of them in two coordinates."""
    rng, rows = np.random.default_rng(seed), np.zeros((N, DIM))
    for i, row in enumerate(rows):
        where = [0, 1] if i % 2 else rng.choice(DIM, SPARSITY, replace=False)
        row[where] = rng.choice([-1.0, 1.0], SPARSITY, p=[0.2, 0.8]) / math.sqrt(SPARSITY)
    return rows


def risk(rows):
    return EmpiricalRisk(lambda w, x: w @ x, jnp.asarray(rows), None, WholeSpace())


def gradient(post=BODY, scale=NOISE, base=1):
    query = ClippedGradient.of(FACTS)
    return BiasReducedGradient(query=query, n=N, base=base, post=post, scale=scale, steps=500)


@jax.jit
def levels_of(law, coins):
    """Return the levels of the first 100 steps; every level occurs."""
    return jax.vmap(lambda t: law.draw(jax.random.fold_in(coins, t)))(jnp.arange(100))


@jax.jit
def answers(mechanism, coins, keys, t):
    def one(key):
        oracle = mechanism.oracle(risk(records()), key, coins)
        return oracle.update((), t, jnp.zeros(DIM))[0]

    return jax.vmap(one)(keys)


@functools.cache
def by_level(**choices):
    """Answers at every level, shape ``(levels, runs, DIM)``: many runs at a step of that level."""
    mechanism = gradient(**choices)
    coins, keys = jax.random.key(7), jax.random.split(jax.random.key(1), RUNS)
    levels = np.asarray(levels_of(mechanism.law, coins)).tolist()
    steps = [levels.index(k) for k in range(mechanism.law.highest + 1)]
    return np.stack([answers(mechanism, coins, keys, t) for t in steps])


@pytest.fixture(scope="module")
def found():
    """Return the answers by level of the mechanism with noise and convex set."""
    return by_level()


def statistic(mechanism, found):
    """Chi-square of ``sum_k p_k E[G | k]`` against the mechanism at all records, 8 degrees."""
    noise = NOISE / N * np.random.default_rng(2).normal(size=(100_000, DIM))
    target = np.asarray(jax.jit(mechanism.post.project)(records().mean(0)[None] + noise))
    law = np.asarray(mechanism.law.probabilities)
    mean = law @ found.mean(axis=1)
    spread = law**2 @ found.var(axis=1) / found.shape[1] + target.var(axis=0) / len(target)
    return float(np.sum((mean - target.mean(axis=0)) ** 2 / spread))


def test_the_law_of_levels():
    """Chi-square at level 1e-6 on 50,000 draws; the unnormalised law is rejected surely."""
    law = LevelLaw.of(100, 3)
    assert law.highest == 4
    assert math.fsum(law.probabilities) == pytest.approx(1.0, abs=1e-15)
    assert 0.5 < law.probabilities[0] <= 1.0
    keys = jax.random.split(jax.random.key(0), 50_000)
    drawn = np.bincount(jax.jit(jax.vmap(law.draw))(keys), minlength=5)
    assert stats.chisquare(drawn, 50_000 * np.array(law.probabilities)).pvalue > 1e-6
    halving = 50_000 * np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
    assert stats.chisquare(drawn, halving).pvalue < 1e-9
    for level, p in enumerate(law.probabilities):
        assert float(law.weight(jnp.asarray(level), jnp.float64)) == pytest.approx(1.0 / p)


@pytest.mark.parametrize(("size", "n"), [(2, 8), (3, 4)])
def test_every_ordered_subset_is_as_likely(size, n):
    """Test rejection and permutation: chi-square at level 1e-6 on 30,000 draws."""
    keys = jax.random.split(jax.random.key(3), 30_000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: ordered_subset(key, size, n)))(keys))
    assert all(len(set(row)) == size for row in drawn.tolist())
    lists = list(itertools.permutations(range(n), size))
    counts = np.bincount([lists.index(tuple(row)) for row in drawn.tolist()], minlength=len(lists))
    assert stats.chisquare(counts).pvalue > 1e-6


def test_the_levels_add_up_to_the_mechanism_on_all_records(found):
    """The false-alarm probability is 1e-6."""
    assert statistic(gradient(), found) < stats.chi2.isf(1e-6, DIM)


def test_without_noise_and_body_it_is_the_mean_of_the_single_set():
    """Increments cancel, to the last digits: the mean is the gradient itself."""
    found = by_level(post=None, scale=0.0, base=2)
    rows = records()
    means = {tuple(np.round(0.5 * (a + b), 9)) for a, b in itertools.combinations(rows, 2)}
    assert {tuple(np.round(row, 9) + 0.0) for row in found.reshape(-1, DIM)} <= means


def test_the_noise_at_every_level_has_the_scale_that_is_stated():
    """A scale of 0 removes only the noise; a scale of 0.98 is rejected. False alarm 1e-6."""
    base, law = 2, gradient(base=2).law
    noisy, silent = (by_level(post=None, scale=s, base=base) for s in (NOISE, 0.0))
    square = 0.0
    for level, noise in enumerate(noisy - silent):
        half, weight = base << level, 1.0 / law.probabilities[level]
        spread = weight**2 * ((0.5 / half) ** 2 + 2.0 * (0.5 / half) ** 2) + 1.0 / base**2
        square += (noise**2).sum() / (NOISE**2 * spread)
    for factor, right in ((1.0, True), (0.98, False)):
        likely = stats.chi2(noisy.size).cdf(square / factor**2)
        assert (5e-7 < likely < 1.0 - 5e-7) == right


@pytest.mark.thorough  # as in test_gradients.py
def test_records_stored_with_multiplicities_are_as_many():
    """Equal numbers of records give equal sets and an equal answer."""
    rows, counts = records()[:4], np.array([6, 1, 4, 5])

    @jax.jit
    def answer(rows, counts):
        objective = dataclasses.replace(risk(rows), counts=counts)
        oracle = gradient(base=8).oracle(objective, jax.random.key(1), jax.random.key(2))
        return oracle.update((), jnp.asarray(3), jnp.zeros(DIM))[0]

    first = answer(rows.repeat(counts, axis=0), None)
    second = answer(rows, jnp.asarray(counts, float))
    np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12)


def test_second_moments_are_below_their_bounds(found):
    law = gradient().law.probabilities
    moments = bias_reduced_moments(FACTS, noise=NOISE, base=1, probabilities=law, body="l1_l2")
    square = float(np.dot(law, np.square(found).sum(-1).mean(-1)))
    assert 0.05 * moments.second.value < square < moments.second.value
    mean = np.asarray(law) @ found.mean(axis=1)
    assert np.linalg.norm(mean - records().mean(0)) < moments.bias.value


@pytest.mark.parametrize("shared", [True, False])
def test_runs_that_share_levels_compute_one_branch(shared):
    """A shared switch stays a switch; runs with separate levels compute every branch."""
    mechanism, keys = gradient(), jax.random.split(jax.random.key(0), 3)

    def one(key, coins):
        return mechanism.oracle(risk(records()), key, coins).update(
            (), jnp.asarray(0), jnp.zeros(DIM)
        )

    many = jax.vmap(one, (0, None if shared else 0))
    jaxpr = jax.make_jaxpr(many)(keys, keys[0] if shared else keys)
    found = (e for e, _ in operations(jaxpr.jaxpr) if e.primitive.name == "cond")
    switches = [len(each.params["branches"]) for each in found]
    assert (mechanism.law.highest + 1 in switches) is shared


def test_the_event_charges_levels_and_the_single_set():
    mechanism = gradient(base=2)
    event = mechanism.event(Relation.REPLACE_ONE)
    mixture, single = event.event.events
    assert event.count == 500
    assert mixture.probabilities == mechanism.law.probabilities
    assert [each.sample_size for each in mixture.events] == [4, 8, 16]
    twice = {each.event.noise_multiplier for each in mixture.events}
    assert (single.sample_size, single.source_dataset_size) == (2, N)
    (noise,) = twice
    assert noise * math.sqrt(2.0) == pytest.approx(single.event.noise_multiplier)
    assert single.event.noise_multiplier == pytest.approx(NOISE, rel=1e-5)
