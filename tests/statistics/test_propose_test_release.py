"""Propose-test-release: frequencies of refusal, the ledger, and the refusal as data."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from builders import LEVEL, ks_p_value, one_scale_passes
from dp_accounting import NonPrivateDpEvent
from scipy import stats

from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import Median, ProposeTestRelease

REPLACE = Relation.REPLACE_ONE
QUERY = Median.of(0.0, 1.0)
distance_of = jax.jit(QUERY.distance_to_instability)


def budget(epsilon, delta, relation=REPLACE):
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


@jax.jit
def released(mechanism, keys, records):
    return jax.vmap(mechanism.release, (0, None))(keys, records)


def draw(mechanism, records, draws, seed=0):
    keys = jax.random.split(jax.random.key(seed), draws)
    return jax.tree.map(np.asarray, released(mechanism, keys, np.asarray(records)))


@pytest.mark.cases(4)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.4])
@pytest.mark.parametrize("bound", [0.1, 7.0])
def test_it_meets_the_budget_and_two_percent_less_of_anything_does_not(epsilon, delta, bound):
    found = ProposeTestRelease.calibrated(QUERY, bound, budget(epsilon, delta))
    assert all(float(np.float32(x)) == x for x in found[1:])
    guarantee = Guarantee(found.event(REPLACE), REPLACE)
    assert guarantee.epsilon(delta).upper <= epsilon
    assert guarantee.delta(epsilon).upper <= delta
    for part in ("answer_scale", "distance_scale", "threshold"):
        less = found._replace(**{part: 0.95 * getattr(found, part)})
        if part == "distance_scale":  # which also raises the threshold in units of the noise
            less = less._replace(threshold=0.95 * found.threshold)
        spent = Guarantee(less.event(REPLACE), REPLACE)
        assert not (spent.epsilon(delta).upper <= epsilon and spent.delta(epsilon).upper <= delta)


def test_the_ledger_adds_up_to_the_claim():
    """Half of epsilon for the test, half for the answer, and delta for passing it wrongly."""
    found = ProposeTestRelease.calibrated(QUERY, 0.1, budget(1.0, 1e-6))
    assert 1.0 / found.distance_scale == pytest.approx(0.5, rel=1e-6)
    assert found.bound / found.answer_scale == pytest.approx(0.5, rel=1e-6)
    passed = stats.laplace.sf(found.threshold, scale=found.distance_scale)
    assert passed == pytest.approx(1e-6, rel=1e-5)
    assert passed <= 1e-6


def test_unstable_data_pass_with_probability_delta_and_stable_data_almost_always():
    found = ProposeTestRelease.calibrated(QUERY, 0.1, budget(1.0, 0.01))
    unstable = [0.0, 0.5, 1.0]
    assert float(distance_of(np.asarray(unstable), found.bound)) == 0.0
    passed = int(draw(found, unstable, 1_000_000).accepted.sum())
    one_scale_passes(lambda r: stats.binomtest(passed, 1_000_000, 0.01 * r).pvalue, 0.9, 1.1)
    stable = draw(found, np.full(101, 0.3), 10_000)
    assert stable.accepted.all()  # at distance 50 a refusal has probability 1e-9


def test_a_refusal_is_data_and_the_answer_of_a_pass_has_the_stated_noise():
    found = ProposeTestRelease.calibrated(QUERY, 0.1, budget(2.0, 0.05))
    records = [0.3] * 4 + [0.4, 0.5, 0.6]
    many = draw(found, records, 400_000)
    accepted, value = np.asarray(many.accepted), np.asarray(many.value)
    assert 0.05 < accepted.mean() < 0.95
    assert np.isnan(value[~accepted]).all()
    one_scale_passes(
        lambda r: ks_p_value(value[accepted], stats.laplace(0.3, 0.1 * r).cdf), 0.94, 1.06
    )
    distance = float(distance_of(np.asarray(records), found.bound))
    expected = stats.laplace.sf(found.threshold - distance, scale=found.distance_scale)
    assert stats.binomtest(int(accepted.sum()), 400_000, expected).pvalue > LEVEL


def test_both_noises_are_drawn_whatever_the_test_says():
    """An accepted value equals the value of the same key with a threshold that always accepts."""
    found = ProposeTestRelease.calibrated(QUERY, 0.1, budget(1.0, 0.05))
    records = [0.1, 0.25, 0.3, 0.4, 0.9]
    free = draw(found._replace(threshold=-math.inf), records, 500)
    many = draw(found, records, 500)
    assert 0 < many.accepted.sum() < 500
    np.testing.assert_array_equal(
        np.asarray(many.value), np.where(many.accepted, free.value, np.nan)
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_stable_values_are_released_exactly_at_the_cost_of_the_test(epsilon):
    """Bound 0: two percent less noise or a lower threshold exceeds the budget."""
    found = ProposeTestRelease.calibrated(QUERY, 0.0, budget(epsilon, 1e-3))
    assert found.answer_scale == 0.0
    guarantee = Guarantee(found.event(REPLACE), REPLACE)
    assert 0.999 * epsilon < guarantee.epsilon(1e-3).upper <= epsilon
    assert guarantee.delta(epsilon).upper <= 1e-3
    lower = found._replace(threshold=0.98 * found.threshold)
    assert Guarantee(lower.event(REPLACE), REPLACE).delta(epsilon).lower > 1e-3
    less = found._replace(
        distance_scale=0.98 * found.distance_scale, threshold=0.98 * found.threshold
    )
    assert Guarantee(less.event(REPLACE), REPLACE).delta(epsilon).lower > 1e-3
    many = draw(found, np.full(2 * math.ceil(30.0 / epsilon) + 1, 0.3), 10_000)
    assert many.accepted.all()
    assert (np.asarray(many.value) == 0.3).all()
    passed = int(draw(found, [0.0, 0.5, 1.0], 200_000).accepted.sum())
    one_scale_passes(lambda r: stats.binomtest(passed, 200_000, 1e-3 * r).pvalue, 0.5, 2.0)


@pytest.mark.thorough  # thresholds and noise are tested one by one
def test_an_attack_on_stable_values(epsilon_lower_bound):
    """The neighbour is closer to instability by one, and both are below the threshold.

    The attack finds 0.85 of epsilon, and more than epsilon with half of the noise. False alarm 1e-4
    each.
    """
    found = ProposeTestRelease.calibrated(QUERY, 0.0, budget(1.0, 1e-2))
    pair = [np.repeat([0.0, 1.0], [11 - ones, ones]) for ones in (2, 3)]
    distances = [float(distance_of(x, 0.0)) for x in pair]
    assert distances == [3.0, 2.0]

    def lower_bound(factor):
        mechanism = found._replace(distance_scale=factor * found.distance_scale)
        passed = [draw(mechanism, x, 400_000, seed).accepted for seed, x in enumerate(pair)]
        return epsilon_lower_bound(*passed, delta=1e-2)

    assert 0.85 <= lower_bound(1.0) <= 1.0
    assert lower_bound(0.5) > 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stable_values_do_not_show_the_sign_of_zero_or_a_subnormal_number(dtype):
    """These records count as equal, so their release must have equal bits."""
    found = ProposeTestRelease.calibrated(Median.of(-1.0, 1.0), 0.0, budget(1.0, 0.1))
    least = np.nextafter(dtype(0.0), dtype(1.0))
    for zero in (0.0, -0.0, least, -least, np.nan):
        many = draw(found, np.full(101, zero, dtype), 100)
        assert many.accepted.all()
        np.testing.assert_array_equal(np.signbit(many.value), False)
        np.testing.assert_array_equal(many.value, 0.0)
    assert draw(found, np.full(101, 1e38, dtype), 100).value.max() == 1.0


def test_bad_input_fails_with_its_name():
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"bound must be positive and finite, got {bad}"):
            ProposeTestRelease.calibrated(QUERY, bad, budget(1.0, 0.1))
    for delta in (0.0, 0.5, 0.9):
        with pytest.raises(ValueError, match=rf"delta must lie in \(0, 1/2\), got {delta}"):
            ProposeTestRelease.calibrated(QUERY, 0.1, budget(1.0, delta))
    found = ProposeTestRelease.calibrated(QUERY, 0.1, budget(1.0, 0.1))
    for relation in (Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT):
        with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
            found.event(relation)
        with pytest.raises(ValueError, match=f"must be replace_one .* got {relation}"):
            ProposeTestRelease.calibrated(QUERY, 0.1, budget(1.0, 0.1, relation))
    assert found._replace(answer_scale=0.0).event(REPLACE) == NonPrivateDpEvent()
