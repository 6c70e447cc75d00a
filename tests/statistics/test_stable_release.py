"""The mode, released as it is where it is stable: distances by enumeration, refusals as data.

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
from dp_accounting import NonPrivateDpEvent
from scipy import stats

from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import Histogram, Mode, StableRelease

LEVEL = 1e-6
REPLACE = Relation.REPLACE_ONE
BINS = {k: Mode(Histogram(tuple(float(i) for i in range(k + 1)))) for k in (1, 2, 3, 4)}
MODE = BINS[3]


def budget(epsilon, delta, relation=REPLACE):
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


def records(*counts):
    """So many records in the middle of each bin."""
    return jnp.asarray(np.repeat(np.arange(len(counts)) + 0.5, counts))


def draw(mechanism, data, draws, seed=0):
    keys = jax.random.split(jax.random.key(seed), draws)
    return jax.jit(jax.vmap(mechanism.release, (0, None)))(keys, data)


@pytest.mark.parametrize(("bins", "n"), [(1, 3), (2, 1), (2, 6), (3, 5), (4, 4)])
def test_distance_equals_brute_force_and_moves_by_one(bins, n):
    """Over every data set; where no other mode exists it is ``n``, more than any distance."""
    query = BINS[bins]
    data = np.array(list(itertools.product(range(bins), repeat=n)))
    found = np.asarray(jax.vmap(query.distance_to_change)(jnp.asarray(data + 0.5)))
    modes = np.array([np.argmax(np.bincount(row, minlength=bins)) for row in data])
    np.testing.assert_array_equal(jax.vmap(query.answer)(jnp.asarray(data + 0.5)), modes)
    apart = (data[:, None, :] != data[None, :, :]).sum(axis=-1)
    unstable = ((apart == 1) & (modes[:, None] != modes[None, :])).any(axis=1)
    expected = np.where(unstable[None, :], apart, n).min(axis=1)
    np.testing.assert_array_equal(found, expected)
    if bins > 1:
        assert np.abs(found[:, None] - found[None, :])[apart == 1].max() <= 1.0


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.4])
def test_it_meets_the_budget_and_five_percent_less_of_anything_does_not(epsilon, delta):
    found = StableRelease.calibrated(MODE, budget(epsilon, delta))
    assert all(float(np.float32(x)) == x for x in found[1:])
    guarantee = Guarantee(found.event(REPLACE), REPLACE)
    assert guarantee.epsilon(delta).upper <= epsilon
    assert guarantee.delta(epsilon).upper <= delta
    for less in (
        found._replace(threshold=0.95 * found.threshold),
        found._replace(
            distance_scale=0.95 * found.distance_scale, threshold=0.95 * found.threshold
        ),
    ):
        spent = Guarantee(less.event(REPLACE), REPLACE)
        assert not (spent.epsilon(delta).upper <= epsilon and spent.delta(epsilon).upper <= delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.05), (2.0, 1e-3)])
def test_exact_hockey_sticks_of_all_neighbours_are_within_delta_and_attain_it(epsilon, delta):
    """The law of a release is a refusal and one value; every pair of counts of six records."""
    found = StableRelease.calibrated(MODE, budget(epsilon, delta))
    worst = 0.0
    tables = [c for c in itertools.product(range(7), repeat=3) if sum(c) == 6]
    law = {}
    for counts in tables:
        distance = float(MODE.distance_to_change(records(*counts)))
        passed = stats.laplace.sf(found.threshold - distance, scale=found.distance_scale)
        law[counts] = (int(np.argmax(counts)), passed)
    for one, two in itertools.product(tables, repeat=2):
        if np.abs(np.subtract(one, two)).sum() != 2:
            continue
        (mode, passed), (other, other_passed) = law[one], law[two]
        told = passed - math.exp(epsilon) * (other_passed if mode == other else 0.0)
        refused = (1.0 - passed) - math.exp(epsilon) * (1.0 - other_passed)
        worst = max(worst, max(told, 0.0) + max(refused, 0.0))
    assert 0.99 * delta <= worst <= delta
    careless = found._replace(threshold=0.5 * found.threshold)
    assert stats.laplace.sf(careless.threshold, scale=careless.distance_scale) > delta


def test_unstable_data_pass_with_probability_delta_and_stable_data_almost_always():
    found = StableRelease.calibrated(MODE, budget(1.0, 0.01))
    for unstable in (records(4, 4, 1), jnp.zeros(0)):
        assert float(MODE.distance_to_change(unstable)) == 0.0
        passed = int(draw(found, unstable, 400_000).accepted.sum())
        p_value = {
            ratio: stats.binomtest(passed, 400_000, 0.01 * ratio).pvalue
            for ratio in (0.85, 1.0, 1.15)
        }
        assert p_value[1.0] > LEVEL
        assert max(p_value[0.85], p_value[1.15]) < LEVEL
    stable = draw(found, records(10, 100, 20), 10_000)
    assert stable.accepted.all()  # at distance 39 a refusal has probability 1e-15
    assert np.all(np.asarray(stable.value) == 1.0)


def test_a_refusal_is_data_and_a_pass_is_the_mode_itself():
    found = StableRelease.calibrated(MODE, budget(1.0, 0.05))
    many = draw(found, records(1, 2, 7), 2_000)
    accepted, value = np.asarray(many.accepted), np.asarray(many.value)
    assert 0.1 < accepted.mean() < 0.9
    assert np.isnan(value[~accepted]).all()
    assert np.all(value[accepted] == 2.0)


def test_strange_records_have_their_bins_and_one_bin_is_always_released():
    strange = jnp.asarray([jnp.nan, -jnp.inf, -3.0, jnp.inf])
    assert float(MODE.answer(strange)) == 0.0  # NaN is read as zero
    assert float(MODE.answer(jnp.asarray([jnp.inf, 9.0, jnp.nan]))) == 2.0
    assert float(BINS[1].distance_to_change(jnp.asarray([0.2, 0.4]))) == 2.0


def test_bad_input_fails_with_its_name():
    for delta in (0.0, 0.5, 0.9):
        with pytest.raises(ValueError, match=rf"delta must lie in \(0, 1/2\), got {delta}"):
            StableRelease.calibrated(MODE, budget(1.0, delta))
    found = StableRelease.calibrated(MODE, budget(1.0, 0.1))
    for relation in (Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT):
        with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
            found.event(relation)
        with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
            StableRelease.calibrated(MODE, budget(1.0, 0.1, relation))
    assert found._replace(distance_scale=0.0).event(REPLACE) == NonPrivateDpEvent()
    with pytest.raises(ValueError, match="records must be a vector of a floating type, got int"):
        MODE.answer(jnp.arange(3))
