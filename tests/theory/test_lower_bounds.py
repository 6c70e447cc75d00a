"""The lower bounds as numbers: their constants, their shape, and that no upper bound is below."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from selection import few

import privopt
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    ApproximateAdvantage,
    GaussianAdvantage,
    Quantity,
    RenyiAdvantage,
    hard_data_bounds,
    lower_bound,
)
from privopt.theory.hard_data import directions, distances

REPLACE = Relation.REPLACE_ONE


def empirical(facts, advantage):
    """Return the lower bound of the empirical risk."""
    return lower_bound(facts, advantage).value


def population(facts, advantage):
    """Return the lower bound of the population risk."""
    return lower_bound(facts, advantage, "population risk").value


def cls(n=1000, dim=100, lipschitz=1.0, radius=1.0, modulus=0.0, **more):
    return ProblemClass(
        n=n, dim=dim, lipschitz=lipschitz, radius=radius, strong_convexity=modulus, **more
    )


def one_sign(mu):
    """``T^2 = E tanh^2(L/2)`` of a pair of normals, by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    square = (weights * np.tanh(0.5 * mu * (0.5 * mu + nodes)) ** 2).sum()
    return math.sqrt(square / math.sqrt(2.0 * math.pi))


def naive_counts(k, told):
    """The prior on counts, its edges one by one: ``E v^2``, and the bound of ``E (q - v)^2``."""
    edges = [2 / k * math.sin(math.pi * (j + 0.5) / k) ** 2 for j in range(k)]
    around = list(zip([0.0, *edges], [*edges, 0.0], strict=True))
    chances = [(below + above) / 2 for below, above in around]
    rough = math.sin(math.pi / k) ** 2
    signs = [(below - above) / (below + above) for below, above in around]
    assert sum(p * r**2 for p, r in zip(chances, signs, strict=True)) <= rough
    assert signs == sorted(signs)
    middle = (1 - rough) / math.sqrt(told**2 + rough)
    error = middle**2 - 2 * told * middle + 1 if middle >= told else 0.0
    spread = sum(p * (2 * m / k - 1) ** 2 for m, p in enumerate(chances))
    return spread, error / k**2


def naive(n, d, mu, a, *, linear, reach=1.0, radius=1.0):
    """The docstrings with one coordinate a record, loops over ``K`` and ``a``: all records used."""
    best, t1 = 0.0, one_sign(mu)
    for k in range(1, n // d + 1):
        t, told = k * math.sqrt(d) / n, one_sign(k * mu)
        value = t * (1.0 - told) if linear else min(t * reach, radius) ** 2 * (1.0 - told**2)
        best = max(best, value)
        if k > 1 and not linear:
            spread, error = naive_counts(k, t1)
            best = max(best, min(t * reach, radius) ** 2 * min(error, spread))
        for each in a:
            g, u = 2 * (each + 1), 1 / (2 * each + 3)
            h = min((k * t1) ** 2 * g * u, k * g * u)
            share = h / (h + g**2 * u)
            spread, explained = u * (1 + g / k), u * (1 + g / k) ** 2 * share
            if linear:
                law = stats.betabinom(k, each + 1, each + 1)
                fourth = law.expect(lambda m, k=k: ((2 * m - k) / k) ** 4)
                norm = math.sqrt(spread / (1 + (fourth / spread**2 - 1) / d))
                value = t * (norm - math.sqrt(explained))
            else:
                value = min(t * reach, radius) ** 2 * (spread - explained)
            best = max(best, value)
    return best


@pytest.mark.parametrize(("n", "d", "mu"), [(30, 1, 0.2), (60, 4, 0.5), (400, 40, 0.9)])
def test_the_formula(n, d, mu):
    """Compare within the loss of the grids. Records of several coordinates sometimes weigh more."""
    advantage, a = GaussianAdvantage(mu, REPLACE), [-0.9, -0.5, 0.0, 1.0, 4.0, 30.0]
    found = empirical(cls(n, d, 3.0, 0.5, smoothness=0.0), advantage)
    assert found == pytest.approx(1.5 * naive(n, d, mu, a, linear=True), rel=0.03)
    found = empirical(cls(n, d, lipschitz=3.0, radius=1.2, modulus=1.5), advantage)
    expected = 0.75 * naive(n, d, mu, a, linear=False, reach=0.8, radius=1.2)
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("mu", [0.01, 0.05])
@pytest.mark.parametrize("d", [1, 30, 1000])
def test_the_convex_constant(d, mu):
    """``0.578 L R sqrt(d)/(n mu)``, of a one-step method's 0.60; a third of DP-GD's 1.8."""
    n = math.ceil(20 * d / mu)
    bound = empirical(cls(n, d, 2.0, 3.0), GaussianAdvantage(mu, REPLACE))
    assert 0.56 <= bound / (6.0 * math.sqrt(d) / (n * mu)) <= 0.6002


@pytest.mark.parametrize("mu", [0.01, 0.05])
@pytest.mark.parametrize("d", [1, 30])
def test_the_strongly_convex_constant(d, mu):
    """``2 m rho^2 d/(n mu)^2`` is the cost of output perturbation if ``rho`` is ``L/m``."""
    n = math.ceil(1e4 * d / mu)
    c = cls(n, d, lipschitz=1.1, radius=1.0, modulus=0.1)
    bound = empirical(c, GaussianAdvantage(mu, REPLACE))
    assert 0.9 <= bound / (2 * 0.1 * 10.0**2 * d / (n * mu) ** 2) <= 1.0
    sigma = 2.0 * 1.1 / (0.1 * n * mu)
    assert 0.7 <= bound / (0.05 * d * sigma**2) <= (10 / 11) ** 2


def test_without_enough_records_the_bound_is_constant():
    """If ``n << sqrt(d)/kappa`` the bound is ``L R`` up to a few per cent, for any ``n``."""
    few, more = (empirical(cls(n, 10**8), GaussianAdvantage(0.1, REPLACE)) for n in (9, 200))
    assert 0.9 < few <= 1.0
    assert more == pytest.approx(few, rel=0.1)


@pytest.mark.parametrize("modulus", [0.0, 0.5])
def test_units(modulus):
    """Losses times ``a`` and lengths times ``b``: L a/b, R b, m a/b^2, risk a."""
    budget = Budget(epsilon=0.3, delta=1e-6, relation="replace_one")
    pure = Budget(epsilon=0.3, delta=0.0, relation="replace_one")
    for bound in (
        lambda c: empirical(c, ApproximateAdvantage(budget)),
        lambda c: population(c, ApproximateAdvantage(budget)),
        lambda c: empirical(c, ApproximateAdvantage(pure)),
    ):
        one = bound(cls(modulus=modulus))
        assert one > 0.0
        for a, b in itertools.product([0.01, 30.0], [0.2, 7.0]):
            c = cls(lipschitz=a / b, radius=b, modulus=modulus * a / b**2)
            assert bound(c) == pytest.approx(a * one, rel=1e-9)


@pytest.mark.parametrize("modulus", [0.0, 0.5])
def test_more_privacy_is_never_cheaper_and_never_free(modulus):
    """Check down to one record and up to weak privacy.

    The bound is monotone up to the loss of grids.
    """
    c = cls(modulus=modulus)
    for relation in Relation:
        for kind in (
            [GaussianAdvantage(mu, relation) for mu in np.geomspace(1e-3, 4.0, 20)],
            [RenyiAdvantage(mu**2, relation) for mu in np.geomspace(1e-3, 1.0, 20)],
            [
                ApproximateAdvantage(Budget(epsilon=e, delta=1e-6, relation=relation))
                for e in np.geomspace(1e-3, 4.0, 20)
            ],
        ):
            bounds = np.array([empirical(c, advantage) for advantage in kind])
            assert np.all(bounds > 0.0)
            assert np.all(bounds[1:] <= bounds[:-1] * (1 + 1e-9))
    for n, d in itertools.product([1, 2, 10**6], [1, 2, 10**4]):
        advantage = GaussianAdvantage(4.0, REPLACE)
        assert empirical(cls(n, d, modulus=modulus), advantage) > 0.0
        assert population(cls(n, d, modulus=modulus), advantage) > 0.0
    for epsilon in (0.01, 3.0, 30.0):
        pure = Budget(epsilon=epsilon, delta=0.0, relation="replace_one")
        assert lower_bound(c, ApproximateAdvantage(pure)).value > 0.0


@pytest.mark.parametrize(
    "c",
    [
        cls(radius=math.inf),
        cls(lipschitz=math.inf),
        cls(lipschitz=math.inf, radius=math.inf, modulus=1.0),
        cls(lipschitz=1.0, radius=1.0, modulus=1.0),  # reach 0: the data cannot move the minimiser
    ],
)
def test_where_nothing_is_claimed(c):
    budget = Budget(epsilon=0.1, delta=0.0, relation="replace_one")
    for guarantee in (ApproximateAdvantage(budget), GaussianAdvantage(0.1, budget.relation)):
        for quantity in Quantity:
            assert lower_bound(c, guarantee, quantity, rounds=100).value == 0.0


@pytest.mark.parametrize(("lipschitz", "modulus"), [(1.1, 0.1), (1.0, 0.7), (5.0, 4.0)])
def test_hard_losses_belong_to_the_strongly_convex_class(lipschitz, modulus):
    """The bound at negligible mu is that of a mean at distance ``min(rho/n, R)``, or twice that.

    Gradients: ``m (R + rho) = L``. The mean of the records stays within the ball.
    """
    reach = lipschitz / modulus - 1.0
    strict = GaussianAdvantage(1e-9, REPLACE)
    for n in (1, 5, 1000):
        full = empirical(cls(n, 7, lipschitz, 1.0, modulus), strict)
        assert math.sqrt(2.0 * full / modulus) <= min(reach, 1.0) * (1 + 1e-9)
        assert math.sqrt(2.0 * full / modulus) >= 0.9 * min(reach, 1.0)


def test_sparse_records_suffice_for_hidden_signs():
    """Coordinates of one record each: the dimension counts, not the sparsity."""
    dense, sparse = cls(10**5, 100), cls(10**5, 100, sparsity=1)
    advantage = GaussianAdvantage(0.1, REPLACE)
    assert empirical(sparse, advantage) == empirical(dense, advantage)


@pytest.mark.parametrize(("dim", "power"), [(1, 1.0), (3, 1.0), (3, 2.0), (40, 1.0)])
def test_the_packing_of_distances(dim, power):
    """Two values of the density, by integration over the radius, at the optimal ball."""
    found = distances(dim, power)
    shown = np.flatnonzero(found.replaced <= 30.0)[::37]
    assert len(shown) >= 10
    for i in shown:
        z, cost = found.replaced[i], found.cost[i]
        edges = np.geomspace(1e-6, 1.0, 20_000)  # radii of the ball where the density is high
        high, grown = edges**dim, math.expm1(z)
        near = dim / (dim + power) * edges ** (dim + power)
        risks = (dim / (dim + power) + grown * near) / (1.0 + grown * high)
        assert risks.min() == pytest.approx(cost, rel=2e-3)
        top = (1.0 + math.exp(z)) ** (-1.0 / dim)
        low, _ = integrate.quad(lambda r: r**power * dim * r ** (dim - 1), 0.0, top)
        whole = math.exp(-z) * (dim / (dim + power) - low) + math.exp(z) * low
        assert found.removed_cost[i] == pytest.approx(whole, rel=1e-8)
    assert np.all(np.diff(found.replaced) <= 0.0)
    assert np.all(np.diff(found.cost) >= 0.0)


@pytest.mark.parametrize("dim", [2, 3, 50])
def test_the_bounds_of_directions(dim):
    """Compare with a million sorted draws of a coordinate on the sphere."""
    rng, found = np.random.default_rng(0), directions(dim)
    t = rng.normal(size=10**6)
    t = np.sort(t / np.sqrt(t**2 + rng.chisquare(dim - 1, 10**6)))[::-1]
    top, share = np.cumsum(t) / 1e6, np.arange(1, 10**6 + 1) / 1e6
    for z, mean in zip(found.replaced[::101], found.mean[::101], strict=True):
        if z < 9.0:
            grown = math.expm1(z)
            largest = (grown * top / (1.0 + grown * share)).max()
            assert largest == pytest.approx(mean, abs=0.01)
    for z, mean in zip(found.removed[::101], found.removed_mean[::101], strict=True):
        if z < 9.0:
            place = int(1e6 / (1.0 + math.exp(z))) - 1
            assert mean == pytest.approx(2.0 * math.sinh(z) * top[place], abs=0.02)


def test_the_pure_constants():
    """0.557/(n epsilon) in one dimension; ``d/e`` and ``d/10`` of it in many."""
    pure = ApproximateAdvantage(Budget(epsilon=0.01, delta=0.0, relation="replace_one"))
    for smoothness in (None, 0.0):
        one = empirical(cls(10**5, 1, 2.0, 3.0, smoothness=smoothness), pure)
        assert one == pytest.approx(0.557 * 6.0 / (10**5 * 0.01), rel=0.01)
    bounds = hard_data_bounds(cls(10**7, 300), pure)
    assert 1 / math.e < bounds["distances"] * 10**5 / 300 < 0.4
    assert 0.1 < bounds["hidden points"] * 10**5 / 300 < 0.12


def test_without_the_cap_of_the_ball_the_packing_would_be_larger():
    pure = ApproximateAdvantage(Budget(epsilon=0.001, delta=0.0, relation="replace_one"))
    c = cls(100, 3, lipschitz=1.1, radius=1.0, modulus=0.1)
    assert hard_data_bounds(c, pure)["distances"] == pytest.approx(0.05 * 3 / 5, rel=0.05)


# Plans: lower <= upper always, since both are true.


def least(rate):
    """Return the largest lower bound of the rate."""
    return max(value for value, _ in rate.lower)


RELATIONS = list(Relation)
SIZES = [(1, 1), (3, 1000), (50, 10), (10**4, 10**5), (10**5, 3)]
BUDGETS = [(1e-3, 1e-9), (0.1, 1e-5), (1.0, 1e-5), (30.0, 1e-3)]


@pytest.mark.parametrize(
    ("n", "dim", "relation"),
    [
        *((*size, RELATIONS[0]) for size in few(SIZES, SIZES[1:3])),
        *((*SIZES[1], each) for each in RELATIONS[1:]),
    ],
)
def test_plans_have_lower_below_upper(n, dim, relation):
    """The bounds are ordered for all sizes and budgets, tuned or not."""
    choices = {
        "dp_gd": [
            {"steps": 1},
            {"steps": 500},
            {"steps": 50, "step_size": 3.0},
            {"steps": 9, "clip_norm": 0.1},
        ],
        "output_perturbation": [{}, {"regularisation": 1e-3}, {"noise": "norm_laplace"}],
    }
    for epsilon, delta in BUDGETS:
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        for name, each in choices.items():
            for c in (cls(n, dim, 2.0, 0.5), cls(n, dim, smoothness=0.25)):
                for choice in each:
                    rate = privopt.ALGORITHMS[name].plan(c, budget, **choice).rate
                    assert 0.0 < least(rate) <= rate.upper or epsilon > 10.0


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_strongly_convex_plans_have_lower_below_upper(relation, delta):
    for n, dim, epsilon in itertools.product([2, 100, 10**4], [1, 30, 10**4], [0.01, 1.0]):
        c = cls(n, dim, lipschitz=1.0, radius=1.0, modulus=0.1, smoothness=2.0)
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        rate = privopt.output_perturbation(c, budget).rate
        assert 0.0 < least(rate) <= rate.upper


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_gap_of_dp_gd_is_a_constant(relation):
    """The ratio of upper to lower bound is 3.4 to 8, over decades in which privacy dominates."""
    for n, dim, epsilon in itertools.product([10**4, 10**6], [100, 1000], [0.2, 1.0]):
        budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
        rate = privopt.dp_gd(cls(n, dim), budget, steps=2**31 - 1).rate
        assert 1.0 <= rate.upper / least(rate) <= 8.0


def test_the_bounds_of_a_plan_are_of_its_budget_and_of_its_own_guarantee():
    """Pure noise is judged by epsilon; sampled noise by its event, Gaussian noise by mu."""
    c, budget = cls(200, 1000), Budget(epsilon=0.5, delta=1e-6, relation="zero_out")
    pure = Budget(epsilon=0.5, delta=0.0, relation="replace_one")
    ((value, named),) = privopt.output_perturbation(c, pure).rate.lower
    assert (value, named) == (empirical(c, ApproximateAdvantage(pure)), "0.5-DP")
    facts = cls(200, 1000, smoothness=0.25)
    known = lower_bound(facts, ApproximateAdvantage(budget))
    kinds = dict.fromkeys(("dp_sgd", "dp_svrg", "noisy_adam"), "of Renyi divergence")
    for name, kind in {"dp_gd": "0.1241-Gaussian DP", **kinds}.items():
        told = {"steps": 50}
        if name == "dp_svrg":
            told["anchor_every"] = 5
        plan = privopt.ALGORITHMS[name].plan(facts, budget, **told)
        within, own = plan.rate.lower
        assert within == known
        assert own.value > 1.5 * known.value
        assert own.guarantee.startswith(kind)


def test_pure_noise_at_an_approximate_budget_is_judged_by_its_epsilon():
    """Pure noise may have less risk than any Gaussian method of that budget."""
    c = replace(cls(4000, 1000, lipschitz=2.0, radius=1.0, modulus=1.0, smoothness=1.0), sparsity=4)
    budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    laplace, gaussian = (
        privopt.projection_mechanism(c, budget, noise=noise).rate.lower
        for noise in ("laplace", "gaussian")
    )
    assert [each.guarantee for each in laplace] == ["(1, 1e-06)-DP", "1-DP"]
    assert gaussian[0] == laplace[0]
    assert gaussian[1].guarantee.endswith("-Gaussian DP")
    assert gaussian[1].value > 5.0 * laplace[0].value


def test_quantities_of_which_nothing_is_known():
    advantage = GaussianAdvantage(0.1, REPLACE)
    for quantity in ("gradient norm", "accuracy"):
        assert lower_bound(cls(100, 5), advantage, quantity) == (0.0, "0.1-Gaussian DP")
