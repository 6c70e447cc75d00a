"""No algorithm of ours goes below the lower bound on the priors it comes from.

Two priors over linear losses: the hidden signs of most weight, one coordinate a record, and
fingerprints of uniform means over all coordinates at once. Averages over 40 draws of the problem,
four runs each. The excess of one draw lies within ``[0, 2 t]``; the margin of five standard errors
fails falsely with probability below 1e-6.
"""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt import problems
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import ApproximateAdvantage, GaussianAdvantage
from privopt.theory.hard_data import fingerprint

N, DIM, DRAWS, RUNS = 60, 40, 40, 4
CLASS = ProblemClass(n=N, dim=DIM, lipschitz=1.0 + 1e-4, radius=1.0, smoothness=0.0)
BUDGETS = {
    "tight": Budget(epsilon=1.0, delta=1e-5, relation="replace_one"),
    "zero_out": Budget(epsilon=1.5, delta=1e-3, relation="zero_out"),
    "weak": Budget(epsilon=4.0, delta=1e-2, relation="replace_one"),
}
PURE = Budget(epsilon=1.0, delta=0.0, relation="replace_one")


def advantage(budget):
    if budget.delta == 0.0:
        return ApproximateAdvantage(budget)
    return GaussianAdvantage(gaussian_mu(budget.epsilon, budget.delta), budget.relation)


def signs(key, coordinates, copies):
    """``copies`` records ``s_j e_j`` in each of the first coordinates, the others null."""
    drawn = jax.random.rademacher(key, (coordinates,)).astype(float)
    features = jnp.zeros((coordinates + 1, DIM)).at[:coordinates, :coordinates].set(jnp.diag(drawn))
    counts = np.append(np.full(coordinates, copies), N - coordinates * copies)
    return problems.linear(features, problem_class=CLASS, counts=counts)


def marginals(key, informative):
    return problems.one_way_marginals(key, n=N, dim=DIM, informative=informative)


@lru_cache
def hard(budget, prior):
    """The bound of a prior, problems drawn from it, and their mean records."""
    if prior == "signs":
        pairs = [(d, k) for d in range(1, DIM + 1) for k in range(1, N // d + 1)]
        d, k = np.array(pairs, float).T
        values, make, numbers = k * np.sqrt(d) / N * (1.0 - advantage(budget).sign(k)), signs, pairs
    else:
        k = np.arange(1.0, N + 1)
        found = fingerprint(N, np.ones(1), k, np.zeros(1), advantage(budget), width=DIM)
        values = found.strength * (found.norm - found.told)
        make, numbers = marginals, [(int(each),) for each in k]
    best = int(np.argmax(values))
    drawn, pulls = [], []
    for key in jax.random.split(jax.random.key(11), DRAWS):
        problem = make(key, *numbers[best])
        drawn.append(problem)
        pulls.append(np.asarray(problem.objective.counts) @ np.asarray(problem.data[0]) / N)
    return float(values[best]), drawn, np.array(pulls)


def excess(pulls, released):
    """``|g| - <w, g>`` for ``F(w) = -<w, g>`` on the unit ball; ``(draws, runs, dim)`` released."""
    return np.linalg.norm(pulls, axis=1)[:, None] - np.einsum("bd,brd->br", pulls, released)


def mean_and_error(values):
    draws = values.mean(axis=1)
    return draws.mean(), draws.std() / math.sqrt(len(draws))


GAUSSIAN = {
    "dp_gd": [
        {},
        {"steps": 2, "step_size": 100.0, "output": "last"},
        {"steps": 40},
        {"steps": 40, "step_size": 1.0, "output": "last"},
    ],
    "output_perturbation": [{}, {"regularisation": 0.02}, {"regularisation": 2.0}],
}
CASES = [(BUDGETS["tight"], name, choices) for name, choices in GAUSSIAN.items()]
CASES += [(BUDGETS["zero_out"], "dp_gd", GAUSSIAN["dp_gd"])]
CASES += [(PURE, "output_perturbation", [{}, {"regularisation": 0.1}])]


@pytest.mark.parametrize("prior", ["signs", "marginals"])
@pytest.mark.parametrize(("budget", "name", "choices"), CASES)
def test_no_algorithm_beats_the_lower_bound(budget, name, choices, prior):
    lower, drawn, pulls = hard(budget, prior)
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
        assert lower - 5.0 * error < mean <= planned.rate.upper
        assert max(planned.rate.lower).value >= 0.999 * lower


@pytest.mark.parametrize("prior", ["signs", "marginals"])
@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_the_best_simple_mechanism_comes_close(name, prior):
    """The noisy mean scaled onto the sphere: private by post-processing."""
    budget = BUDGETS[name]
    lower, _, pulls = hard(budget, prior)
    rng = np.random.default_rng(5)
    scale = budget.relation.multiple / N / gaussian_mu(budget.epsilon, budget.delta)
    noisy = pulls[:, None] + scale * rng.normal(size=(DRAWS, 200, DIM))
    unit = noisy / np.linalg.norm(noisy, axis=2, keepdims=True)
    mean, error = mean_and_error(excess(pulls, unit))
    assert lower - 5.0 * error < mean < (1.2 if prior == "signs" else 4.0) * lower


@pytest.mark.parametrize("budget", [*BUDGETS.values(), PURE])
def test_answers_that_ignore_the_data_are_far_above(budget):
    """At the worst prior the bound is at most 0.8 of what the zero vector, or any, pays."""
    for prior in ("signs", "marginals"):
        lower, _, pulls = hard(budget, prior)
        fixed = np.zeros((DRAWS, 2, DIM))
        fixed[:, 1, 0] = 1.0
        for values in excess(pulls, fixed).T:
            mean, error = mean_and_error(values[:, None])
            assert 0.8 * (mean - 5.0 * error) > lower > 0.0
