"""Basis pursuit: certificates recomputed in NumPy, linear programming, hostile systems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from privopt.convex.basis_pursuit import BasisPursuit, basis_pursuit

M, D = 12, 60
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(M, D))
RHS = RNG.normal(size=M)


def certified(matrix: np.ndarray, b: np.ndarray, tolerance: float = 1e-9) -> BasisPursuit:
    """Return the solution after a check of feasibility, of the dual point and of the gap."""
    found = jax.tree.map(np.asarray, basis_pursuit(matrix, b))
    value = np.abs(found.point).sum()
    assert np.linalg.norm(matrix @ found.point - b) <= tolerance * max(np.linalg.norm(b), 1.0)
    feasible = np.abs(found.dual @ matrix).max()
    assert feasible <= 1.0 + 1e-12
    assert value - b @ found.dual <= tolerance * max(value, 1.0)
    assert max(0.0, value - b @ found.dual / max(feasible, 1.0)) <= found.gap <= tolerance * value
    assert found.bound == pytest.approx(b @ found.dual, rel=1e-12)
    return found


def least(matrix: np.ndarray, b: np.ndarray) -> float:
    d = matrix.shape[1]
    both = np.hstack([matrix, -matrix])
    return linprog(np.ones(2 * d), A_eq=both, b_eq=b, bounds=(0, None)).fun


def systems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Generic, degenerate, tied, with many solutions, badly scaled; all of full row rank.

    Of few shapes, since each is compiled.
    """
    sparse = np.zeros(D)
    sparse[:3] = 1.0, -2.0, 0.5
    near = MATRIX.copy()
    near[1] = near[0] + 1e-3 * near[1]
    rotated, _, back = np.linalg.svd(MATRIX, full_matrices=False)
    ternary = np.random.default_rng(3).integers(-1, 2, size=(M, D)).astype(float)
    half, wide, few = MATRIX[:, : D // 2], MATRIX[:6], RHS[:6]
    return {
        "noise": (MATRIX, RHS),
        "sparse": (MATRIX, MATRIX @ sparse),
        "sparse and noise": (MATRIX, MATRIX @ sparse + 0.01 * RHS),
        "a column": (MATRIX, MATRIX[:, 7]),
        "columns twice": (np.hstack([half, half]), RHS),
        "columns and their negatives": (np.hstack([half, -half]), MATRIX @ sparse),
        "columns of zeros": (MATRIX * (np.arange(D) % 3 > 0), RHS),
        "ternary": (ternary, ternary @ np.sign(sparse)),
        "square": (MATRIX[:, :M], RHS),
        "identity": (np.eye(M), np.arange(M) % 3 - 1.0),
        "one row": (MATRIX[:1], RHS[:1]),
        "one row of ties": (np.ones((1, D)), np.array([3.0])),
        "one number": (np.array([[2.0]]), np.array([-4.0])),
        "rows in other units": (
            MATRIX * (units := 10.0 ** np.linspace(-3, 3, M))[:, None],
            RHS * units,
        ),
        "columns in other units": (MATRIX * 10.0 ** np.linspace(-3, 3, D), RHS),
        "rows nearly dependent": (near, RHS),
        "condition 1e4": (rotated * np.geomspace(1.0, 1e-4, M) @ back, RHS),
        "heavy tails": (np.random.default_rng(4).standard_cauchy(size=(M, D)), RHS),
        "wide": (wide, few),
        "wide, of powers": (np.linspace(0.0, 1.0, D)[None] ** np.arange(6)[:, None], few),
    }


@pytest.mark.cases(12)
@pytest.mark.parametrize("name", systems())
def test_certificates_hold_and_agree_with_linear_programming(name):
    matrix, b = systems()[name]
    found = certified(matrix, b)
    assert np.abs(found.point).sum() == pytest.approx(least(matrix, b), rel=1e-8)
    assert found.steps <= 25


def test_a_sparse_vector_is_recovered_and_a_corner_interpolates_noise():
    sparse = np.zeros(D)
    sparse[[5, 40]] = 3.0, -1.0
    np.testing.assert_allclose(certified(MATRIX, MATRIX @ sparse).point, sparse, atol=1e-12)
    assert np.count_nonzero(certified(MATRIX, RHS).point) == M


@pytest.mark.parametrize("size", [1e-280, 1e-30, 1e30, 1e280])
def test_units_do_not_matter(size):
    expected = basis_pursuit(MATRIX, RHS)
    large = basis_pursuit(MATRIX, RHS * size)
    np.testing.assert_allclose(large.point / size, expected.point, rtol=1e-9, atol=1e-14)
    assert large.gap <= 1e-9 * size
    if 1e-100 < size < 1e100:
        other = basis_pursuit(MATRIX * size, RHS)
        np.testing.assert_allclose(other.point * size, expected.point, rtol=1e-9, atol=1e-14)


def test_nothing_is_solved_by_nothing():
    found = basis_pursuit(MATRIX, np.zeros(M))
    assert not np.any(found.point)
    assert (found.gap, found.bound, found.residual, found.steps) == (0.0, 0.0, 0.0, 0)


def test_float32_arrays_are_taken_as_the_numbers_they_are():
    matrix, b = jnp.asarray(MATRIX, jnp.float32), jnp.asarray(RHS, jnp.float32)
    found = basis_pursuit(matrix, b)
    assert found.point.dtype == jnp.float64
    again = certified(np.asarray(matrix, np.float64), np.asarray(b, np.float64))
    np.testing.assert_array_equal(found.point, again.point)


def test_several_right_hand_sides_jit_and_vmap():
    several = np.stack([RHS, MATRIX @ np.eye(D)[4], np.zeros(M), -RHS, 1e6 * RHS[::-1]])
    together = basis_pursuit(MATRIX, several)
    assert together.point.shape == (5, D)
    assert together.dual.shape == (5, M)
    alone = [basis_pursuit(MATRIX, b) for b in several]
    mapped = jax.jit(jax.vmap(basis_pursuit, (None, 0)))(jnp.asarray(MATRIX), jnp.asarray(several))
    for row, (one, size) in enumerate(zip(alone, np.abs(several).sum(1), strict=True)):
        for found in (together, mapped):
            atol = 1e-10 * size
            np.testing.assert_allclose(found.point[row], one.point, rtol=1e-9, atol=atol)
            assert found.gap[row] <= 1e-9 * max(float(jnp.sum(jnp.abs(one.point))), 1e-300)
    np.testing.assert_allclose(together.point[3], -together.point[0], atol=1e-12)


def test_no_batch_is_factorised():
    """A batched LU in as many programs at once as a CPU has threads never ends."""
    shapes = jnp.zeros((7, M, D)), jnp.zeros((7, M))
    calls = jax.jit(jax.vmap(basis_pursuit)).lower(*shapes).as_text().splitlines()
    factorised = [line for line in calls if "getrf" in line or "potrf" in line]
    assert len(factorised) >= 2
    assert not any("tensor<7x" in line for line in factorised)


def test_a_matrix_that_cannot_be_read_promises_nothing_false():
    """Under ``jit`` rank is not checked: the gap is then infinite or honest."""
    twice = jnp.asarray(np.vstack([MATRIX[:3], MATRIX[:1]]))
    found = jax.jit(basis_pursuit)(twice, jnp.asarray([1.0, 2.0, 3.0, 4.0]))
    assert not (found.gap < 1e-9 and found.residual < 1e-9)


@pytest.mark.parametrize(
    ("matrix", "b", "message"),
    [
        (MATRIX.T, RHS, r"matrix must have at most as many rows as columns, got \(60, 12\)"),
        (MATRIX[0], RHS, r"matrix must have 2 axes and some entries, got shape \(60,\)"),
        (MATRIX, RHS[:5], r"right_hand_sides must have shape \(12,\) or \(k, 12\), got \(5,\)"),
        (MATRIX, np.ones((2, 2, 12)), r"right_hand_sides must have 2 axes .* got shape"),
        (MATRIX, np.ones((0, 12)), r"right_hand_sides must have 2 axes and some entries"),
        (
            np.where(np.eye(M, D) > 0, np.nan, MATRIX),
            RHS,
            r"matrix must be finite, got nan at \(0, 0\)",
        ),
        (MATRIX, np.append(RHS[:-1], np.inf), r"right_hand_sides must be finite, got inf at \(11,"),
        (np.vstack([MATRIX[:2], MATRIX[:1]]), RHS[:3], "matrix must have full row rank, got a row"),
    ],
)
def test_bad_input_is_refused(matrix, b, message):
    with pytest.raises(ValueError, match=message):
        basis_pursuit(matrix, b)


def test_single_precision_is_refused():
    with jax.enable_x64(False), pytest.raises(ValueError, match="x64 must be on, got it off"):
        basis_pursuit(MATRIX, RHS)
