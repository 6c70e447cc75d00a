"""Tests of lower bounds on their priors: the best simple mechanism is close and never below.

Two priors over linear losses: the hidden signs of most weight, one coordinate a record, and
fingerprints of uniform means over all coordinates at once. Averages over 400 draws of the problem,
200 runs each. The excess of one draw is within ``[0, 2 t]``; the margin of five standard errors
fails falsely with probability below 1e-6.
"""

import math

import numpy as np
import pytest

from privopt.privacy import gaussian_mu
from privopt.spec import Budget
from privopt.theory import ApproximateAdvantage, GaussianAdvantage
from privopt.theory.hard_data import fingerprint

N, DIM, DRAWS = 60, 40, 400
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


def hard(budget, prior):
    """The bound of a prior, and mean records drawn from it."""
    rng = np.random.default_rng(11)
    if prior == "signs":  # k records s_j e_j in each of d coordinates, the others null
        pairs = [(d, k) for d in range(1, DIM + 1) for k in range(1, N // d + 1)]
        d, k = np.array(pairs, float).T
        values = k * np.sqrt(d) / N * (1.0 - advantage(budget).sign(k))
        used, copies = pairs[np.argmax(values)]
        drawn = np.zeros((DRAWS, DIM))
        drawn[:, :used] = copies * rng.choice([-1.0, 1.0], size=(DRAWS, used))
    else:  # k records of signs in all coordinates, with uniform means
        k = np.arange(1.0, N + 1)
        found = fingerprint(N, np.ones(1), k, np.zeros(1), advantage(budget), width=DIM)
        values = found.strength * (found.norm - found.correlation)
        copies = np.argmax(values) + 1
        plus = rng.binomial(copies, rng.random((DRAWS, DIM)))
        drawn = (2.0 * plus - copies) / math.sqrt(DIM)
    return float(values.max()), drawn / N


def excess(pulls, released):
    """``|g| - <w, g>`` for ``F(w) = -<w, g>`` on the unit ball; ``(draws, runs, dim)`` released."""
    return np.linalg.norm(pulls, axis=1)[:, None] - np.einsum("bd,brd->br", pulls, released)


def mean_and_error(values):
    draws = values.mean(axis=1)
    return draws.mean(), draws.std() / math.sqrt(len(draws))


@pytest.mark.parametrize("prior", ["signs", "marginals"])
@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_the_best_simple_mechanism_comes_close(name, prior):
    """The noisy mean scaled onto the sphere: private by post-processing."""
    budget = BUDGETS[name]
    lower, pulls = hard(budget, prior)
    rng = np.random.default_rng(5)
    scale = budget.relation.multiple / N / gaussian_mu(budget.epsilon, budget.delta)
    noisy = pulls[:, None] + scale * rng.normal(size=(DRAWS, 200, DIM))
    unit = noisy / np.linalg.norm(noisy, axis=2, keepdims=True)
    mean, error = mean_and_error(excess(pulls, unit))
    assert lower - 5.0 * error < mean < (1.2 if prior == "signs" else 4.0) * lower


@pytest.mark.parametrize("budget", [*BUDGETS.values(), PURE])
def test_answers_that_ignore_the_data_are_far_above(budget):
    """Constant outputs, such as the zero vector, have a large excess at the worst prior.

    The bound is at most 0.8 of that excess.
    """
    for prior in ("signs", "marginals"):
        lower, pulls = hard(budget, prior)
        fixed = np.zeros((DRAWS, 2, DIM))
        fixed[:, 1, 0] = 1.0
        for values in excess(pulls, fixed).T:
            mean, error = mean_and_error(values[:, None])
            assert 0.8 * (mean - 5.0 * error) > lower > 0.0
