"""No algorithm of ours goes below the lower bound on the prior it comes from.

Averages over 40 draws of the problem, four runs each. The excess of one draw lies within
``[0, 2 k/n]``; the margin of five standard errors fails falsely with probability below 1e-6.
"""

import math
from functools import lru_cache

import jax
import numpy as np
import pytest

import privopt
from privopt import problems
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import approximate_dp_advantage, erm_lower_bound, gaussian_dp_advantage

N, DIM, DRAWS, RUNS = 40, 100, 40, 4
CLASS = ProblemClass(n=N, dim=DIM, lipschitz=1.0 + 1e-4, radius=1.0, smoothness=0.0)
BUDGETS = {
    "tight": Budget(epsilon=1.0, delta=1e-5, relation="replace_one"),
    "zero_out": Budget(epsilon=1.5, delta=1e-3, relation="zero_out"),
}
PURE = Budget(epsilon=1.0, delta=0.0, relation="replace_one")


def advantage(budget):
    if budget.delta == 0.0:
        return approximate_dp_advantage(budget)
    return gaussian_dp_advantage(gaussian_mu(budget.epsilon, budget.delta), budget.relation), 0.0


def worst_informative(budget):
    """The ``k`` at which the convex bound is largest."""
    kappa, _ = advantage(budget)
    k = np.arange(1, N + 1)
    mean_norm = math.sqrt(1 / 3) / math.sqrt(1 + 4 / (5 * DIM))
    return int(k[np.argmax(k * (mean_norm - (k / 2 + 1) * kappa / math.sqrt(DIM)))])


@lru_cache
def hard(budget):
    """The lower bound of a budget, with problems it comes from and their mean records."""
    kappa, delta = advantage(budget)
    lower = erm_lower_bound(CLASS, advantage=kappa, delta=delta)
    informative = worst_informative(budget)
    drawn, pulls = [], []
    for key in jax.random.split(jax.random.key(11), DRAWS):
        problem = problems.one_way_marginals(key, n=N, dim=DIM, informative=informative)
        drawn.append(problem)
        pulls.append(np.asarray(problem.objective.counts) @ np.asarray(problem.data[0]) / N)
    return lower, drawn, np.array(pulls)


def excess(pulls, released):
    """``|g| - <w, g>`` for ``F(w) = -<w, g>`` on the unit ball; ``(draws, runs, dim)`` released."""
    return np.linalg.norm(pulls, axis=1)[:, None] - np.einsum("bd,brd->br", pulls, released)


def mean_and_error(values):
    draws = values.mean(axis=1)
    return draws.mean(), draws.std() / math.sqrt(len(draws))


GAUSSIAN = {
    "dp_gd": [{}, {"steps": 2, "step_size": 100.0}, {"steps": 40}, {"steps": 40, "step_size": 1.0}],
    "output_perturbation": [{}, {"regularisation": 0.02}, {"regularisation": 2.0}],
}
CASES = [(b, name, choices) for b in BUDGETS.values() for name, choices in GAUSSIAN.items()]
CASES += [(PURE, "output_perturbation", [{}, {"regularisation": 0.1}])]


@pytest.mark.parametrize(("budget", "name", "choices"), CASES)
def test_no_algorithm_beats_the_lower_bound(budget, name, choices):
    lower, drawn, pulls = hard(budget)
    plan = privopt.ALGORITHMS[name].plan
    plans = [plan(CLASS, budget, **choice) for choice in choices]
    keys = jax.random.split(jax.random.key(3), DRAWS)
    released = np.array(
        [
            privopt.run_many(plans, problem, jax.random.split(key, RUNS)).released
            for problem, key in zip(drawn, keys, strict=True)
        ]
    )
    for planned, answers in zip(plans, np.moveaxis(released, 1, 0), strict=True):
        mean, error = mean_and_error(excess(pulls, answers))
        assert lower + 5.0 * error < mean <= planned.rate.upper
        assert planned.rate.lower == pytest.approx(lower, rel=1e-12)


@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_the_best_simple_mechanism_comes_close(name):
    """The noisy mean scaled onto the sphere: private by post-processing; within a factor 4."""
    budget = BUDGETS[name]
    lower, _, pulls = hard(budget)
    rng = np.random.default_rng(5)
    scale = budget.relation.multiple / N / gaussian_mu(budget.epsilon, budget.delta)
    noisy = pulls[:, None] + scale * rng.normal(size=(DRAWS, 20, DIM))
    unit = noisy / np.linalg.norm(noisy, axis=2, keepdims=True)
    mean, error = mean_and_error(excess(pulls, unit))
    assert lower + 5.0 * error < mean < 4.0 * lower


@pytest.mark.parametrize("budget", [*BUDGETS.values(), PURE])
def test_answers_that_ignore_the_data_are_far_above(budget):
    """At the worst ``k`` the bound is at most half of what the zero vector, or any, pays."""
    lower, _, pulls = hard(budget)
    fixed = np.zeros((DRAWS, 2, DIM))
    fixed[:, 1, 0] = 1.0
    for values in excess(pulls, fixed).T:
        mean, error = mean_and_error(values[:, None])
        assert mean - 5.0 * error > 1.9 * lower > 0.0


def test_the_prior():
    """Signs over sqrt(d), null records, and ``E p^2 = 1/3`` within five standard errors."""
    where = problems.one_way_marginals(jax.random.key(0), n=100, dim=2000, informative=60)
    features, counts = np.asarray(where.data[0]), np.asarray(where.objective.counts)
    assert features.shape == (61, 2000)
    assert counts.sum() == 100
    assert counts[-1] == 40
    np.testing.assert_allclose(np.abs(features[:-1]), 1 / math.sqrt(2000), rtol=1e-12)
    assert not features[-1].any()
    signs = math.sqrt(2000) * features[:-1]
    squares = signs[:30].mean(axis=0) * signs[30:].mean(axis=0)
    assert abs(squares.mean() - 1 / 3) < 5 * squares.std() / math.sqrt(2000)
