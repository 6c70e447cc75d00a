"""Gradients clipped in l1, l2 and l-infinity: against a loop, and against hostile records."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import privopt
from privopt import convex, problems
from privopt.algorithms import ALGORITHMS
from privopt.mechanisms import AllRecords, ClippedGradient, LaplaceMechanism, PrivateGradient
from privopt.spec import Assumptions, Budget, Norm, ProblemClass, Relation

N, DIM = 40, 5
FACTS = ProblemClass(n=N, dim=DIM, lipschitz=np.inf, radius=np.inf)
POINT = jnp.array([0.4, -1.1, 0.2, 0.75, 0.0])
norms = pytest.mark.parametrize("norm", Norm)


def lengths(rows, norm):
    return np.linalg.norm(rows, norm.order, axis=-1)


def half_square(w, x):
    return 0.5 * jnp.sum((w - x) ** 2)


def risks(rows):
    """One of each kind of loss, on rows as features or as points."""
    labels = np.where(np.arange(len(rows)) % 3, 1.0, -1.0).astype(rows.dtype)
    logistic = convex.GeneralisedLinear(convex.Logistic())
    places = np.broadcast_to(np.arange(DIM), rows.shape)
    sparse = convex.SparseFeatures(places, jnp.asarray(rows), DIM)
    distance = convex.SquaredDistance(jnp.ones((), rows.dtype))
    for loss, data in (
        (logistic, (rows, labels)),
        (logistic, (sparse, labels)),
        (distance, rows),
        (Partial(half_square), rows),
        (convex.Separable(convex.Sine()), sparse),
    ):
        yield convex.EmpiricalRisk(loss, data, None, convex.WholeSpace())


def gradients(rows):
    """Return the gradients of the records for each risk, in the same order."""
    labels, point = np.where(np.arange(len(rows)) % 3, 1.0, -1.0), np.asarray(POINT)
    logistic = (-labels / (1.0 + np.exp(labels * (rows @ point))))[:, None] * rows
    sines = convex.Separable(convex.Sine()).gradients(POINT, convex.as_features(rows))
    return logistic, logistic, point - rows, point - rows, np.asarray(sines.array)


@jax.jit
def mean_and_half(query, risk):
    """The mean of all clipped gradients, and the sum of every other."""
    half = jnp.arange(0, N, 2)
    return query.gradient_of(risk)(POINT), query.batch_sums_of(risk)(POINT, half, jnp.ones(N // 2))


@pytest.mark.cases(2)
@norms
@pytest.mark.parametrize("gamma", [None, 0.2])
def test_clipped_means_equal_the_naive_loop(norm, gamma):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, DIM)) * 10.0 ** rng.uniform(-2, 2, size=(N, 1))
    query = ClippedGradient.of(FACTS, 0.75, norm=norm, gamma=gamma)
    for risk, found in zip(risks(rows), gradients(rows), strict=True):
        sizes = lengths(found, norm)[:, None]
        factors = np.minimum(1.0, 0.75 / sizes) if gamma is None else 0.75 / (sizes + gamma)
        clipped, (mean, half) = found * factors, mean_and_half(query, risk)
        np.testing.assert_allclose(mean, clipped.sum(axis=0) / N, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(half, clipped[::2].sum(axis=0), rtol=1e-12, atol=1e-13)


@jax.jit
def alone(query, risk, point, places):
    """The sum of each of these records by itself."""
    one = jnp.ones(1, point.dtype)
    return jax.vmap(lambda place: query.batch_sums_of(risk)(point, place[None], one))(places)


@pytest.mark.cases(2)
@norms
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_record_moves_a_mean_further_than_is_charged_in_any_norm(norm, dtype):
    """Use the sum of the record alone, so that no other record hides a rounding error."""
    query = ClippedGradient.of(FACTS, 0.75, norm=norm)
    sizes = (0.0, 1e-45, 1e-20, 1e-3, 1.0, 1e3, 1e19, 1e38, np.inf, np.nan)
    shapes = np.array([np.ones(DIM), np.eye(DIM)[0], [1.0, -1.0, 1e-3, 0.0, 0.5]])
    with np.errstate(all="ignore"):
        rows = np.array([size * shape for size, shape in product(sizes, shapes)]).astype(dtype)
    largest = dict.fromkeys(Norm, 0.0)
    for risk in risks(jnp.asarray(rows)):
        if risk.points is not None and norm is Norm.L2:
            continue  # its own attack is in test_clipping
        each = alone(query, risk, POINT.astype(dtype), np.arange(len(rows)))
        assert np.isfinite(each).all()
        for other in Norm:
            largest[other] = max(largest[other], lengths(np.asarray(each, float), other).max() / N)
    charged = {
        Norm.L1: query.l1_sensitivity, Norm.L2: query.sensitivity,
        Norm.LINF: query.linf_sensitivity,
    }  # fmt: skip
    for other, sensitivity in charged.items():
        most = sensitivity(Relation.ZERO_OUT)
        assert 0.999 * most <= largest[other] <= most, other  # attained, and not exceeded


@norms
def test_numbers_stored_twice_are_one_coordinate(norm):
    """Values 3 and 4 at one index of a sparse row are 7, in every norm."""
    row = convex.SparseFeatures(np.array([[0, 0, 1]]), np.array([[3.0, 4.0, 0.0]]), DIM)
    loss = convex.GeneralisedLinear(convex.Linear())
    risk = convex.EmpiricalRisk(loss, (row, jnp.ones(1)), None, convex.WholeSpace())
    query = ClippedGradient.of(FACTS, 0.75, norm=norm)
    found = jax.jit(lambda w: query.gradient_of(risk)(w))(np.zeros(DIM))
    np.testing.assert_allclose(found * N, [-0.75, 0.0, 0.0, 0.0, 0.0], rtol=1e-12)


@norms
def test_closed_forms_of_the_sensitivities(norm):
    query = ClippedGradient.of(FACTS, 0.75, norm=norm)
    for relation in Relation:
        found = (query.l1_sensitivity, query.sensitivity, query.linf_sensitivity)
        expected = [0.75 / N * relation.multiple * max(1.0, DIM ** (1.0 / p - 1.0 / norm.order))
                    for p in (1.0, 2.0, np.inf)]  # fmt: skip
        np.testing.assert_allclose([each(relation) for each in found], expected, rtol=1e-5)
        assert all(each(relation) >= least for each, least in zip(found, expected, strict=True))


@norms
def test_noise_follows_the_norm(norm):
    """Gaussian noise the Euclidean sensitivity, Laplace noise that in l1."""
    budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    one, euclidean = (ClippedGradient.of(FACTS, 0.75, norm=each) for each in (norm, Norm.L2))
    ratio = max(1.0, DIM ** (0.5 - 1.0 / norm.order))
    gaussian = [
        PrivateGradient.calibrated(query, budget, 10, AllRecords()).scale
        for query in (one, euclidean)
    ]
    assert gaussian[0] == pytest.approx(ratio * gaussian[1], rel=1e-6)
    laplace = [LaplaceMechanism.calibrated(query, budget).scale for query in (one, euclidean)]
    assert laplace[0] == pytest.approx(DIM ** (0.5 - 1.0 / norm.order) * laplace[1], rel=1e-6)


def test_a_norm_is_static_and_its_numbers_are_leaves():
    traced = []

    @jax.jit
    def asked(query):
        traced.append(query.norm)
        return query.clip_norm

    for clip_norm, norm in ((0.75, "linf"), (0.8, "linf"), (0.8, "l1")):
        asked(ClippedGradient.of(FACTS, clip_norm, norm=norm))
    assert traced == [Norm.LINF, Norm.L1]


def test_constants_follow_from_those_of_other_norms():
    facts = partial(ProblemClass, n=10, dim=9, radius=1.0)
    coordinates = facts(lipschitz=np.inf, lipschitz_linf=0.5)
    assert coordinates.lipschitz_in(Norm.L2) == pytest.approx(1.5)
    assert coordinates.lipschitz_in(Norm.L1) == pytest.approx(4.5)
    assert facts(lipschitz=np.inf, lipschitz_linf=0.5, sparsity=4).lipschitz_in(
        Norm.L2
    ) == pytest.approx(1.0)
    assert facts(lipschitz=2.0, lipschitz_l1=1.5).lipschitz_in(Norm.L2) == 1.5
    assert facts(lipschitz=2.0).lipschitz_in(Norm.LINF) == 2.0
    with pytest.raises(ValueError, match=r"lipschitz_linf must be positive .*, got 0.0"):
        facts(lipschitz=1.0, lipschitz_linf=0.0)
    declared = Assumptions.declared(coordinates)
    with pytest.raises(ValueError, match=r"lipschitz_linf must be at most 0.5"):
        declared.check(facts(lipschitz=np.inf, lipschitz_linf=0.6))


@pytest.mark.parametrize("fact", ["lipschitz", "lipschitz_l1", "lipschitz_linf"])
def test_a_check_finds_records_that_are_steeper_than_declared(fact):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1.0, 1.0, size=(30, DIM))
    labels = np.ones(30)

    def loss(w, record):
        return jnp.logaddexp(0.0, -record[1] * (record[0] @ w))

    order = {"lipschitz": 2.0, "lipschitz_l1": 1.0, "lipschitz_linf": np.inf}[fact]
    steepest = np.linalg.norm(rows, order, axis=1).max() / (1.0 + np.exp(-10.0 * DIM))
    for given in (loss, problems.GeneralisedLinear(problems.Logistic())):
        for share, broken in ((1.0, False), (0.2, True)):
            facts = {"lipschitz": np.inf, fact: share * steepest * 1.01}
            problem = problems.Problem(
                loss=given,
                data=(rows, labels),
                problem_class=ProblemClass(n=30, dim=DIM, radius=10.0, **facts),
            )
            if broken:
                with pytest.raises(ValueError, match=f"{fact} .* must bound every record"):
                    problem.check()
            else:
                problem.check()


@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd", "noisy_adam"])
def test_a_plan_clips_in_its_norm(name):
    """The noise is that of the Euclidean sensitivity, and the run equals the naive loop."""
    facts = ProblemClass(n=N, dim=DIM, lipschitz=np.inf, lipschitz_linf=0.5, radius=np.inf)
    budget = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
    chosen = {"steps": 3, "step_size": 0.1, "output": convex.last_iterate()} | (
        {} if name == "dp_gd" else {"batch_size": 10}
    )
    plan = partial(ALGORITHMS[name].plan, facts, budget, **chosen)
    planned = plan(norm="linf")
    assert planned.params.mechanism.query.clip_norm == 0.5  # the declared one
    other = plan(clip_norm=0.5)
    ratio = planned.params.mechanism.scale / other.params.mechanism.scale
    assert ratio == pytest.approx(DIM**0.5, rel=1e-6)
    assert planned.guarantee.meets(budget)
    with pytest.raises(ValueError, match="norm must be one of l1, l2, linf"):
        plan(norm="max")
    if name == "dp_gd":
        rows = np.random.default_rng(0).normal(size=(N, DIM)) * 2.0
        where = problems.squared_distance(rows, problem_class=facts)
        found = privopt.run(planned.with_noise(0.0), where, jax.random.key(0)).released
        point = np.zeros(DIM)
        for _ in range(3):
            apart = point - rows
            factors = np.minimum(1.0, 0.5 / np.abs(apart).max(axis=1, keepdims=True))
            point = point - 0.1 * (factors * apart).mean(axis=0)
        np.testing.assert_allclose(found, point, rtol=1e-12)
