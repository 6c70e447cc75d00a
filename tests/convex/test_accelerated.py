"""Tests of accelerated projected descent: rate, exact number of steps, traced constants."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box
from selection import few

from privopt.convex import L2Ball, WholeSpace, accelerated_descent

DIM = 6
SETS = {"ball": L2Ball(0.7), "box": Box(-0.3, 0.4), "space": WholeSpace()}


def quadratic(rng, condition, dim=DIM):
    """``(w - x)^T A (w - x)/2`` with eigenvalues from 1 to ``condition``."""
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    curvature = np.geomspace(1.0, condition, dim)
    return (basis * curvature) @ basis.T, rng.normal(size=dim)


def value(matrix, centre, w):
    return 0.5 * np.einsum("...i,ij,...j->...", w - centre, matrix, w - centre)


def descend(matrix, centre, where, steps, condition, start=None):
    start = jnp.zeros(len(centre)) if start is None else start
    known = {"smoothness": condition, "strong_convexity": 1.0, "steps": steps}
    return accelerated_descent(lambda w: matrix @ (w - centre), where.project, start, **known)


def plain_minimiser(matrix, centre, where, condition):
    """Return the minimiser by projected gradient descent in NumPy, without momentum."""
    w = np.zeros(len(centre))
    for _ in range(int(40 * condition)):
        w = w - matrix @ (w - centre) / condition
        if isinstance(where, L2Ball):
            w = w * min(1.0, where.radius / max(np.linalg.norm(w), 1e-300))
        elif isinstance(where, Box):
            w = np.clip(w, where.lower, where.upper)
    return w


@pytest.mark.parametrize("name", sorted(SETS))
@pytest.mark.parametrize("condition", few([1.5, 20.0, 400.0], [20.0]))
def test_linear_rate_holds_and_the_sequence_stays_in_the_set(name, condition):
    """``(1 - kappa^{-1/2})^T (F(x_0) - F* + (a/2) |x_0 - x*|^2)`` at every T, three quadratics."""
    where, rng = SETS[name], np.random.default_rng(int(condition))
    steps = np.unique(np.geomspace(1, 12 * math.sqrt(condition), 12).astype(np.int32))
    many = jax.jit(jax.vmap(lambda m, c, t: descend(m, c, where, t, condition), (None, None, 0)))
    for _ in range(3):
        matrix, centre = quadratic(rng, condition)
        best = plain_minimiser(matrix, centre, where, condition)
        points = np.asarray(many(matrix, centre, steps))
        assert bool(jnp.all(where.contains(points, 1e-12)))
        gap = value(matrix, centre, points) - value(matrix, centre, best)
        start = value(matrix, centre, np.zeros(DIM)) - value(matrix, centre, best)
        promised = (1.0 - condition**-0.5) ** steps * (start + 0.5 * best @ best)
        assert np.all(gap <= promised + 1e-12)
        assert np.all(np.linalg.norm(points - best, axis=1) <= np.sqrt(2.0 * promised) + 1e-6)
        assert gap[-1] < 1e-3 * start


@pytest.mark.parametrize("condition", [4.0, 100.0, 2500.0])
def test_slowest_direction_in_closed_form(condition):
    """``x_t = (1 + t/sqrt(kappa)) (1 - 1/sqrt(kappa))^t`` along the flattest eigenvector.

    The gap is its square. The stated number of steps is at most twice the required number.
    """
    steps = np.arange(60, dtype=np.int32)
    matrix, centre = np.diag([1.0, condition]), np.zeros(2)
    start = jnp.array([1.0, 0.0])
    points = jax.vmap(lambda t: descend(matrix, centre, WholeSpace(), t, condition, start))(steps)
    root = math.sqrt(condition)
    expected = (1.0 + steps / root) * (1.0 - 1.0 / root) ** steps
    np.testing.assert_allclose(points[:, 0], expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(points[:, 1], 0.0)
    assert np.all(0.5 * expected**2 >= 0.5 * (1.0 - 1.0 / root) ** (2 * steps))


@pytest.mark.parametrize("steps", [0, 1, 2, 17])
def test_exactly_so_many_gradients(steps):
    calls = []

    def gradient(w):
        calls.append(1)
        return w

    with jax.disable_jit():
        accelerated_descent(
            gradient, lambda w: w, jnp.ones(2), smoothness=3.0, strong_convexity=1.0, steps=steps
        )
    assert len(calls) == steps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_of_the_start_and_one_trace_for_all_numbers(dtype):
    traces = []

    @jax.jit
    def solve(start, smoothness, strong_convexity, steps):
        traces.append(1)
        known = {"smoothness": smoothness, "strong_convexity": strong_convexity, "steps": steps}
        return accelerated_descent(lambda w: smoothness * (w - 1.0), lambda w: w, start, **known)

    for smoothness, convexity, steps in [(4.0, 1.0, 3), (9.0, 0.5, 40), (7.0, 7.0, 1)]:
        found = solve(np.zeros(3, dtype), dtype(smoothness), dtype(convexity), np.int32(steps))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, 1.0, rtol=1e-5)
    assert len(traces) == 1
