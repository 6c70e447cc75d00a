"""Output perturbation against scipy, its closed forms and its worst cases."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import privopt
from privopt import draws, problems
from privopt.privacy import gaussian_mu
from privopt.streams import stream
from privopt.theory import Powers

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
plan_of = privopt.ALGORITHMS["output_perturbation"].plan


def classification(n=50, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dim))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def test_minimiser_and_noise_equal_the_textbook():
    features, labels = classification()
    facts = privopt.ProblemClass(n=50, dim=4, lipschitz=1.0, radius=5.0, smoothness=0.25)
    planned = plan_of(facts, BUDGET, regularisation=0.3)
    query, key = planned.params.mechanism.query, jax.random.key(1)

    def objective(w):
        return np.logaddexp(0, -labels * (features @ w)).mean() + 0.15 * w @ w

    exact = optimize.minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-12}).x
    run = privopt.run(planned, problems.logistic(features, labels, problem_class=facts), key)
    assert np.linalg.norm(run.secret.minimiser - exact) <= query.error + 1e-7
    noise = planned.params.mechanism.scale * draws.normal(stream(key, "noise"), (4,), jnp.float64)
    expected = run.secret.minimiser + noise
    expected *= min(1.0, 5.0 / np.linalg.norm(expected))
    np.testing.assert_allclose(run.released, expected, rtol=1e-12)


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 2), ("zero_out", 1)])
def test_scale_is_the_sensitivity_over_mu(relation, moved):
    facts = privopt.ProblemClass(n=500, dim=4, lipschitz=2.0, radius=1.0, smoothness=1.0)
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    planned = plan_of(facts, budget, regularisation=0.3)
    error = planned.params.mechanism.query.error
    exact = (moved * 2.0 / (0.3 * 500) + 2 * error) / gaussian_mu(1.0, 1e-5)
    assert planned.params.mechanism.scale == pytest.approx(exact, rel=1e-5)
    assert planned.params.mechanism.scale >= exact
    assert 2 * error <= 1.001e-3 * 2 * 2.0 / (0.3 * 500)


def test_theory_sets_the_regularisation():
    """``lambda = (2L/R) sqrt(2 r)``, and ``L R sqrt(2 r)`` as a bound; ``r = sqrt(d)/(n mu)``."""
    facts = privopt.ProblemClass(n=1000, dim=16, lipschitz=3.0, radius=2.0, smoothness=1.0)
    planned = plan_of(facts, BUDGET)
    r = math.sqrt(16) / (1000 * gaussian_mu(1.0, 1e-5))
    query = planned.params.mechanism.query
    assert query.regularisation == pytest.approx(2 * 3.0 / 2.0 * math.sqrt(2 * r), rel=1e-3)
    assert planned.rate.upper == pytest.approx(3.0 * 2.0 * math.sqrt(2 * r), rel=3e-3)


@pytest.mark.parametrize("loss", ["absolute", "hinge", "logistic"])
def test_undeclared_smoothness_is_met_by_smoothing(loss):
    features, labels = classification()
    facts = privopt.ProblemClass(n=50, dim=4, lipschitz=1.0, radius=1.0)
    planned = plan_of(facts, BUDGET)
    query = planned.params.mechanism.query
    where = getattr(problems, loss)(features, labels, problem_class=facts)
    computed = np.asarray(privopt.run(planned, where, jax.random.key(0)).secret.minimiser)

    def regularised(w):
        return where.risk(w) + 0.5 * query.regularisation * w @ w

    best = min(
        regularised(w)
        for w in np.concatenate([computed[None] + 0.02 * np.random.default_rng(1).normal(
            size=(300, 4)), computed[None]])
        if np.linalg.norm(w) <= 1.0
    )  # fmt: skip
    assert regularised(computed) - best <= 0.5 * query.smoothing + query.error


def test_strongly_convex_losses_need_no_regulariser():
    facts = privopt.ProblemClass(
        n=40, dim=3, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    planned = plan_of(facts, BUDGET)
    assert planned.params.mechanism.query.regularisation == 0.0
    assert planned.rate.terms[0].powers == Powers(n=-1.0, dim=0.5, epsilon=-1.0)
    points = np.random.default_rng(0).uniform(-0.5, 0.5, size=(40, 3))
    where = problems.Problem(
        loss=lambda w, x: 0.5 * jnp.sum((w - x) ** 2), data=points, problem_class=facts
    )
    where.check()
    run = privopt.run(planned, where, jax.random.key(0))
    np.testing.assert_allclose(run.secret.minimiser, points.mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_two_point_audit_of_the_distance(relation):
    """On ``-x w`` the minimiser moves by the whole sensitivity, and no further."""
    facts = privopt.ProblemClass(n=20, dim=1, lipschitz=1.0, radius=50.0, smoothness=0.0)
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    planned = plan_of(facts, budget, regularisation=0.1)
    query = planned.params.mechanism.query
    left = np.ones((20, 1))
    right = left.copy()
    right[0] = -1.0 if relation == "replace_one" else 0.0
    ends = [
        privopt.run(planned, problems.linear(x, problem_class=facts), jax.random.key(0))
        .secret.minimiser for x in (left, right)
    ]  # fmt: skip
    moved = abs(float(ends[0][0] - ends[1][0]))
    bound = query.sensitivity(privopt.Relation(relation))
    assert 0.998 * bound <= moved <= bound


def test_exponents_follow_who_set_the_regularisation():
    facts = privopt.ProblemClass(n=1000, dim=16, lipschitz=1.0, radius=1.0, smoothness=1.0)
    tuned, fixed = plan_of(facts, BUDGET), plan_of(facts, BUDGET, regularisation=0.5)
    assert tuned.rate.terms[0].powers == Powers(n=-0.5, dim=0.25, epsilon=-0.5)
    assert fixed.rate.terms[0].powers == Powers(n=-1.0, dim=0.5, epsilon=-1.0)
    noise = fixed.params.mechanism.noise_norm(16)
    assert fixed.rate.upper == pytest.approx(0.125 + noise, rel=1e-3)


def test_smoothing_flattens_strong_convexity_and_is_charged():
    """The envelope of an m-strongly convex loss is m/(1 + m h)-strongly convex."""
    facts = privopt.ProblemClass(n=50, dim=2, lipschitz=4.0, radius=1.0, strong_convexity=1.0)
    query = plan_of(facts, BUDGET).params.mechanism.query
    expected = 1.0 / (1.0 + query.smoothing)
    assert query.smoothing > 0.0
    assert query.strong_convexity == pytest.approx(expected, rel=1e-12)
