"""Tests of Poisson batches of cyclic blocks: included records, privacy events and errors."""

import dataclasses
import math

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import taken_in

import privopt
from privopt import Budget, ProblemClass, Relation, problems
from privopt.mechanisms import (
    ClippedGradient,
    CyclicPoissonBatches,
    IndependentNoise,
    PoissonBatches,
    PrivateGradient,
    TreeNoise,
)
from privopt.mechanisms.noise import RestartedNoise, SeriesNoise, noise_of

N, CYCLE = 22, 4  # blocks of 6, 6, 5 and 5
BUDGET = Budget(epsilon=1.0, delta=1e-3, relation="zero_out")
BAND = SeriesNoise(np.array([1.0, 0.7]), np.ones(1))


def cyclic(batch_size=2.0, n=N, cycle=CYCLE, budget=BUDGET, steps=8, **options):
    return CyclicPoissonBatches.of(batch_size, n, cycle, budget=budget, steps=steps, **options)


def keys(count):
    return jax.random.split(jax.random.key(0), count)


@pytest.mark.cases(2)
@pytest.mark.parametrize("records", [N, N - 5, N + 3])
def test_blocks_take_turns(records):
    """A record is drawn in its own steps alone, as often as ``q`` says: six standard errors."""
    batches = cyclic(capacity=6)
    found = taken_in(batches, 8, records, keys(2000))
    number, step = np.arange(100), np.arange(8)[:, None]
    may = (number % CYCLE == step % CYCLE) & (number < min(records, N))
    assert not found[:, ~may].any()
    rate = 2.0 * CYCLE / N
    error = math.sqrt(rate * (1.0 - rate) / len(found))
    assert np.abs(found[:, may].mean(axis=0) - rate).max() <= 6.0 * error
    together = (found[:, 0, 0] & found[:, 0, 4]).mean(), (found[:, 0, 0] & found[:, 4, 0]).mean()
    for pair in together:
        assert abs(pair - rate**2) <= 6.0 * math.sqrt(rate**2 / len(found))


def test_a_cycle_is_without_bias():
    """Though blocks are not of one size: the divisor is the expected size of the mean block."""
    batches = cyclic(capacity=6)
    found = taken_in(batches, CYCLE, N, keys(20_000)).sum(axis=1) / batches.divisor(N) / CYCLE
    error = 6.0 * found.std(axis=0)[:N] / math.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0)[:N] - 1.0 / N) <= error)


# --- what is charged ------------------------------------------------------------------------------


def test_a_cycle_of_one_is_poisson():
    poisson = PoissonBatches.of(6.0, N, budget=BUDGET, steps=8)
    batches = cyclic(6.0, cycle=1)
    assert batches.sample == poisson
    assert batches.composed(2.0, 8, Relation.ZERO_OUT) == poisson.composed(
        2.0, 8, Relation.ZERO_OUT
    )


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.REPLACE_ONE])
@pytest.mark.parametrize(("steps", "times"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_record_is_charged_for_its_own_steps(steps, times, relation):
    """The event has the noise over the largest column norm; independent noise is a band of one."""
    batches = cyclic(capacity=6)
    event = BAND.event(batches, 2.0, steps, relation)
    assert event.count == times
    if times:
        assert event.event.sampling_probability == pytest.approx(2.0 * CYCLE / N, rel=1e-4)
        inside = event.event.event.noise_multiplier
        column = math.hypot(1.0, np.float32(0.7)) if steps > 1 else 1.0
        assert 2.0 / column * (1.0 - 1e-8) <= inside <= 2.0 / column
    fresh = IndependentNoise().event(batches, 2.0, steps, relation)
    assert fresh == batches.banded(2.0, CYCLE, steps, relation)


def test_full_batches_are_charged():
    """The event contains the truncation of batches, with the number of records of a block."""
    batches = cyclic(5.0, n=4000, cycle=4, steps=8)
    event = batches.composed(2.0, 8, Relation.ZERO_OUT)
    assert isinstance(event.event, dp.TruncatedSubsampledGaussianDpEvent)
    assert event.event.dataset_size == 1000
    assert event.event.truncated_batch_size == batches.sample.capacity < 100


@pytest.fixture(scope="module")
def spent(epsilon_lower_bound):
    """``weaker -> epsilon`` that the likelihood ratio of whole transcripts proves to be spent.

    Four records in two blocks, four steps, banded noise; the gradient of record 2 is of the clip
    norm or zero. 10^5 runs a side.
    """
    batches = cyclic(1.0, n=4, cycle=2, steps=4, capacity=2)
    mechanism = PrivateGradient.calibrated(ClippedGradient(1.0, 4.0, 1), BUDGET, 4, batches, BAND)
    encoder = BAND.factorisation(4).encoder()
    public = ProblemClass(n=4, dim=1, lipschitz=1.0, radius=1.0)

    @jax.jit
    def transcripts(where, scale, keys):
        def run(key):
            bound = dataclasses.replace(mechanism, scale=scale).oracle(where, key)
            state, seen = bound.init(jnp.zeros(1)), []
            for t in range(4):
                answer, state = bound.update(state, jnp.asarray(t), jnp.zeros(1))
                seen.append(answer[0])
            return jnp.stack(seen)

        return jax.vmap(run)(keys)

    def scores(gradient, seed, weaker):
        features = np.array([0.0, 0.0, gradient, 0.0])[:, None]
        where = problems.linear(features, problem_class=public).objective
        keys = jax.random.split(jax.random.key(seed), 100_000)
        scale = mechanism.scale / weaker
        whitened = np.asarray(transcripts(where, scale, keys)) @ encoder.T / scale
        columns = -encoder[:, [0, 2]] / scale  # a linear loss descends
        sizes = np.linalg.norm(columns, axis=0)
        ratios = 0.5 + 0.5 * np.exp(whitened @ columns - 0.5 * sizes**2)
        return np.log(ratios).sum(axis=1)

    return lambda weaker=1.0: epsilon_lower_bound(
        scores(0.0, 1, weaker), scores(1.0, 2, weaker), delta=BUDGET.delta
    )


@pytest.mark.thorough  # as in test_correlated_attack.py
def test_the_likelihood_ratio_of_transcripts_proves_no_more_than_the_budget(spent):
    """False alarm 1e-4. With half of the noise it proves more, so it could."""
    assert 0.6 < spent() <= 1.0
    assert spent(weaker=2.0) > 1.0


# --- noise and relations --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["toeplitz", "banded_inverse", "buffered", "tree", "honaker"])
def test_noise_without_a_band_is_refused_by_name(name):
    noise = noise_of(name, 8)
    refused = rf"banded by at most cycle = 4 .* got {type(noise).__name__}, which spreads a step"
    with pytest.raises(ValueError, match=refused):
        noise.event(cyclic(), 2.0, 8, Relation.ZERO_OUT)
    # A stream that is no longer than the cycle has each record once, whatever the noise.
    once = noise.event(cyclic(capacity=6), 2.0, 4, Relation.ZERO_OUT)
    assert once.count == 1
    column = noise.factorisation(4).sensitivity()
    assert once.event.event.noise_multiplier == pytest.approx(2.0 / column, rel=1e-6)


def test_bands_up_to_the_cycle():
    for band, accepted in ((CYCLE, True), (CYCLE + 1, False)):
        noise = SeriesNoise(0.5 ** np.arange(band), np.ones(1))
        assert noise.factorisation(9).band == band
        if accepted:
            assert noise.event(cyclic(), 2.0, 9, Relation.ZERO_OUT).count == 3
        else:
            with pytest.raises(ValueError, match="got SeriesNoise, which spreads a step over 5"):
                noise.event(cyclic(), 2.0, 9, Relation.ZERO_OUT)


def test_noise_that_restarts_within_the_cycle_is_banded():
    """No row holds two epochs, so participations a cycle apart touch none together."""
    event = RestartedNoise(TreeNoise(), CYCLE).event(cyclic(), 2.0, 12, Relation.ZERO_OUT)
    assert event.count == 3
    with pytest.raises(ValueError, match="got RestartedNoise, which spreads a step over 5"):
        RestartedNoise(TreeNoise(), CYCLE + 1).event(cyclic(), 2.0, 12, Relation.ZERO_OUT)


@pytest.mark.parametrize("noise", [IndependentNoise(), BAND])
def test_a_record_added_would_move_others(noise):
    with pytest.raises(ValueError, match=r"replace_one or zero_out for blocks by number"):
        noise.event(cyclic(), 2.0, 8, Relation.ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_dp_sgd_in_cycles(relation):
    """Calibrated and no further; far less noise than in shuffled passes of the same batches."""
    facts = ProblemClass(n=400, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.25)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
    options = {"steps": 120, "batch_size": 4, "step_size": 0.1}
    sgd = privopt.ALGORITHMS["dp_sgd"]
    planned, passes = (
        sgd.plan(facts, budget, sampler=sampler, noise=noise, **more, **options)
        for sampler, noise, more in (
            ("cyclic_poisson", BAND, {"cycle": 10}),
            ("shuffled", None, {}),
        )
    )
    assert planned.guarantee.meets(budget)
    mechanism = planned.params.mechanism
    assert mechanism.scale < 0.6 * passes.params.mechanism.scale
    assert planned.rate.upper == math.inf
    assert "records are in 10 blocks by their numbers" in planned.guarantee.assumptions


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cyclic(cycle=0), "cycle must be an integer from 1 to"),
        (lambda: cyclic(cycle=N + 1), "cycle must be at most n = 22, got 23"),
        (lambda: cyclic(6.0), r"batch_size must be at most n/cycle = 5\.5, got 6\.0"),
        (lambda: cyclic(-1.0), "batch_size must be positive"),
        (lambda: cyclic(capacity=1), "capacity must be at least"),
        (lambda: cyclic(n=31 * 32**5 + 1), "n must be at most 1040187392"),
        (lambda: cyclic().banded(1.0, 5, 8, Relation.ZERO_OUT), "band must be at most cycle = 4"),
        (
            lambda: cyclic().participation(8, Relation.ZERO_OUT),
            "no theorem covers other noise on cyclic Poisson batches",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
