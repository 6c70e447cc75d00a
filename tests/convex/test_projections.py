"""Thresholds against rational arithmetic, on hostile rows of both dtypes."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from apart import apart
from selection import few

from privopt.convex import L1Ball, L1L2Ball, projections
from privopt.convex.projections import l1_threshold, l2_threshold, ratio_threshold, shift_maximum

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SINGLE = pytest.param(np.float32, marks=pytest.mark.optimised)
ROUNDED = pytest.mark.parametrize("dtype", [SINGLE, np.float64])
THRESHOLDS = (l1_threshold, l2_threshold)
TOTALS = (1e-37, 1e-20, 1e-6, 0.3, 1.0, 40.0, 1e6, 1e20, 1e37)


def totals(dtype: type, size: int) -> list[np.number]:
    """Return the totals for which ``total / size`` is a normal number; others may round to 0."""
    return [dtype(total) for total in TOTALS if total / size > np.finfo(dtype).tiny]


def hostile(size: int, dtype: type) -> np.ndarray:
    """Return rows with ties, steps of one rounding, all spreads and extreme values."""
    rng = np.random.default_rng(0)
    eps, share = np.finfo(dtype).eps, np.linspace(0.0, 1.0, size)
    rows = [
        np.zeros(size),
        np.ones(size),
        rng.integers(0, 3, size),
        1.0 + eps * rng.integers(0, 4, size),
        1.0 - eps * np.arange(size),
        rng.normal(size=size),
        rng.standard_cauchy(size=size),
        2.0 ** (-60.0 * share),
        -(2.0 ** (60.0 * share)),
        -share / (1.001 - share),
        10.0 ** rng.uniform(-45, 38, size),
        -(10.0 ** rng.uniform(-45, 38, size)),
        np.where(np.arange(size) == 0, 1e38, rng.normal(size=size)),
        np.full(size, 1e-45),
        np.where(np.arange(size) % 16 == 0, 1.0, 0.1 * share),  # a sample sees the large alone
        np.where(np.arange(size) % 16 == 0, -1.0, share),
        np.full(size, 3e38) * rng.choice([-1.0, 1.0], size),
    ]
    with np.errstate(over="ignore", under="ignore"):
        return np.stack(rows).astype(dtype)


def exact(row: np.ndarray, total: float) -> float:
    """Compute the root for one row in rational arithmetic, with a sort."""
    ordered = sorted(map(Fraction, row.tolist()), reverse=True)
    total, sums, root = Fraction(float(total)), Fraction(0), None
    for count, value in enumerate(ordered, 1):
        if root is not None and value <= root:
            break
        sums += value
        root = (sums - total) / count
    return root


@pytest.mark.optimised
@DTYPES
@pytest.mark.parametrize("size", [1, 7, 600])
def test_the_l1_threshold_is_exact(size, dtype):
    rows = np.asarray(shift_maximum(jnp.asarray(hostile(size, dtype))))
    rows = rows[np.isfinite(rows).all(axis=1)]
    eps = float(np.finfo(dtype).eps)
    for total in map(float, totals(dtype, size)):
        found = np.asarray(l1_threshold(jnp.asarray(rows), jnp.asarray(total, dtype)))
        assert found.dtype == dtype
        for row, threshold in zip(rows, found[:, 0], strict=True):
            assert abs(Fraction(float(threshold)) - exact(row, total)) <= 4 * eps * total


@pytest.mark.cases(4)
@ROUNDED
@pytest.mark.parametrize("size", [7, 600, 5000])
def test_norms_equal_the_target(size, dtype):
    rows = shift_maximum(jnp.asarray(hostile(size, dtype)))
    eps = float(np.finfo(dtype).eps)
    finite = np.isfinite(np.asarray(rows)).all(axis=1)
    for total in totals(dtype, size):
        for threshold, order in ((l1_threshold, 1), (l2_threshold, 2)):
            found = np.asarray(threshold(rows, jnp.asarray(total)))[finite]
            left = np.maximum((np.float64(rows)[finite] - found) / np.float64(total), 0.0)
            sizes = np.linalg.norm(left, ord=order, axis=1)
            np.testing.assert_allclose(sizes, 1.0, rtol=8 * eps * size**0.5)


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", few([np.float32, np.float64], [np.float32]))
def test_loops_terminate_for_every_input(dtype):
    """Regression: rounding made the set of larger coordinates alternate without end."""
    size = 600
    rows = jnp.concatenate([jnp.asarray(hostile(size, dtype))] * 3)
    bad = jnp.repeat(jnp.asarray([np.nan, np.inf, -np.inf], dtype), len(rows) // 3)
    rows = jnp.concatenate([rows.at[:, size // 2].set(bad), rows])
    total = jnp.concatenate([jnp.ones(len(bad), dtype), bad])[:, None]
    found = (
        l1_threshold(jnp.tile(rows, 8), total),
        *(threshold(rows, size) for threshold in THRESHOLDS for size in (total, 0 * total)),
        ratio_threshold(rows, total, -total, 0 * total),
    )
    assert all(len(each) == len(rows) for each in found)


@pytest.mark.thorough  # of the margin of a constant
@pytest.mark.parametrize("threshold", few(THRESHOLDS, THRESHOLDS[:1]))
def test_half_of_the_maximal_rounds_suffice(threshold, monkeypatch):
    """The proof requires the full number; hostile rows require at most half of it."""
    rows = shift_maximum(jnp.asarray(hostile(300, np.float64)))
    rows = rows[np.isfinite(np.asarray(rows)).all(axis=1)]

    def of_all():
        return jax.jit(lambda totals: jax.lax.map(partial(threshold, rows), totals))(
            jnp.asarray(TOTALS)
        )

    expected = of_all()
    monkeypatch.setattr(projections, "MAX_NEWTON_ROUNDS", 30)
    with apart():
        np.testing.assert_allclose(of_all(), expected, rtol=1e-14)


def test_sequential_and_batched_rows_agree_and_radii_sweep(monkeypatch):
    rng = np.random.default_rng(1)
    x, radii = jnp.asarray(rng.normal(size=(2, 2000))), (0.5, 3.0, 1e9)

    def projected(radius, x):
        return L1L2Ball(radius, 0.3).project(x)

    both = jax.vmap(jax.vmap(projected, (None, 0)), (0, None))
    alone, one = jax.jit(both)(jnp.asarray(radii), x), jax.jit(projected)
    for radius, rows in zip(radii, alone, strict=True):
        expected = np.stack([one(radius, row) for row in x])
        np.testing.assert_allclose(rows, expected, atol=1e-12)
    monkeypatch.setattr(projections, "MIN_LONG", 10**9)
    with apart():
        np.testing.assert_allclose(jax.jit(both)(jnp.asarray(radii), x), alone, atol=1e-12)


@ROUNDED
def test_a_million_coordinates(dtype):
    """Float32 sums of a million numbers are accurate up to some roundings."""
    x = np.random.default_rng(2).laplace(size=10**6).astype(dtype)
    eps = float(np.finfo(dtype).eps)
    for radius in (0.5, 3000.0):
        found = np.float64(L1Ball(radius).project(jnp.asarray(x)))
        assert np.abs(found).sum() == pytest.approx(radius, rel=200 * eps)
        kept = found != 0.0
        assert 0 < kept.sum() < len(x)
        shrinkage = (np.abs(np.float64(x)) - np.abs(found))[kept]
        assert np.ptp(shrinkage) <= 8 * eps * np.abs(x).max()
        assert np.abs(x[~kept]).max() <= shrinkage.max()
