"""Tests of correlated noise under attack: whole transcripts, hostile records, long runs.

Means and covariances are computed from the runs, independently of the code under test.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import claimed_mu, separation
from selection import few

import privopt
from privopt import random
from privopt.convex import EmpiricalRisk, WholeSpace
from privopt.factorisations import FACTORISATIONS
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    OrderedBatches,
    PrivateGradient,
    noise_of,
)
from privopt.privacy import gaussian_epsilon
from privopt.spec import Relation

STEPS, RUNS = 8, 100_000
DELTA = 0.01
ZERO, REPLACE = Relation.ZERO_OUT, Relation.REPLACE_ONE
FREE = ("banded", "banded_inverse", "buffered")


def named(name):
    """Three coefficients or buffers, where there is a choice, so that no band is the whole."""
    return noise_of(name, STEPS, band=3 if name in FREE else None)


def along(point, record):
    """Return a loss with the record as its gradient."""
    return point @ record


def mechanism(batches, noise, relation, dim=1):
    """Return a mechanism at about one unit of Gaussian privacy, for any noise."""
    budget = privopt.Budget(epsilon=4.0, delta=1e-4, relation=relation)
    facts = privopt.ProblemClass(n=getattr(batches, "n", 1), dim=dim, lipschitz=1.0, radius=5.0)
    return PrivateGradient.calibrated(ClippedGradient.of(facts), budget, STEPS, batches, noise)


@jax.jit
def asked(oracle_of, records, keys):
    """Return all answers for these keys, shape ``(runs, steps, dim)``, at a fixed point."""
    risk = EmpiricalRisk(along, records, None, WholeSpace())
    point = jnp.zeros_like(records[0])

    def answers(key):
        oracle = oracle_of.oracle(risk, key)

        def step(state, t):
            answer, state = oracle.update(state, t, point)
            return state, answer

        return jax.lax.scan(step, oracle.init(point), jnp.arange(STEPS, dtype=jnp.int32))[1]

    return jax.vmap(answers)(keys)


def transcripts(oracle_of, records, seed):
    keys = jax.random.split(jax.random.key(seed), RUNS)
    found = asked(oracle_of, jnp.asarray(records, jnp.float32), keys)
    return np.asarray(found, np.float64).reshape(RUNS, -1)


def scores(one, two):
    """Return likelihood-ratio scores of normal transcripts: mean difference, pooled covariance.

    Means and covariance are computed from the runs, independently of every claim.
    """
    spread = 0.5 * (np.cov(one.T) + np.cov(two.T))
    spread += 1e-9 * np.trace(spread) * np.eye(len(spread))  # noise may lie in fewer dimensions
    direction = np.linalg.solve(spread, one.mean(axis=0) - two.mean(axis=0))
    return one @ direction, two @ direction


# --- distinguishing attack ------------------------------------------------------------------------


SETTINGS = {
    "one epoch": (OrderedBatches.of(1, STEPS), ZERO),
    "two epochs": (OrderedBatches.of(1, STEPS // 2, epochs=2), REPLACE),
    "every step": (AllRecords(), ZERO),
}


def attacked(oracle_of, relation):
    """Return scores for the first record at its largest, and negated or zero; others are zero."""
    one, two = np.zeros((2, getattr(oracle_of.batches, "n", 1), 1))
    one[0], two[0] = 1.0, -1.0 if relation is REPLACE else 0.0
    return scores(transcripts(oracle_of, one, 0), transcripts(oracle_of, two, 1))


ATTACKED = [
    *((name, "two epochs") for name in FACTORISATIONS),
    *(("tree", setting) for setting in ("one epoch", "every step")),
]


@pytest.mark.parametrize(("name", "setting"), few(ATTACKED, [("toeplitz", "two epochs")]))
def test_an_attack_on_whole_transcripts_finds_what_is_claimed_and_no_more(
    epsilon_lower_bound, name, setting
):
    """The first record is the worst of all: it stays longest. False alarm 1e-4 each."""
    batches, relation = SETTINGS[setting]
    oracle_of = mechanism(batches, named(name), relation)
    claimed = claimed_mu(oracle_of.event(relation), relation)
    found = attacked(oracle_of, relation)
    mu, error = separation(*found)
    assert 0.9 * claimed < mu < claimed + 5.0 * error
    epsilon = privopt.Guarantee(oracle_of.event(relation), relation).epsilon(DELTA).upper
    assert epsilon == pytest.approx(gaussian_epsilon(DELTA, mu=claimed).upper, rel=1e-3)
    least = 0.75 * gaussian_epsilon(DELTA, mu=mu).upper
    assert least < epsilon_lower_bound(*found, DELTA) <= epsilon


# --- hostile records ------------------------------------------------------------------------------


SIZES = [0.0, 1e-45, 1e-38, 1e-20, 1e-3, 1.0, 3e19, 1e30, 3e38, np.inf, -np.inf, np.nan]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, jnp.float32) for name in few(FACTORISATIONS, ["tree", "buffered"])),
        ("tree", jnp.float64),
    ],
)
def test_no_record_reaches_beyond_its_steps_or_its_share(name, dtype):
    """Neighbours with the same key differ in the record's answers only, by ``C/b`` at most.

    Use every size, both coordinates and mixtures. A record that is not finite does not change the
    state.
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
    assert moved.max() <= oracle_of.record_sensitivity * (1.0 + 1e-12) + rounding
    assert moved[SIZES.index(1.0) * 4, own].min() > 0.4


# --- ill-conditioned factors ----------------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["banded", "banded_inverse", "buffered"])
def test_optimised_coefficients_stream_without_loss_over_long_runs(name):
    """Float32 against float64 from the same coefficients, 3000 steps: no error grows."""
    steps = 3000
    band = 3 if name == "buffered" else 8
    noise = noise_of(name, steps, band=band, optimise=True)
    key, times = jax.random.key(1), jnp.arange(steps, dtype=jnp.int32)
    sources = np.asarray(
        jax.vmap(lambda t: random.normal(jax.random.fold_in(key, t), (1,), jnp.float32))(times),
        np.float64,
    )[:, 0]

    def step(state, t):
        z, state = noise.update(state, t, key, jnp.zeros(1, jnp.float32))
        return state, z[0]

    found = np.asarray(jax.lax.scan(step, noise.init(jnp.zeros(1, jnp.float32)), times)[1])
    inverse = noise.factorisation(steps).inverse()
    exact = np.convolve(inverse, sources)[:steps]
    assert np.abs(np.cumsum(found.astype(np.float64) - exact)).max() < 1e-3
    assert np.abs(found - exact).max() < 1e-4
