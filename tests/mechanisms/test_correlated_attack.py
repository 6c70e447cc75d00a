"""Noise with memory under attack: whole transcripts, hostile records, streams that are shared.

What the code says of itself is not asked: means and covariances are those of the runs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt import draws
from privopt.convex import EmpiricalRisk, WholeSpace, pytree_dataclass
from privopt.core.parameters import scaled
from privopt.factorisations import FACTORISATIONS
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    CyclicPoissonBatches,
    OrderedBatches,
    PrivateGradient,
    TreeNoise,
    noise_of,
)
from privopt.mechanisms.noise import RestartedNoise, SeriesNoise
from privopt.privacy import gaussian_epsilon
from privopt.spec import Relation
from privopt.streams import stream

STEPS, RUNS = 8, 100_000
DELTA = 0.01
ZERO, REPLACE = Relation.ZERO_OUT, Relation.REPLACE_ONE
FREE = ("banded", "banded_inverse", "buffered")
MEMORY = [name for name in FACTORISATIONS if name != "independent"]


def named(name, steps=STEPS):
    """Three coefficients or buffers, where there is a choice, so that no band is the whole."""
    return noise_of(name, steps, band=min(3, steps) if name in FREE else None)


def along(point, record):
    """A loss whose gradient is the record."""
    return point @ record


def query(n, dim=1):
    return ClippedGradient.of(privopt.ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=5.0))


def mechanism(batches, noise, relation, steps=STEPS, dim=1):
    """At about one unit of Gaussian privacy, whatever the noise."""
    budget = privopt.Budget(epsilon=4.0, delta=1e-4, relation=relation)
    records = getattr(batches, "n", 1)
    return PrivateGradient.calibrated(query(records, dim), budget, steps, batches, noise)


@partial(jax.jit, static_argnames="steps")
def asked(oracle_of, records, keys, steps=STEPS):
    """All answers of runs with these keys, shape ``(runs, steps, dim)``; the point stays."""
    risk = EmpiricalRisk(along, records, None, WholeSpace())

    return jax.vmap(lambda key: answers_of(oracle_of.oracle(risk, key), records[0], steps))(keys)


def answers_of(oracle, like, steps=STEPS):
    """At a point that stays."""
    point = jnp.zeros_like(like)

    def step(memory, t):
        answer, memory = oracle.ask(memory, t, point)
        return memory, answer

    memory = oracle.begin(point)
    return jax.lax.scan(step, memory, jnp.arange(steps, dtype=jnp.int32))[1]


def transcripts(oracle_of, records, seed, steps=STEPS):
    keys = jax.random.split(jax.random.key(seed), RUNS)
    found = asked(oracle_of, jnp.asarray(records, jnp.float32), keys, steps)
    return np.asarray(found, np.float64).reshape(RUNS, -1)


def scores(one, two):
    """The likelihood ratio of normal transcripts: along what differs, by what both have in common.

    Means and covariance are those of the runs themselves, so it knows of no claim.
    """
    spread = 0.5 * (np.cov(one.T) + np.cov(two.T))
    spread += 1e-9 * np.trace(spread) * np.eye(len(spread))  # noise may lie in fewer dimensions
    direction = np.linalg.solve(spread, one.mean(axis=0) - two.mean(axis=0))
    return one @ direction, two @ direction


def separation(one, two):
    """``mu``, and the standard error of the estimate."""
    mu = (one.mean() - two.mean()) / math.sqrt(0.5 * (one.var() + two.var()))
    return mu, math.sqrt((2.0 + 0.25 * mu**2) / len(one))


def claimed_mu(oracle_of, relation):
    """Of a Gaussian event under a relation: one over its multiplier, twice that if replaced."""
    event = oracle_of.event(relation)
    count = 1
    if isinstance(event, dp.SelfComposedDpEvent):
        event, count = event.event, event.count
    assert isinstance(event, dp.GaussianDpEvent)
    return (2.0 if relation is REPLACE else 1.0) * math.sqrt(count) / event.noise_multiplier


# --- distinguishing attack ------------------------------------------------------------------------


SETTINGS = {
    "one epoch": (OrderedBatches.of(1, STEPS), ZERO),
    "two epochs": (OrderedBatches.of(1, STEPS // 2, epochs=2), REPLACE),
    "every step": (AllRecords(), ZERO),
}


def neighbours(batches, relation):
    """The first record at its largest, and the other way round or nothing; others at zero."""
    records = np.zeros((getattr(batches, "n", 1), 1))
    one, two = records.copy(), records.copy()
    one[0], two[0] = 1.0, -1.0 if relation is REPLACE else 0.0
    return one, two


def attacked(oracle_of, relation, pair=None, seed=0):
    one, two = neighbours(oracle_of.batches, relation) if pair is None else pair
    return scores(transcripts(oracle_of, one, seed), transcripts(oracle_of, two, seed + 1))


def exceeded(oracle_of, relation, pair=None):
    """Whether runs prove that the claim is broken: five standard errors, level 3e-7."""
    found, error = separation(*attacked(oracle_of, relation, pair))
    return found > claimed_mu(oracle_of, relation) + 5.0 * error


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        *itertools.product(FACTORISATIONS, ["one epoch", "two epochs"]),
        ("tree", "every step"),
    ],
)
def test_an_attack_on_whole_transcripts_finds_what_is_claimed_and_no_more(
    epsilon_lower_bound, name, setting
):
    """The first record is the worst of all: it stays longest. False alarm 1e-4 each."""
    batches, relation = SETTINGS[setting]
    oracle_of = mechanism(batches, named(name), relation)
    claimed = claimed_mu(oracle_of, relation)
    found = attacked(oracle_of, relation)
    mu, error = separation(*found)
    assert 0.9 * claimed < mu < claimed + 5.0 * error
    epsilon = privopt.Guarantee(oracle_of.event(relation), relation).epsilon(DELTA).upper
    assert epsilon == pytest.approx(gaussian_epsilon(DELTA, claimed).upper, rel=1e-3)
    least = 0.75 * gaussian_epsilon(DELTA, mu).upper
    assert least < epsilon_lower_bound(*found, DELTA) <= epsilon


@pytest.mark.parametrize("name", ["tree", "buffered"])
def test_restarts_under_attack(epsilon_lower_bound, name):
    """Two passes of four records, each with noise of its own. False alarm 1e-4."""
    batches = OrderedBatches.of(1, STEPS // 2, epochs=2)
    noise = RestartedNoise(named(name, STEPS // 2), STEPS // 2)
    oracle_of = mechanism(batches, noise, REPLACE)
    claimed = claimed_mu(oracle_of, REPLACE)
    found = attacked(oracle_of, REPLACE)
    mu, error = separation(*found)
    assert 0.9 * claimed < mu < claimed + 5.0 * error
    epsilon = privopt.Guarantee(oracle_of.event(REPLACE), REPLACE).epsilon(DELTA).upper
    assert epsilon_lower_bound(*found, DELTA) <= epsilon


# --- what the attack must find --------------------------------------------------------------------


@pytree_dataclass
@dataclass(frozen=True)
class Defective:
    """Noise with the event of a better one."""

    real: object
    claimed: object

    def begin(self, point):
        return self.real.begin(point)

    def next(self, memory, t, key, like):
        return self.real.next(memory, t, key, like)

    def factorisation(self, steps):
        return self.claimed.factorisation(steps)

    def event(self, batches, multiplier, steps, relation):
        return self.claimed.event(batches, multiplier, steps, relation)


@pytree_dataclass
@dataclass(frozen=True)
class Redrawn:
    """A tree that draws every node anew for every prefix."""

    def begin(self, point):
        return jnp.zeros_like(point)

    def next(self, memory, t, key, like):
        fresh = draws.normal(jax.random.fold_in(key, t), like.shape, like.dtype)
        ones = jax.lax.population_count(jnp.asarray(t) + 1).astype(like.dtype)
        prefix = jnp.sqrt(ones) * fresh
        return prefix - memory, prefix


@pytree_dataclass
@dataclass(frozen=True)
class Reused:
    """A tree whose dead nodes give their vector to the next node of the same length."""

    def begin(self, point):
        return jnp.zeros_like(point)

    def next(self, memory, t, key, like):
        t = jnp.asarray(t)
        prefix = jnp.zeros_like(like)
        for level in range(4):
            node = draws.normal(jax.random.fold_in(key, level), like.shape, like.dtype)
            prefix += jnp.where(((t + 1) >> level) & 1 == 1, node, 0.0)
        return prefix - memory, prefix


ONE_PASS = SETTINGS["one epoch"][0]
TWO_PASSES = SETTINGS["two epochs"][0]


@pytest.mark.parametrize("broken", [Redrawn(), Reused()])
def test_trees_that_draw_a_node_twice_or_use_it_twice_are_caught(broken):
    """The honest tree is among those of the first test."""
    assert exceeded(mechanism(ONE_PASS, Defective(broken, TreeNoise()), ZERO), ZERO)


@pytest.mark.parametrize("name", ["tree", "toeplitz", "optimal"])
def test_the_sensitivity_of_one_pass_taken_for_two_is_caught(name):
    once = mechanism(ONE_PASS, named(name), ZERO)
    twice = mechanism(TWO_PASSES, named(name), ZERO)
    assert twice.scale > 1.2 * once.scale
    slack = once.scale / twice.scale

    mu, error = separation(*attacked(scaled(twice, slack), ZERO))
    assert mu > claimed_mu(once, ZERO) + 5.0 * error
    assert mu < claimed_mu(scaled(twice, slack), ZERO) + 5.0 * error


def test_participations_counted_greedily_are_caught():
    """``C = 1 + 0.9 x^3``: the first step and the next two later reach 1.90, three later 2.33."""
    noise = SeriesNoise(np.array([1.0, 0.0, 0.0, 0.9]), np.ones(1))
    found = noise.factorisation(STEPS)
    encoder = found.encoder()
    greedy = np.linalg.norm(encoder[:, 0] + encoder[:, 2])
    oracle_of = mechanism(ONE_PASS, noise, ZERO)
    one, two = np.zeros((STEPS, 1)), np.zeros((STEPS, 1))
    one[[0, 3]] = 1.0  # one record that takes part twice
    mu, error = separation(*attacked(oracle_of, ZERO, (one, two)))
    contribution = oracle_of.contribution / oracle_of.scale
    assert mu > greedy * contribution + 5.0 * error
    honest = found.sensitivity(2, 2) * contribution
    assert 0.98 * honest < mu < honest + 5.0 * error


def series(coefficients, steps):
    rows, columns = np.indices((steps, steps))
    padded = np.concatenate([coefficients, np.zeros(steps)])
    return np.where(rows >= columns, padded[np.maximum(rows - columns, 0)], 0.0)


# --- hostile records ------------------------------------------------------------------------------


SIZES = [0.0, 1e-45, 1e-38, 1e-20, 1e-3, 1.0, 3e19, 1e30, 3e38, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, jnp.float32) for name in FACTORISATIONS), ("tree", jnp.float64)]
)
def test_no_record_reaches_beyond_its_steps_or_its_share(name, dtype):
    """The same key on both neighbours: only the record's own answers differ, by ``C/b`` at most.

    Every size, both coordinates, mixed; a record that is not finite leaves no trace in the memory.
    """
    half = STEPS // 2
    batches = OrderedBatches.of(2, STEPS, epochs=2)
    oracle_of = mechanism(batches, named(name), ZERO, dim=2)
    keys = jax.random.split(jax.random.key(5), 1)
    others = np.random.default_rng(0).normal(size=(STEPS, 2))
    hostile = [(a, b) for a in SIZES for b in (0.0, a, 1.0, -1e30)]
    stack = np.repeat(others[None], len(hostile) + 1, axis=0)
    stack[0, 3] = 0.0
    stack[1:, 3] = hostile
    answers = np.asarray(
        jax.vmap(lambda records: asked(oracle_of, records, keys)[0])(jnp.asarray(stack, dtype)),
        np.float64,
    )
    assert np.isfinite(answers).all()
    moved = np.linalg.norm(answers[1:] - answers[0], axis=-1)
    own = [t for t in range(STEPS) if t % half == 1]
    rest = [t for t in range(STEPS) if t not in own]
    assert moved[:, rest].max() == 0.0
    rounding = 4.0 * float(jnp.finfo(dtype).eps) * np.abs(answers).max()
    assert moved.max() <= oracle_of.contribution * (1.0 + 1e-12) + rounding
    assert moved[SIZES.index(1.0) * 4, own].min() > 0.4


def released_with(counts, oracle_of, seed, runs=5000):
    """Transcripts where rows are stored once each, with how often they occur."""
    rows = jnp.array([[1.0], [-1.0], [1.0], [-1.0]], jnp.float32)
    risk = EmpiricalRisk(along, rows, jnp.array(counts, jnp.float32), WholeSpace())
    keys = jax.random.split(jax.random.key(seed), runs)
    run = jax.jit(jax.vmap(lambda key: answers_of(oracle_of.oracle(risk, key), rows[0])))
    return np.asarray(run(keys), np.float64).reshape(runs, -1)


def test_multiplicities_in_a_random_order_do_not_move_others():
    """One record is replaced, and all numbers between move by one: in law it is one place."""
    oracle_of = mechanism(OrderedBatches.of(1, STEPS, order="random"), named("banded"), REPLACE)
    one = released_with([2, 2, 2, 2], oracle_of, 0)
    mu, error = separation(*scores(one, released_with([1, 2, 2, 3], oracle_of, 1)))
    assert mu < claimed_mu(oracle_of, REPLACE) + 5.0 * error


# --- sampled blocks -------------------------------------------------------------------------------


def sampled(cycle, batch_size, noise, relation, n=2, steps=4):
    budget = privopt.Budget(epsilon=2.0, delta=1e-3, relation=relation)
    batches = CyclicPoissonBatches.of(batch_size, n, cycle, budget=budget, steps=steps)
    return PrivateGradient.calibrated(query(n), budget, steps, batches, noise)


@pytest.mark.parametrize("relation", [ZERO, REPLACE])
def test_banded_noise_on_sampled_blocks_under_attack(epsilon_lower_bound, relation):
    """Blocks of one record that take turns: it takes part in steps 0 and 2 by two fair coins.

    The likelihood ratio is exact: ``C y`` is independent noise about ``C g``, and the rows from one
    of its steps to the next know one coin each. False alarm 1e-4.
    """
    tail, rate, steps = 0.5, 0.5, 4
    noise = SeriesNoise(np.array([1.0, tail]), np.ones(1))
    oracle_of = sampled(2, rate, noise, relation)
    encoder, column = series(np.array([1.0, tail]), steps), np.array([1.0, tail])
    assert oracle_of.batches.divisor(2) == rate
    shift = 1.0 / rate

    def ratio(found, sign):
        pairs = (found @ encoder.T).reshape(-1, 2, 2) / oracle_of.scale
        moved = sign * shift / oracle_of.scale * column
        odds = np.exp(pairs @ moved - 0.5 * moved @ moved)
        return np.log1p(rate * (odds - 1.0)).sum(axis=1)

    def score(found):
        return ratio(found, 1.0) - (ratio(found, -1.0) if relation is REPLACE else 0.0)

    one, two = np.zeros((2, 1)), np.zeros((2, 1))
    one[0], two[0] = 1.0, -1.0 if relation is REPLACE else 0.0
    found = [
        score(np.asarray(transcripts(oracle_of, each, seed, steps)))
        for seed, each in enumerate((one, two))
    ]
    guarantee = privopt.Guarantee(oracle_of.event(relation), relation)
    assert guarantee.meets(privopt.Budget(epsilon=2.0, delta=1e-3, relation=relation))
    bound = epsilon_lower_bound(*found, DELTA)
    assert 0.6 * guarantee.epsilon(DELTA).upper < bound <= guarantee.epsilon(DELTA).upper
    # Without a sum over both coins, or with a coin less, the claim would be broken.
    halved = privopt.Guarantee(
        dp.PoissonSampledDpEvent(
            rate, dp.GaussianDpEvent(oracle_of.scale / shift / np.linalg.norm(column))
        ),
        relation,
    )
    assert bound > halved.epsilon(DELTA).upper


# --- what may be shared between runs, and what may not --------------------------------------------


LENGTH, LIKE = 12, jnp.zeros(3)


@jax.jit
def one_step(noise, memory, t, key):
    return noise.next(memory, t, key, LIKE)


def noises(noise, key, steps=LENGTH):
    """Step by step."""
    memory, found = noise.begin(LIKE), []
    for t in range(steps):
        z, memory = one_step(noise, memory, jnp.int32(t), key)
        found.append(np.asarray(z))
    return np.array(found)


@pytest.mark.parametrize("name", MEMORY)
def test_epochs_and_plans_share_no_noise(name):
    """No number of one epoch, stream or key comes again in another, nor with its sign turned."""
    noise = RestartedNoise(named(name, 6), 6)
    key = jax.random.key(4)
    seen = [noises(noise, stream(key, "noise"))]
    seen.append(noises(named(name, 6), stream(key, "noise"), 6))
    seen.append(noises(noise, stream(key, "batches")))
    seen.append(noises(noise, stream(jax.random.fold_in(key, 0), "noise")))
    numbers = np.abs(np.concatenate(seen).ravel())
    assert len(np.unique(np.round(numbers, 12))) == numbers.size


def test_the_order_of_a_run_and_its_noise_come_from_different_streams():
    """Another order leaves the noise as it is, and other noise the order."""
    keys = jax.random.split(jax.random.key(2), 1)
    records = jnp.arange(1.0, 9.0)[:, None] / 8.0
    stored = mechanism(OrderedBatches.of(1, STEPS), TreeNoise(), ZERO)
    random = mechanism(OrderedBatches.of(1, STEPS, order="random"), TreeNoise(), ZERO)
    one, two = (np.asarray(asked(each, records, keys))[0, :, 0] for each in (stored, random))
    empty = np.asarray(asked(stored, 0.0 * records, keys))[0, :, 0]
    np.testing.assert_allclose(one - empty, records[:, 0], atol=1e-12)
    shares = two - empty
    assert not np.allclose(shares, records[:, 0])
    np.testing.assert_allclose(np.sort(shares), records[:, 0], atol=1e-12)


# --- ill-conditioned factors ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["banded", "banded_inverse", "buffered"])
def test_optimised_coefficients_stream_without_loss_over_long_runs(name):
    """Float32 against float64 from the same coefficients, 3000 steps: no error grows."""
    steps = 3000
    band = 3 if name == "buffered" else 8
    noise = noise_of(name, steps, band=band, optimise=True)
    key, times = jax.random.key(1), jnp.arange(steps, dtype=jnp.int32)
    sources = np.asarray(
        jax.vmap(lambda t: draws.normal(jax.random.fold_in(key, t), (1,), jnp.float32))(times),
        np.float64,
    )[:, 0]

    def step(memory, t):
        z, memory = noise.next(memory, t, key, jnp.zeros(1, jnp.float32))
        return memory, z[0]

    found = np.asarray(jax.lax.scan(step, noise.begin(jnp.zeros(1, jnp.float32)), times)[1])
    inverse = noise.factorisation(steps).inverse()
    exact = np.convolve(inverse, sources)[:steps]
    assert np.abs(np.cumsum(found.astype(np.float64) - exact)).max() < 1e-3
    assert np.abs(found - exact).max() < 1e-4
