"""Events known by their cost: they cost that and no less, alone and composed."""

from __future__ import annotations

import math

import pytest
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent

from privopt.privacy import Guarantee, approximate_event
from privopt.spec import Relation
from privopt.statistics import pure_release
from privopt.statistics.events import resolvable

REPLACE = Relation.REPLACE_ONE


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [1e-20, 1e-3, 1.0, 30.0, 6e5])
def test_a_pure_release_costs_epsilon_and_a_resolvable_one_no_more(relation, epsilon):
    spent = Guarantee(pure_release(epsilon), relation).epsilon(0.0)
    assert spent.upper >= epsilon
    assert spent.lower == pytest.approx(epsilon, rel=1e-11)
    within = Guarantee(pure_release(resolvable(epsilon)), relation).epsilon(0.0)
    assert within.upper <= epsilon


def test_the_ends_are_a_no_op_and_no_privacy():
    assert pure_release(0.0) == NoOpDpEvent()
    assert pure_release(math.inf) == NonPrivateDpEvent()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_an_approximate_event_costs_both_numbers_and_one_of_them_is_not_enough(epsilon, delta):
    guarantee = Guarantee(approximate_event(epsilon, delta), REPLACE)
    assert guarantee.epsilon(delta).upper == pytest.approx(epsilon, rel=1e-9)
    assert guarantee.delta(epsilon * (1 + 1e-9)).upper == pytest.approx(delta, rel=1e-6)
    assert guarantee.epsilon(0.5 * delta).upper == math.inf
    assert guarantee.delta(2.0 * epsilon).lower >= 0.99 * delta


def test_two_approximate_events_cost_at_most_their_sums():
    guarantee = Guarantee(approximate_event(0.5, 1e-6), REPLACE).times(2)
    assert guarantee.epsilon(2.000001e-6).upper == pytest.approx(1.0, rel=1e-6)
    assert guarantee.epsilon(1.9e-6).upper == math.inf
    four = Guarantee(approximate_event(1.0, 1e-6), REPLACE).times(4)
    lie = 1.0 / (1.0 + math.e)  # Kairouz, Oh and Viswanath: a binomial number of lies
    exact = sum(
        math.comb(4, lies)
        * (1.0 - lie) ** (4 - lies)
        * lie**lies
        * max(0.0, -math.expm1(2.5 - (4 - 2 * lies)))
        for lies in range(5)
    )
    exact = 1.0 - (1.0 - 1e-6) ** 4 * (1.0 - exact)
    assert four.delta(2.5).upper == pytest.approx(exact, rel=1e-3)
