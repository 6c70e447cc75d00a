"""Regularised GLMs within a set: SciPy's minimiser, and a certificate that is never below."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from privopt.convex import (
    Box,
    L2Ball,
    Logistic,
    RegularisedGLM,
    WholeSpace,
    as_features,
    newton_glm,
)
from privopt.convex.glm_newton import projected_residuals

N, DIM, REGULARISATION = 60, 4, 0.05
RANDOM = np.random.default_rng(2)
FEATURES = RANDOM.normal(size=(N, DIM)) / 3.0
LABELS = np.where(RANDOM.random(N) < 0.5, 1.0, -1.0)
LINEAR_TERMS = 0.1 * RANDOM.normal(size=(5, DIM))
SMOOTHNESS = REGULARISATION + 0.25 * np.linalg.eigvalsh(FEATURES.T @ FEATURES / N)[-1]


def model(linear_terms=LINEAR_TERMS):
    ones = jnp.ones(len(linear_terms))
    return RegularisedGLM(
        Logistic(),
        as_features(FEATURES),
        jnp.asarray(LABELS),
        jnp.full(N, 1.0 / N),
        REGULARISATION * ones,
        jnp.asarray(linear_terms),
        jnp.zeros(DIM),
    )


def gradient(point, term):
    slopes = -LABELS / (1.0 + np.exp(LABELS * (FEATURES @ point)))
    return slopes @ FEATURES / N + REGULARISATION * point + term


def exact(term, constraint):
    """By very many plain projected steps."""
    point = np.zeros(DIM)
    for _ in range(3_000):
        point = np.asarray(constraint.project(point - gradient(point, term) / SMOOTHNESS))
    return point


def value(point, term):
    losses = np.logaddexp(0.0, -LABELS * (FEATURES @ point))
    return losses.mean() + 0.5 * REGULARISATION * point @ point + term @ point


@pytest.mark.parametrize("radius", [0.3, 1.0, 100.0])
def test_against_scipy(radius):
    found = jax.jit(newton_glm)(
        model(),
        L2Ball(radius),
        jnp.zeros(DIM),
        smoothness=jnp.full(5, SMOOTHNESS),
        tolerance=jnp.full(5, 1e-13),
    )
    assert np.all(np.asarray(found.residuals) <= 1e-13)
    inside = {"type": "ineq", "fun": lambda w: radius**2 - w @ w}
    for point, term in zip(np.asarray(found.points), LINEAR_TERMS, strict=True):
        assert np.linalg.norm(point) <= radius * (1.0 + 1e-15)
        best = optimize.minimize(
            value, 0.1 * point, (term,), constraints=[inside], tol=1e-14, method="SLSQP"
        )
        np.testing.assert_allclose(point, best.x, atol=1e-5)
        assert value(point, term) <= best.fun + 1e-10


@pytest.mark.parametrize("constraint", [L2Ball(0.5), Box(-0.2, 0.1), WholeSpace()])
def test_residuals_are_never_below_the_distance(constraint):
    """Members at random, near and far; the interior, the boundary and its corners."""
    term = LINEAR_TERMS[0]
    best = jax.jit(constraint.project)(jnp.asarray(exact(term, constraint)))
    near = np.asarray(best) + RANDOM.normal(size=(200, DIM)) * 10.0 ** RANDOM.uniform(
        -6, 1, size=(200, 1)
    )
    points = constraint.project(jnp.asarray(near))
    gradients = jnp.asarray(np.stack([gradient(np.asarray(w), term) for w in points]))
    residuals = projected_residuals(constraint, points, gradients, jnp.full(200, SMOOTHNESS))
    distances = np.linalg.norm(np.asarray(points) - np.asarray(best)[None], axis=1)
    assert np.all(REGULARISATION * distances <= np.asarray(residuals) * (1 + 1e-9) + 1e-12)
    assert np.any(np.asarray(residuals) <= 20.0 * SMOOTHNESS * distances + 1e-12)


def test_a_minimiser_outside_of_the_set_is_not_certified():
    """Where the gradient vanishes but the point is no member, the move back counts."""
    far = exact(LINEAR_TERMS[0], WholeSpace())
    ball = L2Ball(0.5 * float(np.linalg.norm(far)))
    flat = gradient(far, LINEAR_TERMS[0])
    assert np.linalg.norm(flat) <= 1e-10
    residuals = projected_residuals(
        ball, jnp.asarray(far[None]), jnp.asarray(flat[None]), jnp.asarray([SMOOTHNESS])
    )
    assert float(residuals[0]) >= 0.4 * SMOOTHNESS * np.linalg.norm(far)


def test_more_coordinates_than_records():
    few = model()._replace(
        features=as_features(FEATURES[:3]), labels=jnp.asarray(LABELS[:3]), weights=jnp.ones(3) / 3
    )
    found = newton_glm(
        few,
        L2Ball(0.7),
        jnp.zeros(DIM),
        smoothness=jnp.full(5, 2.0),
        tolerance=jnp.full(5, 1e-12),
    )
    assert np.all(np.asarray(found.residuals) <= 1e-12)
