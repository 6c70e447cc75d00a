"""Approximate bounds: the threshold, the worked example, rates of false positives.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import ApproximateBounds, CentredSum, Histogram, MeanMechanism

LEVEL = 1e-6
DRAWS = 100_000
RECORDS = jnp.asarray([0.0, 0, 0, 0, 1, 3, 7, 8, 8, 8])
MIRRORED = Histogram.logarithmic(1.0, 2.0, 4, mirrored=True)
ONE_SIDED = Histogram.logarithmic(1.0, 2.0, 4, mirrored=False)
relations = pytest.mark.parametrize("relation", list(Relation))


def calibrated(histogram=MIRRORED, *, epsilon=1.0, relation="add_or_remove_one", confidence=0.9):
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    return ApproximateBounds.calibrated(histogram, budget, confidence=confidence)


@jax.jit
def counted(mechanism, keys, records):
    return jax.vmap(mechanism.counts, (0, None))(keys, records)


def draw(mechanism, records):
    keys = jax.random.split(jax.random.key(0), DRAWS)
    return np.asarray(counted(mechanism, keys, records))


def test_golden_thresholds():
    assert calibrated().threshold == pytest.approx(3.5106, abs=5e-5)
    assert calibrated(ONE_SIDED).threshold == pytest.approx(2.673, abs=5e-4)
    assert calibrated(relation="replace_one").threshold == pytest.approx(7.0213, abs=1e-4)
    exact = -math.log(2.0 - 2.0 * 0.9 ** (1.0 / 7.0))
    assert calibrated(epsilon=0.5).threshold == pytest.approx(exact / 0.5, rel=1e-6)


def test_thresholds_grow_with_confidence_and_with_the_number_of_bins():
    rising = [calibrated(confidence=c).threshold for c in (2.0**-7, 0.1, 0.5, 0.9, 1 - 1e-12)]
    assert rising[0] == pytest.approx(0.0, abs=1e-12)
    assert all(np.diff(rising) > 0.0)
    more = [
        calibrated(Histogram.logarithmic(1.0, 2.0, k, mirrored=False)).threshold for k in (2, 3, 9)
    ]
    assert all(np.diff(more) > 0.0)


def test_the_worked_example():
    exact = calibrated().read(MIRRORED.answer(RECORDS))
    assert (bool(exact.determined), float(exact.lower), float(exact.upper)) == (True, 0.0, 8.0)
    mirrored = calibrated().read(MIRRORED.answer(-RECORDS))
    assert (float(mirrored.lower), float(mirrored.upper)) == (-8.0, 1.0)  # zeros are not negative
    middle = calibrated().read(MIRRORED.answer(jnp.full(9, 3.0)))
    assert (float(middle.lower), float(middle.upper)) == (2.0, 4.0)


@pytest.mark.parametrize(
    ("records", "expected"), [(jnp.full(50, 3.0), 0.1), (jnp.zeros(0), 1.0 - 0.9 ** (8.0 / 7.0))]
)
def test_empty_bins_pass_as_often_as_the_threshold_says(records, expected):
    """With all data in one bin ``1 - c``, with no data at all slightly more."""
    found = calibrated()
    counts = draw(found, records)
    passed = counts > found.threshold
    empty = passed[:, np.asarray(MIRRORED.answer(records)) == 0.0].any(axis=1)
    p_value = {
        ratio: stats.binomtest(int(empty.sum()), DRAWS, expected * ratio).pvalue
        for ratio in (0.9, 1.0, 1.1)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.9], p_value[1.1]) < LEVEL


@relations
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
def test_noise_meets_the_budget_and_two_percent_less_does_not(relation, epsilon):
    found = calibrated(epsilon=epsilon, relation=relation)
    assert found.laplace.scale == pytest.approx(relation.multiple / epsilon, rel=2e-7)
    assert Guarantee(found.event(relation), relation).epsilon(0.0).upper <= epsilon
    less = found._replace(laplace=found.laplace._replace(scale=0.98 * found.laplace.scale))
    assert Guarantee(less.event(relation), relation).epsilon(0.0).lower > epsilon


def test_counts_have_laplace_noise_of_the_stated_scale_and_no_other():
    noise = draw(calibrated(epsilon=0.5), RECORDS)[:20_000] - np.asarray(MIRRORED.answer(RECORDS))
    p_value = {
        ratio: stats.kstest(noise.ravel(), stats.laplace(scale=2.0 * ratio).cdf).pvalue
        for ratio in (0.77, 1.0, 1.3)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.77], p_value[1.3]) < LEVEL


def test_undetermined_is_data_and_another_threshold_on_the_same_counts_is_free():
    found, key = calibrated(epsilon=1.0), jax.random.key(0)
    unknown = found._replace(threshold=1e9).release(key, RECORDS)
    assert not bool(unknown.determined)
    assert np.isnan([float(unknown.lower), float(unknown.upper)]).all()
    counts = found.counts(key, RECORDS)
    released, read = found.release(key, RECORDS), found.read(counts)
    assert [float(x) for x in released] == [float(x) for x in read]
    lower = found._replace(threshold=-1e9).read(counts)
    assert (float(lower.lower), float(lower.upper)) == (-8.0, 8.0)


def test_bounds_that_were_found_serve_a_mean_even_if_there_are_none():
    """On the device, by argument; the mean's noise does not depend on them."""
    budget = Budget(epsilon=1e6, delta=0.0, relation="add_or_remove_one")
    mean = MeanMechanism.calibrated(0.0, 1.0, budget)

    @jax.jit
    def both(found, key):
        bounds_key, mean_key = jax.random.split(key)
        bounds = found.release(bounds_key, RECORDS).bounds
        query = CentredSum(bounds)
        return mean._replace(laplace=mean.laplace._replace(query=query)).release(mean_key, RECORDS)

    key = jax.random.key(1)
    found = calibrated(epsilon=1e6)
    assert float(both(found, key)) == pytest.approx(float(RECORDS.mean()), abs=1e-4)
    assert math.isnan(float(both(found._replace(threshold=1e9), key)))


def test_bad_input_fails_with_its_name():
    with pytest.raises(ValueError, match="histogram must have at least two bins, got 1"):
        calibrated(Histogram((0.0, 1.0)))
    for confidence in (0.0, 1.0, 0.007, math.nan):
        with pytest.raises(ValueError, match=r"confidence must lie in \[2\^-7, 1\) for 8 bins"):
            calibrated(confidence=confidence)
