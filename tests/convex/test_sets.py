"""Constraint sets against NumPy references, variational inequalities and sampled points."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box, Simplex
from scipy import optimize
from selection import few

from privopt.convex import ConstraintSet, L1Ball, L2Ball, WholeSpace

DIM, COUNT = 6, 200
LOWER = np.array([-1.0, -0.5, 0.0, 0.2, -2.0, -0.1])
UPPER = np.array([1.0, 0.5, 0.7, 0.2, 3.0, 0.0])
SETS: dict[str, ConstraintSet] = {
    "l2": L2Ball(1.3),
    "l2 centred": L2Ball(0.8, np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.1])),
    "l1": L1Ball(1.7),
    "box": Box(-0.4, 0.9),
    "box of arrays": Box(LOWER, UPPER),
    "simplex": Simplex(),
    "simplex of 2.5": Simplex(2.5),
}
bounded = pytest.mark.parametrize("name", SETS)
project, contains, support, extreme_point = (
    jax.jit(lambda constraint, *given, method=method: getattr(constraint, method)(*given))
    for method in ("project", "contains", "support", "extreme_point")
)  # one program each for sets of one kind and points of one shape
EVERY = [*map(SETS.get, ("l2 centred", "l1", "box of arrays", "simplex")), WholeSpace()]


def members(constraint: ConstraintSet, rng: np.random.Generator, count: int = COUNT) -> np.ndarray:
    """Sample points of the set without the code under test, mostly on the boundary."""
    normal = rng.normal(size=(count, DIM))
    if isinstance(constraint, L2Ball):
        direction = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        depth = rng.choice([1.0, 0.5, 0.0], size=(count, 1), p=[0.8, 0.1, 0.1])
        return np.asarray(constraint.centre) + constraint.radius * depth * direction
    if isinstance(constraint, L1Ball):
        share = rng.dirichlet(np.full(DIM, 0.2), size=count)
        return constraint.radius * share * np.sign(normal)
    if isinstance(constraint, Box):
        share = rng.choice([0.0, 1.0, 0.3], size=(count, DIM))
        return constraint.lower + share * (np.asarray(constraint.upper) - constraint.lower)
    return constraint.total * rng.dirichlet(np.full(DIM, 0.2), size=count)


def points(rng: np.random.Generator, count: int = COUNT) -> np.ndarray:
    return rng.normal(size=(count, DIM)) * 10.0 ** rng.uniform(-2, 2, size=(count, 1))


def simplex_twin(x: np.ndarray, total: float) -> np.ndarray:
    def excess(theta: float) -> float:
        return np.maximum(x - theta, 0.0).sum() - total

    return np.maximum(x - optimize.brentq(excess, x.min() - total, x.max(), xtol=1e-15), 0.0)


def twin(constraint: ConstraintSet, x: np.ndarray) -> np.ndarray:
    if isinstance(constraint, L2Ball):
        offset = x - constraint.centre
        return constraint.centre + offset * min(1.0, constraint.radius / np.linalg.norm(offset))
    if isinstance(constraint, L1Ball):
        if np.abs(x).sum() <= constraint.radius:
            return x
        return np.sign(x) * simplex_twin(np.abs(x), constraint.radius)
    if isinstance(constraint, Box):
        return np.clip(x, constraint.lower, constraint.upper)
    return simplex_twin(x, constraint.total)


@bounded
def test_projection_equals_its_twin(name):
    constraint, x = SETS[name], points(np.random.default_rng(1))
    expected = np.stack([twin(constraint, row) for row in x])
    np.testing.assert_allclose(project(constraint, x), expected, atol=1e-12)


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", few([np.float32, np.float64], [np.float32]))
def test_balls_and_boxes_return_members_bit_for_bit(dtype):
    rng = np.random.default_rng(4)
    for constraint in (L2Ball(0.37, 0.1), L1Ball(0.37), Box(-0.37, 0.21)):
        some = (0.99 * (members(constraint, rng, 500) - 0.05) + 0.05).astype(dtype)
        inside = np.asarray(contains(constraint, some, 0.0))
        assert inside.sum() > 100
        assert np.array_equal(np.asarray(project(constraint, some))[inside], some[inside])


@bounded
def test_support_bounds_members_and_is_attained(name):
    constraint, rng = SETS[name], np.random.default_rng(5)
    g = points(rng)
    found = np.asarray(support(constraint, g))
    extreme = extreme_point(constraint, g)
    assert np.all(contains(constraint, extreme, 1e-12))
    scale = 1.0 + np.linalg.norm(g, axis=1)
    assert np.all(np.abs(np.sum(g * np.asarray(extreme), axis=1) - found) <= 1e-13 * scale)
    assert np.all(g @ members(constraint, rng).T <= (found + 1e-12 * scale)[:, None])


@bounded
def test_membership(name):
    constraint, rng = SETS[name], np.random.default_rng(6)
    inside = members(constraint, rng)
    assert np.all(contains(constraint, inside, 1e-12))
    far = points(rng)
    distance = np.linalg.norm(np.asarray(project(constraint, far) - far), axis=1)
    outside = distance > 1e-6
    assert outside.sum() > 50
    assert not np.any(np.asarray(contains(constraint, far, 1e-9))[outside])
    assert np.all(contains(constraint, far, 10.0 * distance.max()))


@bounded
def test_diameter_and_radius_are_reached_and_never_passed(name):
    constraint, rng = SETS[name], np.random.default_rng(7)
    g = np.concatenate([np.eye(DIM), rng.choice([-1.0, 1.0], size=(94, DIM))])
    ends = np.asarray(extreme_point(constraint, np.concatenate([g, -g])))
    sample = np.concatenate([ends, members(constraint, rng)])
    pairs = np.linalg.norm(sample[:, None] - sample[None], axis=2).max()
    centre = np.asarray(constraint.centre_point(DIM, jnp.float64))
    about = np.linalg.norm(sample - centre, axis=1).max()
    assert contains(constraint, centre, 1e-12)
    assert pairs == pytest.approx(constraint.diameter(DIM), rel=1e-12)
    assert about == pytest.approx(constraint.radius_about_centre(DIM), rel=1e-12)


def test_the_whole_space():
    space, x = WholeSpace(), jnp.asarray([[0.0, 0.0], [1.0, 0.0]])
    assert space.project(x) is x
    assert space.support(x).tolist() == [0.0, math.inf]
    assert space.contains(x.at[0, 0].set(jnp.nan), 0.0).tolist() == [False, True]
    assert space.diameter(2) == space.radius_about_centre(2) == math.inf
    assert space.centre_point(2, jnp.float32).tolist() == [0.0, 0.0]
    with pytest.raises(NotImplementedError, match="unbounded"):
        space.extreme_point(x)


@pytest.mark.cases(3)
@pytest.mark.parametrize("constraint", EVERY, ids=lambda constraint: type(constraint).__name__)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype_and_leading_shape_are_kept(constraint, dtype):
    x = np.random.default_rng(8).normal(size=(2, 3, DIM)).astype(dtype)
    projected, distance = project(constraint, x), support(constraint, x)
    assert (projected.shape, projected.dtype) == (x.shape, dtype)
    assert (distance.shape, distance.dtype) == ((2, 3), dtype)
    assert contains(constraint, x, 0.1).shape == (2, 3)
    assert constraint.centre_point(DIM, dtype).dtype == dtype
    np.testing.assert_allclose(projected[1, 2], project(constraint, x[1, 2]), rtol=1e-5)
    mapped = jax.jit(jax.vmap(jax.vmap(constraint.project)))(x)
    np.testing.assert_allclose(projected, mapped, rtol=1e-5)
    if not isinstance(constraint, WholeSpace):
        extreme = extreme_point(constraint, x)
        assert (extreme.shape, extreme.dtype) == (x.shape, dtype)


@pytest.mark.parametrize(
    "make",
    [L2Ball, lambda r: L2Ball(r, 0.5), L1Ball, lambda r: Box(-r, r), Simplex],
    ids=["l2", "l2 centred", "l1", "box", "simplex"],
)
def test_numbers_are_leaves(make):
    traces = []

    @jax.jit
    def projected(constraint, x):
        traces.append(constraint)
        return constraint.project(x)

    x, radii = jnp.asarray(points(np.random.default_rng(9), 1)[0]), [0.1, 0.7, 3.0]
    alone = [projected(make(radius), x) for radius in radii]
    assert len(traces) == 1
    sweep = jax.jit(jax.vmap(lambda radius: make(radius).project(x)))(jnp.asarray(radii))
    np.testing.assert_allclose(sweep, np.stack(alone), rtol=1e-12, atol=1e-14)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *map(make, radii))
    again = jax.jit(jax.vmap(lambda constraint: constraint.project(x)))(stacked)
    np.testing.assert_allclose(again, sweep, rtol=1e-12, atol=1e-14)


@pytest.mark.optimised
def test_the_l2_projection_survives_the_ends_of_float32():
    for size in (1e-24, 1e24):
        x = jnp.asarray([3.0 * size, 4.0 * size], jnp.float32)
        projected = L2Ball(size).project(x)
        np.testing.assert_allclose(projected, [0.6 * size, 0.8 * size], rtol=1e-6)
        assert L2Ball(size).support(x / jnp.float32(size)) == pytest.approx(5.0 * size, rel=1e-6)


@pytest.mark.optimised
def test_large_points_keep_the_sum_in_float32():
    x = jnp.asarray(3e8 + np.random.default_rng(10).normal(size=50), jnp.float32)
    assert jnp.sum(Simplex().project(x)) == pytest.approx(1.0, rel=1e-5)
    assert jnp.sum(jnp.abs(L1Ball(0.01).project(x))) == pytest.approx(0.01, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L2Ball(0.0), "radius must be positive and finite, got 0.0"),
        (lambda: L2Ball(1, np.array([0.0, np.nan])), "centre must be finite"),
        (lambda: L1Ball(np.float32(-2.0)), "radius must be positive and finite"),
        (
            lambda: L2Ball(1.0, [0.0, 0.0]),
            "centre must be finite, got an object of type list and length 2",
        ),
        (
            lambda: L2Ball(1.0, np.zeros(3)).radius_about_centre(2),
            r"centre must have shape \(\) or \(2,\), got \(3,\)",
        ),
        (lambda: L2Ball(np.ones(2)).diameter(2), r"radius must have shape \(\), got \(2,\)"),
    ],
)
def test_invalid_parameters_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()
