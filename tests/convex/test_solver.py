"""The certified solvers against SciPy, linear programmes and closed forms."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box, Simplex
from scipy import optimize
from selection import few

from privopt.convex import L1Ball, L2Ball, WholeSpace, minimise, minimise_nonsmooth
from privopt.convex.solver import Solution

EARLY = [1, 2, 3, 5, 10, 30, 100]


def logistic(w, features, labels):
    margin = labels * (features @ w)
    weight = -labels * jax.nn.sigmoid(-margin) / len(labels)
    return jnp.mean(jax.nn.softplus(-margin)), weight @ features


def ridge(w, features, targets, penalty):
    residual = features @ w - targets
    value = 0.5 * jnp.mean(jnp.square(residual)) + 0.5 * penalty * (w @ w)
    return value, residual @ features / len(targets) + penalty * w


def distance(w, target):
    return 0.5 * ((w - target) @ (w - target)), w - target


def linear(w, slope):
    return slope @ w, slope


def absolute(w, features, targets):
    return jnp.mean(jnp.abs(features @ w - targets))


def smoothed_absolute(w, h, features, targets):
    residual = features @ w - targets
    size, weight = jnp.abs(residual), jnp.clip(residual / h, -1.0, 1.0)
    value = jnp.where(size <= h, jnp.square(residual) / (2.0 * h), size - 0.5 * h)
    return jnp.mean(value), weight @ features / len(targets)


def hinge(w, features, labels):
    return jnp.mean(jnp.maximum(1.0 - labels * (features @ w), 0.0))


def smoothed_hinge(w, h, features, labels):
    shortfall = 1.0 - labels * (features @ w)
    weight = jnp.clip(shortfall / h, 0.0, 1.0)
    value = jnp.where(
        shortfall <= h, jnp.square(jnp.maximum(shortfall, 0.0)) / (2.0 * h), shortfall - 0.5 * h
    )
    return jnp.mean(value), -(weight * labels) @ features / len(labels)


NONSMOOTH = {"absolute": (smoothed_absolute, absolute), "hinge": (smoothed_hinge, hinge)}
POLYTOPES = {"l1": L1Ball(2.0), "box": Box(-0.5, 1.0), "simplex": Simplex(1.5)}


def records(seed: int, n: int = 120, dim: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dim)) / math.sqrt(dim)
    scores = features @ rng.normal(size=dim) * 2.0
    return features, scores + 0.3 * rng.standard_cauchy(n), np.sign(scores + rng.logistic(size=n))


def data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    features, targets, labels = records(seed)
    return features, targets if name == "absolute" else labels


def linear_programme(name: str, constraint, features: np.ndarray, targets: np.ndarray) -> float:
    """``min mean(slack)`` over ``w = p - q`` and the slacks, by HiGHS."""
    n, dim = features.shape
    both, eye = np.hstack([features, -features]), np.eye(n)
    if name == "absolute":
        rows = np.vstack([np.hstack([both, -eye]), np.hstack([-both, -eye])])
        sides = np.concatenate([targets, -targets])
    else:
        rows, sides = np.hstack([-targets[:, None] * both, -eye]), -np.ones(n)
    equal, totals = None, None
    if isinstance(constraint, L1Ball):
        rows = np.vstack([rows, np.concatenate([np.ones(2 * dim), np.zeros(n)])])
        sides, bounds = np.append(sides, constraint.radius), [(0, None)] * 2 * dim
    elif isinstance(constraint, Box):
        bounds = [(constraint.lower, constraint.upper)] * dim + [(0, 0)] * dim
    else:
        equal, totals = [[1.0] * dim + [0.0] * (dim + n)], [constraint.total]
        bounds = [(0, None)] * dim + [(0, 0)] * dim
    cost = np.concatenate([np.zeros(2 * dim), np.full(n, 1.0 / n)])
    bounds = bounds + [(0, None)] * n
    found = optimize.linprog(cost, rows, sides, equal, totals, bounds, method="highs")
    assert found.status == 0
    return found.fun


def on_device(*arrays):
    return tuple(jnp.asarray(array) for array in arrays)


def zeros(dim: int = 7) -> jax.Array:
    return jnp.zeros(dim)


def assert_consistent(solution: Solution, constraint, tolerance: float) -> None:
    assert solution.gap >= 0.0
    assert solution.converged == (solution.gap <= tolerance)
    assert constraint.contains(solution.point, 1e-12)
    assert solution.point.dtype == jnp.float64


@pytest.mark.parametrize("radius", [0.5, 2.0, 50.0])
def test_logistic_on_a_ball_equals_slsqp(radius):
    features, _, labels = records(1)
    rows = on_device(features, labels)
    value_and_slope = jax.jit(logistic)
    found = optimize.minimize(
        lambda w: tuple(map(np.asarray, value_and_slope(w, *rows))),
        np.zeros(7),
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    ball = L2Ball(radius)
    solution = minimise(logistic, ball, zeros(), arguments=rows, tolerance=1e-10)
    assert_consistent(solution, ball, 1e-10)
    assert solution.converged
    assert solution.steps <= 200
    assert solution.value == pytest.approx(found.fun, abs=1e-9)
    np.testing.assert_allclose(solution.point, found.x, atol=1e-4)


def test_strong_convexity_certifies_on_the_whole_space():
    features, targets, _ = records(3)
    penalty = 0.1
    arguments = (*on_device(features, targets), jnp.asarray(penalty))
    gram = features.T @ features / len(targets) + penalty * np.eye(7)
    exact = np.linalg.solve(gram, features.T @ targets / len(targets))
    where = ridge, WholeSpace(), zeros()
    known = {"arguments": arguments, "strong_convexity": penalty}
    solution = minimise(*where, **known, tolerance=1e-10)
    assert solution.converged
    np.testing.assert_allclose(solution.point, exact, atol=1e-4)
    best = float(ridge(jnp.asarray(exact), *arguments)[0])
    for steps in EARLY:
        early = minimise(*where, **known, tolerance=1e-14, max_steps=steps)
        assert early.steps <= steps
        assert early.value - best <= early.gap < math.inf
    without = minimise(*where, arguments=arguments, tolerance=1e-10)
    assert (without.gap, without.converged) == (math.inf, False)
    assert without.value <= best + 1e-12


@pytest.mark.cases(2)
@pytest.mark.parametrize("constraint", POLYTOPES.values(), ids=POLYTOPES)
@pytest.mark.parametrize("name", NONSMOOTH)
@pytest.mark.parametrize("seed", few([4, 5], [4]))
def test_nonsmooth_losses_equal_the_linear_programme(name, constraint, seed):
    features, targets = data(name, seed)
    best = linear_programme(name, constraint, features, targets)
    options = {"arguments": on_device(features, targets), "tolerance": 1e-7}
    given = *NONSMOOTH[name], constraint, zeros()
    solution = minimise_nonsmooth(*given, **options)
    assert_consistent(solution, constraint, 1e-7)
    assert solution.converged
    assert -1e-9 <= solution.value - best <= solution.gap + 1e-9
    for steps in EARLY:
        early = minimise_nonsmooth(*given, **options, max_steps=steps)
        assert_consistent(early, constraint, 1e-7)
        assert early.steps <= steps
        assert early.value - best <= early.gap + 1e-9
        value = float(NONSMOOTH[name][1](early.point, *options["arguments"]))
        assert early.value == pytest.approx(value, rel=1e-14)


@pytest.mark.cases(3)
@pytest.mark.parametrize("steps", EARLY)
def test_the_smooth_certificate_is_true_when_stopped_early(steps):
    features, _, labels = records(6)
    rows = on_device(features, labels)
    for constraint in (L2Ball(0.3), L2Ball(30.0), L2Ball(1.0, 2.0), *POLYTOPES.values()):
        options = {"arguments": rows, "tolerance": 1e-11}
        best = minimise(logistic, constraint, zeros(), **options)
        assert best.converged
        early = minimise(logistic, constraint, zeros(), **options, max_steps=steps)
        assert_consistent(early, constraint, 1e-11)
        assert early.value - (best.value - best.gap) <= early.gap + 1e-11


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e4])
def test_round_off_is_allowed_for(radius):
    """The distance to a ball, at tolerances near machine precision, against long doubles."""
    rng, dim = np.random.default_rng(7), 30
    for size in 10.0 ** rng.uniform(-0.3, 3.0, size=30):
        target = rng.normal(size=dim)
        target *= radius * size / np.linalg.norm(target)
        long = target.astype(np.longdouble)
        exact = 0.5 * max(np.sqrt(long @ long) - np.longdouble(radius), 0.0) ** 2
        start, tolerance = jnp.asarray(0.1 * target[::-1]), 1e-13 * (radius * size) ** 2
        options = {"arguments": on_device(target), "tolerance": tolerance, "max_steps": 300}
        solution = minimise(distance, L2Ball(radius), start, **options)
        found = solution.point.__array__().astype(np.longdouble)
        value = 0.5 * (found - long) @ (found - long)
        assert value - exact <= solution.gap
        assert solution.converged


@pytest.mark.parametrize("radius", [1e-4, 1.0, 1e6])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_linear_objective_reaches_the_boundary_at_once(radius, size):
    slope = size * jnp.arange(1.0, 8.0)
    ball, tolerance = L2Ball(radius), 1e-10 * radius * size
    solution = minimise(linear, ball, zeros(), arguments=(slope,), tolerance=tolerance)
    assert solution.converged
    assert solution.steps <= 5
    assert solution.value == pytest.approx(-radius * float(jnp.linalg.norm(slope)), rel=1e-12)
    corner = minimise(linear, L1Ball(radius), zeros(), arguments=(slope,), tolerance=tolerance)
    assert corner.steps <= 10
    assert corner.value == pytest.approx(-7.0 * size * radius, rel=1e-12)


def test_an_inverse_step_size_may_overflow():
    """A step of length zero has the value of its point, and the gap is true."""
    slope, value = 1e300 * jnp.ones(1), 5.0
    solution = minimise(
        lambda w, slope: (value + slope @ w, slope), L2Ball(1e-300), jnp.zeros(1),
        arguments=(slope,), tolerance=1e-9, max_steps=3,
    )  # fmt: skip
    assert solution.value == pytest.approx(value + 1e300 * float(solution.point[0]), rel=1e-12)
    assert solution.value - solution.gap <= value - 1.0


def test_degenerate_starts():
    target = jnp.asarray([0.3, 0.4])
    there = minimise(distance, L2Ball(1.0), target, arguments=(target,), tolerance=1e-12)
    assert there.converged
    assert there.value == 0.0
    flat = minimise(linear, WholeSpace(), target, arguments=(0.0 * target,), tolerance=1e-12)
    assert flat.converged
    assert np.array_equal(flat.point, target)
    far = {"arguments": (2.0 * target,), "tolerance": 1e-12}
    outside = minimise(distance, L2Ball(1.0), 9.0 * target, **far)
    assert outside.converged
    assert L2Ball(1.0).contains(outside.point, 1e-12)
    lone = minimise(linear, Simplex(2.0), jnp.zeros(1), arguments=(jnp.ones(1),), tolerance=1e-9)
    assert (lone.value, lone.converged) == (2.0, True)


def test_a_kink_leaves_the_smooth_solver_honest():
    def kink(w, centre):
        return jnp.sum(jnp.abs(w - centre)), jnp.sign(w - centre)

    centre = jnp.asarray([0.1, -0.2, 0.05])
    options = {"arguments": (centre,), "tolerance": 1e-9, "max_steps": 50}
    solution = minimise(kink, L2Ball(1.0), jnp.ones(3), **options)
    assert solution.value <= solution.gap
    assert not solution.converged


def test_a_broken_objective_certifies_nothing():
    def broken(w):
        return jnp.nan * jnp.sum(w), jnp.nan * w

    solution = minimise(broken, L2Ball(1.0), zeros(), tolerance=1e-3)
    assert (solution.gap, solution.converged) == (math.inf, False)


def test_every_evaluation_lies_in_the_set():
    seen = []

    def watched(w, target):
        jax.debug.callback(lambda point: seen.append(np.asarray(point)), w)
        value, slope = distance(w * jnp.arange(1.0, 8.0), target)
        return value, jnp.arange(1.0, 8.0) * slope

    minimise(watched, Simplex(), zeros(), arguments=(jnp.linspace(-1, 3, 7),), tolerance=1e-9)
    jax.effects_barrier()
    assert len(seen) > 10
    assert np.all(Simplex().contains(jnp.asarray(np.stack(seen)), 1e-12))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be positive and finite, got 0.0"),
        ({"max_steps": 0}, "max_steps must be a positive integer, got 0"),
        ({"strong_convexity": -1.0}, "strong_convexity must be non-negative and finite, got -1.0"),
        ({"start": jnp.zeros(2, jnp.float32)}, "start must be a float64 vector .* got float32"),
        ({"start": jnp.zeros((2, 2))}, r"start must be a float64 vector .* of shape \(2, 2\)"),
        ({"start": 0.0}, "start must be a float64 vector .* got float of shape"),
    ],
)
def test_bad_arguments_are_refused(changes, message):
    start = changes.get("start", jnp.zeros(2))
    options = {"arguments": (jnp.ones(2),), "tolerance": 1e-3, **changes}
    options.pop("start", None)
    with pytest.raises(ValueError, match=message):
        minimise(distance, L2Ball(1.0), start, **options)


def test_width_must_be_positive():
    with pytest.raises(ValueError, match="width must be positive and finite"):
        minimise_nonsmooth(smoothed_hinge, hinge, L2Ball(1.0), zeros(), tolerance=1e-3, width=-1.0)


def test_x64_is_required():
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"jax\.enable_x64\(True\)"):
        minimise(distance, L2Ball(1.0), np.zeros(2), arguments=(np.ones(2),), tolerance=1e-3)
