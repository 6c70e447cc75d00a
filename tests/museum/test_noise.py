"""Defects of noise: repeated draws, a wrong scale, and tails that are too short."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import ADD
from museum.exhibits import descent, exhibit, noisy_step, replayed
from scipy import special, stats

import privopt
from privopt import problems, random
from privopt.mechanisms import (
    ClippedGradient,
    IndependentNoise,
    OrderedBatches,
    PrivateGradient,
    TreeNoise,
)
from privopt.mechanisms.noise import RestartedNoise
from privopt.privacy import gaussian_mu
from privopt.release import release
from privopt.spec import Budget

KEY = jax.random.key(0)
FACTS = privopt.ProblemClass(n=100, dim=400, lipschitz=1.0, radius=1.0)


def number(key):
    return random.normal(key, (), jnp.float64)


def of_one_byte(key):
    """Return noise of a generator with a seed of one random byte."""
    return number(jax.random.key(jax.random.bits(key, dtype=jnp.uint8).astype(jnp.int32)))


@exhibit(number, of_one_byte, lambda key: 0.0 * number(key) + number(jax.random.key(1)))
def test_no_two_releases_share_their_noise(noise):
    """Generators with few seeds; checked for repeated values in 2,000 releases."""
    drawn = jax.vmap(noise)(jax.random.split(KEY, 2000))
    assert np.unique(np.asarray(drawn)).size == 2000


def with_a_fallback(plan, problem, key=KEY):
    return privopt.run(plan, problem, key)


@exhibit(privopt.run, with_a_fallback)
def test_a_run_without_a_key_is_refused(run):
    """Default key that is a constant; checked by a call without a key."""
    facts = privopt.ProblemClass(n=4, dim=1, lipschitz=1.0, radius=1.0)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    plan = privopt.dp_gd(facts, budget, steps=1)
    where = problems.linear(np.zeros((4, 1)), problem_class=facts)
    with pytest.raises(TypeError, match="key"):
        run(plan, where)


def independent(t, key, like):
    return IndependentNoise().update((), t, key, like)[0]


def leaf_by_leaf(t, key, like):
    key = jax.random.fold_in(key, t)
    return jax.tree.map(lambda leaf: random.normal(key, leaf.shape, leaf.dtype), like)


def step_by_step(t, key, like):
    return independent(0 * t, key, like)


@exhibit(independent, leaf_by_leaf, step_by_step)
def test_leaves_and_steps_have_noise_of_their_own(noise):
    """One key for all leaves or steps; checked by correlations, false alarm below 1e-8 each."""
    like = {"weight": jnp.zeros(1000), "bias": jnp.zeros(1000)}
    rows = [np.asarray(leaf) for t in range(2) for leaf in noise(t, KEY, like).values()]
    correlations = np.corrcoef(rows) - np.eye(4)
    assert np.abs(correlations).max() < 6.0 / math.sqrt(1000)


BATCHES = OrderedBatches.of(10, 100)
NOISE = 2.0  # over one record's share


@jax.jit
def answered(key):
    mechanism = PrivateGradient(
        query=ClippedGradient.of(FACTS), batches=BATCHES, scale=1.0, steps=10
    ).with_noise_multiplier(NOISE)
    losses = problems.linear(np.zeros((100, 400)), problem_class=FACTS).objective
    return mechanism.oracle(losses, key).update((), 0, jnp.zeros(400))[0]


def batch_noise(factor):
    """Return the noise of a mean over ten records, times a wrong factor."""
    return lambda key: factor * NOISE / 10.0 * jax.random.normal(key, (400,))


@exhibit(answered, batch_noise(10.0), batch_noise(0.1), batch_noise(100.0))
def test_noise_is_in_the_units_of_the_answer(answer):
    """Noise of a sum for a mean, of a mean for a sum, or times the batch size.

    Checked by the standard deviation of answers to null records, false alarm below 1e-6.
    """
    square = float(np.square(answer(KEY)).sum()) / (NOISE / 10.0) ** 2
    assert 5e-7 < stats.chi2.sf(square, 400) < 1.0 - 5e-7


def bare_step(data, point, drawn):
    """Return a step without noise."""
    del drawn
    return point + 0.1 * release("answer", data.mean(axis=0))


@exhibit(descent(noisy_step), descent(bare_step))
def test_no_path_leaves_the_noise_out(run):
    """Step without noise; checked by a replay without noise, which must change every answer."""
    assert replayed(run) == ()


def of_96_bits():
    """Return the largest normal in float32, for the most extreme words."""
    words = [jnp.zeros(1, jnp.uint32)] * 3
    return math.sqrt(2.0 * float(random._exponential(words, jnp.float32)[0]))


def of_one_word():
    """Return the largest normal by the inverse error function of one word of 23 bits."""
    return math.sqrt(2.0) * float(special.erfinv(np.float32(1.0) - np.float32(2.0**-23)))


@exhibit(of_96_bits, of_one_word)
def test_tails_reach_as_far_as_the_claim_looks(largest):
    """Law with bounded tails; beyond the bound a neighbour has a probability above delta.

    At (8, 1e-6), per draw.
    """
    beyond = stats.norm.sf(largest() - gaussian_mu(8.0, 1e-6))
    assert beyond < 1e-6 / 1000


def plans():
    facts = privopt.ProblemClass(n=4, dim=1000, lipschitz=1.0, radius=1e9, smoothness=1.0)
    budget = Budget(epsilon=1.0, delta=1e-5, relation="zero_out")
    plan = partial(privopt.ALGORITHMS["dp_gd"].plan, facts, budget, steps=1)
    return problems.linear(np.zeros((4, 1000)), problem_class=facts), [
        plan(step_size=size) for size in (1.0, 2.0)
    ]


def together(plans, where):
    return privopt.run_many(plans, where, KEY[None]).released[:, 0]


def each_with_the_key(plans, where):
    return [privopt.run(plan, where, KEY).released for plan in plans]


@exhibit(together, each_with_the_key)
def test_plans_that_run_together_have_noise_of_their_own(released):
    """One key for several plans; checked by correlation, false alarm below 1e-8."""
    where, asked = plans()
    one, two = released(asked, where)
    assert abs(np.corrcoef(one, two)[0, 1]) < 6.0 / math.sqrt(1000)


RESTARTED = RestartedNoise(TreeNoise(), 4)


def streamed():
    like, found = jnp.zeros(2000), []
    state, update = RESTARTED.init(like), jax.jit(RESTARTED.update)
    for t in range(8):
        z, state = update(state, t, KEY, like)
        found.append(np.asarray(z))
    return found


def dropping_the_old():
    """Return noise that subtracts the earlier noise at a restart."""
    found = streamed()
    return [*found[:4], found[4] - sum(found[:4]), *found[5:]]


@exhibit(streamed, dropping_the_old)
def test_noise_that_begins_anew_keeps_what_was_added(noises):
    """Restart that drops earlier noise; checked by variances of prefix sums, to six deviations."""
    sums = np.cumsum(noises(), axis=0)
    claimed = RESTARTED.factorisation(8).variances()
    assert np.abs(np.square(sums).mean(axis=1) / claimed - 1.0).max() < 6.0 * math.sqrt(2 / 2000)
