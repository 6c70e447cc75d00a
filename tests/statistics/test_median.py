"""The median's smooth sensitivity and stability against brute force over all data sets."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from selection import few

from privopt.statistics import Median

UNIT = Median.of(0.0, 1.0)
GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])


smooth = jax.jit(Median.smooth_sensitivity)
distance = jax.jit(Median.distance_to_instability)


def median(records):
    return np.sort(records, axis=-1)[..., (np.shape(records)[-1] - 1) // 2]


@lru_cache
def every(n):
    """Return all data sets on the grid, their local sensitivities and their Hamming distances."""
    data = np.array(list(itertools.product(GRID, repeat=n)))
    local = np.zeros(len(data))
    for i, value in itertools.product(range(n), GRID):  # replaced by an end, or by anything
        moved = data.copy()
        moved[:, i] = value
        local = np.maximum(local, np.abs(median(moved) - median(data)))
    apart = sum((data[:, None, i] != data[None, :, i]).astype(int) for i in range(n))
    return data, local, apart


@sizes
@pytest.mark.parametrize("beta", [0.05, 0.4, 2.0])
def test_smooth_sensitivity_equals_brute_force(n, beta):
    """The grid of data sets and neighbours contains both bounds, so it contains the worst cases."""
    data, local, apart = every(n)
    expected = (np.exp(-beta * apart) * local[None, :]).max(axis=1)
    found = jax.vmap(lambda x: smooth(UNIT, x, beta))(jnp.asarray(data))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@sizes
@pytest.mark.parametrize("bound", [0.1, 0.25, 0.4, 0.75, 1.0])
def test_distance_to_instability_equals_brute_force_and_moves_by_one(n, bound):
    data, local, apart = every(n)
    far = np.where(local[None, :] > bound, apart, n + 1)
    found = np.asarray(jax.vmap(lambda x: distance(UNIT, x, bound))(jnp.asarray(data)))
    np.testing.assert_array_equal(found, far.min(axis=1))
    moved = np.abs(found[:, None] - found[None, :])
    assert moved[apart == 1].max() <= 1.0


def test_golden_values():
    nine = jnp.asarray([0.1, 0.2, 0.35, 0.4, 0.42, 0.43, 0.5, 0.6, 0.8])
    assert float(UNIT.answer(nine)) == 0.42
    assert float(smooth(UNIT, nine, 0.5)) == pytest.approx(0.0847894608564, rel=1e-11)
    for three, expected in (
        ((0.25, 0.5, 0.75), 0.3369967230788),
        ((0.5, 0.5, 0.5), 0.3351600230178),
    ):
        assert float(smooth(UNIT, jnp.asarray(three), 0.4)) == pytest.approx(expected, rel=1e-9)
    for zeros, expected in ((5, 1.0), (6, math.exp(-0.5))):
        records = jnp.asarray([0.0] * zeros + [1.0] * (9 - zeros))
        assert float(smooth(UNIT, records, 0.5)) == pytest.approx(expected, rel=1e-14)


def naive(records, lower, upper, beta):
    """``max_k e^(-k beta) max_t (x_{m+t} - x_{m+t-k-1})``, word for word."""
    n = len(records)
    x = np.sort(np.clip(records, lower, upper))
    m = (n - 1) // 2

    def at(i):
        return lower if i < 0 else upper if i >= n else x[i]

    return max(
        math.exp(-k * beta) * max(at(m + t) - at(m + t - k - 1) for t in range(k + 2))
        for k in range(n + 1)
    )


@pytest.mark.parametrize("n", [5, 64, 131, 260])
def test_smooth_sensitivity_equals_the_naive_loop(n):
    """Sizes around those of the batches in which pairs are looked at; asymmetric bounds."""
    rng = np.random.default_rng(n)
    query = Median.of(-0.3, 2.0)
    for beta in (1e-3, 0.1, 3.0):
        records = rng.normal(0.5, 10.0 ** rng.uniform(-2, 0.5), n)
        expected = naive(records, -0.3, 2.0, beta)
        assert float(smooth(query, jnp.asarray(records), beta)) == pytest.approx(
            expected, rel=1e-12
        )


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", few([np.float32, np.float64], [np.float32]))
def test_neighbours_have_close_smooth_sensitivities(dtype):
    """``|ln S(D) - ln S(D')| <= beta``, nearly attained; local sensitivity is never above it."""
    rng = np.random.default_rng(0)
    beta, worst = 0.3, 0.0
    for _ in range(300):
        records = rng.normal(0.5, 10.0 ** rng.uniform(-3, 0), 11).astype(dtype)
        other = records.copy()
        other[rng.integers(11)] = rng.choice([0.0, 1.0, rng.uniform()])
        pair = [float(smooth(UNIT, jnp.asarray(r), beta)) for r in (records, other)]
        worst = max(worst, abs(math.log(pair[0] / pair[1])))
        medians = [float(UNIT.answer(jnp.asarray(r))) for r in (records, other)]
        assert abs(medians[0] - medians[1]) <= min(pair) * (1.0 + 1e-6)
    assert 0.9 * beta < worst <= beta + 2.0**-18


@pytest.mark.optimised
@pytest.mark.parametrize(("dtype", "beta"), [(np.float32, 2.0), (np.float64, 20.0)])
def test_no_data_have_a_smooth_sensitivity_below_a_public_floor(dtype, beta):
    """Records change one by one from all equal to half of each.

    The median is stable at first, and then not.
    """
    n, floor = 89, float(np.finfo(dtype).eps)
    rows = np.arange(n)[None, :] < np.arange(n // 2 + 1)[:, None]
    found = jax.jit(jax.vmap(lambda x: UNIT.smooth_sensitivity(x, beta)))(rows.astype(dtype))
    found = np.asarray(found, np.float64)
    assert found[0] == found[1] == found.min() == floor
    assert found[-1] > 0.1
    assert np.abs(np.diff(np.log(found))).max() <= beta + 2.0**-18
    wide, narrow = Median.of(-1e6, 1e6), Median.of(0.0, 1e-30)
    assert float(smooth(wide, jnp.zeros(n, dtype), beta)) == pytest.approx(2e6 * floor)
    assert float(smooth(narrow, jnp.zeros(n, dtype), beta)) == 2.0**-80


@pytest.mark.optimised
@pytest.mark.parametrize("lower", [0.0, 2000.0, -2020.0])
def test_distances_compare_differences_exactly_in_float32(lower):
    """A bound plus a record is no float32 number here. Half of these sums are rounded up."""
    rng, query = np.random.default_rng(3), Median.of(lower, lower + 20.0)
    step = np.spacing(np.float32(2000.0))
    for _ in range(40):
        records = np.float32(lower + 10.0 + step * rng.integers(0, 12, 9))
        bound = float(np.float32(step * rng.uniform(0.1, 8.0)))
        x = np.concatenate([[lower], np.sort(np.float64(records)), [lower + 20.0]])
        apart = min(
            j - i - 1 for i in range(6) for j in range(5, 11) if i < j and x[j] - x[i] > bound
        )
        assert float(distance(query, jnp.asarray(records), bound)) == apart


def test_strange_records_are_clamped_and_equal_bounds_leave_nothing():
    records = jnp.asarray([jnp.nan, -jnp.inf, jnp.inf, 3.0, -3.0])
    query = Median.of(0.5, 1.0)
    clamped = jnp.asarray([0.5, 0.5, 1.0, 1.0, 0.5])
    assert float(query.answer(records)) == float(query.answer(clamped)) == 0.5
    assert float(smooth(query, records, 0.1)) == float(smooth(query, clamped, 0.1))
    point = Median.of(0.1, 0.1)
    assert float(point.answer(records)) == 0.1
    assert float(smooth(point, records, 0.1)) == 0.0
    assert float(distance(point, records, 0.1)) == 6.0
    one = jnp.asarray([0.6])
    assert float(query.answer(one)) == 0.6
    assert float(smooth(query, one, 0.1)) == pytest.approx(max(0.4, 0.5 * math.exp(-0.1)))


def test_a_large_smoothness_overflows_nowhere():
    records = jnp.asarray([0.1, 0.5, 0.7], jnp.float32)
    assert float(smooth(UNIT, records, 350.0)) == pytest.approx(0.4, rel=1e-6)
