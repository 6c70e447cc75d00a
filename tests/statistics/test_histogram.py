"""Tests of histograms: bins follow their definition, and every record is in exactly one bin."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import one_scale_passes
from scipy import stats

from privopt.mechanisms import LaplaceMechanism
from privopt.spec import Budget, Relation
from privopt.statistics import Count, Histogram

LOG = Histogram.logarithmic(1.0, 2.0, 4, mirrored=True)
relations = pytest.mark.parametrize("relation", list(Relation))
answer = jax.jit(Histogram.answer)


def naive_bin(edges, x):
    """Word for word; beyond the edges the outermost, NaN as zero."""
    x = 0.0 if math.isnan(x) else x
    for k, (left, right) in enumerate(itertools.pairwise(edges)):
        inside = left < x <= right if left >= 0.0 else left <= x < right
        if inside or (left == 0.0 == x):
            return k
    return 0 if x < edges[0] else len(edges) - 2


@pytest.mark.parametrize("mirrored", [False, True])
def test_every_record_falls_into_its_bin(mirrored):
    histogram = Histogram.logarithmic(0.5, 2.0, 5, mirrored=mirrored)
    values = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e30, 1e-300]
    values += [s * e * f for s in (1, -1) for e in (0.5, 1, 2, 4, 8) for f in (0.999, 1, 1.001)]
    for x in values:
        found = np.asarray(answer(histogram, jnp.asarray([x], jnp.float64)))
        if not mirrored and x < 0.0:
            assert found[0] == found.sum() == 1.0
        else:
            assert found[naive_bin(histogram.edges, x)] == found.sum() == 1.0


def test_the_worked_example():
    records = jnp.asarray([0.0, 0, 0, 0, 1, 3, 7, 8, 8, 8])
    np.testing.assert_array_equal(answer(LOG, records), [0, 0, 0, 0, 5, 0, 1, 4])
    one_sided = Histogram.logarithmic(1.0, 2.0, 4, mirrored=False)
    np.testing.assert_array_equal(answer(one_sided, records), [5, 0, 1, 4])
    np.testing.assert_array_equal(answer(LOG, -records), [4, 1, 0, 1, 4, 0, 0, 0])
    present = jnp.asarray([True] * 5 + [False] * 5)
    np.testing.assert_array_equal(answer(one_sided, records, present), [5, 0, 0, 0])
    np.testing.assert_array_equal(answer(one_sided, jnp.zeros(0)), np.zeros(4))


def threshold(bins, confidence):
    """Return the count that no empty bin exceeds with a probability, if one bin is not empty."""
    return -math.log(2.0 - 2.0 * confidence ** (1.0 / (bins - 1)))


def test_the_printed_threshold_of_approximate_bounds():
    """3.5 at epsilon 1 and confidence .9 is that of the 8 bins of the example, with both signs.

    The printed formula has the base 2 in place of the number of bins, and no sign: -2.3. False
    alarm 1e-6.
    """
    assert threshold(LOG.bins, 0.9) == pytest.approx(3.5106, abs=1e-4)
    assert threshold(4, 0.9) == pytest.approx(2.673, abs=1e-3)
    assert math.log(1.0 - 0.9 ** (1.0 / (2.0 - 1.0))) < -2.3
    counts = np.asarray(answer(LOG, jnp.asarray([0.0, 0, 0, 0, 1, 3, 7, 8, 8, 8])))
    full = np.flatnonzero(counts > threshold(LOG.bins, 0.9))
    assert (LOG.edges[full[0]], LOG.edges[full[-1] + 1]) == (0.0, 8.0)
    budget = Budget(epsilon=1.0, delta=0.0, relation=Relation.ADD_OR_REMOVE_ONE)
    mechanism = LaplaceMechanism.calibrated(LOG, budget)
    keys = jax.random.split(jax.random.key(0), 200_000)
    one_bin = answer(LOG, jnp.full(100, 0.5))
    noisy = np.asarray(jax.vmap(mechanism.add_noise, (0, None))(keys, one_bin))
    passed = int((np.delete(noisy, 4, axis=1) > threshold(LOG.bins, 0.9)).any(axis=1).sum())
    one_scale_passes(lambda r: stats.binomtest(passed, 200_000, 0.1 * r).pvalue, 0.95, 1.05)


@relations
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sensitivities_are_attained_and_never_exceeded(relation, dtype):
    records = jnp.asarray([math.nan, math.inf, -math.inf, 0.0, -0.3, 1.0, 3.0, 1e30], dtype)
    one = np.asarray(jax.vmap(lambda x: answer(LOG, x[None]))(records), np.float64)
    if relation is Relation.REPLACE_ONE:
        moved = (one[:, None] - one[None, :]).reshape(-1, LOG.bins)
    else:
        moved = one
    assert np.abs(moved).sum(axis=1).max() == LOG.l1_sensitivity(relation) == relation.multiple
    euclidean = np.linalg.norm(moved, axis=1).max()
    assert euclidean <= LOG.sensitivity(relation) <= euclidean * (1.0 + 1e-15)


def test_bad_input_fails_with_its_name():
    for scale, base, count, name in (
        (0.0, 2.0, 3, "scale"),
        (1.0, 1.0, 3, "base"),
        (1.0, math.inf, 3, "base"),
        (1.0, 2.0, 0, "count"),
        (1.0, 2.0, 2.0, "count"),
        (1.0, 10.0, 32, "count"),
    ):
        with pytest.raises(ValueError, match=f"^{name} must "):
            Histogram.logarithmic(scale, base, count, mirrored=False)
    with pytest.raises(ValueError, match="records must have 1 axes, got shape"):
        LOG.answer(jnp.zeros((3, 1)))


@pytest.mark.parametrize(("dtype", "last"), [(np.float32, 2**24 - 1), (np.float64, 2**53 - 1)])
def test_more_records_than_a_dtype_counts_are_refused_by_their_shape(dtype, last):
    """The float32 counts 2^25 + 2 and 2^25 + 3 differ by four."""
    assert np.ptp(np.asarray([2**25 + 2, 2**25 + 3]).astype(np.float32)) == 4.0
    for query in (LOG.answer, Count().answer):
        jax.eval_shape(query, jax.ShapeDtypeStruct((1000,), dtype))
        with pytest.raises(ValueError, match=f"records must number at most {last} for counts in"):
            jax.eval_shape(query, jax.ShapeDtypeStruct((last + 1,), dtype))
