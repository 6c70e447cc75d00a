"""The argument behind the lower bounds, checked exactly where everything can be enumerated.

The prior: ``p_j`` of density ``(1 - p^2)^a``, ``k`` records in ``{-1, 1}^d`` with independent
coordinates of mean ``p``. Integrals over ``p`` are of polynomials, so Gauss-Jacobi is exact.
Mechanisms are tables ``P(answer | data set)``; over one coordinate the best private one is the
solution of a linear program, so that "no mechanism does better" is tested against all of them.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.optimize import linprog
from scipy.special import roots_jacobi

from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import ApproximateAdvantage, GaussianAdvantage, RenyiAdvantage, lower_bound
from privopt.theory.hard_data import fingerprint, hidden_counts, hidden_signs

REPLACE = Relation.REPLACE_ONE
PRIORS = [0.0, 1.0, 4.0, 16.0]


def empirical(facts, advantage):
    """Return the lower bound of the empirical risk."""
    return lower_bound(facts, advantage).value


def prior(a, count):
    """Nodes and weights of the density in proportion to ``(1 - p^2)^a``."""
    nodes, weights = roots_jacobi(count, a, a)
    return nodes, weights / weights.sum()


def hard(n, k, a, advantage, *, groups=1, **more):
    numbers = np.array([groups]), np.array([float(k)]), np.array([a])
    return fingerprint(n, *numbers, advantage, **more)


class Enumeration:
    """Enumeration of all data sets of ``k`` records in ``d`` coordinates, and of all means."""

    def __init__(self, k, d, a):
        nodes, weights = prior(a, k + 3)
        self.k, self.d, self.a = k, d, a
        self.data = np.array(list(itertools.product([-1.0, 1.0], repeat=k * d))).reshape(-1, k, d)
        self.means = np.array(list(itertools.product(nodes, repeat=d)))
        weight = np.array([np.prod(w) for w in itertools.product(weights, repeat=d)])
        likelihood = np.prod((1.0 + self.data[None] * self.means[:, None, None]) / 2.0, (2, 3))
        self.joint = weight[:, None] * likelihood  # (means, data sets)

    def neighbours(self):
        """Ordered pairs of data sets that differ in exactly one record."""
        differ = (self.data[:, None] != self.data[None]).any(axis=3).sum(axis=2)
        return np.argwhere(differ == 1)


SIZES = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)]
CASES = [(k, d, a) for (k, d), a in itertools.product(SIZES, [-0.5, *PRIORS])]


def mechanism(rng, where, flat, outcomes=3):
    """A random table ``P(outcome | data set)``; the smaller ``flat``, the less private.

    Half of the time the outcomes lean towards the data mean, so that something is learnt.
    """
    table = rng.dirichlet(np.ones(outcomes), size=len(where.data))
    if rng.random() < 0.5:
        table = np.exp(3.0 * where.data.mean(axis=1) @ rng.normal(size=(where.d, outcomes)))
        table /= table.sum(axis=1, keepdims=True)
    return flat * np.full_like(table, 1.0 / outcomes) + (1.0 - flat) * table


@pytest.mark.parametrize("a", [-0.9, -0.5, *PRIORS])
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_moments_of_the_prior(a, k):
    """``spread`` and the fourth moment behind ``norm``, by quadrature over ``p`` and the count."""
    (nodes, weights), (count, mean) = prior(a, k + 4), count_law(k, a)
    second, fourth = count @ mean**2, count @ mean**4
    found = hard(10 * k, k, a, GaussianAdvantage(0.1, REPLACE), groups=7)
    assert found.square[0] == pytest.approx(second, rel=1e-10)
    norm = math.sqrt(second / (1.0 + (fourth / second**2 - 1.0) / 7.0))
    assert found.norm[0] == pytest.approx(norm, rel=1e-10)
    assert found.strength[0] == pytest.approx(k * math.sqrt(7) / (10 * k))
    sampled = hard(10 * k, k, a, GaussianAdvantage(0.1, REPLACE), sampled=True)
    assert sampled.square[0] == pytest.approx(weights @ nodes**2, rel=1e-10)
    norm = (weights @ nodes**2) ** 1.5 / (weights @ nodes**4) ** 0.5
    assert sampled.norm[0] == pytest.approx(norm, rel=1e-10)


@pytest.mark.parametrize(("k", "d", "a"), CASES)
def test_no_table_explains_more(k, d, a):
    """``E|E[v | answers]|^2``, of random mechanisms at their own chi-square and advantage."""
    rng, where, closest = np.random.default_rng(k + 10 * d), Enumeration(k, d, a), 0.0
    pairs, v = where.neighbours(), where.data.mean(axis=1)
    for flat in np.tile([0.02, 0.3, 0.9], 8):
        table = mechanism(rng, where, flat)
        answers = where.joint.sum(axis=0) @ table
        told = np.einsum("s,sy,sd->yd", where.joint.sum(axis=0), table, v) / answers[:, None]
        explained = (answers * (told**2).sum(axis=1)).sum() / d
        left, right = table[pairs[:, 0]], table[pairs[:, 1]]
        divergence = math.log1p(((left - right) ** 2 / right).sum(axis=1).max())
        epsilon = float(np.log(left / right).max())
        pure = Budget(epsilon=epsilon, delta=0.0, relation="replace_one")
        for advantage in (RenyiAdvantage(divergence, REPLACE), ApproximateAdvantage(pure)):
            found = hard(k, k, a, advantage, width=d)
            assert explained <= found.explained[0] * (1 + 1e-9)
            closest = max(closest, explained / found.explained[0])
    assert closest > (0.4 if d == 1 else 0.15)


# One coordinate: how good can a private mechanism be at all?


def count_law(k, a):
    """``P(m of k records are +1)``, and the data means."""
    nodes, weights = prior(a, k + 4)
    plus = np.arange(k + 1)
    return (weights * stats.binom.pmf(plus[:, None], k, (1 + nodes) / 2)).sum(axis=1), (
        2.0 * plus - k
    ) / k


def best_linear_risk(law, mean, constraints):
    """Least ``E[|mean| - q mean]`` over all mechanisms with answers in [-1, 1].

    The risk is linear in the answer, so answers -1 and 1 suffice; averaging over the order of
    records keeps privacy, so ``P(q = 1)`` depends on the count alone: a linear program in
    ``k + 1`` variables. ``constraints`` lists (e^epsilon, delta).
    """
    rows, limits, k = [], [], len(law) - 1
    for grow, delta in constraints:
        for m in range(k):
            for one, other in ((m, m + 1), (m + 1, m)):
                row = np.zeros(k + 1)  # t_a - e^eps t_b <= delta
                row[one], row[other] = 1.0, -grow
                rows.append(row)
                limits.append(delta)
                rows.append(-row[:])  # the same for 1 - t: -t_a + e^eps t_b <= delta + e^eps - 1
                limits.append(delta + grow - 1.0)
    solution = linprog(-2.0 * law * mean, A_ub=np.array(rows), b_ub=limits, bounds=(0.0, 1.0))
    assert solution.success
    return float(law @ (np.abs(mean) + mean) + solution.fun)


def demands(guarantee):
    """Return ``(e^epsilon, delta)`` constraints.

    For mu-GDP they are at many epsilon: fewer constraints, so a lower risk.
    """
    if isinstance(guarantee, ApproximateAdvantage):
        return [(math.exp(guarantee.budget.epsilon), guarantee.budget.delta)]
    mu = guarantee.mu
    epsilons = np.r_[0.0, np.geomspace(0.01 * mu, 4.0 * mu, 12)]
    one, other = (stats.norm.cdf(sign * mu / 2 - epsilons / mu) for sign in (1, -1))
    deltas = one - np.exp(epsilons) * other
    return list(zip(np.exp(epsilons), deltas, strict=True))


GUARANTEES = [
    *(GaussianAdvantage(mu, REPLACE) for mu in (0.02, 0.1, 1.0)),
    *(
        ApproximateAdvantage(Budget(epsilon=epsilon, delta=delta, relation=REPLACE))
        for epsilon, delta in ((0.02, 0.0), (0.1, 1e-3), (1.0, 0.02))
    ),
]


@pytest.mark.parametrize("a", PRIORS)
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda each: each.name)
def test_no_mechanism_beats_the_fingerprint(guarantee, a):
    ratios = []
    for k in (1, 2, 5, 13, 40):
        risk = best_linear_risk(*count_law(k, a), demands(guarantee))
        found = hard(k, k, a, guarantee)
        ratios.append((found.norm[0] - found.correlation[0]) / risk)
    assert 0.5 < max(ratios) <= 1.0


def quadratic_risk(law, mean, epsilon):
    """Least ``E (q - mean)^2`` over epsilon-DP mechanisms of counts, answers on a grid."""
    grid, grow, k = np.linspace(-1.0, 1.0, 41), math.exp(epsilon), len(law) - 1
    step = sparse.diags_array([1.0, -grow], offsets=[0, 1], shape=(k, k + 1))
    back = sparse.diags_array([-grow, 1.0], offsets=[0, 1], shape=(k, k + 1))
    each = sparse.eye_array(len(grid))
    private = sparse.vstack([sparse.kron(step, each), sparse.kron(back, each)])
    total = sparse.kron(sparse.eye_array(k + 1), np.ones((1, len(grid))))
    cost = (law[:, None] * (grid - mean[:, None]) ** 2).ravel()
    solution = linprog(cost, private, np.zeros(private.shape[0]), total, np.ones(k + 1))
    assert solution.success
    return solution.fun


@pytest.mark.parametrize("a", [0.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_no_pure_mechanism_beats_the_strongly_convex_fingerprint(epsilon, a):
    """Optimise over all mechanisms with answers on a grid. Every answer is an event."""
    budget = Budget(epsilon=epsilon, delta=0.0, relation="replace_one")
    for k in (1, 2, 4):
        risk = quadratic_risk(*count_law(k, a), epsilon)
        found = hard(k, k, a, ApproximateAdvantage(budget))
        bracket = found.square[0] - found.explained[0]
        assert bracket <= risk <= found.square[0] + 1e-3
        assert bracket >= 0.55 * risk or epsilon > 1.0


@pytest.mark.parametrize("epsilon", [0.2, 0.6, 1.5])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_no_pure_mechanism_beats_hidden_counts(epsilon, k):
    """Optimise over all mechanisms with answers on a grid, under the prior on counts."""
    edges = np.r_[0.0, 2 / k * np.sin(np.pi * (np.arange(k) + 0.5) / k) ** 2, 0.0]
    law, mean = (edges[:-1] + edges[1:]) / 2, (2.0 * np.arange(k + 1) - k) / k
    risk = quadratic_risk(law, mean, epsilon)
    budget = Budget(epsilon=epsilon, delta=0.0, relation="replace_one")
    found = hidden_counts(k, 1, ApproximateAdvantage(budget))
    assert found.strength[-1] == 1.0
    bracket = found.square[-1] - found.explained[-1]
    assert bracket <= risk <= found.square[-1] + 1e-3
    assert bracket >= 0.4 * risk or k * epsilon < 10.0


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("k", [1, 3])
def test_the_best_pure_mechanism_attains_hidden_signs(epsilon, k):
    """Randomised response is best for one record, and is the bound; copies are a little safer."""
    budget = Budget(epsilon=epsilon, delta=0.0, relation="replace_one")
    law, mean = np.r_[0.5, np.zeros(k - 1), 0.5], (2.0 * np.arange(k + 1) - k) / k
    risk = best_linear_risk(law, mean, [(math.exp(epsilon), 0.0)])
    found = hidden_signs(k, 1, ApproximateAdvantage(budget))
    bound = found.norm[-1] - found.correlation[-1]
    assert bound <= risk * (1 + 1e-9)
    assert bound >= 0.9 * risk or k * epsilon > 0.2
    assert k > 1 or bound == pytest.approx(risk, rel=1e-9)


# All data sets of one coordinate, no prior: the exact minimax risk.


def minimax_risk(n, epsilon, delta, relation, *, cost, outputs):
    """Least worst-case mean of ``cost(answer, plus, minus)`` over mechanisms of the counts.

    States: how many of ``n`` records are +1 and -1, the others null. Pure constraints hold for
    every answer; with ``delta`` for every set of answers, of which two answers have one each.
    """
    states = [(p, m) for p in range(n + 1) for m in range(n + 1 - p)]
    place, wide = {state: i for i, state in enumerate(states)}, len(outputs)
    moves = [(1, 0), (0, 1)] + ([(1, -1)] if relation is REPLACE else [])
    reached = [(s, (s[0] + move[0], s[1] + move[1])) for s in states for move in moves]
    pairs = [(place[s], place[t]) for s, t in reached if t in place]
    pairs += [(j, i) for i, j in pairs]
    columns, size = len(states) * wide, len(pairs) * wide
    private = sparse.lil_array((size + len(states), columns + 1))
    for row, ((i, j), y) in enumerate(itertools.product(pairs, range(wide))):
        private[row, i * wide + y], private[row, j * wide + y] = 1.0, -math.exp(epsilon)
    for i, (plus, minus) in enumerate(states):
        private[size + i, i * wide : (i + 1) * wide] = cost(outputs, plus, minus)
        private[size + i, columns] = -1.0
    total = sparse.hstack(
        [sparse.kron(sparse.eye_array(len(states)), np.ones((1, wide))), np.zeros((len(states), 1))]
    )
    limits = np.r_[np.full(size, delta), np.zeros(len(states))]
    cost_of = np.r_[np.zeros(columns), 1.0]
    solution = linprog(cost_of, private.tocsr(), limits, total, np.ones(len(states)))
    assert solution.success
    return solution.fun


def linear_cost(n):
    return lambda q, plus, minus: (abs(plus - minus) - q * (plus - minus)) / n


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.0), (0.5, 0.01), (1.5, 0.0)])
def test_no_mechanism_beats_the_lower_bounds(relation, n, epsilon, delta):
    """The exact minimax risk of linear losses; the bound is at least 0.4 of it, never 0."""
    known = {"cost": linear_cost(n), "outputs": np.array([-1.0, 1.0])}
    exact = minimax_risk(n, epsilon, delta, relation, **known)
    facts = ProblemClass(n=n, dim=1, lipschitz=1.0, radius=1.0, smoothness=0.0)
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    lower = empirical(facts, ApproximateAdvantage(budget))
    assert 0.4 * exact < lower <= exact * (1 + 1e-9)


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_no_mechanism_beats_the_strongly_convex_lower_bounds(relation, epsilon):
    """Squares on three records, answers on a grid of 21: its risk is at most 0.0025 above."""
    n, budget = 3, Budget(epsilon=epsilon, delta=0.0, relation=relation)
    exact = minimax_risk(
        n, epsilon, 0.0, relation, outputs=np.linspace(-1.0, 1.0, 21),
        cost=lambda q, plus, minus: 0.5 * (q - (plus - minus) / n) ** 2,
    )  # fmt: skip
    facts = ProblemClass(n=n, dim=1, lipschitz=2.0, radius=1.0, strong_convexity=1.0)
    lower = empirical(facts, ApproximateAdvantage(budget))
    assert (0.4 if relation is REPLACE else 0.3) * exact < lower <= exact
