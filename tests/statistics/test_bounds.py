"""Public intervals and records of every kind, and what no statistic is made of."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.spec import Relation
from privopt.statistics import BoundedMean, BoundedScores, BoundedSum, Bounds, Count, Histogram

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


def test_records_that_are_no_floats_are_refused():
    for bad in (jnp.arange(3), jnp.zeros((2, 2)), jnp.zeros(3, bool)):
        with pytest.raises(ValueError, match="records must be a vector of a floating type, got"):
            Bounds.of(0.0, 1.0).standardise(bad)


# --- what no statistic can be made of: an error with the name, the kind and the rule -------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounds.of("0", 1.0), "lower must be a real number, got '0'"),
        (lambda: BoundedSum.of(0.0, None), "upper must be a real number, got None"),
        (lambda: BoundedScores.of("1"), "change must be a real number, got '1'"),
        (lambda: Histogram.logarithmic("1", 2.0, 3, mirrored=True), "scale must be .* got '1'"),
    ],
)
def test_numbers_that_are_none(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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
