"""Projections in the maximum norm against linear programming and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from privopt.convex import L1Ball, L1L2Ball, L2Ball, WholeSpace, linf_projection

DIM = 6
CENTRE = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.1])
SETS = {
    "l2": L2Ball(1.3),
    "l2 centred": L2Ball(0.8, CENTRE),
    "l1": L1Ball(1.7),
    "l1 and l2": L1L2Ball(1.6, 1.0),
    "whole space": WholeSpace(),
}
every = pytest.mark.parametrize("name", SETS)
nearest = jax.jit(linf_projection)


def points(count: int = 300) -> np.ndarray:
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(count, DIM))
    tied = rng.integers(-2, 3, size=normal.shape)
    mixed = np.where(rng.uniform(size=(count, 1)) < 0.3, tied, normal)
    return mixed * 10.0 ** rng.uniform(-2, 2, size=(count, 1))


def shrunk(x: np.ndarray, threshold: float) -> np.ndarray:
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)


def least_distance(constraint, x: np.ndarray) -> float:
    """Compute the distance by bisection (balls) or linear programming (polytopes)."""
    if isinstance(constraint, WholeSpace):
        return 0.0
    if isinstance(constraint, L2Ball | L1L2Ball):
        offset = x - np.asarray(getattr(constraint, "centre", 0.0))
        low, high = 0.0, float(np.abs(offset).max())
        ball = L2Ball(constraint.radius) if isinstance(constraint, L2Ball) else constraint
        for _ in range(100):
            middle = 0.5 * (low + high)
            left = shrunk(offset, middle)
            norms = np.array([np.abs(left).sum(), np.linalg.norm(left)])
            radii = (
                [np.inf, ball.radius]
                if isinstance(ball, L2Ball)
                else [ball.l1_radius, ball.l2_radius]
            )
            low, high = (low, middle) if np.all(norms <= radii) else (middle, high)
        return high
    eye, ones = np.eye(DIM), np.ones((DIM, 1))
    near = np.block([[eye, -ones], [-eye, -ones]])
    bounds = [(None, None)] * DIM
    cost, limits = np.append(np.zeros(DIM), 1.0), np.append(x, -x)
    if isinstance(constraint, L1Ball):  # v = p - q
        near = np.block(
            [[eye, -eye, -ones], [-eye, eye, -ones], [ones.T, ones.T, np.zeros((1, 1))]]
        )
        bounds, cost = [(0, None)] * (2 * DIM), np.append(np.zeros(2 * DIM), 1.0)
        limits = np.append(limits, constraint.radius)
    bounds = [*bounds, (0, None)]
    return linprog(cost, near, limits, bounds=bounds).fun


@every
def test_no_member_is_nearer(name):
    constraint, x = SETS[name], points()
    found = nearest(constraint, jnp.asarray(x))
    assert np.all(jax.jit(lambda found: constraint.contains(found, 1e-12))(found))
    distances = np.abs(np.asarray(found) - x).max(axis=1)
    for distance, row in list(zip(distances, x, strict=True))[:60]:
        assert distance <= least_distance(constraint, row) + 1e-9 * (1.0 + np.abs(row).max())


@pytest.mark.optimised
@every
def test_members_keep_their_bits_and_twice_is_once(name):
    constraint, x = SETS[name], points()
    once = np.asarray(nearest(constraint, x))
    np.testing.assert_allclose(nearest(constraint, once), once, atol=1e-14)
    inside = np.asarray(jax.jit(lambda x: constraint.contains(x, 0.0))(x))
    assert inside.sum() >= DIM or name == "l2 centred"
    assert np.array_equal(once[inside], x[inside])


def test_closed_forms():
    x = jnp.asarray([3.0, -4.0, 1.0])
    np.testing.assert_allclose(nearest(L2Ball(13**0.5), x), [2.0, -3.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(nearest(L1L2Ball(5.0, 13**0.5), x), [2.0, -3.0, 0.0])
    np.testing.assert_allclose(nearest(L1L2Ball(4.0, 9.0), x), [1.5, -2.5, 0.0])
    np.testing.assert_allclose(nearest(L1Ball(2.0), x), [0.5, -1.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(
        nearest(L2Ball(1.0), jnp.asarray([2.0, 2.0])), np.full(2, 0.5**0.5), rtol=1e-15
    )


def test_of_many_nearest_members_the_one_of_least_modulus_is_taken():
    """Every coordinate of a point in a ball is as small as the distance allows."""
    x = points()
    for constraint in (SETS["l2"], SETS["l1"], SETS["l1 and l2"]):
        found = np.asarray(nearest(constraint, jnp.asarray(x)))
        for row, member in zip(x, found, strict=True):
            threshold = np.abs(row - member).max()
            np.testing.assert_allclose(member, shrunk(row, threshold), atol=1e-12)


@pytest.mark.cases(2)
@every
def test_jit_vmap_dtypes_and_bad_values(name):
    constraint, x = SETS[name], points(20).astype(float)
    expected = linf_projection(constraint, jnp.asarray(x))
    mapped = jax.vmap(nearest, (None, 0))(constraint, x)
    np.testing.assert_allclose(mapped, expected, atol=1e-12)
    single = nearest(constraint, x.astype(np.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-5)
    whole = np.asarray(nearest(constraint, x))
    broken = x.copy()
    broken[0, 0], broken[1, 0] = np.nan, np.inf
    np.testing.assert_array_equal(np.asarray(nearest(constraint, broken))[2:], whole[2:])
    assert nearest(constraint, x[0, :1] if name != "l2 centred" else x[0]).ndim == 1


def test_an_unknown_set_is_refused():
    with pytest.raises(ValueError, match="constraint must be a ConstraintSet, got"):
        linf_projection("ball", jnp.ones(2))
