"""Tests of quadratics over sets: exact over a ball, for eigenvalues of any sign."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box
from selection import few

from privopt.convex import L2Ball
from privopt.convex.quadratic import eigenbasis, minimise_quadratic


def drawn(seed, shift, dim=4):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(dim, dim))
    return 0.5 * (matrix + matrix.T) + shift * np.eye(dim), rng.normal(size=dim)


@jax.jit
def minimised(matrix, linear, ball, centre):
    return minimise_quadratic(*eigenbasis(matrix), linear, ball, centre)


@pytest.mark.parametrize("shift", [-5.0, 0.0, 1.0, 5.0])
@pytest.mark.parametrize("length", few([1e-3, 1.0, 100.0], [1.0]))
def test_no_point_of_the_ball_is_lower(shift, length):
    """The conditions of a global minimum over a ball, which are sufficient; and 10,000 points."""
    for seed in range(5):
        matrix, linear = drawn(seed, shift)
        linear, centre = length * linear, np.full(4, 0.5)
        ball = L2Ball(0.7, 0.5)
        found = minimised(matrix, linear, ball, centre)
        point = np.asarray(found) - centre
        assert np.linalg.norm(point) <= 0.7 * (1.0 + 1e-12)
        multiplier = (linear - matrix @ point) @ point / (point @ point)
        residual = np.linalg.norm(matrix @ point + multiplier * point - linear)
        assert residual <= 1e-9 * (1.0 + abs(multiplier))
        assert np.linalg.eigvalsh(matrix)[0] + multiplier >= -1e-9
        assert multiplier * (0.7 - np.linalg.norm(point)) <= 1e-9 * (1.0 + abs(multiplier))
        others = np.random.default_rng(9).normal(size=(10_000, 4))
        others *= 0.7 / np.linalg.norm(others, axis=1, keepdims=True)
        rise = 0.5 * np.einsum("ni,ij,nj->n", others, matrix, others) - others @ linear
        assert 0.5 * point @ matrix @ point - linear @ point <= rise.min() + 1e-9


def test_over_a_box_descent_ends_where_coordinates_do():
    """Diagonal, so that every coordinate is clipped by itself."""
    eigenvalues, linear = jnp.array([1e-3, 0.5, 2.0]), jnp.array([1.0, -0.1, 1.0])
    box = Box(-0.5, 0.4)
    found = minimise_quadratic(eigenvalues, jnp.eye(3), linear, box, jnp.zeros(3))
    np.testing.assert_allclose(found, [0.4, -0.2, 0.4], atol=1e-6)


def test_many_matrices_have_the_eigenvectors_of_each():
    matrices = jnp.stack([jnp.asarray(drawn(seed, 0.0, 16)[0]) for seed in range(20)])
    many = jax.jit(jax.vmap(eigenbasis))(matrices)
    for i, matrix in enumerate(matrices):
        np.testing.assert_allclose(many[0][i], np.linalg.eigvalsh(matrix), atol=1e-12)
