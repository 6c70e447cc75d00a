"""Counts, sums and means: sensitivities attained by a worst pair, never exceeded under search."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.spec import Relation
from privopt.statistics import BoundedMean, BoundedSum, Count

pytestmark = pytest.mark.optimised

RECORDS = (math.nan, math.inf, -math.inf, -1e30, 1e30, 0.0, -1.0, 0.3, 2.0, 1e-40)
relations = pytest.mark.parametrize("relation", list(Relation))
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
intervals = pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 1.0), (0.0, 5.0), (2.0, 3.0), (-0.3, 0.1), (-4.0, -1.0), (0.1, 0.1)]
)


def neighbours(relation):
    """One record beside two others: present or absent, or replaced by any other."""
    for first, second in itertools.product(RECORDS, repeat=2):
        if relation is Relation.REPLACE_ONE:
            yield (first, True), (second, True)
        else:
            yield (first, True), (first, False)


def moves(query, relation, dtype, norm=1):
    """Yield the distance between the answers of each pair of neighbours."""
    answer = jax.jit(type(query).answer)
    for pair in neighbours(relation):
        one, two = (
            answer(
                query, jnp.asarray([0.4, record, -0.2], dtype), jnp.asarray([True, present, True])
            )
            for record, present in pair
        )
        moved = np.asarray(one, np.float64) - np.asarray(two, np.float64)
        yield float(np.linalg.norm(np.atleast_1d(moved), norm))


@pytest.mark.cases(11)
@relations
@dtypes
@intervals
def test_the_sum_moves_by_its_sensitivity_and_no_more(relation, lower, upper, dtype):
    query = BoundedSum.of(lower, upper)
    worst, largest = max(moves(query, relation, dtype)), max(abs(lower), abs(upper))
    exact = upper - lower if relation is Relation.REPLACE_ONE else largest
    assert worst == pytest.approx(exact, rel=1e-6, abs=2e-6 * largest)
    assert worst <= query.sensitivity(relation) <= 1.000001 * exact + largest / 60.0
    assert query.l1_sensitivity(relation) == query.sensitivity(relation)


@relations
def test_the_count_moves_by_its_sensitivity(relation):
    assert max(moves(Count(), relation, np.float64)) == Count().sensitivity(relation)
    assert Count().l1_sensitivity(relation) == Count().sensitivity(relation)


@dtypes
def test_the_device_clamps_to_the_numbers_accounted(dtype):
    """Bounds that are no float32 numbers are widened, never narrowed, and the same everywhere."""
    query = BoundedSum.of(-0.1, 0.3)
    assert query.lower < -0.1 < 0.3 < query.upper
    for record, bound in ((1e30, query.upper), (-1e30, query.lower)):
        assert float(query.answer(jnp.asarray([record], dtype))) == bound


def test_sums_and_counts_are_right_and_that_of_nothing_is_zero():
    query = BoundedSum.of(-1.0, 2.0)
    records = jnp.asarray([0.5, 7.0, -9.0, math.nan, 1.25])
    assert float(query.answer(records)) == 0.5 + 2.0 - 1.0 + 0.0 + 1.25
    present = jnp.asarray([True, False, True, True, False])
    assert float(query.answer(records, present)) == -0.5
    assert float(Count().answer(records, present)) == 3.0
    assert float(Count().answer(records)) == 5.0
    for each in (query, Count()):
        assert float(each.answer(jnp.zeros(0))) == 0.0
        assert float(each.answer(records, jnp.zeros(5, bool))) == 0.0
    assert float(BoundedSum.of(2.0, 3.0).answer(jnp.asarray([math.nan]))) == 2.0


@pytest.mark.cases(11)
@relations
@dtypes
@intervals
def test_the_mean_of_a_public_number_moves_by_its_sensitivity(relation, lower, upper, dtype):
    """``(u - l)/n`` for replacement, whichever bound is the larger: never twice, never half."""
    query = BoundedMean.of(lower, upper, 3)
    worst = max(moves(query, relation, dtype))
    assert worst <= query.sensitivity(relation)
    assert worst == pytest.approx(query.sensitivity(relation), rel=2e-6)
    share = 1.0 if relation is Relation.REPLACE_ONE else 0.5
    assert query.sensitivity(relation) == pytest.approx(share * (upper - lower) / 3, rel=1e-6)
    assert query.l1_sensitivity(relation) == query.sensitivity(relation)


def test_the_divisor_is_public():
    """One record more changes the mean by its share alone."""
    query = BoundedMean.of(0.0, 1.0, 10)
    one, two = (float(query.answer(jnp.full(n, 1.0))) for n in (9, 10))
    assert two - one == pytest.approx(0.05)


def test_a_mean_of_no_size_or_no_bounds_is_refused():
    for size in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=f"size must be a positive integer, got {size}"):
            BoundedMean.of(0.0, 1.0, size)
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        BoundedMean.of(1.0, 0.0, 4)
