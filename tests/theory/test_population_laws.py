"""Laws of the population risk: against factorisations, closed forms, and each other."""

import math

import numpy as np
import pytest

import privopt
from privopt.factorisations import factorise
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    LAWS,
    GaussianAdvantage,
    PrefixError,
    Setting,
    crossovers,
    dp_ftrl_law,
    dp_sgd_population_law,
    fresh_noise,
    lower_bound,
    numerical_exponents,
    toeplitz_noise,
    tree_noise,
    winners,
)

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
POPULATION = ("dp_ftrl_tree", "dp_ftrl_toeplitz", "one_pass_sgd", "dp_gd_population", "phased_sgd")


def setting(n=4000, dim=64, smoothness=0.25, mu=None):
    facts = ProblemClass(n=n, dim=dim, lipschitz=3.0, radius=2.0, smoothness=smoothness)
    return Setting(problem_class=facts, budget=BUDGET, mu=mu or gaussian_mu(1.0, 1e-6))


@pytest.mark.parametrize(("name", "noise"), [("tree", tree_noise), ("toeplitz", toeplitz_noise)])
@pytest.mark.parametrize("steps", [1, 2, 3, 100, 1024])
def test_noise_is_that_of_the_factorisation(name, noise, steps):
    factorisation = factorise(name, steps)
    sensitivity, error = noise(steps)
    assert sensitivity == pytest.approx(factorisation.sensitivity(), rel=1e-12)
    assert error.deviation == pytest.approx(np.sqrt(factorisation.variances()).mean(), rel=1e-12)


@pytest.mark.parametrize("noise", [fresh_noise, tree_noise, toeplitz_noise])
@pytest.mark.parametrize("quantity", ["regret", "population risk"])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_exponents_of_the_noise(noise, quantity, batch_size):
    """``d^{1/4} epsilon^{-1/2}`` where noise is correlated; over two doublings of ``n``."""
    here = setting(n=2**14, dim=1024)
    law = dp_ftrl_law(noise, batch_size=batch_size, quantity=quantity)
    rate = law(here)
    correlated = noise is not fresh_noise
    assert rate.exponents["dim"] == (0.25 if correlated else 0.5)
    assert rate.exponents["epsilon"] == (-0.5 if correlated else -1.0)
    measured = numerical_exponents(law, here.at(n=2**13), "n")
    for term in rate.terms:
        assert measured[term.name] == pytest.approx(term.powers.n, abs=1.0 / (2**13 / batch_size))
    assert rate.terms[0].name == ("noise" if correlated else "increments")
    advantage = GaussianAdvantage(here.mu, here.budget.relation)
    facts, rounds = here.problem_class, rate.rounds
    assert 0.0 < lower_bound(facts, advantage, quantity, rounds=rounds).value <= rate.upper


@pytest.mark.parametrize("noise", [tree_noise, toeplitz_noise])
def test_correlated_noise_pays_beyond_a_dimension(noise):
    """Bounds of one batch size cross where ``s sqrt(d)/mu = 2 C y``: fresh noise wins below."""
    here = setting(n=2000)
    sensitivity, error = noise(2000)
    expected = 2.0 * sensitivity * error.deviation * here.mu / 2.0
    roots = crossovers(dp_ftrl_law(fresh_noise), dp_ftrl_law(noise), here, "epsilon", 0.01, 1e3)
    there = setting(n=2000).at(epsilon=roots[0])
    assert 2.0 * 8.0 / there.mu == pytest.approx(2.0 * sensitivity * error.deviation, rel=1e-6)
    dims = crossovers(dp_ftrl_law(fresh_noise), dp_ftrl_law(noise), here, "dim", 1, 1e4)
    assert all(abs(root - expected**2) <= 1.0 for root in dims)


def test_fresh_noise_at_its_best_batch_is_below_all_others_of_one_pass():
    """``R L sqrt(2 s sqrt(d)/(n mu))`` at ``b = s sqrt(d)/mu``: no logarithm."""
    here = setting(n=2**16, dim=1024)
    rate = LAWS["one_pass_sgd"](here)
    assert rate.upper == pytest.approx(6 * math.sqrt(4 * 32 / (2**16 * here.mu)), rel=0.01)
    laws = [LAWS["dp_ftrl_tree"], LAWS["dp_ftrl_toeplitz"], dp_ftrl_law(fresh_noise)]
    assert all(rate.upper < law(here).upper for law in laws)
    assert dp_ftrl_law(fresh_noise, batch_size=round(64 / here.mu))(here).upper == rate.upper


def test_sampled_descent_with_all_records_is_descent():
    here = setting()
    share = math.sqrt(10 * 4000) * 2.0 / here.mu
    law = dp_sgd_population_law(
        lambda _: share, steps=40_000, batch_size=4000, sampler="without_replacement"
    )
    assert law(here).upper == pytest.approx(LAWS["dp_gd_population"](here).upper, rel=1e-12)
    half = dp_sgd_population_law(lambda _: share / 2, steps=40_000, batch_size=4000)
    assert half(here).upper < law(here).upper


def test_who_wins():
    """Many passes over smooth losses; else one pass, or where records are few nothing at all."""
    laws = {name: LAWS[name] for name in POPULATION}
    grid = winners(laws, setting(), {"n": (10**3, 10**5), "dim": (4, 400)})
    assert set(grid.ravel()) == {"dp_gd_population"}
    one_pass = {name: LAWS[name] for name in ("dp_ftrl_toeplitz", "one_pass_sgd", "phased_sgd")}
    grid = winners(one_pass, setting(), {"n": (10**3, 10**7), "dim": (400, 10**4)})
    assert grid.tolist() == [["one_pass_sgd", "one_pass_sgd"], ["phased_sgd", "phased_sgd"]]


@pytest.mark.parametrize("noise", ["tree", "toeplitz", "independent"])
@pytest.mark.parametrize("quantity", ["regret", "population risk"])
def test_laws_are_the_rates_of_plans(noise, quantity):
    """Up to the rounding of noise."""
    here = setting(n=300, dim=5)
    plan = privopt.ALGORITHMS["dp_ftrl"].plan(
        here.problem_class, BUDGET, noise=noise, quantity=quantity, batch_size=7
    )
    known = {"tree": tree_noise, "toeplitz": toeplitz_noise, "independent": fresh_noise}
    rate = dp_ftrl_law(known[noise], batch_size=7, quantity=quantity)(here)
    assert rate.upper == pytest.approx(plan.rate.upper, rel=1e-5)
    assert (rate.rounds, rate.lower) == (plan.rate.rounds, ())
    assert rate.exponents == pytest.approx(dict(plan.rate.exponents), abs=1e-6)
    assert rate.tight_on == plan.rate.tight_on


def test_any_noise_can_be_given():
    def halved(steps):
        sensitivity, error = tree_noise(steps)
        return sensitivity / 2, PrefixError(error.deviation / 2)

    here = setting(n=2**16)
    rate, plain = dp_ftrl_law(halved)(here), LAWS["dp_ftrl_tree"](here)
    assert rate.terms[0].value == pytest.approx(plain.terms[0].value / 2)
