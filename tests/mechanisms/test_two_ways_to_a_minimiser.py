"""Tests of two methods for one minimiser: both stay within the charged distance for any data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from apart import apart
from boxes import Box
from builders import classification
from selection import few

from privopt import problems
from privopt.convex import GLMSolution, L2Ball, accelerated_descent
from privopt.mechanisms import ClippedGradient, clipped_gradient_sum, minimisers
from privopt.mechanisms.objective_perturbation import PerturbedMinimiser
from privopt.spec import ProblemClass

N, DIM = 120, 3


@pytest.fixture(autouse=True)
def small_data_too(monkeypatch):
    """The Newton method on data of a size at which it would not be worth compiling."""
    monkeypatch.setattr(minimisers, "MIN_DATA_NUMBERS", 0)


def facts(radius=2.0, smoothness=0.25):
    return ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=radius, smoothness=smoothness)


def problem(seed=0, constraint=None, radius=2.0, model="logistic"):
    records = classification(N, DIM, seed)
    if model == "huber":
        c = facts(radius, smoothness=20.0)
        return problems.huber(*records, width=0.05, constraint=constraint, problem_class=c)
    return problems.logistic(*records, constraint=constraint, problem_class=facts(radius))


def query_of(where, regularisation=0.02):
    return PerturbedMinimiser.of(where.problem_class, regularisation=regularisation)


def tilts(scale=0.02, count=7):
    return scale * np.random.default_rng(5).normal(size=(count, DIM))


@jax.jit
def solved(query, objective, tilt):
    return query.minimiser_of(objective)(jnp.zeros(DIM), tilt)


together = jax.jit(jax.vmap(solved, (None, None, 0)))


@jax.jit
def descended(query, objective, tilt):
    """The other way, spelled out, with twenty times the steps that are enough."""
    total = clipped_gradient_sum(objective, query.gradient.clip_norm)
    return accelerated_descent(
        lambda w: total(w) / N + tilt + query.regularisation * w,
        objective.constraint.project,
        objective.constraint.project(-tilt / query.regularisation),
        smoothness=query.smoothness + query.regularisation,
        strong_convexity=query.regularisation,
        steps=20 * query.steps,
    )


CASES = {
    "inside": {"radius": 50.0},
    "on the ball": {"radius": 0.5},
    "a box that binds": {"constraint": Box(-0.1, 0.1)},
    "a box that does not": {"constraint": Box(-20.0, 20.0), "radius": 60.0},
    "a ball elsewhere": {"constraint": L2Ball(0.7, jnp.asarray([1.0, 0.0, 0.5]))},
    "narrow kinks": {"model": "huber", "radius": 5.0},
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("case", CASES)
def test_both_ways_end_at_the_same_point(case):
    """Solve all tilts together, and each tilt alone with a ball as the example of all sets."""
    where = problem(**CASES[case])
    query = query_of(where)
    found = np.asarray(together(query, where.objective, tilts()))
    assert np.all(jax.jit(lambda points: where.constraint.contains(points, 1e-14))(found))
    exact = np.array([descended(query, where.objective, tilt) for tilt in tilts()])
    assert np.linalg.norm(found - exact, axis=1).max() <= 2.0 * query.error
    if case in ("inside", "on the ball"):
        alone = np.array([solved(query, where.objective, tilt) for tilt in tilts()])
        assert np.linalg.norm(alone - exact, axis=1).max() <= 2.0 * query.error


@pytest.fixture
def replacing():
    """Keep the programs of a test that replaces parts of them for itself."""
    with apart():
        yield


def ways(monkeypatch, candidate):
    """Replace the candidate solution, and count the steps of descent of each tilt."""
    counted = []
    original = minimisers._descents

    def descents(numbers, gradient, objective, centre, tilts, steps):
        jax.debug.callback(lambda x: counted.append(np.array(x)), steps)
        return original(numbers, gradient, objective, centre, tilts, steps)

    monkeypatch.setattr(minimisers, "_descents", descents)
    if candidate is not None:
        honest = minimisers.newton_glm

        def replaced(glm, constraint, start, **options):
            return candidate(honest(glm, constraint, start, **options), glm, constraint)

        monkeypatch.setattr(minimisers, "newton_glm", replaced)
    return counted


@pytest.mark.thorough  # steps are counted below
def test_no_step_of_descent_where_all_are_certified(monkeypatch, replacing):
    counted, where = ways(monkeypatch, None), problem(radius=0.5)
    jax.block_until_ready(together(query_of(where), where.objective, tilts()))
    jax.effects_barrier()
    assert counted == []


@pytest.mark.parametrize("wrong", few([0, 3], [3]))
def test_what_is_not_certified_is_descended_to_and_nothing_else(monkeypatch, replacing, wrong):
    """A point moved away, with the certificate that it then has."""

    def candidate(found, glm, constraint):
        points = found.points.at[wrong].set(constraint.project(found.points[wrong] + 0.1))
        return GLMSolution(points, found.residuals.at[wrong].set(1e-3), found.steps)

    counted, where = ways(monkeypatch, candidate), problem()
    query = query_of(where)
    found = together(query, where.objective, tilts())
    jax.effects_barrier()
    expected = np.zeros(7, int)
    expected[wrong] = query.steps
    np.testing.assert_array_equal(counted[0], expected)
    for point, tilt in zip(found, tilts(), strict=True):
        exact = descended(query, where.objective, tilt)
        assert jnp.linalg.norm(point - exact) <= 2.0 * query.error


def test_half_the_distance_is_what_a_certificate_may_have(monkeypatch, replacing):
    where, shares = problem(), np.array([0.49, 0.51, np.nan])
    query = query_of(where)

    def candidate(found, glm, constraint):
        own = shares[: len(found.residuals)]  # of one tilt, or of all
        return found._replace(residuals=own * query.regularisation * query.error)

    counted = ways(monkeypatch, candidate)
    jax.block_until_ready(together(query, where.objective, tilts(count=3)))
    jax.effects_barrier()
    np.testing.assert_array_equal(counted[0], np.where(shares < 0.5, 0, query.steps))


@pytest.mark.thorough  # both ways are compared above
def test_data_that_vary_are_taken_one_after_another():
    risks = [problem(seed).objective for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *risks)
    query = query_of(problem())
    several = jax.jit(jax.vmap(solved, (None, 0, 0)))(query, stacked, tilts(count=3))
    for found, risk, tilt in zip(several, risks, tilts(count=3), strict=True):
        expected = solved(query, risk, tilt)
        np.testing.assert_allclose(found, expected, atol=2.0 * query.error)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_counts_as_nothing(bad):
    features, labels = classification(N, DIM)
    query, found = query_of(problem()), []
    for features[3] in (bad, 0.0):
        where = problems.logistic(features, labels, problem_class=facts())
        found.append(solved(query, where.objective, tilts()[0]))
    np.testing.assert_allclose(*found, atol=2.0 * query.error)


def test_clipped_slopes_are_those_of_the_gradient():
    """A record twice as long as declared pulls no more than its clipped gradient does."""
    features, labels = classification(N, DIM)
    features[:10] *= 2.0
    where = problems.logistic(features, labels, problem_class=facts(smoothness=1.0))
    query = query_of(where)._replace(gradient=ClippedGradient(0.25, float(N), DIM))
    for tilt in tilts(count=2):
        exact = descended(query, where.objective, tilt)
        assert jnp.linalg.norm(solved(query, where.objective, tilt) - exact) <= 2.0 * query.error
