"""Laws agree with plans, their exponents with their values, crossovers with closed forms."""

import dataclasses
import math

import numpy as np
import pytest

import privopt
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import LAWS, Setting, crossovers, numerical_exponents, winner, winners

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
MU = gaussian_mu(1.0, 1e-6)


def setting(n=4000, dim=2, smoothness=0.25, budget=BUDGET, mu=MU):
    facts = ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=2.0, smoothness=smoothness)
    return Setting(problem_class=facts, budget=budget, mu=mu)


@pytest.mark.parametrize("smoothness", [0.0, 0.25, None])
@pytest.mark.parametrize(
    ("law", "tolerance"), [("dp_gd", 1e-5), ("exponential_mechanism", 1e-5),
                           ("output_perturbation", 0.2), ("phased_sgd", 1e-5)],
)  # fmt: skip
def test_laws_are_the_rates_of_plans(law, tolerance, smoothness):
    """Up to the rounding of noise; output perturbation's plan has the exact norm of its noise."""
    if law == "phased_sgd" and smoothness is None:
        return
    here = setting(smoothness=smoothness)
    plan = privopt.ALGORITHMS[law].plan(here.problem_class, BUDGET)
    rate = LAWS[law](here)
    assert rate.upper == pytest.approx(plan.rate.upper, rel=tolerance)
    assert (rate.exponents, rate.tight_on) == (plan.rate.exponents, plan.rate.tight_on)


def test_the_pure_law_is_the_rate_of_a_plan():
    pure = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    here = setting(budget=pure, mu=1.0)
    plan = privopt.ALGORITHMS["exponential_mechanism"].plan(here.problem_class, pure)
    upper = LAWS["pure_exponential_mechanism"](here).upper
    assert upper == pytest.approx(plan.rate.upper, rel=1e-5)


@pytest.mark.parametrize("smoothness", [0.0, 0.25, None])
@pytest.mark.parametrize("law", LAWS)
def test_every_declared_exponent_is_the_measured_one(law, smoothness):
    here = setting(n=2**18, dim=64, smoothness=smoothness)
    for axis in ("n", "dim", "epsilon"):
        measured = numerical_exponents(LAWS[law], here, axis)
        for term in LAWS[law](here).terms:
            if term.value > 0.0:
                declared = getattr(term.powers, axis)
                assert measured[term.name] == pytest.approx(declared, abs=0.01), (term.name, axis)


@pytest.mark.parametrize("law", LAWS)
def test_the_slope_of_the_bound_is_that_of_its_values(law):
    """``slope`` follows from the powers; here it is compared with the bound a step further on."""
    here = setting(n=2**18, dim=64)
    rate = LAWS[law](here)
    step = 1.01
    further = LAWS[law](here.at(epsilon=step)).upper
    assert math.log(further / rate.upper) / math.log(step) == pytest.approx(
        rate.slope("epsilon"), abs=0.01
    )


def test_crossovers_are_roots():
    """``2 L R (sqrt(d)/(n mu))^{1/2} = 2 sqrt 2 L R sqrt(d)/(n mu)``: at ``n mu = 2 sqrt(d)``."""
    here = setting(dim=400)
    laws = LAWS["output_perturbation"], LAWS["exponential_mechanism"]
    (root,) = crossovers(*laws, here, "n", 2.0, 1e6)
    assert root == pytest.approx(2.0 * 20.0 / MU, abs=1.0)
    (root,) = crossovers(*laws, here, "epsilon", 1e-4, 1e2)
    assert root == pytest.approx(40.0 / (4000 * MU), rel=1e-6)
    assert crossovers(LAWS["dp_gd"], LAWS["dp_gd"], here, "n", 2.0, 1e6) == ()


def test_the_public_start_wins_where_privacy_leaves_nothing():
    laws = {name: LAWS[name] for name in ("dp_gd", "output_perturbation", "public_start")}
    grid = winners(laws, setting(), {"n": (2, 10**6), "dim": (1, 10, 10**4)})
    expected = [["public_start"] * 3, ["dp_gd", "dp_gd", "dp_gd"]]
    np.testing.assert_array_equal(grid, expected)
    assert winner(laws, setting(n=10**6)) == "dp_gd"
    with pytest.raises(ValueError, match="one quantity, got empirical risk, population risk"):
        winner({name: LAWS[name] for name in ("dp_gd", "phased_sgd")}, setting())


def test_the_smooth_law_is_never_above_the_other():
    for n in (50, 500, 5000, 50_000):
        here = setting(n=n, dim=20)
        assert LAWS["dp_gd"](here).upper <= LAWS["non_smooth_dp_gd"](here).upper


def test_settings_move_along_their_axes():
    moved = setting().at(epsilon=2.0, n=10.6, smoothness=0.5)
    assert moved.mu == pytest.approx(2.0 * MU)
    assert (moved.problem_class.n, moved.problem_class.smoothness) == (11, 0.5)
    assert moved.value("epsilon") == moved.budget.epsilon == 2.0
    with pytest.raises(ValueError, match="axis must be one of epsilon, n, dim"):
        setting().at(steps=3)
    with pytest.raises(ValueError, match="mu must be positive and finite, got 0"):
        dataclasses.replace(setting(), mu=0.0)
