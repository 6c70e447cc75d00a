"""The argument behind the lower bounds, checked exactly where everything can be enumerated.

The prior: ``p_j ~ U[-1, 1]``, ``k`` records in ``{-1, 1}^d`` with independent coordinates of mean
``p``. Integrals over ``p`` are of polynomials, so Gauss-Legendre is exact. Mechanisms are tables
``P(answer | data set)``; over one coordinate the best private one is the solution of a linear
program, so that "no mechanism does better" is tested against all of them.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.optimize import linprog

from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import approximate_dp_advantage, erm_lower_bound, gaussian_dp_advantage

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
WEIGHTS = WEIGHTS / 2.0  # the density of U[-1, 1]


class Enumeration:
    """All data sets of ``k`` records in ``d`` coordinates, and all means."""

    def __init__(self, k, d):
        nodes, weights = np.polynomial.legendre.leggauss(k + 3)
        self.k, self.d = k, d
        self.data = np.array(list(itertools.product([-1.0, 1.0], repeat=k * d))).reshape(-1, k, d)
        self.means = np.array(list(itertools.product(nodes, repeat=d)))
        weight = np.array([np.prod(w) for w in itertools.product(weights / 2.0, repeat=d)])
        likelihood = np.prod((1.0 + self.data[None] * self.means[:, None, None]) / 2.0, (2, 3))
        self.joint = weight[:, None] * likelihood  # (means, data sets)

    def score(self, answer, i):
        """``E <q, x_i - p>`` of a table of mean answers ``(data sets, d)``."""
        return np.einsum("ps,sd,psd->", self.joint, answer, self._centred(i))

    def correlation(self, answer):
        """``E <q, p>``."""
        return np.einsum("ps,sd,pd->", self.joint, answer, self.means)

    def expect(self, per_data_set):
        return float((self.joint.sum(axis=0) * per_data_set).sum())

    def neighbours(self):
        """Ordered pairs of data sets that differ in exactly one record."""
        differ = (self.data[:, None] != self.data[None]).any(axis=3).sum(axis=2)
        return np.argwhere(differ == 1)

    def _centred(self, i):
        return self.data[None, :, i] - self.means[:, None]


SIZES = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3)]


def mechanism(rng, where, flat, outcomes=3):
    """A random table ``P(outcome | data set)`` and the outcomes, within the unit ball.

    ``flat`` in (0, 1] mixes with a data-independent answer: the smaller, the less private.
    Half of the time the outcomes lean towards the data mean, so that something is learnt.
    """
    values = rng.normal(size=(outcomes, where.d))
    values /= np.maximum(1.0, np.linalg.norm(values, axis=1, keepdims=True))
    table = rng.dirichlet(np.ones(outcomes), size=len(where.data))
    if rng.random() < 0.5:
        table = np.exp(3.0 * where.data.mean(axis=1) @ values.T)
        table /= table.sum(axis=1, keepdims=True)
    return flat * np.full_like(table, 1.0 / outcomes) + (1.0 - flat) * table, values


@pytest.mark.parametrize(("k", "d"), SIZES)
def test_identity_of_the_fingerprinting_lemma(k, d):
    """``sum_i E Z_i = 2 E <q, p>`` for any statistic whatever."""
    rng, where = np.random.default_rng(k + 10 * d), Enumeration(k, d)
    assert where.joint.sum() == pytest.approx(1.0, rel=1e-13)
    for _ in range(30):
        answer = rng.normal(size=(len(where.data), d)) * 10.0 ** rng.integers(-2, 3)
        total = sum(where.score(answer, i) for i in range(k))
        scale = np.abs(answer).max()
        assert total == pytest.approx(2.0 * where.correlation(answer), abs=1e-13 * k * scale * d)


@pytest.mark.parametrize(("k", "d"), SIZES)
def test_score_under_chi_square_privacy(k, d):
    """``E Z_i <= kappa sqrt(E |q|^2)`` with the mechanism's own chi-square, within a factor 7."""
    rng, where = np.random.default_rng(k + 10 * d), Enumeration(k, d)
    pairs, closest = where.neighbours(), 0.0
    for flat in np.tile([0.02, 0.1, 0.3, 0.6, 0.9], 12):
        table, values = mechanism(rng, where, flat)
        left, right = table[pairs[:, 0]], table[pairs[:, 1]]
        kappa = math.sqrt(((left - right) ** 2 / right).sum(axis=1).max())
        size = math.sqrt(where.expect(table @ (values**2).sum(axis=1)))
        for i in range(k):
            score = where.score(table @ values, i)
            assert score <= kappa * size * (1 + 1e-12)
            closest = max(closest, score / (kappa * size))
    assert closest > 0.15


@pytest.mark.parametrize(("k", "d"), SIZES)
@pytest.mark.parametrize("relation", list(Relation))
def test_score_under_approximate_privacy(k, d, relation):
    """``E Z_i <= kappa sqrt(E |q|^2) + 2 delta max |Z_i|`` at every epsilon of the mechanism."""
    rng, where = np.random.default_rng(k + 10 * d), Enumeration(k, d)
    pairs = where.neighbours()
    for flat in np.tile([0.02, 0.3, 0.9], 8):
        table, values = mechanism(rng, where, flat)
        left, right = table[pairs[:, 0]], table[pairs[:, 1]]
        size = math.sqrt(where.expect(table @ (values**2).sum(axis=1)))
        scores = [where.score(table @ values, i) for i in range(k)]
        for epsilon in (0.01, 0.1, 0.5, 2.0, float(np.log(left / right).max())):
            delta = np.maximum(left - math.exp(epsilon) * right, 0.0).sum(axis=1).max()
            budget = Budget(epsilon=epsilon, delta=float(delta), relation=relation)
            kappa, slack = approximate_dp_advantage(budget)
            assert slack >= delta
            assert max(scores) <= kappa * size + 4.0 * slack * math.sqrt(d) + 1e-12


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 5.0, 50.0, 699.0])
def test_advantage_covers_the_worst_pure_pair(epsilon):
    """Randomised response has chi-square ``4 sinh^2(epsilon/2)``, the most of any pure pair."""
    budget = Budget(epsilon=epsilon, delta=0.0, relation="replace_one")
    kappa, slack = approximate_dp_advantage(budget)
    assert 2.0 * math.sinh(epsilon / 2.0) * (1 - 1e-14) <= kappa <= math.sinh(epsilon) * (1 + 1e-14)
    assert slack == 0.0


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 2.0])
def test_advantage_is_the_chi_square_of_two_normals(mu):
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    ratio = np.exp(mu * nodes - 0.5 * mu**2)
    chi_square = (weights * (ratio - 1.0) ** 2).sum() / math.sqrt(2.0 * math.pi)
    kappa = gaussian_dp_advantage(mu, Relation.REPLACE_ONE)
    assert kappa**2 == pytest.approx(chi_square, rel=1e-8)


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.ADD_OR_REMOVE_ONE])
def test_replacing_is_two_steps_of_the_null_relations(relation):
    """Group privacy: 2 mu; and (2 epsilon, (1 + e^epsilon) delta)."""
    doubled = gaussian_dp_advantage(0.6, Relation.REPLACE_ONE)
    assert gaussian_dp_advantage(0.3, relation) == pytest.approx(doubled, rel=1e-14)
    once = approximate_dp_advantage(Budget(epsilon=0.4, delta=0.0, relation="replace_one"))
    twice = approximate_dp_advantage(Budget(epsilon=0.2, delta=1e-3, relation=relation))
    assert twice[0] == pytest.approx(once[0], rel=1e-14)
    assert twice[1] == pytest.approx(1e-3 * (1.0 + math.exp(0.2)), rel=1e-14)


def test_advantages_without_privacy_are_infinite_and_bound_nothing():
    assert gaussian_dp_advantage(1e3, Relation.REPLACE_ONE) == math.inf
    assert gaussian_dp_advantage(math.inf, Relation.ZERO_OUT) == math.inf
    kappa, slack = approximate_dp_advantage(Budget(epsilon=1e5, delta=0.5, relation="zero_out"))
    assert (kappa, slack) == (math.inf, 1.0)
    c = ProblemClass(n=10, dim=3, lipschitz=1.0, radius=1.0)
    assert erm_lower_bound(c, advantage=math.inf) == 0.0
    assert erm_lower_bound(c, advantage=0.1, delta=1.0) == 0.0


# One coordinate: how good can a private mechanism be at all?


def count_law(k):
    """``P(m of k records are +1) = 1/(k+1)``, and the data means: p is uniform."""
    return np.full(k + 1, 1.0 / (k + 1)), (2.0 * np.arange(k + 1) - k) / k


def best_linear_risk(k, constraints):
    """Least ``E[|mean| - q mean]`` over all mechanisms with answers in [-1, 1].

    The risk is linear in the answer, so answers -1 and 1 suffice; averaging over the order of
    records keeps privacy, so ``P(q = 1)`` depends on the count alone: a linear program in
    ``k + 1`` variables. ``constraints`` lists (e^epsilon, delta).
    """
    law, mean = count_law(k)
    rows, limits = [], []
    for grow, delta in constraints:
        for m in range(k):
            for a, b in ((m, m + 1), (m + 1, m)):
                row = np.zeros(k + 1)  # t_a - e^eps t_b <= delta
                row[a], row[b] = 1.0, -grow
                rows.append(row)
                limits.append(delta)
                rows.append(-row[:])  # the same for 1 - t: -t_a + e^eps t_b <= delta + e^eps - 1
                limits.append(delta + grow - 1.0)
    solution = linprog(-2.0 * law * mean, A_ub=np.array(rows), b_ub=limits, bounds=(0.0, 1.0))
    assert solution.success
    return float(law @ (np.abs(mean) + mean) + solution.fun)


def convex_bracket(k, d, kappa, delta=0.0):
    """The stated bound at one ``k``, over ``L R k / n``."""
    mean_norm = math.sqrt(1.0 / 3.0) / math.sqrt(1.0 + 4.0 / (5.0 * d))
    return mean_norm - (k / 2.0 + 1.0) * (kappa + 4.0 * delta * math.sqrt(d)) / math.sqrt(d)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.25])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.02])
def test_no_approximate_mechanism_beats_the_bound(epsilon, delta):
    budget = Budget(epsilon=epsilon, delta=delta, relation="replace_one")
    kappa, slack = approximate_dp_advantage(budget)
    ratios = []
    for k in (1, 2, 3, 5, 8, 13, 20):
        risk = best_linear_risk(k, [(math.exp(epsilon), delta)])
        bracket = convex_bracket(k, 1, kappa, slack)
        assert risk >= bracket
        ratios.append(bracket / risk)
    assert max(ratios) > (0.6 if epsilon == 0.02 and delta < 0.01 else -0.1)


@pytest.mark.parametrize("mu", [0.02, 0.1, 0.25])
def test_no_gaussian_dp_mechanism_beats_the_bound(mu):
    """mu-GDP as its (epsilon, delta(epsilon)) at many epsilon: fewer demands, so a lower risk."""
    epsilons = np.r_[0.0, np.geomspace(0.01 * mu, 4.0 * mu, 12)]
    deltas = stats.norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * stats.norm.cdf(
        -mu / 2 - epsilons / mu
    )
    kappa, ratios = gaussian_dp_advantage(mu, Relation.REPLACE_ONE), []
    for k in (1, 2, 3, 5, 8, 13, 20):
        risk = best_linear_risk(k, list(zip(np.exp(epsilons), deltas, strict=True)))
        ratios.append(convex_bracket(k, 1, kappa) / risk)
    assert max(ratios) <= 1.0
    assert max(ratios) > (0.6 if mu == 0.02 else 0.0)


@pytest.mark.parametrize("k", [1, 4, 16, 64])
@pytest.mark.parametrize("mu", [0.02, 0.1, 0.3])
def test_noisy_sign_obeys_the_bound(k, mu):
    """``q = sign(sum x_i + sigma z)``, ``sigma = 2/mu``: mu-GDP, ``E q`` a normal probability."""
    law, mean = count_law(k)
    answer = 2.0 * stats.norm.cdf(k * mean * mu / 2.0) - 1.0
    risk = law @ (np.abs(mean) - answer * mean)
    assert risk >= convex_bracket(k, 1, gaussian_dp_advantage(mu, Relation.REPLACE_ONE))


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.25])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_no_pure_mechanism_beats_the_strongly_convex_bound(epsilon, k):
    """All mechanisms with answers on a grid, for ``E (q - mean)^2``; every answer an event."""
    law, mean = count_law(k)
    grid, grow = np.linspace(-1.0, 1.0, 41), math.exp(epsilon)
    step = sparse.diags_array([1.0, -grow], offsets=[0, 1], shape=(k, k + 1))
    back = sparse.diags_array([-grow, 1.0], offsets=[0, 1], shape=(k, k + 1))
    each = sparse.eye_array(len(grid))
    private = sparse.vstack([sparse.kron(step, each), sparse.kron(back, each)])
    total = sparse.kron(sparse.eye_array(k + 1), np.ones((1, len(grid))))
    cost = (law[:, None] * (grid - mean[:, None]) ** 2).ravel()
    solution = linprog(
        cost, A_ub=private, b_ub=np.zeros(private.shape[0]), A_eq=total, b_eq=np.ones(k + 1)
    )
    assert solution.success
    kappa, _ = approximate_dp_advantage(Budget(epsilon=epsilon, delta=0.0, relation="replace_one"))
    bracket = 1 / 3 + 2 / (3 * k) - ((k + 2) * kappa) ** 2 / 4
    assert bracket <= solution.fun <= 1 / 3 + 2 / (3 * k) + 1e-3
    assert bracket >= 0.75 * solution.fun or (k + 2) * kappa > 0.5


@pytest.mark.parametrize("dim", [1, 10, 1000])
@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0])
def test_shrunken_gaussian_mean_obeys_the_strongly_convex_bound(dim, mu):
    """The best linear estimate of the mean from a mu-GDP sum, in closed form in any dimension.

    Noise ``s^2 = 4 d/(k mu)^2`` per coordinate on a mean of spread ``S`` costs ``S s^2/(S+s^2)``.
    At the worst ``k`` the bound is within a factor six where it is not vacuous.
    """
    kappa, ratios = gaussian_dp_advantage(mu, Relation.REPLACE_ONE), []
    for k in range(1, 400):
        spread, noise = 1 / 3 + 2 / (3 * k), 4 * dim / (k * mu) ** 2
        cost = spread * noise / (spread + noise)
        bracket = spread - ((k + 2) * kappa) ** 2 / (4 * dim)
        assert cost >= bracket
        ratios.append((k**2 * bracket, k**2 * cost))
    best, cost = max(ratios)
    assert best > cost / 6 or kappa > 0.3 * math.sqrt(dim)


def test_zero_out_mechanisms_obey_the_doubled_bound():
    """Data with at most one null record: the best epsilon-DP sign under zero-out, by enumeration.

    States are (number of +1, nulls in {0, 1}); a mechanism that also serves larger nulls can do
    no better.
    """
    for epsilon, k in itertools.product([0.02, 0.1], [1, 2, 5, 10]):
        law, mean = count_law(k)
        grow, size = math.exp(epsilon), 2 * k + 1
        rows, limits = [], []
        for m in range(k):  # m of k - 1 present ones are +1: neighbours m + 1 and m of k
            for full in (m, m + 1):
                for a, b in ((full, k + 1 + m), (k + 1 + m, full)):
                    row = np.zeros(size)
                    row[a], row[b] = 1.0, -grow
                    rows += [row, -row]
                    limits += [0.0, grow - 1.0]
        cost = np.r_[-2.0 * law * mean, np.zeros(k)]
        solution = linprog(cost, A_ub=np.array(rows), b_ub=limits, bounds=(0.0, 1.0))
        risk = float(law @ (np.abs(mean) + mean) + solution.fun)
        kappa, _ = approximate_dp_advantage(Budget(epsilon=epsilon, delta=0.0, relation="zero_out"))
        assert risk >= convex_bracket(k, 1, kappa)


def test_nodes_integrate_the_prior():
    """The law of the count, used above: uniform on 0..k."""
    for k in (1, 3, 7):
        chance = [(WEIGHTS * stats.binom.pmf(m, k, (1 + NODES) / 2)).sum() for m in range(k + 1)]
        np.testing.assert_allclose(chance, count_law(k)[0], rtol=1e-12)
