"""Tests of problems: rejected arguments, risks in plain NumPy, references of other solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box, Simplex
from jax.tree_util import register_dataclass
from scipy.optimize import linprog, minimize

from privopt import problems
from privopt.convex import L1Ball, L2Ball, WholeSpace
from privopt.mechanisms import clipped_batch_sum
from privopt.problems import Distance, GeneralisedLinear, Huber, Linear, Logistic, Problem
from privopt.spec import ProblemClass

N, DIM = 40, 3
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, DIM))
FEATURES /= np.maximum(1.0, np.linalg.norm(FEATURES, axis=1, keepdims=True))
SIGNS = np.where(RNG.random(N) < 0.5, -1.0, 1.0)
TARGETS = FEATURES @ np.array([0.5, -0.3, 0.2]) + 0.3 * RNG.normal(size=N)


def declared(**changes):
    return ProblemClass(**{"n": N, "dim": DIM, "lipschitz": 1.0, "radius": 2.0, **changes})


LOSSES = {  # labels, and the loss of a prediction
    "logistic": (SIGNS, lambda s, y: np.log1p(np.exp(-y * s))),
    "huber": (
        TARGETS,
        lambda s, y: np.where(abs(s - y) > 0.25, abs(s - y) - 0.125, 2 * (s - y) ** 2),
    ),
    "squared": (TARGETS, lambda s, y: 0.5 * (s - y) ** 2),
    "absolute": (TARGETS, lambda s, y: abs(s - y)),
    "hinge": (SIGNS, lambda s, y: np.maximum(0.0, 1.0 - y * s)),
}


def made(name, **options):
    """A problem by name, on the ball or in a box, and the same mean loss in NumPy."""
    if name == "distance":
        problem = problems.distance(FEATURES, problem_class=declared(), **options)
        return problem, lambda w: np.linalg.norm(w - FEATURES, axis=1).mean()
    labels, loss = LOSSES[name]
    if name in ("absolute", "hinge"):
        facts, given = declared(radius=math.sqrt(DIM)), {"constraint": Box(-1.0, 1.0)}
    else:
        facts, given = declared(smoothness=4.0), {"width": 0.25} if name == "huber" else {}
    make = getattr(problems, name)
    problem = make(FEATURES, labels, problem_class=facts, **(given | options))
    return problem, lambda w: loss(FEATURES @ w, labels).mean()


EVERY = [*LOSSES, "distance"]
every = pytest.mark.parametrize("name", EVERY)


def optimum(name, risk):
    """Return the minimum computed by scipy.

    Kinks use linear programmes, others sequential quadratic programming.
    """
    if name in ("absolute", "hinge"):
        labels = TARGETS if name == "absolute" else SIGNS
        rows = FEATURES if name == "absolute" else SIGNS[:, None] * FEATURES
        sides = [(-1.0, labels if name == "absolute" else np.ones(N))]
        sides += [(1.0, labels)] if name == "absolute" else []
        upper = np.concatenate([np.hstack([sign * rows, -np.eye(N)]) for sign, _ in sides])
        found = linprog(
            np.r_[np.zeros(DIM), np.full(N, 1.0 / N)],
            A_ub=upper,
            b_ub=np.concatenate([sign * right for sign, right in sides]),
            bounds=[(-1.0, 1.0)] * DIM + [(0.0, None)] * N,
        )
        return found.fun
    ball = {"type": "ineq", "fun": lambda w: 4.0 - w @ w}
    found = minimize(
        risk, np.full(DIM, 0.1), method="SLSQP", constraints=[ball], options={"ftol": 1e-13}
    )
    return found.fun


@pytest.mark.cases(2)
@every
def test_excess_risk_is_the_numpy_mean_for_any_leading_axes(name):
    problem, risk = made(name)
    points = np.random.default_rng(1).normal(size=(2, 3, DIM))
    found = problem.excess_risk(points)
    assert found.shape == (2, 3)
    assert found.dtype == np.float64
    expected = np.apply_along_axis(risk, -1, points) - problem.reference.value
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    single = problem.excess_risk(points[1, 2])
    assert isinstance(single, float)
    assert single == pytest.approx(expected[1, 2], rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("points", [1, 31, 32, 33, 70])
def test_no_point_is_lost_where_batches_meet(points):
    problem, risk = made("squared")
    grid = np.linspace(-1.0, 1.0, points * DIM).reshape(points, DIM)
    np.testing.assert_allclose(problem.risk(grid), [risk(w) for w in grid], rtol=1e-13)


@every
def test_reference_is_the_optimum_of_scipy_within_its_certified_gap(name):
    problem, risk = made(name)
    reference, best = problem.reference, optimum(name, risk)
    kinks = name in ("absolute", "hinge", "distance")
    assert 0.0 <= reference.gap <= (1e-6 if kinks else 1e-9) * problem.problem_class.radius
    assert reference.value - reference.gap - 1e-8 <= best
    assert reference.value <= best + reference.gap + 1e-12
    assert reference.value == pytest.approx(risk(reference.minimiser), rel=1e-13)
    assert reference.minimiser.dtype == np.float64
    assert problem.constraint.contains(jnp.asarray(reference.minimiser), 1e-12)
    assert problem.reference is reference


@every
def test_no_member_has_less_risk_than_is_certified(name):
    problem, _ = made(name)
    rng = np.random.default_rng(2)
    reach = problem.problem_class.radius * rng.random((400, 1))
    near = problem.reference.minimiser + 1e-3 * rng.normal(size=(400, DIM))
    far = rng.normal(size=(400, DIM)) * reach
    members = jax.jit(problem.constraint.project)(np.concatenate([near, far]))
    assert np.min(problem.excess_risk(members)) >= -problem.reference.gap


@pytest.mark.parametrize("name", ["logistic", "absolute"])
def test_risk_is_float64_even_where_x64_is_off_and_data_are_float32(name):
    _, risk = made(name)
    points = np.random.default_rng(1).normal(size=(5, DIM))
    labels = (SIGNS if name == "logistic" else TARGETS).astype(np.float32)
    features = FEATURES.astype(np.float32)
    make = getattr(problems, name)
    with jax.enable_x64(False):
        problem = make(features, labels, problem_class=declared(smoothness=None))
        assert problem.objective.dtype == jnp.float32
        found = problem.risk(points)
        excess = problem.excess_risk(jnp.asarray(points[0], jnp.float32))
        gap = problem.reference.gap
    predictions = points @ features.astype(np.float64).T
    labels = labels.astype(np.float64)
    if name == "logistic":
        expected = np.logaddexp(0.0, -labels * predictions).mean(axis=1)
    else:
        expected = np.abs(predictions - labels).mean(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert gap <= 2e-6
    assert excess == pytest.approx(risk(points[0]) - problem.reference.value, abs=1e-6)


@dataclass(frozen=True)
class Weighted:
    """A user-defined loss with a parameter: weighted distance to a target."""

    scale: float

    def __call__(self, w, record):
        weight = record["weight"].astype(w.dtype)
        return self.scale * weight * jnp.sqrt(1.0 + jnp.sum((w - record["target"]) ** 2))


register_dataclass(Weighted)
TRACES = []


@dataclass(frozen=True)
class Counting:
    """Counts how often it is traced; its number is an argument."""

    scale: float

    def __call__(self, w, x):
        TRACES.append(None)
        return self.scale * jnp.sqrt(1.0 + jnp.sum((w - x) ** 2))


@dataclass(frozen=True)
class Flat:
    """Another class with as many numbers."""

    scale: float

    def __call__(self, w, x):
        return self.scale * (x @ w)


register_dataclass(Counting)
register_dataclass(Flat)


@pytest.mark.parametrize("plain", [False, True])
def test_any_jax_function_and_any_pytree_of_records_make_a_problem(plain):
    weights = np.arange(N) % 3
    data = {"target": FEATURES, "weight": weights}
    loss = Weighted(0.5)
    problem = Problem(
        loss=(lambda w, record: loss(w, record)) if plain else loss,
        data=data,
        problem_class=declared(smoothness=1.0),
    )
    problem.check()
    points = np.random.default_rng(1).normal(size=(4, DIM))

    def risk(w):
        return np.mean(0.5 * weights * np.sqrt(1.0 + np.sum((w - FEATURES) ** 2, axis=1)))

    np.testing.assert_allclose(problem.risk(points), [risk(w) for w in points], rtol=1e-13)
    best = minimize(risk, np.zeros(DIM), options={"gtol": 1e-9}).fun
    assert problem.reference.value == pytest.approx(best, abs=1e-8)
    assert problem.provides == {"ball"}


def test_new_numbers_do_not_trace_again():
    found, traces = set(), []
    for scale, radius in ((0.1, 0.2), (0.7, 0.2), (0.7, 0.3)):
        problem = Problem(
            loss=Counting(scale),
            data=FEATURES,
            problem_class=declared(radius=radius, smoothness=1.0),
        )
        found.add((problem.reference.value, problem.risk(np.ones(DIM))))
        traces.append(len(TRACES))
    assert traces[0] == traces[2] > 0
    assert len(found) == 3


def test_programs_of_different_classes_are_told_apart():
    """Equal structures would let one loss or set be given the program compiled for another."""

    def structure(loss, constraint):
        problem = Problem(loss=loss, data=FEATURES, problem_class=declared(), constraint=constraint)
        return jax.tree.structure(problem.objective)

    losses = [Counting(0.5), Flat(0.5), Distance(0.5)]
    sets = [L2Ball(1.0), L1Ball(1.0), Simplex(1.0)]
    for alternatives in (
        [structure(loss, sets[0]) for loss in losses],
        [structure(losses[0], each) for each in sets],
        [jax.tree.structure(GeneralisedLinear(s)) for s in (Linear(), Logistic())],
    ):
        for i, one in enumerate(alternatives):
            assert all(one != other for other in alternatives[:i])


def test_a_loss_that_is_a_pytree_of_one_numpy_array_is_still_a_pytree():
    widths = np.linspace(0.1, 1.0, N)
    problem = Problem(
        loss=GeneralisedLinear(Huber(widths)),
        data=(FEATURES, TARGETS),
        problem_class=declared(smoothness=10.0),
    )
    size = np.abs(FEATURES @ np.ones(DIM) - TARGETS)
    expected = np.where(size > widths, size - widths / 2.0, size**2 / (2.0 * widths)).mean()
    assert problem.risk(np.ones(DIM)) == pytest.approx(expected, rel=1e-13)


def test_a_known_minimiser_is_certified_and_spares_the_solver(monkeypatch):
    """Zero is the spatial median of points and their mirror images, with two records on it."""
    points = np.concatenate([FEATURES[:19], -FEATURES[:19], np.zeros((2, DIM))])
    best = np.linalg.norm(points, axis=1).mean()

    def reference(minimiser, **changes):
        return problems.distance(
            points, problem_class=declared(**changes), minimiser=minimiser
        ).reference

    for wrong in (np.full(DIM, 0.1), np.array([5.0, 0.0, 0.0])):
        solved = reference(wrong)
        assert solved.value == pytest.approx(best, abs=2e-6)
        assert solved.value - solved.gap <= best + 1e-15

    def refuse(*_, **__):
        raise AssertionError("solved for")

    monkeypatch.setattr("privopt.problems.reference.minimise_nonsmooth", refuse)
    known = reference(np.zeros(DIM))
    assert known.value == pytest.approx(best, rel=1e-14)
    assert 0.0 <= known.gap <= 2e-6
    np.testing.assert_array_equal(known.minimiser, np.zeros(DIM))


def test_a_point_outside_the_set_is_no_minimiser():
    """A point outside the set has less risk than every member. It must not become the reference."""
    features = np.tile([1.0, 0.0, 0.0], (N, 1))
    problem = problems.linear(
        features,
        problem_class=declared(smoothness=0.0),
        minimiser=np.array([5.0, 0.0, 0.0]),
    )
    assert problem.reference.value == pytest.approx(-2.0, abs=1e-8)


def test_counts_are_repeated_records():
    counts = np.arange(N) % 4
    counts[0] += N - counts.sum() if counts.sum() < N else 0
    declared_counts = declared(n=int(counts.sum()), smoothness=0.25)
    counted = problems.logistic(FEATURES, SIGNS, problem_class=declared_counts, counts=counts)
    repeated = problems.logistic(
        FEATURES.repeat(counts, 0), SIGNS.repeat(counts), problem_class=declared_counts
    )
    point = np.array([0.4, -1.0, 0.3])
    assert counted.excess_risk(point) == pytest.approx(repeated.excess_risk(point), abs=2e-9)
    assert counted.risk(point) == pytest.approx(repeated.risk(point), rel=1e-13)


def test_the_default_set_is_the_ball_of_the_radius_or_the_whole_space():
    problem, _ = made("logistic")
    assert problem.constraint == L2Ball(2.0)
    free = problems.logistic(FEATURES, SIGNS, problem_class=declared(radius=math.inf))
    assert free.constraint == WholeSpace()


def test_problems_say_what_they_provide():
    assert made("absolute")[0].provides == {"smoothing"}
    assert made("distance")[0].provides == {"smoothing", "ball"}
    assert made("logistic")[0].name == "logistic"


def test_hinge_takes_a_width_and_a_linear_loss_no_labels():
    point = np.array([0.4, -0.3, 0.2])
    smooth = problems.hinge(FEATURES, SIGNS, problem_class=declared(), width=10.0)
    violation = np.maximum(0.0, 1.0 - SIGNS * (FEATURES @ point))
    assert smooth.risk(point) == pytest.approx(np.mean(violation**2 / 20.0))
    linear = problems.linear(FEATURES, problem_class=declared())
    assert linear.risk(point) == pytest.approx(-np.mean(FEATURES @ point))


@pytest.mark.parametrize("name", [*EVERY, "linear"])
def test_dtype_follows_the_features_and_integers_become_floating(name):
    options = {"width": 0.5} if name == "huber" else {}
    for features, dtype in (
        (FEATURES.astype(np.float32), jnp.float32),
        (FEATURES, jnp.float64),
        (np.eye(N, DIM, dtype=int), jnp.float64),
        ([[1, 0, 1]] * N, jnp.float64),
    ):
        labels = [] if name == "distance" else [SIGNS.astype(int)]
        made = getattr(problems, name)(features, *labels, problem_class=declared(), **options)
        assert made.objective.dtype == dtype


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda **c: problems.huber(FEATURES, SIGNS, width=0.0, **c),
            "width must be positive .* 0",
        ),
        (
            lambda **c: problems.huber(FEATURES, SIGNS, width=math.nan, **c),
            "width must be positive",
        ),
        (lambda **c: problems.hinge(FEATURES, SIGNS, width=-1.0, **c), "width must be non-neg"),
        (lambda **c: problems.logistic(FEATURES[:, 0], SIGNS, **c), "features must have 2 axes"),
        (lambda **c: problems.squared(FEATURES, SIGNS[:, None], **c), "labels must have 1 axes"),
        (
            lambda **c: problems.squared(FEATURES[:, :1], SIGNS, **c),
            "features must have shape .*, 3.* by problem_class.dim",
        ),
        (
            lambda **c: problems.absolute(FEATURES, SIGNS[:3], **c),
            r"labels must have shape \(40,\), got \(3,\)",
        ),
        (lambda **c: problems.distance(FEATURES[0], **c), "points must have 2 axes"),
        (lambda **c: problems.distance(FEATURES[:, :1], **c), r"points .* dim = 3\), got \(40, 1"),
    ],
)
def test_widths_and_shapes_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(problem_class=declared())


REFUSED = {
    r"data must hold n = 40 records, got 39": {"data": FEATURES[1:]},
    r"counts must have shape \(40,\), got \(39,\)": {"counts": np.ones(39, int)},
    r"counts must be numeric, got texts": {"counts": np.full(N, "secret")},
    r"data must be numeric, got texts": {"data": np.array(["a"] * N)},
    r"shape must be left out if there is a start": {"shape": (3, 1), "start": np.zeros(3)},
    r"shape must be a tuple of integers of product dim = 3, got an object of type tuple": {
        "shape": (2, 2)
    },
    r"shape must be a tuple of integers of product dim = 3, got an object of type list": {
        "shape": [3]
    },
    r"one leading axis of records, got shapes": {"data": (FEATURES, TARGETS[1:])},
    r"one leading axis of records, got .*\(\)": {"data": (FEATURES, 1.0)},
    r"floating leaves of one dtype, got \['float32', 'float64'\]": {
        "data": (FEATURES, TARGETS.astype(np.float32))
    },
    r"floating leaves of one dtype, got \[\]": {"data": np.ones((N, DIM), int)},
    r"constraint must be within radius 2\.0 .* reaches 2\.1": {"constraint": L2Ball(2.1)},
    r"features must have shape \(records, 3\) by problem_class.dim, got \(40, 2\)": {
        "loss": GeneralisedLinear(Logistic()),
        "data": (FEATURES[:, :2], SIGNS),
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_contradictions_are_refused_by_name_and_value(message):
    arguments = {"loss": Distance(), "data": FEATURES, "problem_class": declared()}
    with pytest.raises(ValueError, match=message):
        Problem(**{**arguments, **REFUSED[message]})


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 2**24), (np.float64, 2**53)])
def test_counts_are_exact_in_their_type_or_refused(dtype, most):
    """The limit follows from the public ``n``.

    Beyond ``2^24`` float32 cannot count one record more.
    """
    rows = np.eye(2, DIM, dtype=dtype)
    for n, refused in ((most, False), (most + 1, True)):
        for given in ({"counts": np.array([n - 1, 1])}, {"probabilities": np.array([0.5, 0.5])}):
            arguments = {"loss": Distance(), "data": rows, "problem_class": declared(n=n), **given}
            if refused:
                message = f"n must be at most {most} if records are counted in {dtype.__name__}"
                with pytest.raises(ValueError, match=message):
                    Problem(**arguments)
            else:
                Problem(**arguments)


def test_the_last_of_so_many_float32_records_is_found():
    n, rows = 2**24, np.eye(2, DIM, dtype=np.float32)
    where = problems.linear(rows, problem_class=declared(n=n), counts=np.array([n - 1, 1]))
    assert int(where.objective.records) == n
    pull = jax.jit(clipped_batch_sum(where.objective, np.float32(1.0)))
    numbers, weights = np.array([n - 2, n - 1], np.int32), np.ones(2, np.float32)
    found = pull(np.zeros(DIM, np.float32), numbers, weights)
    np.testing.assert_array_equal(found, [-1.0, -1.0, 0.0])


def test_norms_have_the_type_of_the_records_wherever_they_are_computed():
    """Regression: without x64, norms of float64 records were those in float32."""
    features, labels = np.array([[0.1, 0.2, 0.7], [np.nan, 1.0, 1.0]]), np.array([1.0, -1.0])
    facts = ProblemClass(n=2, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.25)
    with jax.enable_x64(True):
        problem = problems.logistic(features, labels, problem_class=facts)
        expected = problems.logistic(features, labels, problem_class=facts).source.norms
    with jax.enable_x64(False):
        source = problem.source
    assert source.norms.dtype == source.dtype == np.float64
    np.testing.assert_array_equal(source.norms, expected)


class Unregistered:
    """Scalar loss that JAX takes for one opaque leaf."""

    slope_bound = curvature = 1.0

    def value(self, prediction, label):
        return prediction - label

    def slope(self, prediction, label):
        return jnp.ones_like(prediction)


def test_a_loss_that_is_no_pytree_is_refused_with_the_remedy():
    facts = ProblemClass(n=2, dim=3, lipschitz=1.0, radius=1.0)
    with pytest.raises(ValueError, match=r"pytree of numbers.*Unregistered.*pytree_dataclass"):
        Problem(
            loss=GeneralisedLinear(Unregistered()),
            data=(np.ones((2, 3)), np.ones(2)),
            problem_class=facts,
        )
