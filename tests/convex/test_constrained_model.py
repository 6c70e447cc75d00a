"""Tilted linear models within a set: SciPy's minimiser, and a certificate that is never below."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from privopt.convex import (
    Box,
    L2Ball,
    Logistic,
    Tilted,
    WholeSpace,
    as_features,
    minimise_constrained_model,
)
from privopt.convex.constrained_model import moves_of

N, DIM, REGULARISATION = 60, 4, 0.05
RANDOM = np.random.default_rng(2)
FEATURES = RANDOM.normal(size=(N, DIM)) / 3.0
LABELS = np.where(RANDOM.random(N) < 0.5, 1.0, -1.0)
TILTS = 0.1 * RANDOM.normal(size=(5, DIM))
SMOOTHNESS = REGULARISATION + 0.25 * np.linalg.eigvalsh(FEATURES.T @ FEATURES / N)[-1]


def model(tilts=TILTS):
    lanes = jnp.ones(len(tilts))
    return Tilted(
        Logistic(),
        as_features(FEATURES),
        jnp.asarray(LABELS),
        jnp.full(N, 1.0 / N),
        REGULARISATION * lanes,
        jnp.asarray(tilts),
        jnp.zeros(DIM),
    )


def gradient(point, tilt):
    slopes = -LABELS / (1.0 + np.exp(LABELS * (FEATURES @ point)))
    return slopes @ FEATURES / N + REGULARISATION * point + tilt


def exact(tilt, constraint):
    """By very many plain projected steps."""
    point = np.zeros(DIM)
    for _ in range(3_000):
        point = np.asarray(constraint.project(point - gradient(point, tilt) / SMOOTHNESS))
    return point


def value(point, tilt):
    losses = np.logaddexp(0.0, -LABELS * (FEATURES @ point))
    return losses.mean() + 0.5 * REGULARISATION * point @ point + tilt @ point


@pytest.mark.parametrize("radius", [0.3, 1.0, 100.0])
def test_against_scipy(radius):
    found = jax.jit(minimise_constrained_model)(
        model(),
        L2Ball(radius),
        jnp.zeros(DIM),
        smoothness=jnp.full(5, SMOOTHNESS),
        tolerance=jnp.full(5, 1e-13),
    )
    assert np.all(np.asarray(found.moves) <= 1e-13)
    inside = {"type": "ineq", "fun": lambda w: radius**2 - w @ w}
    for point, tilt in zip(np.asarray(found.points), TILTS, strict=True):
        assert np.linalg.norm(point) <= radius * (1.0 + 1e-15)
        best = optimize.minimize(
            value, 0.1 * point, (tilt,), constraints=[inside], tol=1e-14, method="SLSQP"
        )
        np.testing.assert_allclose(point, best.x, atol=1e-5)
        assert value(point, tilt) <= best.fun + 1e-10


@pytest.mark.parametrize("constraint", [L2Ball(0.5), Box(-0.2, 0.1), WholeSpace()])
def test_moves_are_never_below_the_distance(constraint):
    """Members at random, near and far; the interior, the boundary and its corners."""
    tilt = TILTS[0]
    best = jax.jit(constraint.project)(jnp.asarray(exact(tilt, constraint)))
    near = np.asarray(best) + RANDOM.normal(size=(200, DIM)) * 10.0 ** RANDOM.uniform(
        -6, 1, size=(200, 1)
    )
    points = constraint.project(jnp.asarray(near))
    gradients = jnp.asarray(np.stack([gradient(np.asarray(w), tilt) for w in points]))
    moves = moves_of(constraint, points, gradients, jnp.full(200, SMOOTHNESS))
    distances = np.linalg.norm(np.asarray(points) - np.asarray(best)[None], axis=1)
    assert np.all(REGULARISATION * distances <= np.asarray(moves) * (1 + 1e-9) + 1e-12)
    assert np.any(np.asarray(moves) <= 20.0 * SMOOTHNESS * distances + 1e-12)


def test_a_minimiser_outside_of_the_set_is_not_certified():
    """Where the gradient vanishes but the point is no member, the move back counts."""
    far = exact(TILTS[0], WholeSpace())
    ball = L2Ball(0.5 * float(np.linalg.norm(far)))
    flat = gradient(far, TILTS[0])
    assert np.linalg.norm(flat) <= 1e-10
    moves = moves_of(
        ball, jnp.asarray(far[None]), jnp.asarray(flat[None]), jnp.asarray([SMOOTHNESS])
    )
    assert float(moves[0]) >= 0.4 * SMOOTHNESS * np.linalg.norm(far)


def test_more_coordinates_than_records():
    few = model()._replace(
        features=as_features(FEATURES[:3]), labels=jnp.asarray(LABELS[:3]), weights=jnp.ones(3) / 3
    )
    found = minimise_constrained_model(
        few,
        L2Ball(0.7),
        jnp.zeros(DIM),
        smoothness=jnp.full(5, 2.0),
        tolerance=jnp.full(5, 1e-12),
    )
    assert np.all(np.asarray(found.moves) <= 1e-12)
