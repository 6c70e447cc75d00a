"""Calibrated noise meets its budget, and a little less noise does not."""

import math

import dp_accounting as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.privacy import (
    Guarantee,
    gaussian_noise_multiplier,
    pure_event,
    pure_noise_multiplier,
)
from privopt.spec import Budget, Relation

RELATIONS = st.sampled_from(list(Relation))
EPSILONS = st.floats(-6.0, 4.0).map(lambda x: 10.0**x)
DELTAS = st.floats(-300.0, -0.1).map(lambda x: 10.0**x)


def gaussian(z, budget, compositions=1):
    return Guarantee(dp.GaussianDpEvent(z), budget.relation).times(compositions)


@given(EPSILONS, DELTAS, RELATIONS, st.integers(1, 10**6))
def test_gaussian_noise_meets_the_budget_and_no_less_does(epsilon, delta, relation, compositions):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    z = gaussian_noise_multiplier(budget, compositions)
    spent = gaussian(z, budget, compositions)
    assert spent.epsilon(delta).upper <= epsilon
    assert spent.delta(epsilon).upper <= delta
    less = gaussian(z * (1 - 1e-6), budget, compositions)
    assert less.epsilon(delta).lower > epsilon
    assert less.delta(epsilon).lower > delta


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 50.0])
def test_noise_is_right_in_sign_and_unit(epsilon, relation):
    """A standard deviation: nine tenths of it overspends, eleven tenths leaves budget over."""
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
    z = gaussian_noise_multiplier(budget)
    assert gaussian(0.9 * z, budget).epsilon(1e-5).lower > 1.05 * epsilon
    assert gaussian(1.1 * z, budget).epsilon(1e-5).upper < 0.95 * epsilon
    b = pure_noise_multiplier(budget)
    assert Guarantee(dp.LaplaceDpEvent(0.9 * b), relation).epsilon(0.0).lower > 1.1 * epsilon
    assert Guarantee(dp.LaplaceDpEvent(1.1 * b), relation).epsilon(0.0).upper < 0.95 * epsilon


@pytest.mark.parametrize(("epsilon", "sigma"), [(1.0, 3.730631634816), (10.0, 0.499888619709)])
def test_golden_noise(epsilon, sigma):
    budget = Budget(epsilon=epsilon, delta=1e-5, relation="add_or_remove_one")
    assert gaussian_noise_multiplier(budget) == pytest.approx(sigma, rel=1e-11)


def test_noise_scales_with_the_relation_and_the_root_of_the_count():
    single, double = (
        Budget(epsilon=0.7, delta=1e-7, relation=name) for name in ("zero_out", "replace_one")
    )
    z = gaussian_noise_multiplier(single)
    assert gaussian_noise_multiplier(double) == pytest.approx(2 * z, rel=1e-12)
    assert gaussian_noise_multiplier(single, 49) == pytest.approx(7 * z, rel=1e-12)
    assert pure_noise_multiplier(double) == pytest.approx(2 / 0.7, rel=1e-12)


@given(EPSILONS, RELATIONS)
def test_pure_noise_meets_the_budget_and_no_less_does(epsilon, relation):
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    b = pure_noise_multiplier(budget)
    assert Guarantee(dp.LaplaceDpEvent(b), relation).epsilon(0.0).upper <= epsilon
    less = Guarantee(dp.LaplaceDpEvent(b * (1 - 1e-12)), relation)
    assert less.epsilon(0.0).lower > epsilon


@given(st.floats(-20.0, math.log10(700.0)))
def test_pure_event_is_never_below_and_tight(log_epsilon):
    epsilon = 10.0**log_epsilon
    lower, upper = Guarantee(pure_event(epsilon), "replace_one").epsilon(0.0)
    assert epsilon <= lower <= upper <= epsilon * (1 + 1e-12) + 2.0**-50


def test_gaussian_noise_cannot_be_pure():
    budget = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
    with pytest.raises(ValueError, match=r"delta must be positive for Gaussian noise, got 0\.0"):
        gaussian_noise_multiplier(budget)


@pytest.mark.parametrize("compositions", [0, -1, 2.0, True])
def test_compositions_are_counted(compositions):
    budget = Budget(epsilon=1.0, delta=1e-5, relation="zero_out")
    with pytest.raises(ValueError, match="compositions must be a positive integer"):
        gaussian_noise_multiplier(budget, compositions)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 701.0, math.nan])
def test_pure_event_refuses_what_it_cannot_describe(epsilon):
    with pytest.raises(ValueError, match="epsilon must"):
        pure_event(epsilon)
