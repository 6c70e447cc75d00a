"""Thresholds without a sort against sorting in NumPy, at ties, zeros and the ends of the range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.convex import L1Ball, Simplex
from privopt.convex.thresholds import l1_threshold, l2_threshold, lowered

pytestmark = pytest.mark.optimised


def sorted_threshold(x: np.ndarray, total: float) -> float:
    """The textbook: sort, sums of the largest, the last that still lies above their threshold."""
    descending = np.sort(x)[::-1].astype(np.longdouble)
    thresholds = (np.cumsum(descending) - total) / np.arange(1, x.size + 1)
    return float(thresholds[np.flatnonzero(descending > thresholds)[-1]])


def hostile(dim: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Smooth, heavy-tailed, tied, nearly equal, one large, sorted so that a sample misleads."""
    steps = rng.integers(0, 4, size=dim).astype(float)
    misleading = np.where(np.arange(dim) % 16 == 0, 9.0, rng.uniform(size=dim))
    return [
        np.abs(rng.normal(size=dim)),
        np.abs(rng.standard_cauchy(size=dim)),
        steps,
        1.0 + 1e-12 * rng.uniform(size=dim),
        np.eye(dim)[0],
        np.zeros(dim),
        np.full(dim, 2.5),
        misleading,
        9.0 - misleading,
    ]


@pytest.mark.parametrize("dim", [1, 2, 37, 5000])
def test_the_l1_threshold_is_that_of_sorting(dim):
    threshold = jax.jit(lambda x, total: l1_threshold(lowered(x), total)[0])
    for x in hostile(dim, np.random.default_rng(dim)):
        for total in (1e-9, 0.3, 7.0, 1e3):
            expected = sorted_threshold(x - x.max(), total)
            got = threshold(jnp.asarray(x), total)
            assert abs(got - expected) <= 1e-14 * (abs(expected) + total)


def test_a_million_coordinates_in_few_rounds_meet_the_conditions():
    x = np.random.default_rng(1).normal(size=10**6)
    for radius in (1.0, 300.0, 1e5):
        projected = np.asarray(L1Ball(radius).project(jnp.asarray(x)))
        threshold = np.abs(x - projected).max()
        support = projected != 0.0
        assert abs(np.abs(projected).sum() - radius) <= 1e-12 * radius
        np.testing.assert_allclose(np.abs(x - projected)[support], threshold, rtol=1e-13)
        assert np.all(np.abs(x[~support]) <= threshold)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_scale_does_not_matter(dtype, size):
    x = np.random.default_rng(2).normal(size=64)
    expected = np.asarray(L1Ball(1.5).project(jnp.asarray(x, dtype)), np.float64)
    got = L1Ball(1.5 * size).project(jnp.asarray(x * size, dtype))
    assert got.dtype == dtype
    np.testing.assert_allclose(np.asarray(got) / size, expected, atol=4 * jnp.finfo(dtype).eps)


def test_a_radius_of_zero_and_points_that_are_not_finite_end_the_loop():
    x = jnp.asarray([[3.0, -1.0, 2.0], [0.0, 0.0, 0.0]])
    hollow = jax.tree.map(lambda _: jnp.asarray(0.0), L1Ball(1.0))
    np.testing.assert_array_equal(hollow.project(x), np.zeros((2, 3)))
    for bad in (jnp.nan, jnp.inf):
        L1Ball(1.0).project(x.at[0, 0].set(bad)).block_until_ready()
        assert L1Ball(1.0).project(x.at[0, 0].set(bad))[1].tolist() == [0.0, 0.0, 0.0]


def test_rows_of_a_batch_do_not_disturb_each_other():
    x = jnp.asarray(np.random.default_rng(3).standard_cauchy(size=(40, 300)))
    alone = jnp.stack([Simplex(2.0).project(row) for row in x])
    np.testing.assert_allclose(Simplex(2.0).project(x), alone, atol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.vmap(Simplex(2.0).project))(x), alone, atol=1e-14)


def test_the_l2_threshold_leaves_the_radius():
    for x in hostile(501, np.random.default_rng(4)):
        for radius in (1e-200, 1e-9, 0.3, 7.0, 1e3, 1e200):
            below = lowered(jnp.asarray(x))
            left = np.maximum(below - l2_threshold(below, jnp.asarray(radius)), 0.0) / radius
            assert np.linalg.norm(left) == pytest.approx(1.0, rel=1e-13)


def test_no_program_here_sorts():
    x = jnp.zeros(5000)
    for project in (L1Ball(1.0).project, Simplex().project):
        assert " sort(" not in jax.jit(project).lower(x).compile().as_text()
