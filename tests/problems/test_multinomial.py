"""Matrix parameters: multinomial regression, its constants, its optimum, its runs."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import privopt
from privopt import problems
from privopt.convex import L1Ball
from privopt.problems import Multinomial, Problem

N, CLASSES, WIDTH = 30, 3, 2
SHAPE, DIM = (CLASSES, WIDTH), CLASSES * WIDTH
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, WIDTH))
FEATURES /= np.maximum(1.0, np.linalg.norm(FEATURES, axis=1, keepdims=True))
LABELS = np.argmax(FEATURES @ RNG.normal(size=(WIDTH, CLASSES)) + RNG.gumbel(size=(N, 3)), axis=1)
RADIUS = 2.0
BUDGET = privopt.Budget(epsilon=2.0, delta=1e-5, relation="replace_one")


def declared(**changes):
    facts = {"lipschitz": math.sqrt(2.0), "radius": RADIUS, "smoothness": 0.5}
    return privopt.ProblemClass(**{"n": N, "dim": DIM, **facts, **changes})


def made(features=FEATURES, labels=LABELS, **options):
    options = {"problem_class": declared(), "classes": range(CLASSES), **options}
    return problems.multinomial(features, labels, **options)


PROBLEM = made()


def risk(matrix):
    """Minus the mean log-likelihood, in plain NumPy."""
    scores = FEATURES @ np.reshape(matrix, SHAPE).T
    likelihood = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return -np.log(likelihood[np.arange(N), LABELS]).mean()


def test_it_is_the_textbook_loss_at_any_leading_axes():
    points = np.random.default_rng(1).normal(size=(2, 4, *SHAPE))
    expected = [[risk(matrix) for matrix in row] for row in points]
    np.testing.assert_allclose(PROBLEM.risk(points), expected, rtol=1e-13)
    assert PROBLEM.risk(points[0, 1]) == pytest.approx(expected[0][1], rel=1e-13)
    assert PROBLEM.name == "multinomial"


def test_two_classes_are_logistic_regression_on_the_difference_of_the_rows():
    two = problems.multinomial(
        FEATURES, (LABELS > 0).astype(int), classes=(0, 1), problem_class=declared(dim=2 * WIDTH)
    )
    signs = np.where(LABELS > 0, 1.0, -1.0)
    one = problems.logistic(FEATURES, signs, problem_class=declared(dim=WIDTH))
    matrix = np.array([[0.4, -1.0], [-0.3, 0.2]])
    assert two.risk(matrix) == pytest.approx(one.risk(matrix[1] - matrix[0]), rel=1e-13)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (LABELS + 1, (1, 2, 3)),
        (np.array(["a", "b", "c"])[LABELS], ("a", "b", "c")),
        ((LABELS + 1).astype(float), range(1, 4)),
        ([2**70 + int(label) for label in LABELS], (2**70, 2**70 + 1, 2**70 + 2)),
    ],
)
def test_labels_are_read_as_declared(labels, classes):
    """Labels 1..K once made the last class null, and every other class used the next row."""
    point = np.random.default_rng(5).normal(size=SHAPE)
    assert made(labels=labels, classes=classes).risk(point) == PROBLEM.risk(point)


@pytest.mark.cases(2)
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_its_constants_are_true_and_attained(classes):
    """``sqrt(2) |x|`` where another class takes all, ``|x|^2/2`` where two share."""
    loss, rng = Multinomial(classes), np.random.default_rng(2)
    record = np.array([1.5, -2.0, 0.5]), np.array(1.0)
    length = float(np.linalg.norm(record[0]))
    found = rng.normal(size=(200, classes, 3)) * rng.uniform(0, 9, (200, 1, 1))
    steep = np.zeros((classes, 3))
    steep[0], steep[1] = 20.0 * record[0], -20.0 * record[0]
    flat = np.zeros((classes, 3))
    flat[2:] = -20.0 * record[0]  # all but two classes out of the way
    points = np.concatenate([found, [steep, flat]])

    @jax.jit
    @jax.vmap
    def derivatives(point):
        return tuple(of(lambda w: loss(w, record))(point) for of in (jax.grad, jax.hessian))

    gradients, hessians = derivatives(points)
    steepness = np.linalg.norm(np.asarray(gradients), axis=(1, 2))
    size = classes * 3
    curvatures = np.linalg.eigvalsh(np.asarray(hessians).reshape(-1, size, size)).max(axis=1)
    assert steepness.max() <= math.sqrt(2.0) * length * (1.0 + 1e-12)
    assert steepness.max() >= math.sqrt(2.0) * length * (1.0 - 1e-9)
    assert curvatures.max() <= 0.5 * length**2 * (1.0 + 1e-12)
    assert curvatures.max() >= 0.5 * length**2 * (1.0 - 1e-9)


def test_the_reference_is_the_optimum_of_scipy_over_the_frobenius_ball():
    ball = {"type": "ineq", "fun": lambda w: RADIUS**2 - w @ w}
    best = minimize(risk, np.full(DIM, 0.1), method="SLSQP", constraints=[ball],
                    options={"ftol": 1e-13})  # fmt: skip
    reference = PROBLEM.reference
    assert reference.minimiser.shape == SHAPE
    assert np.linalg.norm(reference.minimiser) == pytest.approx(RADIUS, rel=1e-9)  # it binds
    assert reference.value == pytest.approx(best.fun, abs=1e-8)
    assert 0.0 <= reference.gap <= 1e-9 * math.sqrt(2.0) * RADIUS
    assert PROBLEM.excess_risk(reference.minimiser) == pytest.approx(0.0, abs=1e-15)
    known = made(minimiser=reference.minimiser).reference
    np.testing.assert_allclose(known.minimiser, reference.minimiser, rtol=1e-14)


def test_other_sets_take_the_numbers_of_the_matrix_as_one_vector():
    reference = made(constraint=L1Ball(1.0)).reference
    assert np.abs(reference.minimiser).sum() == pytest.approx(1.0, rel=1e-9)
    assert reference.gap <= 1e-9 * math.sqrt(2.0) * RADIUS


CHOICES = {
    "dp_gd": {"steps": 8, "record": 3},
    "dp_sgd": {"steps": 8, "batch_size": 10},
    "dp_svrg": {"steps": 8, "batch_size": 10, "difference_clip": 0.5},
    "dp_ftrl": {"batch_size": 10},
    "output_perturbation": {"regularisation": 0.3},
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", CHOICES)
def test_methods_release_matrices(name):
    plan = privopt.ALGORITHMS[name].plan(PROBLEM.problem_class, BUDGET, **CHOICES[name])
    keys = jax.random.split(jax.random.key(0), 2)
    several = privopt.run_many([plan], PROBLEM, keys)
    assert several.released.shape == (1, 2, *SHAPE)
    assert np.all(np.linalg.norm(several.released, axis=(-2, -1)) <= RADIUS * (1.0 + 1e-12))
    assert np.all(PROBLEM.excess_risk(several.released) >= -PROBLEM.reference.gap)
    if several.path is not None:
        assert several.path.points.shape == (1, 2, 3, *SHAPE)
    if name == "dp_gd":
        one = privopt.run(plan, PROBLEM, keys[1])
        np.testing.assert_allclose(one.released, several.released[0, 1], rtol=1e-12)


def test_a_matrix_is_its_vector_to_every_method():
    """A loss of ``dim`` numbers, written without a matrix, gives the same run."""
    plan = privopt.dp_gd(PROBLEM.problem_class, BUDGET, steps=8)
    loss = Multinomial(CLASSES)
    flat = Problem(
        loss=lambda w, example: loss(w.reshape(SHAPE), example),
        data=(FEATURES, LABELS.astype(float)),
        problem_class=PROBLEM.problem_class,
    )
    key = jax.random.key(3)
    vector, matrix = (privopt.run(plan, which, key).released for which in (flat, PROBLEM))
    np.testing.assert_allclose(matrix, vector.reshape(SHAPE), rtol=1e-12)


def test_labels_that_are_no_class_say_nothing_and_the_check_tells():
    labels = np.where(np.arange(N) < 4, [-1.0, 3.0, 0.5, math.nan, *[0.0] * (N - 4)], LABELS)
    strange, kept = made(labels=labels), np.arange(N) >= 4
    expected = made(FEATURES[4:], LABELS[4:], problem_class=declared(n=N - 4))
    point = np.random.default_rng(3).normal(size=SHAPE)
    assert strange.risk(point) == pytest.approx(expected.risk(point) * kept.mean(), rel=1e-12)
    made().check()
    with pytest.raises(ValueError, match=r"from 0 to 2, got -1\.0 in record 0 \(4 of 30 records\)"):
        strange.check()


def test_features_too_long_for_the_class_are_shortened():
    kept = made(4.0 * FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)).objective.data[0]
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 3}, "classes must be a sequence .* of type int"),
        ({"classes": range(1)}, "classes must be 2 or more distinct values, got .* length 1"),
        ({"classes": (0, 1, 1)}, "classes must be 2 or more distinct values, got .* length 3"),
        (
            {"classes": range(2)},
            r"features must have shape \(records, dim / classes = 6 / 2\), got",
        ),
        ({"labels": LABELS[1:]}, r"one leading axis of records, got shapes \[\(30, 2\), \(29,\)\]"),
        ({"labels": LABELS[:, None]}, r"labels must have 1 axes, got shape \(30, 1\)"),
        (
            {"labels": LABELS.astype(str)},
            "labels must hold numbers, as its public values are, got texts",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        made(**changes)
    with pytest.raises(ValueError, match=r"point must have shape \(\.\.\., 3, 2\), got \(6,\)"):
        PROBLEM.risk(np.zeros(DIM))
