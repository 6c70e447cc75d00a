"""The l1-and-l2 ball: the four cases of the projection, its certificate, limits, hostile points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.convex import L1Ball, L1L2Ball, L2Ball

DIM = 8
SINGLE = pytest.param(jnp.float32, marks=pytest.mark.optimised)
rounded = pytest.mark.parametrize("dtype", [SINGLE, jnp.float64])
BALLS = [L1L2Ball(l1, 1.0) for l1 in (1.01, 1.7, 2.0, 2.2)] + [L1L2Ball(3.0, 2.0)]


@jax.jit
def project(ball: L1L2Ball, x: jax.Array) -> jax.Array:
    return ball.project(x)


def points(count: int = 400) -> np.ndarray:
    """Normal, sparse and tied rows, of sizes from inside to far away."""
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(count, DIM))
    sparse = normal * (rng.uniform(size=normal.shape) < 0.3)
    tied = rng.integers(-2, 3, size=normal.shape).astype(float)
    kind = rng.integers(0, 3, size=(count, 1))
    return np.choose(kind, [normal, sparse, tied]) * 10.0 ** rng.uniform(-1.5, 3.0, size=(count, 1))


def support(ball: L1L2Ball, g: np.ndarray) -> np.ndarray:
    """``min_t l2 |S_t(g)| + t l1`` of each row, convex in ``t``, over a grid that is refined."""
    low, high = np.zeros(len(g)), np.abs(g).max(axis=1)
    for _ in range(30):
        t = np.linspace(low, high, 9, axis=1)
        left = np.maximum(np.abs(g)[:, None] - t[..., None], 0.0)
        values = ball.l2_radius * np.linalg.norm(left, axis=2) + t * ball.l1_radius
        best = np.argmin(values, axis=1)[:, None]
        ends = (np.maximum(best - 1, 0), np.minimum(best + 1, 8))
        low, high = (np.take_along_axis(t, end, axis=1)[:, 0] for end in ends)
    return values.min(axis=1)


@pytest.mark.cases(3)
@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_the_projection_has_its_certificate_and_all_cases_occur(ball):
    x = points()
    projected = np.asarray(project(ball, x))
    assert np.all(jax.jit(lambda ball, x: ball.contains(x, 1e-12))(ball, projected))
    gradient = x - projected
    gap = support(ball, gradient) - np.sum(gradient * projected, axis=1)
    assert np.max(gap / (1.0 + np.linalg.norm(gradient, axis=1))) <= 1e-12
    tight = [np.abs(projected).sum(1), np.linalg.norm(projected, axis=1)] / np.asarray(
        [[ball.l1_radius], [ball.l2_radius]]
    ) > 1.0 - 1e-9
    cases = {tuple(map(bool, case)) for case in tight.T}
    assert {(False, False), (True, True)} <= cases
    assert len(cases) >= 3


@pytest.mark.cases(2)
@pytest.mark.parametrize("ball", BALLS, ids=repr)
def test_support_and_extreme_points(ball):
    g = points(100)

    @jax.jit
    def extremes(ball, g):
        extreme = ball.extreme_point(g)
        zero = ball.extreme_point(jnp.zeros(DIM))
        return ball.contains(extreme, 1e-12), ball.support(g), zero

    members, found, zero = extremes(ball, g)
    assert np.all(members)
    np.testing.assert_allclose(found, support(ball, g), rtol=1e-12)
    assert zero.tolist() == [0.0] * DIM


def test_it_is_the_l1_or_the_l2_ball_where_the_other_is_idle():
    x = points()
    for l1, l2, other in (
        (1.0, 1.0, L1Ball(1.0)),
        (3.0, 1.0, L2Ball(1.0)),
        (0.2, 5.0, L1Ball(0.2)),
    ):
        np.testing.assert_allclose(
            project(L1L2Ball(l1, l2), x), jax.jit(other.project)(x), atol=1e-12
        )


@pytest.mark.optimised
def test_members_keep_their_bits_and_projecting_twice_changes_nothing():
    ball, x = L1L2Ball(1.7, 1.0), points()
    inside = np.asarray(jax.jit(lambda x: ball.contains(x, 0.0))(x))
    assert 10 < inside.sum() < 350
    once = np.asarray(project(ball, x))
    assert np.array_equal(once[inside], x[inside])
    np.testing.assert_allclose(project(ball, once), once, atol=1e-14)


@rounded
def test_hostile_points(dtype):
    ball, eps = L1L2Ball(2.0, 1.0), float(jnp.finfo(dtype).eps)
    rows = [
        [0.0] * DIM,
        [5.0] * DIM,
        [5.0] * 3 + [0.0] * 5,
        [1e30] + [0.0] * 7,
        [1e30, 1e-30] + [1.0] * 6,
        [-1e-30] * DIM,
        [1.0 + j * eps for j in range(DIM)],
        [3e38, *[3e38 * (1.0 - eps)] * 7],
        [2e-38, 1e-45, *[1e-45] * 6],
    ]
    x = np.asarray(rows, dtype)
    projected = np.asarray(project(ball, x))
    assert projected.dtype == dtype
    assert np.all(np.isfinite(projected))
    assert np.all(jax.jit(lambda x: ball.contains(x, 8.0 * eps))(projected))
    np.testing.assert_allclose(projected[1], np.full(DIM, 0.25), rtol=4 * eps)
    np.testing.assert_allclose(projected[2], [3**-0.5] * 3 + [0.0] * 5, rtol=4 * eps)
    np.testing.assert_allclose(projected[3], np.eye(DIM)[0], atol=4 * eps)
    hollow = jax.tree.map(lambda _: jnp.asarray(0.0, dtype), ball)
    assert not np.any(project(L1L2Ball(hollow.l1_radius, 1.0), x)[1])


@rounded
def test_units_do_not_matter(dtype):
    """Powers of two take points and radii to the ends of the range: the bits stay."""
    x = (points(60) * 10.0 ** -np.arange(DIM)).astype(dtype)
    for exponent in (-90, 90) if dtype == jnp.float32 else (-900, 900):
        unit = 2.0**exponent
        for l1, l2 in ((1.7, 1.0), (1.01, 1.0)):
            expected = project(L1L2Ball(l1, l2), x)
            found = project(L1L2Ball(l1 * unit, l2 * unit), x * np.asarray(unit, dtype))
            rtol = 64.0 * float(jnp.finfo(dtype).eps)
            found = np.asarray(found) / np.asarray(unit, dtype)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@rounded
def test_small_balls_far_away(dtype):
    """Two coordinates share it: as they differ, or in the quotient of the radii."""
    eps = float(jnp.finfo(dtype).eps)
    for size in (1e10, 1e30, 3e38):
        x = np.asarray([size, -size * (1.0 - 4.0 * eps), 0.1 * size], dtype)
        for radius in (1e-25, 1e-5, 1.0):
            ball = L1L2Ball(1.2 * radius, radius)
            found = np.float64(project(ball, x)) / radius
            difference = float(x[0] / 2 + x[1] / 2) / radius
            half = min(difference, (0.5 - 0.36) ** 0.5)
            expected = [0.6 + half, half - 0.6, 0.0]
            np.testing.assert_allclose(found, expected, atol=64 * eps)


def test_sqrt_two_times_the_hull_of_sparse_vectors_holds_it():
    """``h <= sqrt(2) |.|_(s)``, the norm of the ``s`` largest, and sparse vectors are members."""
    rng = np.random.default_rng(2)
    g, supports = rng.normal(size=(300, 64)) ** 3, jax.jit(L1L2Ball.support)
    for s in (1, 4, 16):
        largest = np.linalg.norm(np.sort(np.abs(g), axis=1)[:, -s:], axis=1)
        ratio = np.asarray(supports(L1L2Ball(s**0.5, 1.0), g)) / largest
        assert ratio.min() >= 1.0 - 1e-12
        assert ratio.max() <= 2.0**0.5


def test_numbers_are_leaves_and_batches_are_rows():
    x, l1 = jnp.asarray(points(20)), jnp.asarray([1.0, 1.5, 2.5])
    sweep = jax.jit(jax.vmap(lambda each: L1L2Ball(each, 1.0).project(x)))(l1)
    for radius, rows in zip((1.0, 1.5, 2.5), sweep, strict=True):
        expected = np.stack([project(L1L2Ball(radius, 1.0), row) for row in x])
        np.testing.assert_allclose(rows, expected, atol=1e-13)
    assert np.linalg.norm(sweep, axis=-1).max() <= 1.0 + 1e-14


def test_host_numbers_and_refusals():
    ball = L1L2Ball(2.0, 1.5)
    assert (ball.radius_about_centre(3), ball.diameter(3)) == (1.5, 3.0)
    assert ball.centre_point(3, jnp.float32).tolist() == [0.0] * 3
    assert L1L2Ball.of(0.5, 4) == L1L2Ball(1.0, 0.5)
    with pytest.raises(ValueError, match=r"lipschitz must be positive and finite, got -1\.0"):
        L1L2Ball.of(-1.0, 4)
    with pytest.raises(ValueError, match="sparsity must be a positive integer, got 2\\.5"):
        L1L2Ball.of(1.0, 2.5)
    with pytest.raises(ValueError, match=r"l1_radius must be positive and finite, got 0\.0"):
        L1L2Ball(0.0, 1.0)
    with pytest.raises(ValueError, match="l2_radius must be positive and finite, got inf"):
        L1L2Ball(1.0, np.inf)
