"""Terms of no record: their gradient is added without noise, or the problem is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt.convex import GeneralisedLinear, L2Ball, Squared
from privopt.mechanisms import AllRecords, ClippedGradient, PrivateGradient
from privopt.problems import FAMILIES, Problem, squared_distance
from privopt.spec import Budget, ProblemClass

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
DIM = 12
SINES = FAMILIES["sparse_sines"].build(n=60, dim=DIM, sparsity=3, noise_ratio=0.05, strength=2.0)
RECORDS = {name: getattr(SINES, name) for name in ("loss", "data", "counts", "problem_class")}
KEY = jax.random.key(0)


def half_square(point):
    return 0.5 * jnp.sum(point**2)


def test_descent_without_noise_is_that_of_the_formula():
    """Each step is ``w <- w - eta (w - zbar cos w)``; clipping has no effect here."""
    rows = np.asarray(SINES.objective.data.block(0, 5))
    mean = np.asarray(SINES.counts) @ rows / 60
    choices = {"steps": 4, "step_size": 0.5, "output": "last"}
    plan = privopt.dp_gd(SINES.problem_class, BUDGET, **choices)
    found = privopt.run(plan.with_noise(0.0), SINES, KEY).released
    point = np.zeros(DIM)
    for _ in range(4):
        point = point - 0.5 * (point - mean * np.cos(point))
    np.testing.assert_allclose(found, point, atol=1e-12)
    assert np.linalg.norm(point) > 0.05


@pytest.mark.parametrize("post", [None, L2Ball(0.2)], ids=["as it is", "projected"])
def test_the_public_gradient_comes_after_noise_and_projection(post):
    """The noisy, projected answer of the same key without the term, plus the gradient of it."""
    query = ClippedGradient.of(SINES.problem_class)
    mechanism = PrivateGradient.calibrated(query, BUDGET, 1, AllRecords(), post=post)
    plain = Problem(**RECORDS).objective
    point = np.linspace(-1.0, 1.0, DIM)

    @jax.jit
    def answers(point):
        oracles = [mechanism.oracle(each, KEY) for each in (SINES.objective, plain)]
        both = [each.update(each.init(point), jnp.asarray(0), point)[0] for each in oracles]
        return both[0] - both[1], oracles[0].secret((), jnp.asarray(0), point).gradient

    difference, secret = answers(point)
    np.testing.assert_allclose(difference, point, atol=1e-12)
    assert np.linalg.norm(secret) < 0.5  # of the records alone


def test_a_convex_problem_with_a_term_has_a_certified_optimum():
    """Ridge regression, by the term or by the normal equations."""
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(20, 3)) / 3.0, rng.normal(size=20)
    problem = Problem(
        loss=GeneralisedLinear(Squared()),
        data=(features, labels),
        problem_class=ProblemClass(n=20, dim=3, lipschitz=50.0, radius=10.0, smoothness=9.0),
        public=half_square,
    )
    solution = np.linalg.solve(features.T @ features / 20 + np.eye(3), features.T @ labels / 20)
    np.testing.assert_allclose(problem.reference.minimiser, solution, atol=1e-6)
    assert problem.excess_risk(solution) == pytest.approx(0.0, abs=1e-9)
    residuals = features @ np.ones(3) - labels
    expected = 0.5 * np.mean(residuals**2) + 1.5
    assert problem.risk(np.ones(3)) == pytest.approx(expected, rel=1e-12)


def test_a_term_beside_squared_distances_moves_their_mean():
    """``|w - x|^2/2 + |w|^2/2`` is least at half the mean, and no problem of means any more."""
    rows = np.array([[0.4, 0.0], [0.0, 0.2]])
    facts = ProblemClass(n=2, dim=2, lipschitz=3.0, radius=1.0, smoothness=2.0)
    problem = squared_distance(rows, problem_class=facts, public=half_square)
    np.testing.assert_allclose(problem.reference.minimiser, [0.1, 0.05], atol=1e-5)
    assert "mean" not in problem.provides
    assert problem.excess_risk(np.zeros(2)) == pytest.approx(0.0125, abs=1e-8)


KNOWS = {"dp_gd", "dp_sgd", "gradient_descent", "noisy_adam", "bias_reduced_sgd"}


@pytest.mark.parametrize("name", sorted(set(privopt.ALGORITHMS) - KNOWS))
def test_who_does_not_know_of_public_terms_refuses_them_by_name(name):
    algorithm = privopt.ALGORITHMS[name]
    assert not algorithm.public_terms
    if name not in ("output_perturbation", "phased_sgd"):
        return
    facts = ProblemClass(n=20, dim=2, lipschitz=2.0, radius=1.0, smoothness=1.0)
    problem = Problem(
        loss=GeneralisedLinear(Squared()),
        data=(np.eye(2)[np.arange(20) % 2], np.zeros(20)),
        problem_class=facts,
        public=half_square,
    )
    with pytest.raises(ValueError, match=f"problem.public must be None for {name}"):
        privopt.run(algorithm.plan(facts, BUDGET), problem, KEY)


def test_a_term_that_is_no_function_is_refused():
    with pytest.raises(ValueError, match=r"public must be a function r\(w\), got"):
        Problem(**RECORDS, public=3.0)
