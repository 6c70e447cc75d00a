"""The variance: three sums, one count, and what they cost together.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt import draws
from privopt.mechanisms.round_off import MAX_TERMS, sum_error
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import Bounds, CentredMoments, MeanMechanism, VarianceMechanism

pytestmark = pytest.mark.optimised

relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def pure(epsilon, relation):
    return Budget(epsilon=epsilon, delta=0.0, relation=relation)


@relations
@dtypes
@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 1.0), (2.0, 3.0), (-0.3, 0.1)])
def test_three_sums_move_together_by_their_sensitivity_and_no_more(relation, lower, upper, dtype):
    """All pairs of records on a fine grid, beyond the bounds too, and strange ones."""
    query = CentredMoments(Bounds.of(lower, upper))
    span = upper - lower
    grid = np.concatenate(
        [np.linspace(lower - 0.1 * span, upper + 0.1 * span, 481), [np.nan, np.inf, -np.inf]]
    ).astype(dtype)
    one = jax.jit(jax.vmap(lambda x: query.answer(x[None])))(jnp.asarray(grid))
    one = np.asarray(one, np.float64)
    if relation is Relation.REPLACE_ONE:
        moved = np.abs(one[:, None] - one[None, :]).sum(axis=-1)
    else:
        moved = np.abs(one).sum(axis=-1)
    assert moved.max() <= query.l1_sensitivity(relation)
    round_off = 4.0 * sum_error(MAX_TERMS)
    assert moved.max() == pytest.approx(query.l1_sensitivity(relation) - round_off, rel=1e-4)


@relations
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
def test_noise_meets_the_budget_and_two_percent_less_does_not(relation, epsilon):
    found = VarianceMechanism.calibrated(-1.0, 3.0, pure(epsilon, relation))
    assert Guarantee(found.event(relation), relation).epsilon(0.0).upper <= epsilon
    less = found._replace(laplace=found.laplace._replace(scale=0.98 * found.laplace.scale))
    assert Guarantee(less.event(relation), relation).epsilon(0.0).lower > epsilon


def test_noise_for_an_added_record_is_not_enough_for_a_replaced_one():
    """Thirds for each of three sums cost a replaced record 25/24 of epsilon."""
    found = VarianceMechanism.calibrated(-1.0, 3.0, pure(1.0, Relation.ADD_OR_REMOVE_ONE))
    half_width = found.laplace.query.bounds.half_width
    round_off = 4.0 * sum_error(MAX_TERMS)
    assert half_width * found.laplace.scale == pytest.approx((3.0 + round_off) * half_width)
    spent = Guarantee(found.event(Relation.REPLACE_ONE), Relation.REPLACE_ONE).epsilon(0.0)
    assert spent.upper == pytest.approx((25.0 / 8.0 + round_off) / (3.0 + round_off), rel=2e-6)
    assert spent.lower > 1.0


def test_the_release_is_the_textbook_formula_in_the_units_of_the_records():
    lower, upper, epsilon = -1.0, 3.0, 2.0
    found = VarianceMechanism.calibrated(lower, upper, pure(epsilon, Relation.ADD_OR_REMOVE_ONE))
    records = np.array([0.5, 9.0, -9.0, 2.0, 1.9, 1.2])
    width = upper - lower
    centred = np.clip(records, lower, upper) - 0.5 * (lower + upper)
    for seed in range(20):
        key = jax.random.key(seed)
        unit = np.asarray(draws.laplace(key, (3,), np.float64)) * found.laplace.scale
        first = centred.sum() + unit[0] * width / 2
        second = (centred**2 - width**2 / 8).sum() + unit[1] * width**2 / 8
        count = max(1.0, records.size + unit[2])
        variance = second / count + width**2 / 8 - (first / count) ** 2
        expected = min(max(variance, 0.0), width**2 / 4)
        found_value = float(found.release(key, jnp.asarray(records)))
        assert found_value == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_without_noise_it_is_exact_and_degenerate_data_have_their_answers():
    found = VarianceMechanism.calibrated(-1.0, 3.0, pure(1e9, Relation.ADD_OR_REMOVE_ONE))
    key = jax.random.key(0)
    records = np.array([0.5, 2.5, -0.25, 2.0])
    exact = float(found.release(key, jnp.asarray(records)))
    assert exact == pytest.approx(records.var(), abs=1e-6)
    assert float(found.release(key, jnp.asarray([-5.0, 7.0]))) == pytest.approx(4.0, abs=1e-6)
    for constant in (jnp.asarray([1.7]), jnp.full(9, 1.7)):
        assert float(found.release(key, constant)) == pytest.approx(0.0, abs=1e-6)
    point = VarianceMechanism.calibrated(0.1, 0.1, pure(1.0, Relation.ADD_OR_REMOVE_ONE))
    assert float(point.release(key, jnp.asarray(records))) == 0.0
    empty = float(found.release(key, jnp.zeros(0)))
    assert empty == pytest.approx(2.0, abs=1e-6)  # half of what is possible: nothing is known


@dtypes
def test_releases_stay_in_range_and_beat_two_means_that_pay_for_the_count_twice(dtype):
    relation, records = Relation.ADD_OR_REMOVE_ONE, np.linspace(-1.0, 1.0, 400)
    keys = jax.random.split(jax.random.key(1), 4_000)
    shared = VarianceMechanism.calibrated(-1.0, 1.0, pure(0.5, relation))
    many = jax.vmap(shared.release, (0, None))(keys, jnp.asarray(records, dtype))
    assert many.dtype == dtype
    many = np.asarray(many, np.float64)
    assert 0.0 <= many.min() < many.max() <= 1.0

    def apart(key):
        square, plain = jax.random.split(key)
        half = pure(0.25, relation)
        second = MeanMechanism.calibrated(0.0, 1.0, half).release(square, jnp.asarray(records**2))
        first = MeanMechanism.calibrated(-1.0, 1.0, half).release(plain, jnp.asarray(records))
        return second - first**2

    twice = np.asarray(jax.vmap(apart)(keys))
    errors = [math.sqrt(np.mean((each - records.var()) ** 2)) for each in (many, twice)]
    assert errors[0] < 0.9 * errors[1]
