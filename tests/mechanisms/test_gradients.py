"""Tests of the private gradient on every sampler: answers, privacy events and errors."""

import dataclasses
import math
from functools import partial

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import ks_p_value
from scipy import stats
from selection import few

from privopt import Budget, Guarantee, ProblemClass, Relation, problems
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    CyclicPoissonBatches,
    FixedSizeBatches,
    OrderedBatches,
    PoissonBatches,
    PrivateGradient,
    ShuffledBatches,
)

N, DIM, CLIP = 24, 3, 0.4
QUERY = ClippedGradient(CLIP, float(N), DIM)
POINT = np.array([0.3, -0.2, 0.5])


def budget(relation="zero_out", epsilon=1.0):
    return Budget(epsilon=epsilon, delta=1e-5, relation=relation)


def facts(n=N):
    return ProblemClass(n=n, dim=DIM, lipschitz=2.0, radius=5.0)


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, DIM)), np.where(rng.random(n) < 0.5, -1.0, 1.0)


def problem(n=N, seed=0, **options):
    return problems.logistic(*data(n, seed), problem_class=facts(n), **options)


def clipped_gradients(features, labels, point=POINT, clip_norm=CLIP):
    slopes = -labels / (1.0 + np.exp(labels * (features @ point)))
    gradients = slopes[:, None] * features
    return gradients * np.minimum(1.0, clip_norm / np.linalg.norm(gradients, axis=1))[:, None]


@partial(jax.jit, static_argnames="t")
def asked(oracle, objective, keys, t):
    def ask(key):
        bound = oracle.oracle(objective, key)
        state, gradient = bound.init(jnp.asarray(POINT)), None
        for step in range(t + 1):
            gradient, state = bound.update(state, jnp.asarray(step), jnp.asarray(POINT))
        return gradient

    return jax.vmap(ask)(keys)


def answers(oracle, objective, keys, t=0):
    """Shape ``(keys, dim)``: the answer at step ``t`` of a run with each key."""
    return np.asarray(asked(oracle, objective, keys, t))


def keys(count=4000, seed=0):
    return jax.random.split(jax.random.key(seed), count)


def gradient(batches, query=QUERY, scale=0.05, steps=4):
    return PrivateGradient(query=query, batches=batches, scale=scale, steps=steps)


def calibrated(batches, relation="zero_out", steps=50):
    return PrivateGradient.calibrated(QUERY, budget(relation), steps, batches)


def poisson(batch_size=6, steps=50, relation="zero_out", **options):
    return PoissonBatches.of(batch_size, N, budget=budget(relation), steps=steps, **options)


ORACLES = {
    "all_records": gradient(AllRecords()),
    "poisson": gradient(PoissonBatches(0.25, 6.0, 24, N)),
    "fixed_size": gradient(FixedSizeBatches(6, N)),
    "shuffled": gradient(ShuffledBatches(4, N)),
    "ordered": gradient(OrderedBatches.of(5, N, order="random")),
}
BATCHES = {
    "poisson": PoissonBatches(0.25, 6.0, 24, N),
    "fixed_size": FixedSizeBatches(6, N),
    "shuffled": ShuffledBatches(12, N),
    "stored": OrderedBatches.of(6, N, epochs=3),
    "random": OrderedBatches.of(6, N, epochs=3, order="random"),
}
PLACES = {"poisson": "most"}  # the field that says how many records there may be
every = pytest.mark.parametrize("name", ORACLES)


@pytest.mark.cases(2)
@every
def test_noise_has_the_scale_and_not_another(name):
    """Use zero clipped sums: test the normal shape and the variance, each at level 1e-6."""
    nothing = problems.logistic(np.zeros((N, DIM)), np.ones(N), problem_class=facts())
    oracle = ORACLES[name]
    found = [answers(oracle, nothing.objective, keys(seed=seed)) for seed in range(5)]
    sample = np.ravel(found) / oracle.scale  # 60,000
    assert ks_p_value(sample, stats.norm.cdf) > 1e-6
    for factor, accepted in ((1.0, True), (0.97, False), (1.03, False)):
        below = stats.chi2.cdf(np.sum((factor * sample) ** 2), sample.size)
        assert bool(2.0 * min(below, 1.0 - below) > 1e-6) is accepted


@every
def test_answers_are_unbiased(name):
    """Within five standard errors in each of three coordinates: false alarm below 2e-6 each."""
    found = answers(ORACLES[name], problem().objective, keys())
    expected = clipped_gradients(*data()).mean(axis=0)
    error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - expected) <= 5.0 * error)


def still(oracle):
    return dataclasses.replace(oracle, scale=0.0)


@every
def test_a_record_moves_the_answer_by_the_clip_at_most(name):
    """Compare the same batch on two data sets that differ in one hostile record."""
    features, labels = data()
    other = features.copy()
    other[5] *= -1e6
    divisor = N if name == "all_records" else 6.0
    here = answers(still(ORACLES[name]), problem().objective, keys())
    changed = problems.logistic(other, labels, problem_class=facts())
    there = answers(still(ORACLES[name]), changed.objective, keys())
    moved = np.linalg.norm(here - there, axis=1)
    assert moved.max() <= 2.0 * QUERY.record_sensitivity / divisor
    assert moved.max() >= 0.9 * CLIP / divisor  # some batch holds it


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_record_that_is_not_finite_contributes_nothing(name, bad):
    features, labels = data()
    features[7] = bad
    labels[7] = 1.0
    silent = features.copy()
    silent[7] = 0.0
    broken = problems.logistic(features, labels, problem_class=facts())
    without = problems.logistic(silent, labels, problem_class=facts())
    if bad == 1e300:
        found = answers(still(ORACLES[name]), broken.objective, keys())
        assert np.all(np.isfinite(found))
        return
    found, expected = (answers(ORACLES[name], each.objective, keys()) for each in (broken, without))
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_poisson_at_rate_one_is_the_full_batch():
    whole = gradient(PoissonBatches(1.0, float(N), N, N), scale=0.0)
    found = answers(whole, problem().objective, keys())
    expected = np.tile(clipped_gradients(*data()).mean(axis=0), (len(found), 1))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    full, sampled = calibrated(AllRecords(), steps=10), calibrated(poisson(N, 10), steps=10)
    assert sampled.scale == pytest.approx(full.scale, rel=2e-4)


def test_the_divisor_and_the_noise_do_not_know_how_many_came():
    """Answers on equal records reveal the size: multiples of clip/b, with one noise scale."""
    features, labels = np.tile([[2.0, 0.0, 0.0]], (N, 1)), np.ones(N)
    same = problems.logistic(features, labels, problem_class=facts())
    oracle = ORACLES["poisson"]
    exact = answers(still(oracle), same.objective, keys())[:, 0]
    sizes = np.round(-exact * 6.0 / CLIP)
    np.testing.assert_allclose(exact, -sizes * CLIP / 6.0, atol=1e-12)
    counts = np.bincount(sizes.astype(int), minlength=N + 1)[2:12]
    law = stats.binom.pmf(np.arange(2, 12), N, 0.25)
    assert stats.chisquare(counts, f_exp=law * counts.sum() / law.sum()).pvalue > 1e-6
    noise = answers(oracle, same.objective, keys())[:, 0] - exact
    for size in (4, 6, 8):
        assert ks_p_value(noise[sizes == size] / 0.05, stats.norm.cdf) > 1e-6


@pytest.fixture(scope="module")
def spent(epsilon_lower_bound):
    """Return ``(sizes, weaker) -> epsilon``, a lower bound by an attack on Poisson batches.

    Neighbours have two sizes. Only the last record has a gradient, of the clip norm. The maximum is
    16 records, in batches of four. There are 40,000 runs a side.
    """
    query = ClippedGradient(CLIP, 16.0, 1)
    loose = Budget(epsilon=1.0, delta=1e-3, relation="add_or_remove_one")
    batches = PoissonBatches.of(4.0, 16, budget=loose, steps=1, capacity=12)
    oracle = PrivateGradient.calibrated(query, loose, 1, batches)

    @jax.jit
    def releases(where, scale, keys):
        weakened, point = dataclasses.replace(oracle, scale=scale), jnp.zeros(1)
        return jax.vmap(lambda key: weakened.oracle(where, key).update((), 0, point)[0][0])(keys)

    def scores(size, last, seed, weaker):
        features = np.zeros((size, 1))
        features[-1] = last
        public = ProblemClass(n=size, dim=1, lipschitz=1.0, radius=1.0)
        where = problems.linear(features, problem_class=public).objective
        return releases(where, oracle.scale / weaker, keys(40_000, seed))

    def attack(smaller, larger, weaker=1.0):
        one, other = scores(smaller, 0.0, 1, weaker), scores(larger, 1.0, 2, weaker)
        return epsilon_lower_bound(one, other, delta=loose.delta)

    return attack


def test_an_attack_on_the_last_record_proves_no_more_than_the_budget(spent):
    """False alarm 1e-4 each. With a third of the noise it proves more, so it could."""
    assert 0.3 < spent(15, 16) <= 1.0
    assert spent(15, 16, weaker=3.0) > 1.0


def test_a_record_beyond_the_most_cannot_be_told_from_none(spent):
    """The record would fill the rest of every batch: no budget covers that. False alarm 1e-4."""
    assert spent(16, 17) <= 1.0


def test_counts_are_records():
    """Two stored rows, 9 and 15 times: the same law as 24 rows, here the same batches."""
    rows, labels = data(2)
    counts = np.array([9, 15])
    stored = problems.logistic(rows, labels, problem_class=facts(), counts=counts)
    spelled = problems.logistic(
        rows.repeat(counts, axis=0), labels.repeat(counts), problem_class=facts()
    )
    for name in few(ORACLES, ["all_records", "poisson"]):
        found = [answers(ORACLES[name], each.objective, keys()) for each in (stored, spelled)]
        np.testing.assert_allclose(*found, rtol=1e-10, atol=1e-12)


@partial(jax.jit, static_argnames="steps")
def asked_at_each(oracle, objective, key, steps):
    bound = oracle.oracle(objective, key)
    return jax.vmap(lambda t: bound.update((), t, jnp.zeros(N))[0])(jnp.arange(steps))


def taken(batches, steps, records=N, seed=0):
    """Return the count of each record in a gradient without noise, shape ``(steps, N)``."""
    public = ProblemClass(n=records, dim=N, lipschitz=2.0, radius=5.0)
    losses = problems.linear(np.eye(records, N), problem_class=public).objective
    oracle = gradient(batches, ClippedGradient(10.0, float(N), N), scale=0.0)
    found = asked_at_each(oracle, losses, jax.random.key(seed), steps)
    return -np.asarray(found) * batches.divisor(float(N))


def test_every_record_is_in_one_batch_of_a_pass():
    seen = taken(ShuffledBatches(5, N), 10)  # five does not divide 24
    for each in (seen[:5], seen[5:]):
        np.testing.assert_allclose(each.sum(axis=0), 1.0, rtol=1e-6)  # the divisor is a float32
    assert not np.array_equal(seen[:5], seen[5:])


def test_fixed_batches_have_their_size():
    assert np.all(np.sum(taken(FixedSizeBatches(7, N), 4) > 0.0, axis=1) == 7)


@pytest.mark.parametrize("relation", list(Relation))
def test_calibrated_to_the_budget_and_not_beyond(relation):
    given = budget(relation)
    batches = [AllRecords(), poisson(relation=relation)]
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        batches += [ShuffledBatches.of(6, N), OrderedBatches.of(6, N)]
    if relation is Relation.REPLACE_ONE:
        batches.append(FixedSizeBatches.of(6, N))
    for who in batches:
        oracle = calibrated(who, relation, steps=4)
        assert Guarantee(oracle.event(relation), relation).meets(given)
        less = dataclasses.replace(oracle, scale=0.999 * oracle.scale)
        assert not Guarantee(less.event(relation), relation).meets(given)


def test_noise_is_rounded_up_to_float32():
    oracle = gradient(AllRecords())
    for ratio in np.linspace(0.3, 5.0, 101):
        scale = oracle.with_noise_multiplier(ratio).scale
        assert scale == np.float32(scale)
        assert 1.0 <= scale / (ratio * oracle.record_sensitivity) <= 1.0 + 2.0**-23


def test_the_rate_is_charged_and_no_less():
    relation = Relation.ADD_OR_REMOVE_ONE
    oracle = calibrated(poisson(3, 100, relation), relation, 100)
    event = oracle.event(relation)
    assert event.count == 100
    assert event.event.sampling_probability == pytest.approx(3 / N, rel=1e-4)
    assert event.event.sampling_probability >= oracle.batches.rate
    fixed = gradient(FixedSizeBatches(6, N)).event(Relation.REPLACE_ONE).event
    assert (fixed.source_dataset_size, fixed.sample_size) == (N, 6)


def test_shuffled_passes_get_no_amplification():
    """The noise of ceil(T/k) full releases; Poisson batches of the same size need far less."""
    shuffled = calibrated(ShuffledBatches.of(6, N), steps=41)
    assert shuffled.event(Relation.ZERO_OUT).count == 11
    assert isinstance(shuffled.event(Relation.ZERO_OUT).event, dp.GaussianDpEvent)
    assert shuffled.scale > 1.3 * calibrated(poisson(6, 41), steps=41).scale


def ordered(*args, records=N, seed=0, **options):
    """One pass more than there are."""
    batches = OrderedBatches.of(*args, **options)
    return taken(batches, (batches.epochs + 1) * batches.period, records, seed)


def test_one_pass_in_order_is_one_release():
    """Check that one pass of any number of steps has the noise of one Gaussian release."""
    few, many = (calibrated(OrderedBatches.of(6, N), steps=steps) for steps in (1, 4))
    assert few.scale == many.scale
    assert few.event(Relation.ZERO_OUT) == many.event(Relation.ZERO_OUT)
    refused = "steps must be at most 4, the batches of 1 passes, got"
    with pytest.raises(ValueError, match=f"{refused} 5"):
        calibrated(OrderedBatches.of(6, N), steps=5)
    with pytest.raises(ValueError, match=f"{refused} 9"):
        dataclasses.replace(many, steps=9).event(Relation.ZERO_OUT)


@pytest.mark.cases(1)
@pytest.mark.parametrize("size", [5, 1, 7, N])
def test_epochs_repeat_one_order(size):
    """Stored: the records in turn. Random: another order for each key, the same in every pass."""
    stored = ordered(size, N, epochs=3)
    period = -(-N // size)
    np.testing.assert_allclose(stored[:period], np.arange(N) // size == np.arange(period)[:, None])
    drawn, other = (ordered(size, N, epochs=3, order="random", seed=seed) for seed in (0, 1))
    for seen in (stored, drawn):
        passes = seen.reshape(4, period, N)
        np.testing.assert_array_equal(passes[:3], passes[:1].repeat(3, axis=0))
        np.testing.assert_allclose(passes[0].sum(axis=0), 1.0)
        assert not passes[3].any()
    assert np.array_equal(drawn, other) == (size == N)
    event = OrderedBatches.of(size, N, epochs=3).composed(2.0, 3 * period, Relation.ZERO_OUT)
    assert event == dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 3)


@pytest.mark.parametrize("order", few(["stored", "random"], ["random"]))
def test_an_order_of_places_does_not_look_at_the_data(order):
    """Fewer records leave their places empty; a record after the ``n``-th takes no part."""
    whole = ordered(5, N, epochs=3, order=order)
    fewer = ordered(5, N, epochs=3, order=order, records=N - 3)
    np.testing.assert_array_equal(fewer, whole * (np.arange(N) < N - 3))
    capped = ordered(5, N - 1, epochs=3, order=order)
    assert not capped[:, N - 1].any()
    assert capped.sum() == 3.0 * (N - 1)


def test_a_random_order_is_uniform():
    """Chi-square over the 24 orders of four records, level 1e-6."""
    batches = OrderedBatches.of(1, 4, order="random")
    draw = jax.jit(jax.vmap(lambda key: batches.draws_of(key, 4)(jnp.asarray(0))[0][:4, 0]))
    codes = np.asarray(draw(keys(24_000))) @ (4 ** np.arange(4))
    found = np.unique(codes, return_counts=True)[1]
    assert len(found) == 24
    assert stats.chisquare(found).pvalue > 1e-6


def test_the_number_of_passes_compiles_nothing():
    traces = []

    @jax.jit
    def seen(batches, key):
        traces.append(1)
        return jax.vmap(batches.draws_of(key, N))(jnp.arange(4))  # as many passes

    for epochs in (1, 2, 3):
        _, taken = seen(OrderedBatches.of(5, N, epochs=epochs), jax.random.key(0))
        assert taken.sum() == epochs * N
    assert len(traces) == 1


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"all_records"}))
def test_a_block_of_draws_is_the_draws_of_its_steps(name):
    """Draws of the loop for many steps equal the draws of each single step, to the bit."""
    batches = ORACLES[name].batches

    @jax.jit
    def both_ways(oracle, objective, t):
        bound = oracle.oracle(objective, jax.random.key(3))
        assert bound.block == batches.block
        drawn = bound.draw(t // bound.block)
        batch = jax.tree.map(lambda leaf: leaf[t % bound.block], drawn)
        return [bound.update((), t, jnp.asarray(POINT), *own)[0] for own in ([], [batch])]

    for block in (0, 2):
        for t in {block * batches.block, (block + 1) * batches.block - 1}:
            np.testing.assert_array_equal(*both_ways(ORACLES[name], problem().objective, t))


CYCLIC = CyclicPoissonBatches(PoissonBatches(0.25, 3.0, 12, 12), 2, N)


@pytest.mark.parametrize("batches", [BATCHES["poisson"], CYCLIC], ids=repr)
def test_poisson_draws_do_not_depend_on_the_block(batches, monkeypatch):
    rows = {}
    for block in (3, 16):
        monkeypatch.setattr(type(batches), "block", block)
        draw = jax.jit(lambda t: jax.vmap(batches.draws_of(jax.random.key(0), N))(t)[0])
        rows[block] = np.concatenate(np.asarray(draw(np.arange(-(-16 // block)))))[:16]
    np.testing.assert_array_equal(rows[3], rows[16])


@pytest.mark.cases(2)
@pytest.mark.parametrize("places", few([N // 3, N, 10 * N], [N // 3, 10 * N]))
@pytest.mark.parametrize("name", BATCHES)
def test_no_record_counts_twice_whatever_the_number_of_places(name, places):
    """The event of a sampler depends on its ``n``; places beyond the records contain no record."""
    changed = {PLACES.get(name, "n"): places}
    if name == "shuffled":
        changed["batches"] = min(places, BATCHES[name].batches)
    batches = dataclasses.replace(BATCHES[name], **changed)
    counts = taken(batches, 12)
    np.testing.assert_allclose(counts, counts.round(), atol=1e-6)
    assert counts.max() <= 1.0 + 1e-6
    assert counts.round()[:, : places // 2].sum() > 0.0


@pytest.mark.parametrize(
    "of",
    [
        FixedSizeBatches.of,
        ShuffledBatches.of,
        OrderedBatches.of,
        lambda size, n: PoissonBatches.of(size, n, budget=budget(), steps=1),
    ],
)
def test_more_records_than_int32_numbers_are_refused(of):
    with pytest.raises(ValueError, match=r"n must be at most 1040187392 for .* got 1040187393"):
        of(4, 31 * 32**5 + 1)


@pytest.mark.parametrize("steps", [-1, True, 2.5])
@pytest.mark.parametrize("batches", [AllRecords(), *BATCHES.values()], ids=repr)
def test_a_number_of_steps_that_is_none(batches, steps):
    """A negative number of releases would have no privacy cost."""
    with pytest.raises(ValueError, match=f"steps must be an integer from 0 on, got {steps}"):
        batches.composed(1.0, steps, Relation.REPLACE_ONE)
    with pytest.raises(ValueError, match="steps must be an integer from 0 on"):
        dataclasses.replace(gradient(batches), steps=steps).event(Relation.REPLACE_ONE)


def test_refusals():
    with pytest.raises(ValueError, match="replace_one for batches of fixed size"):
        calibrated(FixedSizeBatches.of(3, N), "zero_out")
    for batches in (ShuffledBatches.of(3, N), OrderedBatches.of(3, N)):
        with pytest.raises(ValueError, match=r"replace_one or zero_out for .* moves others"):
            calibrated(batches, "add_or_remove_one", steps=5)
    for of in (FixedSizeBatches.of, OrderedBatches.of):
        with pytest.raises(
            ValueError, match=r"batch_size must be an integer from 1 to 24, got 2\.5"
        ):
            of(2.5, N)
    with pytest.raises(ValueError, match=r"overflow with probability below delta 1e-05, got 7"):
        poisson(6, 500, capacity=7)
