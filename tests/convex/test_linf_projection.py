"""Projections in the largest coordinate against linear programmes and bisection."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from privopt.convex import (
    Box,
    ConstraintSet,
    L1Ball,
    L1L2Ball,
    L2Ball,
    Simplex,
    WholeSpace,
    linf_projection,
)

pytestmark = pytest.mark.optimised

DIM = 5
SETS: list[ConstraintSet] = [
    L2Ball(1.3),
    L2Ball(0.8, np.array([1.0, -2.0, 0.5, 0.0, 3.0])),
    L1Ball(1.7),
    L1L2Ball(1.7, 1.0),
    Box(-0.4, 0.9),
    Simplex(),
    Simplex(2.5),
    WholeSpace(),
]
every = pytest.mark.parametrize("constraint", SETS, ids=repr)


def points(count: int = 30) -> np.ndarray:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(count, DIM)) * 10.0 ** rng.uniform(-2, 2, size=(count, 1))
    rows[::7] = np.round(rows[::7])
    return rows


def distance(constraint: ConstraintSet, x: np.ndarray) -> float:
    """``min_v ||v - x||_inf``: bisection of what box about ``x`` meets a ball, else an LP."""
    if isinstance(constraint, WholeSpace):
        return 0.0
    if isinstance(constraint, L2Ball | L1L2Ball):
        centre = getattr(constraint, "centre", 0.0)
        low, high = 0.0, float(np.abs(x - centre).max())
        for _ in range(100):
            t = 0.5 * (low + high)
            corner = np.clip(centre, x - t, x + t) - centre  # what of the box is nearest the centre
            if isinstance(constraint, L2Ball):
                size = np.linalg.norm(corner) / constraint.radius
            else:
                size = np.linalg.norm(corner) / constraint.l2_radius
                size = max(size, np.abs(corner).sum() / constraint.l1_radius)
            low, high = (low, t) if size <= 1.0 else (t, high)
        return high
    identity, one = np.eye(DIM), np.ones((DIM, 1))  # over (v, size, t): |v| <= size, |v - x| <= t
    none, zero = np.zeros((DIM, DIM)), np.zeros((DIM, 1))
    rows = [np.hstack([sign * identity, none, -one]) for sign in (1.0, -1.0)]
    rows += [np.hstack([sign * identity, -identity, zero]) for sign in (1.0, -1.0)]
    limits = [x, -x, np.zeros(2 * DIM)]
    ranges, equation = [(None, None)] * DIM, {}
    if isinstance(constraint, L1Ball):
        rows += [np.repeat([[0.0, 1.0, 0.0]], [DIM, DIM, 1], axis=1)]
        limits += [[constraint.radius]]
    elif isinstance(constraint, Box):
        ranges = [(constraint.lower, constraint.upper)] * DIM
    else:
        assert isinstance(constraint, Simplex)
        ranges = [(0.0, None)] * DIM
        total = np.repeat([[1.0, 0.0, 0.0]], [DIM, DIM, 1], axis=1)
        equation = {"A_eq": total, "b_eq": [constraint.total]}
    return linprog(
        np.eye(2 * DIM + 1)[-1],
        A_ub=np.vstack(rows),
        b_ub=np.concatenate(limits),
        bounds=ranges + [(0.0, None)] * (DIM + 1),
        **equation,
    ).fun


@every
def test_it_is_a_member_at_the_least_distance(constraint):
    x = points()
    found = linf_projection(constraint, jnp.asarray(x))
    assert np.all(constraint.contains(found, 1e-12))
    reached = np.abs(np.asarray(found) - x).max(axis=1)
    expected = np.asarray([distance(constraint, row) for row in x])
    assert np.max(np.abs(reached - expected) / (1.0 + expected)) <= 1e-12
    if not isinstance(constraint, WholeSpace):
        assert expected.max() > 1.0


@every
def test_members_stay_and_the_noise_is_at_most_doubled(constraint):
    rng = np.random.default_rng(2)
    members = constraint.project(jnp.asarray(points()))
    np.testing.assert_allclose(linf_projection(constraint, members), members, atol=1e-14)
    noise = rng.laplace(size=members.shape)
    moved = linf_projection(constraint, members + noise) - members
    assert np.all(np.abs(moved).max(axis=1) <= 2.0 * np.abs(noise).max(axis=1) * (1.0 + 1e-12))


def test_the_l2_projection_is_not_the_nearest_in_the_largest_coordinate():
    x = jnp.asarray([10.0] + [0.6] * 99)
    ball = L2Ball(1.0)
    assert jnp.max(jnp.abs(linf_projection(ball, x) - x)) == pytest.approx(9.0, rel=1e-12)
    nearest = np.abs(np.asarray(ball.project(x) - x)).max()
    assert nearest > 9.0


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_hostile_points(dtype):
    eps = float(jnp.finfo(dtype).eps)
    rows = [[0.0] * 4, [3.0] * 4, [1e30, 0.0, -1e30, 1.0], [-1e-30] * 4, [3e8, 3e8 + 64, 0.0, -1.0]]
    x = jnp.asarray(rows, dtype)
    for constraint in (L2Ball(1.0), L1Ball(1.0), L1L2Ball(1.5, 1.0), Simplex(), Box(-1.0, 1.0)):
        found = linf_projection(constraint, x)
        assert (found.dtype, found.shape) == (dtype, x.shape)
        assert jnp.all(constraint.contains(found, 16.0 * eps))
        alone = jnp.stack([linf_projection(constraint, row) for row in x])
        np.testing.assert_allclose(found, alone, atol=4.0 * eps)
        batch = jax.jit(jax.vmap(lambda row, of=constraint: linf_projection(of, row)))(x)
        np.testing.assert_allclose(batch, alone, atol=4.0 * eps)


def test_a_radius_of_zero_leaves_the_centre():
    x = jnp.asarray(points())
    zero = jnp.asarray(0.0)
    assert not np.any(linf_projection(L2Ball(zero), x))
    np.testing.assert_array_equal(linf_projection(L2Ball(zero, 0.5), x), np.full(x.shape, 0.5))


def test_a_set_without_one_is_refused():
    with pytest.raises(TypeError, match="constraint must be a set with a known l_inf projection"):
        linf_projection(object(), jnp.zeros(2))
