"""Round-off of answers: sums as exact as stated, and no neighbours further apart than charged.

The attacks are on Laplace noise at epsilon 1; false alarm 1e-4 each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.mechanisms import LaplaceMechanism
from privopt.mechanisms.calibration import MAX_TERMS, compensated_sum, max_terms, sum_error
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedMean, BoundedSum, Count, Histogram

pytestmark = pytest.mark.optimised

REPLACE = Relation.REPLACE_ONE
RUNS = 100_000
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@dtypes
@pytest.mark.parametrize("n", [1, 2, 7, 1000, 2**17])
def test_sums_err_by_one_rounding_whatever_the_terms(n, dtype):
    """Some terms are too small to change a running sum."""
    rng = np.random.default_rng(n)
    half_ulps = np.where(np.arange(n) <= n // 2, 1.0, 0.6 * np.finfo(dtype).eps * n / 2)
    for terms in (rng.uniform(-1, 1, n), rng.uniform(0, 1, n), half_ulps, half_ulps[::-1]):
        terms = terms.astype(dtype)
        exact = math.fsum(terms.astype(float))
        error = abs(float(compensated_sum(jnp.asarray(terms))) - exact)
        assert error <= 0.5000001 * float(np.finfo(dtype).eps) * abs(exact) + 1e-300
        assert error <= sum_error(n)


class Pair(NamedTuple):
    """Neighbours that rounding drives apart in float32, and how far apart they should be."""

    query: object
    exact: float
    one: np.ndarray
    two: np.ndarray

    def answers(self, dtype=np.float32):
        answer = jax.jit(type(self.query).answer)
        return [answer(self.query, jnp.asarray(x, dtype)) for x in (self.one, self.two)]


def offset_mean():
    """Return a pair with records in [2000, 2020]; float32 resolves the centre to six sensitivities.

    Ten records of a public million differ from the centre. The others are at the centre and add 0.
    """
    base = 0.5 * np.spacing(np.float32(2010)) * 10**6 / 10.0 + 0.1  # of the sum, in half-widths
    records = np.full(10, 2010.0)
    records[:6], records[6] = 2020.0, 2010.0 + 10.0 * (base - 6.0)
    other = records.copy()
    other[0] = 2000.0
    return Pair(BoundedMean.of(2000.0, 2020.0, 10**6), 2e-5, *np.float32([records, other]))


def offset_sum():
    """A thousand in [200000, 200020]: the sum is a multiple of 16 in float32."""
    records = np.full(1000, 200_000.0)
    records[0], records[1] = 200_020.0, 200_004.5
    other = records.copy()
    other[0] = 200_000.0
    return Pair(BoundedSum.of(200_000.0, 200_020.0), 20.0, *np.float32([records, other]))


def crossing(query, n=2**13, exact=2.0):
    """The sum leaves ``[2^11, 2^12]`` downwards, into where float32 is twice as fine."""
    records = np.zeros(n)
    records[: 2**11], records[-1] = 1.0, 1.01 * 2.0**-13
    other = records.copy()
    other[0] = -1.0
    return Pair(query, exact, *np.float32([records, other]))


PAIRS = {
    "mean, offset": offset_mean,
    "sum, offset": offset_sum,
    "mean": lambda: crossing(BoundedMean.of(-1.0, 1.0, 2**13), exact=2.0**-12),
    "sum": lambda: crossing(BoundedSum.of(-1.0, 1.0)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_rounded_answers_are_no_further_apart_than_charged(name):
    """Float32 answers differ by more than the exact ones, except for the centred mean."""
    pair = PAIRS[name]()
    moved = {
        dtype: float(np.abs(np.subtract(*np.float64(pair.answers(dtype)))).sum())
        for dtype in (np.float32, np.float64)
    }
    assert max(moved.values()) <= pair.query.l1_sensitivity(REPLACE)
    assert moved[np.float64] == pytest.approx(pair.exact, rel=1e-6)
    assert moved[np.float32] > pair.exact or name == "mean, offset"


@pytest.mark.parametrize("name", ["mean, offset", "sum, offset"])
def test_neighbours_far_from_zero_are_no_easier_told_apart_than_claimed(name, epsilon_lower_bound):
    pair = PAIRS[name]()
    budget = Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
    mechanism = LaplaceMechanism.calibrated(pair.query, budget)
    restore = getattr(pair.query, "restore", lambda answer: answer)

    @jax.jit
    def releases(key, answer):
        keys = jax.random.split(key, RUNS)
        return jax.vmap(lambda k: restore(mechanism.add_noise(k, answer)))(keys)

    released = map(releases, jax.random.split(jax.random.key(0)), pair.answers())
    assert epsilon_lower_bound(*released) <= 1.0


@pytest.mark.parametrize("width", [4e-38, 4e-37, 4e-36])
def test_no_answer_shows_through_noise_that_underflows(width):
    """Count the most frequent value, for rounded products of scale and noise.

    At scales near ``2^-126`` one draw in twenty was flushed to 0: epsilon was 4.7 to 6.4.
    """
    query = BoundedMean.of(0.0, width, 1)
    mechanism = LaplaceMechanism.calibrated(query, Budget(epsilon=1.0, delta=0.0, relation=REPLACE))
    for record in (0.0, width):
        answer = query.answer(jnp.asarray([record], jnp.float32))
        keys = jax.random.split(jax.random.key(3), RUNS)
        drawn = jax.vmap(lambda key, answer=answer: mechanism.add_noise(key, answer))(keys)
        _, times = np.unique(drawn, return_counts=True)
        assert times.max() <= 20


# float64 has no limit that a memory reaches.
@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.thorough)]
)
def test_counts_are_exact(dtype):
    """A float32 sum of ones would be even beyond ``2^24``, and move by 2 or not at all."""
    assert jax.eval_shape(Count().answer, jax.ShapeDtypeStruct((7,), dtype)).dtype == dtype
    present = jnp.asarray([True, False, True])
    assert float(Count().answer(jnp.zeros(3, dtype), present)) == 2.0
    many = np.zeros(2**24 - 1, dtype)
    assert float(Count().answer(many)) == 2**24 - 1
    assert float(Count().answer(many[1:])) == 2**24 - 2
    np.testing.assert_array_equal(Histogram((0.0, 1.0, 2.0)).answer(many), [2**24 - 1, 0.0])


@dtypes
def test_more_records_than_a_dtype_adds_up_are_refused_by_their_shape(dtype):
    most = {np.float32: 131_072, np.float64: 2**46}[dtype]
    assert max_terms(dtype) == most
    assert max_terms(np.float32) == MAX_TERMS
    query = BoundedSum.of(-1.0, 1.0)
    jax.eval_shape(query.answer, jax.ShapeDtypeStruct((64,), dtype))
    with pytest.raises(ValueError, match=f"records must number at most {most} .*, got {2**50}"):
        jax.eval_shape(query.answer, jax.ShapeDtypeStruct((2**50,), dtype))


def test_a_mean_of_more_records_than_its_size_stays_in_its_bounds():
    query = BoundedMean.of(2.0, 3.0, 10)
    assert float(query.answer(jnp.full(25, 9.0))) == 0.5
    assert float(query.restore(query.answer(jnp.full(25, 9.0)))) == 3.0
