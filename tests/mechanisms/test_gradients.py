"""Private gradient oracles: what each answers, what it charges, what it refuses."""

import dataclasses
import math

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from privopt import Budget, Guarantee, ProblemClass, Relation, problems
from privopt.mechanisms import (
    ClippedGradient,
    FixedSizeGradient,
    FullBatchGradient,
    PoissonGradient,
    ShuffledGradient,
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


def clipped_gradients(features, labels, point=POINT, clip=CLIP):
    slopes = -labels / (1.0 + np.exp(labels * (features @ point)))
    gradients = slopes[:, None] * features
    return gradients * np.minimum(1.0, clip / np.linalg.norm(gradients, axis=1))[:, None]


def answers(oracle, objective, keys, t=0):
    """Shape ``(keys, dim)``: the answer at step ``t`` of a run with each key."""

    def ask(key):
        bound = oracle.bind(objective, key)
        memory, gradient = bound.initial, None
        for step in range(t + 1):
            gradient, memory = bound.ask(memory, jnp.asarray(step), jnp.asarray(POINT))
        return gradient

    return np.asarray(jax.jit(jax.vmap(ask))(keys))


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


ORACLES = {
    "full_batch": FullBatchGradient(QUERY, 0.05),
    "poisson": PoissonGradient(QUERY, 0.25, 6.0, 0.05, 24, N),
    "fixed_size": FixedSizeGradient(QUERY, 0.05, 6, N),
    "shuffled": ShuffledGradient(QUERY, 0.05, 4, N),
}
every = pytest.mark.parametrize("name", ORACLES)


@every
def test_noise_has_the_scale_and_not_another(name):
    """Of clipped sums that vanish: Kolmogorov-Smirnov at level 1e-6; 0.8 and 1.25 are rejected."""
    nothing = problems.logistic(np.zeros((N, DIM)), np.ones(N), problem_class=facts())
    oracle = ORACLES[name]
    sample = answers(oracle, nothing.objective, keys(4000)).ravel() / oracle.scale
    for factor, accepted in ((1.0, True), (0.8, False), (1.25, False)):
        assert bool(stats.kstest(factor * sample, "norm").pvalue > 1e-6) is accepted


@every
def test_answers_are_unbiased(name):
    """Within five standard errors in each of three coordinates: false alarm below 2e-6 each."""
    found = answers(ORACLES[name], problem().objective, keys(4000))
    expected = clipped_gradients(*data()).mean(axis=0)
    error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - expected) <= 5.0 * error)


@every
def test_noise_is_fresh_at_every_step_and_seed(name):
    """Correlation of two steps of 4000 runs: below 0.08, five standard deviations."""
    nothing = problems.logistic(np.zeros((N, DIM)), np.ones(N), problem_class=facts())
    first = answers(ORACLES[name], nothing.objective, keys(4000), t=0)
    second = answers(ORACLES[name], nothing.objective, keys(4000), t=1)
    for column in range(DIM):
        assert abs(np.corrcoef(first[:, column], second[:, column])[0, 1]) < 0.08
        other = (column + 1) % DIM
        assert abs(np.corrcoef(first[:, column], first[:, other])[0, 1]) < 0.08
    assert len(np.unique(first[:, 0])) == 4000


def still(oracle):
    return dataclasses.replace(oracle, scale=0.0)


@every
def test_a_record_moves_the_answer_by_the_clip_at_most(name):
    """The same batch on two data sets that differ in one record, from a hostile choice of it."""
    features, labels = data()
    other = features.copy()
    other[5] *= -1e6
    divisor = N if name == "full_batch" else 6.0
    here = answers(still(ORACLES[name]), problem().objective, keys(50))
    changed = problems.logistic(other, labels, problem_class=facts())
    there = answers(still(ORACLES[name]), changed.objective, keys(50))
    moved = np.linalg.norm(here - there, axis=1)
    assert moved.max() <= 2.0 * QUERY.contribution / divisor
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
        found = answers(still(ORACLES[name]), broken.objective, keys(5))
        assert np.all(np.isfinite(found))
        return
    np.testing.assert_allclose(
        answers(ORACLES[name], broken.objective, keys(5)),
        answers(ORACLES[name], without.objective, keys(5)),
        atol=1e-15,
    )


def test_poisson_at_rate_one_is_the_full_batch():
    whole = PoissonGradient(QUERY, 1.0, float(N), 0.0, N, N)
    np.testing.assert_allclose(
        answers(whole, problem().objective, keys(1))[0],
        clipped_gradients(*data()).mean(axis=0),
        rtol=1e-12,
    )
    full = FullBatchGradient.calibrated(QUERY, budget(), 10)
    poisson = PoissonGradient.calibrated(QUERY, budget(), 10, batch_size=N, n=N)
    assert poisson.scale == pytest.approx(full.scale, rel=2e-4)


def test_empty_batches_are_noise_of_the_same_shape():
    rare = PoissonGradient(QUERY, 1e-7, 1.0, 0.05, 4, N)
    found = answers(rare, problem().objective, keys(2000))
    assert found.shape == (2000, DIM)
    assert stats.kstest(found.ravel() / 0.05, "norm").pvalue > 1e-6


def test_the_divisor_and_the_noise_do_not_know_how_many_came():
    """Records are equal, so the answer tells the size: multiples of clip/b, noise one scale."""
    features, labels = np.tile([[2.0, 0.0, 0.0]], (N, 1)), np.ones(N)
    same = problems.logistic(features, labels, problem_class=facts())
    oracle = ORACLES["poisson"]
    exact = answers(still(oracle), same.objective, keys(3000))[:, 0]
    sizes = np.round(-exact * 6.0 / CLIP)
    np.testing.assert_allclose(exact, -sizes * CLIP / 6.0, atol=1e-12)
    assert (
        stats.chisquare(
            np.bincount(sizes.astype(int), minlength=N + 1)[2:12],
            f_exp=(
                stats.binom.pmf(np.arange(2, 12), N, 0.25)
                * np.bincount(sizes.astype(int), minlength=N + 1)[2:12].sum()
                / stats.binom.pmf(np.arange(2, 12), N, 0.25).sum()
            ),
        ).pvalue
        > 1e-6
    )
    noise = answers(oracle, same.objective, keys(3000))[:, 0] - exact
    for size in (4, 6, 8):
        assert stats.kstest(noise[sizes == size] / 0.05, "norm").pvalue > 1e-6


def test_neighbours_of_other_sizes_run_with_the_same_numbers():
    """One record more, under add-or-remove: answers differ by its share and by nothing else."""
    features, labels = data(N + 1)
    larger = problems.logistic(features, labels, problem_class=facts(N + 1))
    smaller = problems.logistic(features[:N], labels[:N], problem_class=facts())
    oracle = dataclasses.replace(ORACLES["poisson"], most=N + 1, capacity=N + 1)
    moved = answers(oracle, larger.objective, keys(400)) - answers(
        oracle, smaller.objective, keys(400)
    )
    share = clipped_gradients(features[N:], labels[N:])[0] / 6.0
    came = np.linalg.norm(moved, axis=1) > 1e-12
    np.testing.assert_allclose(moved[came], np.tile(share, (came.sum(), 1)), atol=1e-12)
    assert 60 <= came.sum() <= 140


@pytest.fixture(scope="module")
def spent(epsilon_lower_bound):
    """``(sizes, weaker) -> epsilon`` that an attack on Poisson batches proves to be spent.

    Neighbours of two sizes, whose last record alone has a gradient, of the clip norm; at most 16
    may come, in batches of four. 10^5 runs a side.
    """
    query = ClippedGradient(CLIP, 16.0, 1)
    loose = Budget(epsilon=1.0, delta=1e-3, relation="add_or_remove_one")
    oracle = PoissonGradient.calibrated(query, loose, 1, batch_size=4.0, n=16, capacity=12)

    @jax.jit
    def releases(where, scale, keys):
        weakened, point = dataclasses.replace(oracle, scale=scale), jnp.zeros(1)
        return jax.vmap(lambda key: weakened.bind(where, key).ask((), 0, point)[0][0])(keys)

    def scores(size, last, seed, weaker):
        features = np.zeros((size, 1))
        features[-1] = last
        public = ProblemClass(n=size, dim=1, lipschitz=1.0, radius=1.0)
        where = problems.linear(features, problem_class=public).objective
        return releases(where, oracle.scale / weaker, keys(100_000, seed))

    def attack(smaller, larger, weaker=1.0):
        one, other = scores(smaller, 0.0, 1, weaker), scores(larger, 1.0, 2, weaker)
        return epsilon_lower_bound(one, other, delta=loose.delta)

    return attack


def test_an_attack_on_the_last_record_proves_no_more_than_the_budget(spent):
    """False alarm 1e-4 each. With a third of the noise it proves more, so it could."""
    assert 0.3 < spent(15, 16) <= 1.0
    assert spent(15, 16, weaker=3.0) > 1.0


def test_a_record_beyond_the_most_cannot_be_told_from_none(spent):
    """It would fill the rest of every batch: no budget covers that. False alarm 1e-4."""
    assert spent(16, 17) <= 1.0


def test_counts_are_records():
    """Two stored rows, 9 and 15 times: the same law as 24 rows, here the same batches."""
    rows, labels = data(2)
    counts = np.array([9, 15])
    stored = problems.logistic(rows, labels, problem_class=facts(), counts=counts)
    spelled = problems.logistic(
        rows.repeat(counts, axis=0), labels.repeat(counts), problem_class=facts()
    )
    for name in ORACLES:
        np.testing.assert_allclose(
            answers(ORACLES[name], stored.objective, keys(20)),
            answers(ORACLES[name], spelled.objective, keys(20)),
            rtol=1e-10,
            atol=1e-12,
        )


def test_every_record_is_in_one_batch_of_a_pass():
    features = np.eye(N, N)
    facts_wide = ProblemClass(n=N, dim=N, lipschitz=2.0, radius=5.0)
    where = problems.linear(features, problem_class=facts_wide)
    query = ClippedGradient(10.0, float(N), N)
    oracle = ShuffledGradient(query, 0.0, 5, N)  # five does not divide 24
    bound = oracle.bind(where.objective, jax.random.key(0))
    memory, seen = bound.initial, []
    for t in range(10):
        gradient, memory = bound.ask(memory, jnp.asarray(t), jnp.zeros(N))
        seen.append(np.asarray(-gradient * N / 5))
    first, second = np.array(seen[:5]), np.array(seen[5:])
    np.testing.assert_allclose(first.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(second.sum(axis=0), 1.0, rtol=1e-12)
    assert not np.array_equal(first, second)


def test_fixed_batches_have_their_size():
    where = problems.linear(
        np.eye(N, N), problem_class=ProblemClass(n=N, dim=N, lipschitz=2.0, radius=5.0)
    )
    oracle = FixedSizeGradient(ClippedGradient(10.0, float(N), N), 0.0, 7, N)
    bound = oracle.bind(where.objective, jax.random.key(0))
    gradient, _ = bound.ask(bound.initial, jnp.asarray(0), jnp.zeros(N))
    assert np.sum(np.abs(np.asarray(gradient)) > 0.0) == 7


@pytest.mark.parametrize("relation", list(Relation))
def test_calibrated_to_the_budget_and_not_beyond(relation):
    given = budget(relation)
    made = [PoissonGradient.calibrated(QUERY, given, 50, batch_size=6, n=N)]
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        made.append(ShuffledGradient.calibrated(QUERY, given, 50, batch_size=6, n=N))
    if relation is Relation.REPLACE_ONE:
        made.append(FixedSizeGradient.calibrated(QUERY, given, 50, batch_size=6, n=N))
    for oracle in made:
        assert Guarantee(oracle.event(relation, 50), relation).meets(given)
        less = dataclasses.replace(oracle, scale=0.999 * oracle.scale)
        assert not Guarantee(less.event(relation, 50), relation).meets(given)


def test_the_effective_rate_is_what_is_charged():
    """Twice the batch, or twice the steps, is never free."""
    given = budget("add_or_remove_one")
    one = PoissonGradient.calibrated(QUERY, given, 100, batch_size=3, n=N)
    more = PoissonGradient.calibrated(QUERY, given, 100, batch_size=6, n=N)
    longer = PoissonGradient.calibrated(QUERY, given, 200, batch_size=3, n=N)
    multiplier = [o.scale * o.batch_size / QUERY.contribution for o in (one, more, longer)]
    assert multiplier[1] > 1.2 * multiplier[0]
    assert multiplier[2] > 1.2 * multiplier[0]
    event = one.event(given.relation, 100)
    assert event.count == 100
    assert event.event.sampling_probability == pytest.approx(3 / N, rel=1e-4)
    assert event.event.sampling_probability >= one.rate


def test_shuffled_passes_get_no_amplification():
    """The noise of ceil(T/k) full releases; Poisson batches of the same size need far less."""
    given = budget("zero_out")
    shuffled = ShuffledGradient.calibrated(QUERY, given, 41, batch_size=6, n=N)
    assert shuffled.event(given.relation, 41).count == 11
    assert isinstance(shuffled.event(given.relation, 41).event, dp.GaussianDpEvent)
    poisson = PoissonGradient.calibrated(QUERY, given, 41, batch_size=6, n=N)
    assert shuffled.scale > 1.3 * poisson.scale


@pytest.mark.parametrize("kind", [PoissonGradient, FixedSizeGradient, ShuffledGradient])
def test_more_records_than_int32_numbers_are_refused(kind):
    with pytest.raises(ValueError, match=r"n must be at most 1040187392 where .* got 1040187393"):
        kind.calibrated(QUERY, budget("replace_one"), 1, batch_size=4, n=31 * 32**5 + 1)


def test_refusals():
    with pytest.raises(ValueError, match="replace_one for batches of fixed size"):
        FixedSizeGradient.calibrated(QUERY, budget("zero_out"), 5, batch_size=3, n=N)
    with pytest.raises(ValueError, match="replace_one or zero_out for shuffled passes"):
        ShuffledGradient.calibrated(QUERY, budget("add_or_remove_one"), 5, batch_size=3, n=N)
    with pytest.raises(ValueError, match="batch_size must be positive and at most n = 24, got 25"):
        PoissonGradient.calibrated(QUERY, budget(), 5, batch_size=25, n=N)
    with pytest.raises(ValueError, match="capacity must be at least the batch size 6, got 5"):
        PoissonGradient.calibrated(QUERY, budget(), 5, batch_size=6, n=N, capacity=5)
    with pytest.raises(ValueError, match=r"batch_size must be an integer from 1 to 24, got 2\.5"):
        FixedSizeGradient.calibrated(QUERY, budget("replace_one"), 5, batch_size=2.5, n=N)
    with pytest.raises(ValueError, match=r"overflow with probability below delta 1e-05, got 7"):
        PoissonGradient.calibrated(QUERY, budget(), 500, batch_size=6, n=N, capacity=7)
