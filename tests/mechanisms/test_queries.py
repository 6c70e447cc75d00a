"""Sensitivities against a search over neighbouring data, the solver's error against scipy."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from selection import few

from privopt.convex import L2Ball, Separable, Sine, SparseFeatures, WholeSpace
from privopt.mechanisms import ClippedGradient, RegularisedMinimiser, clipped_gradient_sum
from privopt.problems import (
    Distance,
    EmpiricalRisk,
    GeneralisedLinear,
    Linear,
    Logistic,
    RegularisedDistance,
    SquaredDistance,
)
from privopt.spec import ProblemClass, Relation

N, DIM = 8, 3
REPLACE, ADD, ZERO = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT
relations = pytest.mark.parametrize("relation", list(Relation))
CURVATURES = np.array([0.5, 2.0, 8.0])


def quadratic(w, x):
    """Strongly convex by record: ``(w - x)^T diag(0.5, 2, 8) (w - x) / 2``."""
    return 0.5 * jnp.sum(jnp.asarray(CURVATURES) * (w - x) ** 2)


class Setting(NamedTuple):
    """A class of problems, how to draw a record of it, and its loss."""

    problem_class: ProblemClass
    loss: Any
    linear: bool
    smoothing: float = 0.0
    regularisation: float = 0.2


def problem_class(radius=2.0, lipschitz=1.0, **constants):
    return ProblemClass(n=N, dim=DIM, lipschitz=lipschitz, radius=radius, **constants)


SETTINGS = {
    "linear": Setting(
        problem_class(math.inf, smoothness=0.0), GeneralisedLinear(Linear()), True
    ),
    "logistic": Setting(
        problem_class(math.inf, smoothness=0.25), GeneralisedLinear(Logistic()), True
    ),
    "logistic, boundary": Setting(
        problem_class(0.3, smoothness=0.25), GeneralisedLinear(Logistic()), True
    ),
    "distance": Setting(problem_class(), Distance(0.0), False, smoothing=0.05),
    "quadratic": Setting(
        problem_class(2.0, lipschitz=24.0, smoothness=8.0, strong_convexity=0.5),
        quadratic, False, regularisation=0.0,
    ),
    "quadratic, boundary": Setting(
        problem_class(0.25, lipschitz=10.0, smoothness=8.0, strong_convexity=0.5),
        quadratic, False, regularisation=0.0,
    ),
    "quadratic, regularised": Setting(
        problem_class(0.25, lipschitz=10.0, smoothness=8.0, strong_convexity=0.5),
        quadratic, False, regularisation=1.0,
    ),
}  # fmt: skip
settings = pytest.mark.parametrize("name", SETTINGS)


def draw(rng, shape):
    """Records of norm at most 1, many of norm 1 and many close together."""
    normal = rng.normal(size=(*shape, DIM)) + rng.choice([0.0, 5.0], size=(shape[0], 1, 1))
    length = rng.choice([1.0, rng.random()], size=(*shape, 1), p=[0.7, 0.3])
    return length * normal / np.linalg.norm(normal, axis=-1, keepdims=True)


def query_of(setting, relation=REPLACE, **options):
    options = {"regularisation": setting.regularisation, "smoothing": setting.smoothing, **options}
    return RegularisedMinimiser.of(setting.problem_class, relation, **options)


def risk_of(setting, points, counts):
    data = (points, jnp.ones(points.shape[:-1], points.dtype)) if setting.linear else points
    radius = setting.problem_class.radius
    where = L2Ball(radius) if math.isfinite(radius) else WholeSpace()
    return EmpiricalRisk(setting.loss, data, counts, where)


@cache
def solver(name):
    """One run a data set: shapes ``(sets, n, dim)`` and ``(sets, n)`` give ``(sets, dim)``."""

    def solve(query, points, counts):
        return query.minimiser_of(risk_of(SETTINGS[name], points, counts))(jnp.zeros(DIM))

    return jax.jit(jax.vmap(solve, (None, 0, 0)))


def neighbours(rng, relation, sets):
    """Return pairs ``(points, counts)`` that differ in the first record; null records count 0."""
    points, counts = draw(rng, (sets, N)), np.ones((sets, N))
    others, changed = points.copy(), counts.copy()
    if relation is REPLACE:
        others[:, 0] = draw(rng, (sets, 1))[:, 0]
        others[::2, 0] = -points[::2, 0]
    else:
        changed[:, 0] = 0.0
    return (points, counts), (others, changed)


# --- the clipped gradient ----------------------------------------------------------------------


def test_clip_and_size_are_float32_numbers_not_below_what_was_asked():
    for lipschitz, clip_norm, n in [(0.1, None, 10), (1.0, 0.7, 2**24 + 1), (1 / 3, 1e-3, 3)]:
        declared = ProblemClass(n=n, dim=2, lipschitz=lipschitz, radius=1.0)
        query = ClippedGradient.of(declared, clip_norm)
        asked = lipschitz if clip_norm is None else clip_norm
        for found, wanted in ((query.clip_norm, asked), (query.size, n)):
            assert float(np.float32(found)) == found
            assert wanted <= found <= wanted * (1.0 + 2.0**-23)


@pytest.mark.optimised
def test_no_clip_is_accepted_whose_sums_overflow():
    """An infinite sum stays infinite for any added noise and would reveal the records."""
    n = 1000
    declared = ProblemClass(n=n, dim=2, lipschitz=1e33, radius=1.0)
    records = np.full((n, 2), 1e33 / np.sqrt(2.0), np.float32)
    risk = EmpiricalRisk(lambda w, x: w @ x, jnp.asarray(records), None, WholeSpace())
    gradient = jax.jit(ClippedGradient.of(declared).gradient_of(risk))(np.zeros(2, np.float32))
    assert np.isfinite(gradient).all()
    for clip_norm in (1.1e33, 1e37, 1e308):
        with pytest.raises(ValueError, match=r"clip_norm must be at most 1e\+33 for 1000 records"):
            ClippedGradient.of(declared, clip_norm)
    assert ClippedGradient.of(declared, math.inf).clip_norm == math.inf


@pytest.mark.optimised
def test_no_clip_is_accepted_whose_shares_underflow():
    """Sums moved by 1.46 times a clip of 1e-37, because values below ``2^-126`` count as 0."""
    n, dim, stacks = 24, 6, 40
    declared = ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0)
    for clip_norm in (2e-24, 1e-37, 1e-45):
        with pytest.raises(ValueError, match=r"clip_norm must be at least 2\.4e-24 for 24 records"):
            ClippedGradient.of(declared, clip_norm)
    places = jnp.broadcast_to(jnp.arange(dim), (n, dim))
    forms = {
        "dense": lambda x: (GeneralisedLinear(Linear()), (x, jnp.ones_like(x[:, 0]))),
        "sparse": lambda x: (
            GeneralisedLinear(Linear()),
            (SparseFeatures(places, x, dim), jnp.ones_like(x[:, 0])),
        ),
        "general": lambda x: (lambda w, record: record @ w, x),
        "coordinates": lambda x: (Separable(Sine()), SparseFeatures(places, x, dim)),
        "distances": lambda x: (SquaredDistance(1.0), SparseFeatures(places, x, dim)),
    }
    rng = np.random.default_rng(0)
    records = rng.normal(size=(stacks, n, dim)) * 10.0 ** rng.uniform(-3, 3, (stacks, n, 1))
    hostile = 10.0 ** rng.uniform(-44, 37, (stacks, 1)) * rng.normal(size=(stacks, dim))
    query, too_small = ClippedGradient.of(declared, 2.5e-24), ClippedGradient(1e-37, n, dim)
    for name, of in forms.items():

        @jax.jit
        def moved(others, changed, clip_norm, of=of):
            def total(x):
                risk = EmpiricalRisk(*of(x), None, WholeSpace())
                return clipped_gradient_sum(risk, clip_norm)(jnp.full(dim, clip_norm / 8.0))

            found = [jax.vmap(total)(x).astype(jnp.float64) for x in (others, changed)]
            return jnp.linalg.norm(found[0] - found[1], axis=1).max()

        def furthest(query, moved=moved):
            found = []
            for size in (1e-38, 1e-36, 1e-30, query.clip_norm, 1.0, 1e30):
                others = (size * records).astype(np.float32)
                changed = others.copy()
                changed[:, 3] = hostile
                found.append(float(moved(others, changed, np.float32(query.clip_norm))))
            return max(found) / (2.0 * query.record_sensitivity)

        assert furthest(query) <= 1.0, name
        assert not 0.99 < furthest(too_small) < 1.01 or name == "distances"  # too far, or lost


@pytest.mark.optimised
@relations
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("dim", few([1, 40], [40]))
def test_no_neighbours_move_the_clipped_gradient_further(relation, dtype, linear, dim):
    """The computed change is within the sensitivity in float32, because of the round-off term."""
    clip_norm, pairs = 0.7, 4000
    query = ClippedGradient.of(ProblemClass(n=2, dim=dim, lipschitz=clip_norm, radius=1.0))
    rng = np.random.default_rng(dim)
    sizes = 10.0 ** rng.uniform(-1, 3, size=(pairs, 2, 1))
    before = (rng.normal(size=(pairs, 2, dim)) * sizes).astype(dtype)
    after, counts = before.copy(), np.ones((pairs, 2), dtype)
    if relation is REPLACE:
        after[:, 0] *= -1.0
    else:
        counts[:, 0] = 0.0
    setting = Setting(problem_class(), GeneralisedLinear(Linear()), linear)
    if not linear:
        setting = setting._replace(loss=lambda w, x: x @ w)

    @jax.jit
    @jax.vmap
    def gradient(points, counts):
        risk = risk_of(setting, points, counts)
        return query.gradient_of(risk)(jnp.zeros(dim, points.dtype))

    found = gradient(before, np.ones_like(counts)), gradient(after, counts)
    moves = np.linalg.norm(np.subtract(*(np.asarray(g, np.float64) for g in found)), axis=1)
    assert moves.max() <= query.sensitivity(relation)
    assert moves.max() >= query.sensitivity(relation) * (1.0 - 1e-3)


@pytest.mark.parametrize("counted", [False, True])
def test_clipped_gradient_divides_by_the_public_size(counted):
    """The divisor is the design size, not the number of records in the data."""
    query = ClippedGradient.of(problem_class(lipschitz=2.0))
    points = jnp.asarray(draw(np.random.default_rng(0), (1, N - 1))[0])
    counts = jnp.ones(N - 1) if counted else None
    risk = risk_of(SETTINGS["linear"], points, counts)
    found = jax.jit(lambda w: query.gradient_of(risk)(w))(np.zeros(DIM))
    np.testing.assert_allclose(found, -points.sum(axis=0) / N, rtol=1e-14)


# --- the regularised minimiser -----------------------------------------------------------------


@relations
@pytest.mark.parametrize(("regularisation", "own"), [(0.3, 0.0), (0.3, 0.4), (0.0, 0.5)])
def test_minimiser_sensitivity_is_the_closed_form(relation, regularisation, own):
    declared = problem_class(smoothness=2.0, strong_convexity=own)
    if relation is ADD and regularisation == 0.0:
        with pytest.raises(ValueError, match=r"regularisation must be positive .*, got 0\.0"):
            RegularisedMinimiser.of(declared, relation, regularisation=regularisation)
        return
    query = RegularisedMinimiser.of(declared, relation, regularisation=regularisation)
    own = 0.0 if relation is ADD else own
    curvature = regularisation + own
    assert query.error == pytest.approx(1e-3 / (curvature * N), rel=1e-12)
    null = own * declared.radius
    apart = 1.0 + (max(1.0, null) if relation is REPLACE else null)
    expected = apart / (curvature * N) + 2.0 * query.error
    assert query.sensitivity(relation) == pytest.approx(expected, rel=1e-5)
    assert query.sensitivity(relation) > expected
    if own > 0.0:
        assert query.sensitivity(ADD) == math.inf


@pytest.mark.cases(4)
@settings
@relations
def test_no_neighbours_move_the_minimiser_further(name, relation):
    setting = SETTINGS[name]
    if relation is ADD and setting.regularisation == 0.0:
        setting = setting._replace(regularisation=0.2)
    query = query_of(setting, relation)
    before, after = neighbours(np.random.default_rng(1), relation, sets=300)
    found = [np.asarray(solver(name)(query, *each)) for each in (before, after)]
    moves = np.linalg.norm(found[0] - found[1], axis=1)
    assert 0.0 < moves.max() <= query.sensitivity(relation)
    if name == "linear":
        assert moves.max() >= 0.99 * query.sensitivity(relation)


def in_ball(curvature, pull, radius):
    """``argmin_{|w| <= radius} w^T diag(curvature) w / 2 - <pull, w>``, by bisection."""

    def excess(multiplier):
        return np.linalg.norm(pull / (curvature + multiplier)) - radius

    multiplier = 0.0 if excess(0.0) <= 0.0 else brentq(excess, 0.0, 1e7, xtol=1e-15)
    return pull / (curvature + multiplier)


def exact(setting, points):
    """The minimiser by other means: scipy on a NumPy objective."""
    if setting.loss is quadratic:
        pull, radius = CURVATURES * points.mean(axis=0), setting.problem_class.radius
        return in_ball(CURVATURES + setting.regularisation, pull, radius)

    def objective(w):
        if setting.linear:
            logistic = isinstance(setting.loss.scalar, Logistic)
            losses = np.logaddexp(0.0, -points @ w) if logistic else -points @ w
        else:
            size, h = np.linalg.norm(w - points, axis=1), setting.smoothing
            losses = np.where(size <= h, size**2 / (2.0 * h), size - h / 2.0)
        return losses.mean() + 0.5 * setting.regularisation * w @ w

    radius = setting.problem_class.radius
    ball = {"type": "ineq", "fun": lambda w: radius**2 - w @ w}
    within, options = [ball] if math.isfinite(radius) else [], {"ftol": 1e-15, "maxiter": 500}
    start = np.zeros(DIM)
    return minimize(objective, start, method="SLSQP", constraints=within, options=options).x


@pytest.mark.cases(3)
@settings
def test_the_stated_error_is_true_on_random_data(name):
    """The error bound holds for any data, also for minimisers on the boundary of the set."""
    setting = SETTINGS[name]
    query = query_of(setting)
    points = draw(np.random.default_rng(2), (25, N))
    found = solver(name)(query, points, np.ones((25, N)))
    best = np.stack([exact(setting, each) for each in points])
    assert np.linalg.norm(found - best, axis=1).max() <= query.error
    if "boundary" in name:
        on_boundary = np.linalg.norm(best, axis=1) >= setting.problem_class.radius * (1.0 - 1e-9)
        assert on_boundary.sum() >= 8


@pytest.mark.parametrize("radius", [1.0, 0.01])
def test_steps_suffice_on_an_ill_conditioned_problem_and_a_fifth_of_them_do_not(radius):
    curvature = np.array([1.0, 1e2, 1e4])
    declared = ProblemClass(
        n=1000, dim=DIM, lipschitz=2e4, radius=radius, smoothness=1e4, strong_convexity=1.0
    )
    query = RegularisedMinimiser.of(declared, REPLACE, regularisation=0.0, relative_error=1e-3)
    record = np.array([0.7, 1e-3, 1e-5])

    def loss(w, x):
        return 0.5 * jnp.sum(jnp.asarray(curvature) * (w - x) ** 2)

    risk = risk_of(Setting(declared, loss, False), jnp.asarray(record[None]), jnp.asarray([1e3]))
    solve = jax.jit(lambda query: query.minimiser_of(risk)(jnp.zeros(DIM)))
    best = in_ball(curvature, curvature * record, radius)
    assert np.linalg.norm(solve(query) - best) <= query.error
    if radius == 1.0:
        fewer = query._replace(steps=query.steps // 5)
        assert np.linalg.norm(solve(fewer) - best) > query.error


@pytest.mark.optimised
def test_the_error_is_true_where_the_constant_is_no_float32_number():
    """Clipping below the declared ``L`` would cost more than the error at large ``n``."""
    declared = ProblemClass(n=10**6, dim=1, lipschitz=0.1, radius=math.inf, smoothness=0.0)
    query = RegularisedMinimiser.of(declared, REPLACE, regularisation=0.5)
    setting = SETTINGS["linear"]._replace(problem_class=declared)
    risk = risk_of(setting, np.array([[0.1]]), np.array([1e6]))
    found = float(jax.jit(query.minimiser_of(risk))(np.zeros(1))[0])
    assert abs(found - 0.1 / 0.5) <= query.error


def test_regularisation_pulls_towards_the_start():
    setting, centre = SETTINGS["linear"], np.array([3.0, -2.0, 1.0])
    points = jnp.asarray(draw(np.random.default_rng(3), (1, N))[0])
    query, risk = query_of(setting), risk_of(setting, points, None)
    found = jax.jit(lambda start: query.minimiser_of(risk)(start))(centre)
    expected = centre + points.mean(axis=0) / setting.regularisation
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_minimiser_without_curvature_is_refused():
    smooth = problem_class(smoothness=1.0)
    with pytest.raises(ValueError, match=r"regularisation must be positive .*, got 0\.0"):
        RegularisedMinimiser.of(smooth, REPLACE, regularisation=0.0)
    with pytest.raises(ValueError, match="smoothness must be declared, or smoothing"):
        RegularisedMinimiser.of(problem_class(), REPLACE, regularisation=0.1)


# --- records that are not finite ------------------------------------------------------------------

SQUARED = SquaredDistance(1.0), {"smoothness": 1.0}, 0.0
KINKED = RegularisedDistance(1.0), {}, 0.5  # the last number is the width of an envelope


def null_query_of(relation, smoothing=0.0, **constants):
    facts = ProblemClass(n=N, dim=1, lipschitz=2.0, radius=1.0, strong_convexity=1.0, **constants)
    return RegularisedMinimiser.of(facts, relation, regularisation=0.0, smoothing=smoothing)


@jax.jit
@partial(jax.vmap, in_axes=(None, None, 0, None))
def null_minimisers(query, loss, records, counts=None):
    risk = EmpiricalRisk(loss, records[:, None], counts, L2Ball(1.0))
    return query.minimiser_of(risk)(jnp.zeros(1))[0]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("loss", "constants", "smoothing"), [SQUARED, KINKED], ids=["", "kink"])
@pytest.mark.parametrize("relation", [REPLACE, ZERO])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_null_records_do_not_make_the_others_stronger(loss, constants, smoothing, relation, bad):
    """A first record of 1, and its neighbour, beside 0, 1, .. n - 1 null ones and some at 0."""
    query = null_query_of(relation, smoothing, **constants)
    pair = 1.0, -1.0 if relation is REPLACE else bad
    records = np.zeros((N, 2, N))
    for nulls in range(N):
        records[nulls, :, 1 : nulls + 1] = bad
    records[:, :, 0] = pair
    found = null_minimisers(query, loss, records.reshape(-1, N), None).reshape(N, 2)
    moved = np.abs(found[:, 0] - found[:, 1])
    assert moved.max() <= query.sensitivity(relation)
    assert moved.min() > 0.0


def test_a_null_record_has_the_loss_of_the_centre():
    """``x = 1`` beside seven that are null, or absent: ``(1/8) 1 = 1/8`` is the minimiser."""
    query = null_query_of(REPLACE, smoothness=1.0)
    records = np.full((1, N), np.nan)
    records[0, 0] = 1.0
    found = null_minimisers(query, SQUARED[0], records, None)
    np.testing.assert_allclose(found, 1.0 / N, atol=query.error)
    absent = null_minimisers(query, SQUARED[0], np.ones((1, N)), jnp.zeros(N).at[0].set(1.0))
    np.testing.assert_allclose(absent, 1.0 / N, atol=query.error)


def test_strong_convexity_needs_a_radius():
    facts = problem_class(math.inf, math.inf, smoothness=1.0, strong_convexity=1.0)
    with pytest.raises(ValueError, match="radius must be finite for strongly convex losses"):
        RegularisedMinimiser.of(facts, REPLACE, regularisation=0.5)
