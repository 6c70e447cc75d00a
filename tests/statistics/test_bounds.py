"""Public intervals, records of every kind, and data that are hardly any."""

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
    BoundedScores,
    BoundedSum,
    Bounds,
    Count,
    Histogram,
    Median,
    SmoothLaplaceMechanism,
)

STRANGE = [math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45, -0.0]
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
intervals = pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 1.0), (0.1, 0.3), (-7.0, -0.3), (1e9, 1e9 + 1), (-1e30, 1e30)]
)


@dtypes
@intervals
def test_positions_are_those_of_the_definition_and_never_leave_the_interval(lower, upper, dtype):
    bounds = Bounds.of(lower, upper)
    rng = np.random.default_rng(0)
    inside = rng.uniform(lower, upper, 50)
    records = np.concatenate([[lower, upper], inside, STRANGE]).astype(dtype)
    found = np.asarray(jax.jit(Bounds.standardise)(bounds, jnp.asarray(records)))
    assert found.dtype == dtype
    assert np.all(np.abs(found) <= 1.0)
    if dtype == np.float64:
        expected = (inside - 0.5 * (lower + upper)) / (0.5 * (upper - lower))
        np.testing.assert_allclose(found[2:52], expected, atol=1e-6 if upper > 1e8 else 1e-14)
        np.testing.assert_allclose(found[:2], [-1.0, 1.0], rtol=1e-14)
    np.testing.assert_array_equal(found[52:55], [0.0, 1.0, -1.0])


@dtypes
def test_equal_bounds_leave_nothing(dtype):
    point = Bounds.of(0.1, 0.1)
    records = jnp.asarray([0.1, 5.0, *STRANGE], dtype)
    np.testing.assert_array_equal(point.standardise(records), np.zeros(9))


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        (1.0, 0.0, r"lower must not exceed upper, got 1\.0 and 0\.0"),
        (math.nan, 0.0, "lower must be finite and at most 1e30, got nan"),
        (0.0, math.inf, "upper must be finite and at most 1e30, got inf"),
        (-2e30, 0.0, r"lower must be finite and at most 1e30, got -2e\+30"),
    ],
)
def test_bad_bounds_fail_with_their_name(lower, upper, message):
    with pytest.raises(ValueError, match=message):
        Bounds.of(lower, upper)


def test_integers_and_booleans_become_floats():
    bounds = Bounds.of(-1.0, 1.0)
    least = np.array([-(2**31), 0, 2**31 - 1], np.int32)
    np.testing.assert_array_equal(bounds.standardise(least), [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(bounds.standardise(jnp.array([False, True])), [0.0, 1.0])


def test_records_of_other_types_and_shapes_are_refused():
    for bad, got in (
        (jnp.zeros((2, 2)), r"records must have 1 axes, got shape \(2, 2\)"),
        (jnp.zeros(3, jnp.float16), "records must be float32 or float64, got float16"),
        (jnp.zeros(3, jnp.bfloat16), "records must be float32 or float64, got bfloat16"),
        (jnp.zeros(3, jnp.complex64), "records must be numeric, got complex64"),
        (np.array(["a"]), "records must be numeric, got texts"),
    ):
        with pytest.raises(ValueError, match=got):
            Bounds.of(0.0, 1.0).standardise(bad)
    present = "present must be booleans of shape .* as the records, got an object of type"
    for mask in (jnp.ones(2, bool), jnp.ones(3), jnp.ones(3, int), [True] * 3):
        with pytest.raises(ValueError, match=present):
            Count().answer(jnp.zeros(3), mask)
        with pytest.raises(ValueError, match=present):
            Histogram((0.0, 1.0)).answer(jnp.zeros(3), mask)
        with pytest.raises(ValueError, match=present):
            BoundedSum.of(0.0, 1.0).answer(jnp.zeros(3), mask)


# --- invalid arguments: an error with the name, the kind and the rule ----------------------------


@pytest.mark.parametrize("relation", list(Relation))
def test_a_relation_by_name_is_that_relation(relation):
    """A comparison by identity took every name for a smaller sensitivity than its own."""
    bins = Histogram.logarithmic(1.0, 2.0, 3, mirrored=False)
    mean = BoundedMean.of(0.0, 1.0, 8)
    for asked in (
        BoundedScores.of(1.0, monotone=True).score_range,
        BoundedSum.of(0.0, 1.0).l1_sensitivity,
        Count().sensitivity,
        bins.sensitivity,
        bins.l1_sensitivity,
        mean.sensitivity,
        mean.l1_sensitivity,
    ):
        assert asked(str(relation)) == asked(relation)
        with pytest.raises(ValueError, match=r"relation must be one of .* got 'swap'"):
            asked("swap")


# --- data that are hardly any ---------------------------------------------------------------------

KEY = jax.random.key(0)
EMPTY, ONE, SAME = jnp.zeros(0), jnp.asarray([0.5]), jnp.full(7, 0.5)
WILD = jnp.asarray([-jnp.inf, -1e300, 1e300, jnp.inf])  # clamped to -1, -1, 3, 3


def test_a_median_needs_a_record_and_one_is_enough():
    query = Median.of(-1.0, 3.0)
    for method in (query.answer, lambda x: query.smooth_sensitivity(x, 0.1)):
        with pytest.raises(ValueError, match=r"records must hold at least one, got shape \(0,\)"):
            method(EMPTY)
    answer, sensitivity = jax.jit(query.answer), jax.jit(query.smooth_sensitivity)
    assert float(answer(ONE)) == float(answer(SAME)) == 0.5
    assert float(answer(WILD)) == -1.0  # the lower middle one
    assert float(sensitivity(ONE, 0.1)) == pytest.approx(4 * math.exp(-0.1), rel=0.2)


def test_equal_bounds_need_no_noise_and_give_the_bound():
    """The answer is constant, so the release is exact at any epsilon and costs no privacy."""
    budget = Budget(epsilon=1e-3, delta=0.0, relation=Relation.REPLACE_ONE)
    query = BoundedMean.of(2.0, 2.0, 4)
    mechanism = LaplaceMechanism.calibrated(query, budget)
    assert mechanism.scale == 0.0
    noisy = jax.jit(lambda key: mechanism.add_noise(key, query.answer(WILD)))
    assert float(noisy(KEY)) == 0.0
    spent = Guarantee(mechanism.event(Relation.REPLACE_ONE), Relation.REPLACE_ONE)
    assert spent.epsilon(0.0).upper == 0.0
    total = BoundedSum.of(2.0, 2.0)
    assert float(total.answer(WILD)) == 8.0
    assert total.sensitivity(Relation.REPLACE_ONE) == 0.0
    assert total.sensitivity(Relation.ADD_OR_REMOVE_ONE) >= 2.0  # the number of records shows
    some = Budget(epsilon=1e-3, delta=1e-5, relation=Relation.REPLACE_ONE)
    median = SmoothLaplaceMechanism.calibrated(Median.of(2.0, 2.0), some)
    assert float(jax.jit(median.release)(KEY, WILD)) == 2.0
