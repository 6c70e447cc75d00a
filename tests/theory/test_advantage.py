"""Advantages against direct integration, random pairs of laws, and a linear program."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import linprog

from privopt.core.plan import advantage_of
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.theory import ApproximateAdvantage, GaussianAdvantage, RenyiAdvantage

REPLACE = Relation.REPLACE_ONE
ONE = np.ones(1)


def distance(p, q):
    """``T`` of two rows of probabilities."""
    both = p + q
    return math.sqrt(0.5 * ((p - q) ** 2 / np.where(both > 0.0, both, 1.0)).sum())


def chi_square(p, q):
    return float(((p - q) ** 2 / q).sum())


def laws(rng, count, outcomes=4):
    drawn = rng.dirichlet(np.full(outcomes, rng.choice([0.3, 1.0, 10.0])), size=count)
    return 0.97 * drawn + 0.03 / outcomes


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 2.5, 6.0])
def test_the_advantage_of_normals_is_their_integral(mu):
    def integrand(x):
        p, q = stats.norm.pdf(x), stats.norm.pdf(x - mu)
        return 0.5 * (p - q) ** 2 / (p + q)

    square, _ = integrate.quad(integrand, -12.0, 12.0 + mu, epsabs=1e-13, limit=200)
    found = GaussianAdvantage(mu, REPLACE)
    assert found.sign(ONE)[0] == pytest.approx(math.sqrt(square), rel=1e-6)
    assert found.sign(ONE)[0] <= RenyiAdvantage(mu**2, REPLACE).sign(ONE)[0]
    if mu < 3.0:
        nodes, weights = np.polynomial.hermite_e.hermegauss(120)
        ratio = np.exp(mu * nodes - 0.5 * mu**2)
        chi = (weights * (ratio - 1.0) ** 2).sum() / math.sqrt(2.0 * math.pi)
        assert found.record(7) ** 2 == pytest.approx(chi, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.05])
def test_the_advantage_of_a_budget_is_that_of_its_worst_pair(epsilon, delta):
    """Randomised response, or with chance ``delta`` the sign; and no random pair has more."""
    high = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    worst = np.array([delta, (1 - delta) * high, (1 - delta) * (1 - high), 0.0])
    budget = Budget(epsilon=epsilon, delta=delta, relation="replace_one")
    found = ApproximateAdvantage(budget)
    assert found.sign(ONE)[0] == pytest.approx(distance(worst, worst[::-1]), rel=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, q = laws(rng, 2)
        needed = max(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
        own = Budget(epsilon=epsilon, delta=needed, relation="replace_one")
        assert distance(p, q) <= ApproximateAdvantage(own).sign(ONE)[0] * (1 + 1e-12)


def test_the_advantage_of_a_chi_square_covers_random_pairs_and_is_attained():
    rng, closest = np.random.default_rng(1), 0.0
    for _ in range(400):
        p, q = laws(rng, 2)
        divergence = math.log1p(max(chi_square(p, q), chi_square(q, p)))
        bound = RenyiAdvantage(divergence, REPLACE).sign(ONE)[0]
        assert distance(p, q) <= bound * (1 + 1e-12)
        closest = max(closest, distance(p, q) / bound)
    assert closest > 0.99
    response = np.array([0.8, 0.2])
    divergence = math.log1p(chi_square(response, response[::-1]))
    assert RenyiAdvantage(divergence, REPLACE).sign(ONE)[0] == pytest.approx(0.6, rel=1e-12)


def test_what_is_told_of_an_uneven_sign():
    """Fact 3: by random pairs, and over all laws of the posterior mean by a linear program."""
    rng, points = np.random.default_rng(2), np.linspace(-0.999, 0.999, 1999)
    for p in (0.0, 0.3, -0.6, 0.9):
        for _ in range(100):
            one, other = laws(rng, 2)
            whole = 0.5 * (1 + p) * one + 0.5 * (1 - p) * other
            mean = 0.5 * ((1 + p) * one - (1 - p) * other) / whole
            told = float((whole * (mean - p) ** 2).sum())
            assert told <= (1 - p**2) * (1 + abs(p)) * distance(one, other) ** 2 * (1 + 1e-12)
            divergence = math.log1p(max(chi_square(one, other), chi_square(other, one)))
            bound = RenyiAdvantage(divergence, REPLACE).sign(ONE)[0] ** 2
            assert told <= (1 - p**2) * bound * (1 + 1e-12)
        for chi in (0.1, 1.0, 5.0):
            g = chi**2 / 4.0
            limits = [(1 + g * (1 + p) ** 2) / (1 - p), (1 + g * (1 - p) ** 2) / (1 + p)]
            moments = [np.ones_like(points), points]
            most = linprog(
                -(points**2), A_ub=[1 / (1 - points), 1 / (1 + points)], b_ub=limits,
                A_eq=moments, b_eq=[1.0, p],
            )  # fmt: skip
            told = -most.fun - p**2
            assert told == pytest.approx((1 - p**2) ** 2 * g / (1 + g * (1 - p**2)), rel=1e-3)


def test_replacing_is_two_steps_of_the_null_relations():
    for relation in (Relation.ZERO_OUT, Relation.ADD_OR_REMOVE_ONE):
        doubled, single = GaussianAdvantage(0.6, REPLACE), GaussianAdvantage(0.3, relation)
        assert single.sign(ONE) == pytest.approx(doubled.sign(ONE), rel=1e-14)
        assert single.record(5) == doubled.record(5)
        assert single.removal(5) == pytest.approx(math.sqrt(math.expm1(0.09)), rel=1e-14)
        twice = ApproximateAdvantage(Budget(epsilon=0.2, delta=1e-3, relation=relation))
        own = Budget(epsilon=0.4, delta=1e-3 * (1 + math.exp(0.2)), relation="replace_one")
        assert twice.sign(ONE) == pytest.approx(ApproximateAdvantage(own).sign(ONE), rel=1e-12)
        assert twice.record(5) == pytest.approx(ApproximateAdvantage(own).record(5), rel=1e-12)
        once = RenyiAdvantage(0.04, REPLACE)
        assert RenyiAdvantage(0.04, relation).sign(ONE) == pytest.approx(2 * once.sign(ONE))
        assert RenyiAdvantage(0.04, relation).record(5) == math.inf


@pytest.mark.parametrize("relation", list(Relation))
def test_what_is_told_of_a_record_and_of_its_removal(relation):
    """Compare with the defining equations. The advantage is infinite if a loss may be infinite."""
    steps = 1 if relation is REPLACE else 2
    found = ApproximateAdvantage(Budget(epsilon=0.4, delta=1e-3, relation=relation))
    delta = 1e-3 * (1 + (steps - 1) * math.exp(0.4))
    kappa, one = (2 * math.sinh(0.2 * each) for each in (steps, 1))
    assert found.removal(9) == pytest.approx(one + 12e-3, rel=1e-12)
    assert found.record(5) ** 2 == pytest.approx(kappa * found.record(5) + 40 * delta, rel=1e-12)
    loud = ApproximateAdvantage(Budget(epsilon=1e5, delta=0.0, relation=relation))
    assert (loud.record(5), loud.removal(5)) == (math.inf, math.inf)
    renyi = RenyiAdvantage(0.3, relation, lost=1e-3)
    kappa = math.sqrt(math.expm1(0.3))
    assert renyi.removal(9) == pytest.approx(kappa + 12e-3, rel=1e-12)
    told = renyi.record(5)
    assert told == math.inf if steps == 2 else told**2 == pytest.approx(kappa * told + 0.04)


def test_groups():
    copies = np.array([1.0, 2.0, 7.0])
    for mu in (0.05, 0.5):
        found = GaussianAdvantage(mu, REPLACE).sign(copies)
        each = [GaussianAdvantage(k * mu, REPLACE).sign(ONE)[0] for k in copies]
        np.testing.assert_allclose(found, each, rtol=1e-12)
        assert np.all(found <= copies * found[0] * (1 + 1e-9))
    pure = ApproximateAdvantage(Budget(epsilon=0.3, delta=0.0, relation="replace_one"))
    np.testing.assert_allclose(pure.sign(copies), np.tanh(0.15 * copies), rtol=1e-12)


def test_without_privacy_everything_is_told():
    for found in (
        GaussianAdvantage(1e3, REPLACE),
        GaussianAdvantage(math.inf, Relation.ZERO_OUT),
        RenyiAdvantage(math.inf, REPLACE),
        RenyiAdvantage(0.0, REPLACE, lost=1.0),
        ApproximateAdvantage(Budget(epsilon=1e5, delta=0.5, relation="zero_out")),
    ):
        assert found.sign(ONE)[0] == pytest.approx(1.0, abs=1e-12)
    assert GaussianAdvantage(1e3, REPLACE).record(3) == math.inf


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_the_advantage_of_a_sampled_event_covers_its_profile(relation):
    """The integral over the accountant's certified lower ``delta`` is below, and not by much."""
    step = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0))
    event = dp.SelfComposedDpEvent(step, 50)
    found = advantage_of(Guarantee(event, relation))
    neighbours = RenyiAdvantage(found.divergence, REPLACE).sign(ONE)[0]
    guarantee, edges = Guarantee(event, relation), np.linspace(0.0, 1.2, 25)
    deltas = [guarantee.delta(edge).lower for edge in edges[1:]]
    grown = np.exp(-edges)
    weights = 4.0 / (1.0 + 1.0 / grown) ** 2  # the integral of 8 e^x/(1 + e^x)^3 from x on
    square = float((np.array(deltas) * -np.diff(weights)).sum())
    assert 0.8 * neighbours < math.sqrt(square) <= neighbours


def test_the_advantage_of_a_cut_batch_counts_what_is_lost():
    whole = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), 50)
    cut = dp.SelfComposedDpEvent(dp.TruncatedSubsampledGaussianDpEvent(200, 0.1, 40, 2.0), 50)
    plain, found = (advantage_of(Guarantee(event, "zero_out")) for event in (whole, cut))
    assert found.divergence == pytest.approx(plain.divergence, rel=1e-12)
    assert found.lost == pytest.approx(50 * stats.binom.sf(39, 199, 0.1), rel=1e-6)
    assert plain.lost == 0.0
    assert plain.sign(ONE)[0] < found.sign(ONE)[0]
    assert advantage_of(Guarantee(dp.NonPrivateDpEvent(), "zero_out")) is None
