"""Minimisers of regularised GLMs against naive twins, SciPy and longer arithmetic."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from privopt.convex import (
    Hinge,
    Huber,
    Linear,
    Logistic,
    RegularisedGLM,
    Squared,
    glm_newton,
    minimise_glm,
    pytree_dataclass,
)
from privopt.convex import glm_solver as module

TOLERANCE = 1e-10
TRACES = []
LOSSES = [Logistic(), Huber(0.1), Huber(1e-3), Hinge(1e-3)]


@pytree_dataclass
@dataclass(frozen=True)
class Counted:
    """The logistic loss, which notes when it is traced."""

    def value(self, prediction, label):
        return Logistic().value(prediction, label)

    def slope(self, prediction, label):
        TRACES.append("slope")
        return Logistic().slope(prediction, label)


def records(seed=0, n=150, dim=6, decay=0.0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dim)) * np.arange(1.0, dim + 1.0) ** -decay
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.sign(3.0 * features @ rng.normal(size=dim) + rng.logistic(size=n))
    return features, labels


def some_linear_terms(k, dim, size=0.05, seed=1):
    linear_terms = np.random.default_rng(seed).normal(size=(k, dim))
    return size * linear_terms / np.linalg.norm(linear_terms, axis=1, keepdims=True)


def solve(loss, features, labels, regularisation, linear_terms=None, **more):
    given_ = {name: more.pop(name) for name in ("counts", "divisor", "centre") if name in more}
    glm = RegularisedGLM.of(
        loss,
        features,
        labels,
        regularisation=regularisation,
        linear_terms=linear_terms,
        **given_,
    )
    return minimise_glm(glm, **{"smoothness": loss.curvature, **more})


def long_slope(loss, z, y):
    """The slopes once more, in extended precision."""
    match loss:
        case Logistic():
            return -y / (1 + np.exp(y * z))
        case Squared():
            return (z - y) / (1 + np.longdouble(loss.width))
        case Huber():
            return np.clip((z - y) / np.longdouble(loss.width), -1, 1)
        case Hinge():
            return -y * np.clip((1 - y * z) / np.longdouble(loss.width), 0, 1)


def long_norm(loss, features, labels, regularisation, point, term=0.0, counts=1.0, centre=0.0):
    x, y, w, b, m, c, penalty = (
        np.asarray(each, np.longdouble)
        for each in (features, labels, point, term, counts, centre, regularisation)
    )
    slopes = m * long_slope(loss, x @ w, y)
    return float(np.linalg.norm(slopes @ x / len(y) + penalty * (w - c) + b))


def naive_newton(features, labels, regularisation, term, steps=100):
    """Damped Newton for the logistic loss, written out."""
    n, dim = features.shape
    w = np.zeros(dim)

    def value(w):
        margins = labels * (features @ w)
        return np.mean(np.logaddexp(0.0, -margins)) + 0.5 * regularisation * w @ w + term @ w

    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(labels * (features @ w)))
        gradient = -(labels * p) @ features / n + regularisation * w + term
        hessian = features.T @ np.diag(p * (1 - p)) @ features / n + regularisation * np.eye(dim)
        move, length = np.linalg.solve(hessian, -gradient), 1.0
        while value(w + length * move) > value(w) + 1e-15 and length > 1e-3:
            length *= 0.5
        w = w + length * move
    return w


@pytest.mark.parametrize("regularisation", [1e-1, 1e-3, 1e-5])
def test_the_point_of_a_naive_newton_method(regularisation):
    features, labels = records()
    linear_terms = some_linear_terms(3, 6)
    found = solve(Logistic(), features, labels, regularisation, linear_terms)
    for point, term in zip(found.points, linear_terms, strict=True):
        twin = naive_newton(features, labels, regularisation, term)
        assert np.linalg.norm(point - twin) <= 2.0 * TOLERANCE / regularisation + 1e-12


@pytest.mark.parametrize("method", ["trust-exact", "L-BFGS-B"])
def test_no_point_of_scipy_is_lower(method):
    features, labels = records(2)
    term = some_linear_terms(1, 6)[0]
    x, y = jnp.asarray(features), jnp.asarray(labels)

    @jax.jit
    def value(w):
        losses = Logistic().value(x @ w, y)
        return jnp.mean(losses) + 0.5e-2 * (w @ w) + jnp.asarray(term) @ w

    options = {"gtol": 1e-9} if method == "trust-exact" else {"gtol": 1e-9, "ftol": 0.0}
    hessian = {"hess": jax.jit(jax.hessian(value))} if method == "trust-exact" else {}
    theirs = optimize.minimize(
        value, np.zeros(6), jac=jax.jit(jax.grad(value)), method=method, options=options, **hessian
    )
    ours = solve(Logistic(), features, labels, 1e-2, term[None]).points[0]
    assert value(ours) <= theirs.fun + 1e-14
    assert np.linalg.norm(ours - theirs.x) <= 1e-5


@pytest.mark.parametrize(
    ("loss", "shape", "regularisation"),
    [(loss, (150, 6), 1e-4) for loss in LOSSES]
    + [(loss, (12, 20), np.geomspace(1e-4, 1e-1, 3)) for loss in LOSSES[:3]],
    ids=str,
)
def test_the_certificate_in_longer_arithmetic(loss, shape, regularisation):
    features, labels = records(3, *shape)
    linear_terms, lambdas = some_linear_terms(3, shape[1]), np.broadcast_to(regularisation, 3)
    found = solve(loss, features, labels, regularisation, linear_terms)
    assert np.all(found.residuals <= TOLERANCE)
    for k in range(3):
        true = long_norm(loss, features, labels, lambdas[k], found.points[k], linear_terms[k])
        told = loss.curvature * np.linalg.norm(found.points[k]) * 2.0**-52  # apart, at best
        assert abs(true - found.residuals[k]) <= 1e-12 + told


def test_the_certificate_far_from_where_it_began():
    """Predictions that were moved over a long way are not what a certificate is read from."""
    features, labels = records(3)
    found = solve(Logistic(), features, labels, 0.3, start=1e8 * np.ones(6))
    true = long_norm(Logistic(), features, labels, 0.3, found.points[0])
    assert true <= 1.01 * TOLERANCE
    assert abs(true - found.residuals[0]) <= 1e-14


@pytest.mark.parametrize("dim", [1, 3])
def test_a_single_record(dim):
    features, labels = records(3, 1, dim)
    found = solve(Logistic(), features, labels, 1e-3)
    assert long_norm(Logistic(), features, labels, 1e-3, found.points[0]) <= 1.01 * TOLERANCE


def test_ten_thousand_records_in_longer_arithmetic():
    features, labels = records(4, 10_000, 20, decay=1.0)
    for regularisation in (1e-2, 1e-3, 1e-5):
        found = solve(Logistic(), features, labels, regularisation, tolerance=1e-12)
        true = long_norm(Logistic(), features, labels, regularisation, found.points[0])
        assert true <= 1.1e-12
        assert abs(true - found.residuals[0]) <= 1e-14
        assert found.steps[0] <= 40


def test_together_as_one_by_one():
    features, labels = records(5)
    linear_terms, lambdas = some_linear_terms(3, 6), np.geomspace(1e-4, 1e-1, 3)
    together = solve(Logistic(), features, labels, lambdas, linear_terms)
    for k in range(3):
        alone = solve(Logistic(), features, labels, lambdas[k], linear_terms[k : k + 1])
        distance = np.linalg.norm(together.points[k] - alone.points[0])
        assert distance <= 2.0 * TOLERANCE / lambdas[k]


def test_counts_centre_divisor_and_start():
    features, labels = records(6)
    counts = np.random.default_rng(0).integers(0, 2, 150).astype(float)
    centre = np.array([1.0, -2.0, 0.5, 0.0, 0.0, 3.0])
    given_ = {"counts": counts, "centre": centre, "divisor": 200.0}
    found = solve(Logistic(), features, labels, 1e-2, **given_)
    scaled = counts * 150.0 / 200.0
    norm = long_norm(
        Logistic(), features, labels, 1e-2, found.points[0], counts=scaled, centre=centre
    )
    assert norm <= 1.01 * TOLERANCE
    other = np.where(counts > 0.0, labels, -labels)  # of null records
    nulls = solve(Logistic(), features, other, 1e-2, **given_)
    moved = solve(Logistic(), features, labels, 1e-2, **given_, start=100.0 * np.ones(6))
    for again in (nulls, moved):
        assert np.linalg.norm(found.points - again.points) <= 2.0 * TOLERANCE / 1e-2


def test_squared_loss_in_closed_form():
    features, labels = records(7, 50, 80)
    term, centre = some_linear_terms(1, 80), np.full(80, 0.1)
    found = solve(Squared(), features, labels, 1e-3, term, centre=centre)
    matrix = features.T @ features / 50 + 1e-3 * np.eye(80)
    exact = np.linalg.solve(matrix, features.T @ labels / 50 + 1e-3 * centre - term[0])
    assert np.linalg.norm(found.points[0] - exact) <= 1.01e-10 / 1e-3


def test_linear_loss_needs_the_regulariser_alone():
    features, labels = records(8)
    found = solve(Linear(), features, labels, 0.5)
    assert np.allclose(found.points[0], labels @ features / (0.5 * 150), atol=2e-10, rtol=0)


DEGENERATE = {
    "duplicated features": lambda x, y: (np.hstack([x[:, :3]] * 2) / 2.0, y),
    "zero features": lambda x, y: (0.0 * x, y),
    "equal labels": lambda x, y: (x, np.ones_like(y)),
    "equal records": lambda x, y: (np.tile(x[:1], (len(x), 1)), y),
    "separable": lambda x, y: (x, np.sign(x[:, 0])),
    "small features": lambda x, y: (1e-6 * x, y),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("regularisation", [1e-8, 1e-3, 1e6])
@pytest.mark.parametrize("loss", [Logistic(), Hinge(0.1)], ids=str)
def test_degenerate_data(name, regularisation, loss):
    features, labels = DEGENERATE[name](*records(9))
    found = solve(loss, features, labels, regularisation)
    assert found.residuals[0] <= TOLERANCE
    true = long_norm(loss, features, labels, regularisation, found.points[0])
    assert true <= 1.01 * TOLERANCE


def test_huge_linear_terms():
    features, labels = records(10)
    linear_terms = some_linear_terms(3, 6, size=1e3)
    found = solve(Logistic(), features, labels, 1e-2, linear_terms)
    assert np.all(found.residuals <= TOLERANCE)


@given(
    seed=st.integers(0, 10**6),
    power=st.floats(-5.0, 2.0),
    term=st.floats(-6.0, 1.0),
    decay=st.floats(0.0, 3.0),
    loss=st.sampled_from([Logistic(), Huber(0.1), Huber(1e-3)]),
    scale=st.floats(-4.0, 0.0),
    shape=st.just((150, 6)),
)
@settings(max_examples=60)
def test_the_tolerance_is_always_reached(seed, power, term, decay, loss, scale, shape):
    features, labels = records(seed, *shape, decay=decay)
    features = 10.0**scale * features
    linear_terms = some_linear_terms(3, shape[1], size=10.0**term, seed=seed)
    found = solve(loss, features, labels, 10.0**power, linear_terms)
    size = np.linalg.norm(found.points, axis=1)
    floor = 2.0**-46 * loss.curvature * size  # what float64 can tell apart
    assert np.all(found.residuals <= np.maximum(TOLERANCE, floor))


@pytest.mark.parametrize("loss", [Logistic(), Huber(1e-2)], ids=str)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-7])
def test_the_gradient_bounds_the_distance(loss, tolerance):
    features, labels = records(11)
    linear_terms = some_linear_terms(3, 6)
    coarse = solve(loss, features, labels, 1e-3, linear_terms, tolerance=tolerance)
    fine = solve(loss, features, labels, 1e-3, linear_terms, tolerance=1e-13)
    distance = np.linalg.norm(coarse.points - fine.points, axis=1)
    assert np.all(coarse.residuals <= tolerance)
    assert np.all(distance <= coarse.residuals / 1e-3 + 1e-9)
    assert distance.max() > 0.0


@pytest.mark.parametrize("loss", [Logistic(), Hinge(0.1)], ids=str)
def test_accelerated_descent_alone_keeps_the_promise(loss, monkeypatch):
    """What the proof rests on, without the Newton steps before it."""
    monkeypatch.setattr(glm_newton, "MAX_ROUNDS", 0)
    for name in ("_quick", "_thorough"):  # not the programs that other tests compiled
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    features, labels = records(12)
    found = solve(loss, features, labels, 1e-3)
    assert found.residuals[0] <= TOLERANCE
    kappa = 1.0 + loss.curvature / 1e-3
    start = long_norm(loss, features, labels, 1e-3, np.zeros(6))
    bound = 2.0 * math.sqrt(kappa) * math.log(math.sqrt(2.0 * kappa) * start / TOLERANCE)
    assert found.steps[0] == math.ceil(bound)


def test_one_trace_for_new_numbers():
    features, labels = records(13)

    def with_numbers(regularisation, seed, tolerance, smoothness):
        terms = some_linear_terms(2, 6, seed=seed)
        glm = RegularisedGLM.of(
            Counted(), features, labels, regularisation=regularisation, linear_terms=terms
        )
        return minimise_glm(glm, smoothness=smoothness, tolerance=tolerance)

    TRACES.clear()
    with_numbers(1e-2, 1, 1e-10, 0.25)
    traced = len(TRACES)
    with_numbers(1e-3, 2, 1e-8, 0.3)
    assert len(TRACES) == traced > 0


def test_inside_jit_and_vmap():
    features, labels = (jnp.asarray(each) for each in records(14))
    linear_terms = jnp.asarray(some_linear_terms(3, 6))

    @jax.jit
    def many(linear_terms, lambdas):
        def one(term, regularisation):
            return solve(Logistic(), features, labels, regularisation, term[None]).points[0]

        return jax.vmap(one)(linear_terms, lambdas)

    lambdas = jnp.array([1e-1, 1e-2, 1e-4])
    together = solve(Logistic(), features, labels, lambdas, linear_terms).points
    distance = np.linalg.norm(many(linear_terms, lambdas) - together, axis=1)
    assert np.all(distance <= 2.0 * TOLERANCE / lambdas)


def test_numbers_that_are_not_finite_end():
    features, labels = records(15)
    features[3, 2] = np.nan
    assert np.isnan(solve(Logistic(), features, labels, 1e-2).residuals[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regularisation": 0.0}, r"regularisation must be positive and finite, got 0\.0"),
        ({"regularisation": np.array([0.1, -1.0])}, "regularisation must be positive"),
        ({"regularisation": np.ones((1, 1))}, "regularisation must be a number or a vector"),
        ({"smoothness": None}, "smoothness must be non-negative and finite, got None"),
        ({"smoothness": math.inf}, "smoothness must be non-negative and finite, got inf"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"divisor": -5.0}, "divisor must be positive"),
        ({"feature_bound": math.nan}, "feature_bound must be positive"),
        ({"linear_terms": np.ones((2, 5))}, r"linear_terms must have shape \(k, 6\)"),
        (
            {"linear_terms": np.ones((2, 6)), "regularisation": np.ones(3)},
            "linear_terms must have shape",
        ),
        ({"labels": np.ones(7)}, r"labels must have shape \(150,\), got shape \(7,\)"),
        ({"counts": np.ones(7)}, "counts must have shape"),
        ({"centre": np.ones(7)}, "centre must have shape"),
        ({"start": np.ones((1, 6))}, "start must have shape"),
        ({"features": np.ones(6)}, "features must have 2 axes"),
        ({"features": np.ones((0, 6))}, "features must have 2 axes"),
    ],
)
def test_refusals_on_the_host(change, message):
    features, labels = records()
    given_ = {"features": features, "labels": labels, "regularisation": 0.1, "smoothness": 0.25}
    given_ |= change
    with pytest.raises(ValueError, match=message):
        solve(Logistic(), **given_)


def test_x64_must_be_on():
    with jax.enable_x64(False), pytest.raises(ValueError, match="x64 must be on"):
        solve(Logistic(), *records(), 0.1)
