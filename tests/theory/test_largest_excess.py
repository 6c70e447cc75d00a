"""What the set allows: attained by quadratics, exceeded by nothing, and above every rate."""

import dataclasses
import math

import numpy as np
import pytest

import privopt
from privopt.spec import Budget, ProblemClass
from privopt.theory.rate import largest_excess


def facts(lipschitz, modulus=0.0, radius=1.0):
    return ProblemClass(
        n=50, dim=1, lipschitz=lipschitz, radius=radius, strong_convexity=modulus, smoothness=2.0
    )


@pytest.mark.parametrize("radius", [1.0, 0.3])
@pytest.mark.parametrize("lipschitz", [0.5, 0.7, 1.0, 3.0])
def test_a_quadratic_attains_it(lipschitz, radius):
    """``(m/2) w^2 + s w`` on the line, at ``m R = 1/2``, for all slopes that the class allows."""
    c = facts(lipschitz, 0.5 / radius, radius)
    line = np.linspace(-radius, radius, 4001)
    found = 0.0
    for slope in np.linspace(0.0, lipschitz - 0.5, 41):
        risk = 0.25 / radius * line**2 + slope * line
        found = max(found, risk.max() - risk.min())
    assert found == pytest.approx(largest_excess(c), rel=1e-6)


def test_without_curvature_it_is_the_diameter_times_the_slope():
    assert largest_excess(facts(3.0)) == 6.0
    whole = dataclasses.replace(facts(3.0), radius=math.inf)
    assert largest_excess(whole) == math.inf
    assert largest_excess(dataclasses.replace(facts(3.0), lipschitz=math.inf)) == math.inf


@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd", "dp_svrg", "dp_ftrl", "output_perturbation"])
@pytest.mark.parametrize("modulus", [0.0, 0.5])
def test_no_plan_is_above_it(name, modulus):
    """With hardly any budget every bound is what the set allows, and out of its regime."""
    c = dataclasses.replace(facts(1.0, modulus), dim=200)
    budget = Budget(epsilon=0.01, delta=1e-6, relation="replace_one")
    rate = privopt.ALGORITHMS[name].plan(c, budget).rate
    assert rate.upper == rate.cap == largest_excess(c)
    assert not rate.in_regime
    assert rate.slope("n") == 0.0
