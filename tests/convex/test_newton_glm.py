"""Regularised GLMs within a set: SciPy's minimiser, longer arithmetic, degenerate data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box
from scipy import optimize

from privopt.convex import (
    Hinge,
    Huber,
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
residuals_of = jax.jit(projected_residuals)
SMOOTHNESS = REGULARISATION + 0.25 * np.linalg.eigvalsh(FEATURES.T @ FEATURES / N)[-1]


def model():
    data = as_features(FEATURES), jnp.asarray(LABELS), jnp.full(N, 1.0 / N)
    terms = REGULARISATION * jnp.ones(5), jnp.asarray(LINEAR_TERMS), jnp.zeros(DIM)
    return RegularisedGLM(Logistic(), *data, *terms)


def gradient(point, term):
    slopes = -LABELS / (1.0 + np.exp(LABELS * (point @ FEATURES.T)))
    return slopes @ FEATURES / N + REGULARISATION * point + term


def exact(term, constraint):
    """Return the minimiser by 300 plain projected steps; each halves the distance to it."""
    assert SMOOTHNESS < 2.0 * REGULARISATION
    point, project = np.zeros(DIM), jax.jit(constraint.project)
    for _ in range(300):
        point = np.asarray(project(point - gradient(point, term) / SMOOTHNESS))
    return point


def value(point, term):
    losses = np.logaddexp(0.0, -LABELS * (FEATURES @ point))
    return losses.mean() + 0.5 * REGULARISATION * point @ point + term @ point


@pytest.mark.parametrize("radius", [0.3, 1.0, 100.0])
def test_against_scipy(radius):
    told = {"smoothness": jnp.full(5, SMOOTHNESS), "tolerance": jnp.full(5, 1e-13)}
    found = jax.jit(newton_glm)(model(), L2Ball(radius), jnp.zeros(DIM), **told)
    assert np.all(np.asarray(found.residuals) <= 1e-13)
    inside = {"type": "ineq", "fun": lambda w: radius**2 - w @ w}
    for point, term in zip(np.asarray(found.points), LINEAR_TERMS, strict=True):
        assert np.linalg.norm(point) <= radius * (1.0 + 1e-15)
        options = {"constraints": [inside], "tol": 1e-14, "method": "SLSQP"}
        best = optimize.minimize(value, 0.1 * point, (term,), **options)
        np.testing.assert_allclose(point, best.x, atol=1e-5)
        assert value(point, term) <= best.fun + 1e-10


@pytest.mark.cases(2)
@pytest.mark.parametrize("constraint", [L2Ball(0.5), Box(-0.2, 0.1), WholeSpace()])
def test_residuals_are_never_below_the_distance(constraint):
    """Members at random, near and far; the interior, the boundary and its corners."""
    term = LINEAR_TERMS[0]
    project = jax.jit(constraint.project)
    best = np.asarray(project(exact(term, constraint)))
    away = RANDOM.normal(size=(200, DIM)) * 10.0 ** RANDOM.uniform(-6, 1, size=(200, 1))
    points = np.asarray(project(best + away))
    residuals = residuals_of(constraint, points, gradient(points, term), np.full(200, SMOOTHNESS))
    distances = np.linalg.norm(points - best, axis=1)
    assert np.all(REGULARISATION * distances <= np.asarray(residuals) * (1 + 1e-9) + 1e-12)
    assert np.any(np.asarray(residuals) <= 20.0 * SMOOTHNESS * distances + 1e-12)


def test_a_minimiser_outside_of_the_set_is_not_certified():
    """The projection counts if the gradient vanishes at a point outside of the set."""
    far = exact(LINEAR_TERMS[0], WholeSpace())
    ball = L2Ball(0.5 * float(np.linalg.norm(far)))
    flat = gradient(far, LINEAR_TERMS[0])
    assert np.linalg.norm(flat) <= 1e-10
    residuals = residuals_of(ball, far[None], flat[None], np.array([SMOOTHNESS]))
    assert float(residuals[0]) >= 0.4 * SMOOTHNESS * np.linalg.norm(far)


def records(seed=0, n=150, dim=6, decay=0.0):
    random = np.random.default_rng(seed)
    features = random.normal(size=(n, dim)) * np.arange(1.0, dim + 1.0) ** -decay
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.sign(3.0 * features @ random.normal(size=dim) + random.logistic(size=n))
    return features, labels


@jax.jit
def minimised(loss, curvature, features, labels, lambdas, linear_terms, start, tolerance):
    """On the whole space, of records in the unit ball."""
    weights = jnp.full(len(labels), 1.0 / len(labels))
    numbers = weights, lambdas, linear_terms, jnp.zeros(features.shape[1])
    glm = RegularisedGLM(loss, as_features(features), labels, *numbers)
    beta, targets = lambdas + curvature, tolerance * jnp.ones_like(lambdas)
    return newton_glm(glm, WholeSpace(), start, smoothness=beta, tolerance=targets)


def solve(loss, features, labels, lambdas, linear_terms=None, start=0.0, tolerance=1e-10):
    dim = features.shape[1]
    linear_terms = np.zeros((1, dim)) if linear_terms is None else linear_terms
    lambdas = np.broadcast_to(lambdas, len(linear_terms)).astype(float)
    given = features, labels, lambdas, linear_terms, np.full(dim, start), tolerance
    return minimised(loss, loss.curvature, *given)


def long_slope(loss, z, y):
    """The slopes once more, in extended precision."""
    match loss:
        case Logistic():
            return -y / (1 + np.exp(y * z))
        case Huber():
            return np.clip((z - y) / np.longdouble(loss.width), -1, 1)
        case Hinge():
            return -y * np.clip((1 - y * z) / np.longdouble(loss.width), 0, 1)


def long_norm(loss, features, labels, regularisation, point, term=0.0):
    x, y, w, b, penalty = (
        np.asarray(each, np.longdouble) for each in (features, labels, point, term, regularisation)
    )
    slopes = long_slope(loss, x @ w, y)
    return float(np.linalg.norm(slopes @ x / len(y) + penalty * w + b))


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("loss", "shape", "regularisation"),
    [(loss, (150, 6), 1e-4) for loss in (Logistic(), Huber(0.1), Huber(1e-3), Hinge(1e-3))]
    + [(loss, (12, 20), np.geomspace(1e-4, 1e-1, 3)) for loss in (Logistic(), Huber(1e-3))],
    ids=str,
)
def test_the_certificate_in_longer_arithmetic(loss, shape, regularisation):
    features, labels = records(3, *shape)
    linear_terms = 0.02 * RANDOM.normal(size=(3, shape[1]))
    found = solve(loss, features, labels, regularisation, linear_terms)
    for k, penalty in enumerate(np.broadcast_to(regularisation, 3)):
        true = long_norm(loss, features, labels, penalty, found.points[k], linear_terms[k])
        told = loss.curvature * np.linalg.norm(found.points[k]) * 2.0**-52  # apart, at best
        assert abs(true - found.residuals[k]) <= 1e-12 + told


@pytest.mark.parametrize("regularisation", [1e-2, 1e-3, 1e-5])
def test_ten_thousand_records_in_longer_arithmetic(regularisation):
    features, labels = records(4, 10_000, 20, decay=1.0)
    found = solve(Logistic(), features, labels, regularisation, tolerance=1e-12)
    true = long_norm(Logistic(), features, labels, regularisation, found.points[0])
    assert true <= 1.1e-12
    assert abs(true - found.residuals[0]) <= 1e-14
    assert found.steps[0] <= 40


DEGENERATE = {
    "duplicated features": lambda x, y: (np.hstack([x[:, :3]] * 2) / 2.0, y),
    "zero features": lambda x, y: (0.0 * x, y),
    "equal labels": lambda x, y: (x, np.ones_like(y)),
    "equal records": lambda x, y: (np.tile(x[:1], (len(x), 1)), y),
    "separable": lambda x, y: (x, np.sign(x[:, 0])),
    "small features": lambda x, y: (1e-6 * x, y),
    "scales over four decades": lambda x, y: (x * 10.0 ** -np.linspace(0.0, 4.0, 6), y),
}


@pytest.mark.cases(8)
@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("regularisation", [1e-8, 1e-3, 1e6])
@pytest.mark.parametrize("loss", [Logistic(), Hinge(0.1)], ids=str)
def test_degenerate_data(name, regularisation, loss):
    features, labels = DEGENERATE[name](*records(9))
    found = solve(loss, features, labels, regularisation)
    true = long_norm(loss, features, labels, regularisation, found.points[0])
    assert abs(true - found.residuals[0]) <= 1e-12 * max(1.0, regularisation)
    if loss == Logistic() and regularisation > 1e-8:
        assert true <= 1.01e-10


def test_numbers_that_are_not_finite_end():
    features, labels = records(15)
    features[3, 2] = np.nan
    assert np.isnan(solve(Logistic(), features, labels, 1e-2).residuals[0])
