"""Every statistic on data that are hardly any: empty, one record, all equal, beyond the bounds.

The noise is so small (epsilon 1e9) that the answer shows; what it is, is written down.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.mechanisms import LaplaceMechanism
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import (
    BoundedMean,
    BoundedSum,
    Count,
    Histogram,
    Median,
    SmoothLaplaceMechanism,
)

KEY = jax.random.key(0)
SURE = Budget(epsilon=1e9, delta=0.0, relation=Relation.ADD_OR_REMOVE_ONE)
BINS = Histogram.logarithmic(1.0, 2.0, 3, mirrored=False)  # [0, 1], (1, 2], (2, 4]
EMPTY, ONE, SAME = jnp.zeros(0), jnp.asarray([0.5]), jnp.full(7, 0.5)
WILD = jnp.asarray([-jnp.inf, -1e300, 1e300, jnp.inf])  # clamped to -1, -1, 3, 3


def noisy(query):
    mechanism = LaplaceMechanism.calibrated(query, SURE)
    return lambda records: mechanism.add_noise(KEY, query.answer(records))


def public_mean(records):
    query = BoundedMean.of(-1.0, 3.0, 4)
    return query.restore(noisy(query)(records))


# statistic on [-1, 3] -> what it is of no records, of one 0.5, of seven, of records out of bounds
ANSWERS = {
    "sum": (noisy(BoundedSum.of(-1.0, 3.0)), 0.0, 0.5, 3.5, 4.0),
    "count": (noisy(Count()), 0.0, 1.0, 7.0, 4.0),
    "mean, public 4": (public_mean, 1.0, 0.875, 0.125, 1.0),
}
statistics = pytest.mark.parametrize("name", ANSWERS)


@statistics
def test_degenerate_data_have_their_answers(name):
    statistic, *expected = ANSWERS[name]
    found = [float(statistic(records)) for records in (EMPTY, ONE, SAME, WILD)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_bins_of_degenerate_data():
    np.testing.assert_array_equal(BINS.answer(EMPTY), [0, 0, 0])
    np.testing.assert_array_equal(BINS.answer(WILD), [2, 0, 2])
    np.testing.assert_array_equal(BINS.answer(SAME), [7, 0, 0])


def test_a_median_needs_a_record_and_one_is_enough():
    query = Median.of(-1.0, 3.0)
    for method in (query.answer, lambda x: query.smooth_sensitivity(x, 0.1)):
        with pytest.raises(ValueError, match=r"records must hold at least one, got shape \(0,\)"):
            method(EMPTY)
    assert float(query.answer(ONE)) == float(query.answer(SAME)) == 0.5
    assert float(query.answer(WILD)) == -1.0  # the lower middle one
    assert float(query.smooth_sensitivity(ONE, 0.1)) == pytest.approx(4 * math.exp(-0.1), rel=0.2)


def test_equal_bounds_need_no_noise_and_give_the_bound():
    """Nothing can move, so the release is exact at any epsilon and costs nothing."""
    budget = Budget(epsilon=1e-3, delta=0.0, relation=Relation.REPLACE_ONE)
    query = BoundedMean.of(2.0, 2.0, 4)
    mechanism = LaplaceMechanism.calibrated(query, budget)
    assert mechanism.scale == 0.0
    assert float(mechanism.add_noise(KEY, query.answer(WILD))) == 0.0
    spent = Guarantee(mechanism.event(Relation.REPLACE_ONE), Relation.REPLACE_ONE)
    assert spent.epsilon(0.0).upper == 0.0
    total = BoundedSum.of(2.0, 2.0)
    assert float(total.answer(WILD)) == 8.0
    assert total.sensitivity(Relation.REPLACE_ONE) == 0.0
    assert total.sensitivity(Relation.ADD_OR_REMOVE_ONE) >= 2.0  # the number of records shows
    some = Budget(epsilon=1e-3, delta=1e-5, relation=Relation.REPLACE_ONE)
    median = SmoothLaplaceMechanism.calibrated(Median.of(2.0, 2.0), some)
    assert float(median.release(KEY, WILD)) == 2.0
