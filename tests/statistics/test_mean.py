"""Means of a public and of a private number of records.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from privopt import draws
from privopt.mechanisms import GaussianMechanism, LaplaceMechanism
from privopt.mechanisms.round_off import MAX_TERMS, sum_error
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedMean, Bounds, CentredSum, MeanMechanism

pytestmark = pytest.mark.optimised

LEVEL = 1e-6
RECORDS = (math.nan, math.inf, -math.inf, -1e30, 1e30, 0.0, -1.0, 0.3, 2.0, 1e-40)
relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
intervals = pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 1.0), (0.0, 5.0), (2.0, 3.0), (-0.3, 0.1), (-4.0, -1.0)]
)


def pure(epsilon, relation):
    return Budget(epsilon=epsilon, delta=0.0, relation=relation)


def worst_move(query, relation, dtype):
    answer = jax.jit(type(query).answer)

    def at(record, present):
        records = jnp.asarray([0.4, record, -0.2], dtype)
        return np.asarray(answer(query, records, jnp.asarray([True, present, True])), np.float64)

    worst = 0.0
    for first, second in itertools.product(RECORDS, repeat=2):
        replaced = relation is Relation.REPLACE_ONE
        moved = at(first, True) - (at(second, True) if replaced else at(first, False))
        worst = max(worst, float(np.abs(moved).sum()))
    return worst


@relations
@dtypes
@intervals
def test_the_mean_of_a_public_number_moves_by_its_sensitivity(relation, lower, upper, dtype):
    """``(u - l)/n`` for replacement, whichever bound is the larger: never twice, never half."""
    query = BoundedMean.of(lower, upper, 3)
    worst = worst_move(query, relation, dtype)
    assert worst <= query.sensitivity(relation)
    assert worst == pytest.approx(query.sensitivity(relation), rel=2e-6)
    share = 1.0 if relation is Relation.REPLACE_ONE else 0.5
    assert query.sensitivity(relation) == pytest.approx(share * (upper - lower) / 3, rel=1e-6)
    assert query.l1_sensitivity(relation) == query.sensitivity(relation)


@relations
@dtypes
@intervals
def test_the_centred_sum_moves_by_two_wherever_the_bounds_lie(relation, lower, upper, dtype):
    query = CentredSum(Bounds.of(lower, upper))
    worst = worst_move(query, relation, dtype)
    assert worst == pytest.approx(2.0, abs=8.0 * float(np.finfo(dtype).eps))
    assert worst <= query.l1_sensitivity(relation) <= 2.0 + 1.0 / 60.0


@relations
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
def test_noise_of_a_mean_meets_the_budget_under_every_relation_at_once(relation, epsilon):
    found = MeanMechanism.calibrated(-1.0, 3.0, pure(epsilon, relation))
    scale = found.laplace.query.l1_sensitivity(relation) / epsilon
    assert found.laplace.scale == pytest.approx(scale, rel=2e-7)
    for each in Relation:
        spent = Guarantee(found.event(each), each).epsilon(0.0)
        assert 0.999999 * epsilon < spent.lower <= spent.upper <= epsilon
    less = found._replace(laplace=found.laplace._replace(scale=0.98 * scale))
    assert Guarantee(less.event(relation), relation).epsilon(0.0).lower > epsilon


def test_the_ledger_of_a_mean_adds_up_to_the_claim():
    """Half for the sum at its sensitivity, half for the count, in the units of the records.

    But for round-off, which is charged to the sum.
    """
    found = MeanMechanism.calibrated(-1.0, 3.0, pure(1.0, Relation.ADD_OR_REMOVE_ONE))
    half_width = found.laplace.query.bounds.half_width
    on_sum, on_count = half_width * found.laplace.scale, found.laplace.scale
    assert on_sum == pytest.approx((3.0 + 1.0) / 1.0, rel=1e-2)  # (u - l)/epsilon
    round_off = 2.0 * half_width * sum_error(MAX_TERMS)
    assert (half_width + round_off) / on_sum + 1.0 / on_count == pytest.approx(1.0, rel=1e-6)


@dtypes
def test_sum_and_count_get_independent_noise_of_the_stated_scale(dtype):
    """Read back from the release: where the count is exact, the ratio shows the sum's noise."""
    found = MeanMechanism.calibrated(-1.0, 3.0, pure(1.0, Relation.ADD_OR_REMOVE_ONE))
    keys = jax.random.split(jax.random.key(1), 20_000)
    query = found.laplace.query
    exact = query.answer(jnp.linspace(-2.0, 4.0, 1000, dtype=dtype))
    noisy = np.asarray(jax.vmap(found.laplace.add_noise, (0, None))(keys, exact), np.float64)
    noise = noisy - np.asarray(exact, np.float64)
    for part in noise.T:
        p_value = {
            ratio: stats.kstest(part, stats.laplace(scale=found.laplace.scale * ratio).cdf).pvalue
            for ratio in (0.77, 1.0, 1.3)
        }
        assert p_value[1.0] > LEVEL
        assert max(p_value[0.77], p_value[1.3]) < LEVEL
    assert abs(np.corrcoef(noise.T)[0, 1]) < 5.0 / math.sqrt(20_000)
    error = 4.0 * 2.0 * math.sqrt(2.0 / 20_000)  # four standard errors: level 6e-5
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=error)


def test_the_release_is_the_textbook_midpoint_trick():
    found = MeanMechanism.calibrated(-1.0, 3.0, pure(1.0, Relation.ADD_OR_REMOVE_ONE))
    records = np.array([0.5, 9.0, -9.0, 2.0])
    for seed in range(20):
        key = jax.random.key(seed)
        unit = np.asarray(draws.laplace(key, (2,), np.float64)) * found.laplace.scale
        on_sum, on_count = unit * [2.0, 1.0]
        clamped = np.clip(records, -1.0, 3.0)
        mean = 1.0 + ((clamped - 1.0).sum() + on_sum) / max(1.0, 4 + on_count)
        expected = min(max(mean, -1.0), 3.0)
        assert float(found.release(key, jnp.asarray(records))) == pytest.approx(expected, abs=4e-6)


def test_without_noise_means_are_exact_and_degenerate_data_have_their_answers():
    relation = Relation.ADD_OR_REMOVE_ONE
    found = MeanMechanism.calibrated(-1.0, 3.0, pure(1e9, relation))
    key = jax.random.key(0)
    records = jnp.asarray([0.5, 9.0, -9.0, 2.0])
    assert float(found.release(key, records)) == pytest.approx(1.125, abs=1e-6)
    assert float(found.release(key, records[:1])) == pytest.approx(0.5, abs=1e-6)
    assert float(found.release(key, jnp.full(7, 2.5))) == pytest.approx(2.5, abs=1e-6)
    for empty in (
        found.release(key, jnp.zeros(0)),
        found.release(key, records, jnp.zeros(4, bool)),
    ):
        assert float(empty) == pytest.approx(1.0, abs=1e-6)  # the midpoint
    present = jnp.asarray([True, False, False, True])
    assert float(found.release(key, records, present)) == pytest.approx(1.25, abs=1e-6)
    point = MeanMechanism.calibrated(0.1, 0.1, pure(1.0, relation))
    assert float(point.release(key, records)) == 0.1
    public = BoundedMean.of(-1.0, 3.0, 4)
    assert float(public.restore(public.answer(records))) == 1.125
    assert float(public.restore(public.answer(jnp.zeros(0)))) == 1.0
    public = BoundedMean.of(0.1, 0.1, 4)
    assert public.sensitivity(Relation.REPLACE_ONE) == 0.0
    assert float(public.restore(public.answer(records))) == 0.1


def test_releases_stay_in_the_bounds_whatever_the_noise():
    found = MeanMechanism.calibrated(-1.0, 3.0, pure(0.01, Relation.ADD_OR_REMOVE_ONE))
    keys = jax.random.split(jax.random.key(2), 5_000)
    many = np.asarray(jax.vmap(found.release, (0, None))(keys, jnp.zeros(3)))
    assert -1.0 <= many.min() < many.max() <= 3.0


def test_the_divisor_is_public_or_noisy_and_never_the_true_number():
    """One record more changes the public mean by its share alone."""
    query = BoundedMean.of(0.0, 1.0, 10)
    one, two = (float(query.answer(jnp.full(n, 1.0))) for n in (9, 10))
    assert two - one == pytest.approx(0.05)
    found = MeanMechanism.calibrated(0.0, 1.0, pure(1.0, Relation.ADD_OR_REMOVE_ONE))
    keys = jax.random.split(jax.random.key(3), 50)
    values = jax.vmap(found.release, (0, None))(keys, jnp.full(2000, 0.8))
    assert len(np.unique(np.asarray(values))) == 50


@relations
def test_both_laplace_and_gaussian_noise_go_with_a_public_number(relation):
    query = BoundedMean.of(-0.3, 0.1, 17)
    budget = Budget(epsilon=1.0, delta=1e-6, relation=relation)
    for kind in (LaplaceMechanism, GaussianMechanism):
        found = kind.calibrated(query, budget)
        assert Guarantee(found.event(relation), relation).epsilon(1e-6).upper <= 1.0


def test_bad_input_fails_with_its_name():
    for size in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=f"size must be a positive integer, got {size}"):
            BoundedMean.of(0.0, 1.0, size)
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        MeanMechanism.calibrated(1.0, 0.0, pure(1.0, Relation.REPLACE_ONE))
