"""The best of many bias-reduced runs, each released with its noisy score."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from privopt.privacy import (
    Guarantee,
    PublicMixtureDpEvent,
    RenyiDpEvent,
    Repetitions,
    renyi_divergence,
    select_best,
)
from privopt.privacy.renyi.conversion import renyi_epsilon
from privopt.spec import Relation

REPLACE = Relation.REPLACE_ONE
SIZE, STEPS, NOISE = 2**8, 60, 20.0
BATCHES = 2 ** np.arange(1, 9)
LAW = BATCHES**-1.0 / (BATCHES**-1.0).sum()
ONE = dp.SampledWithoutReplacementDpEvent(SIZE, 1, dp.GaussianDpEvent(NOISE))
LEVELS = PublicMixtureDpEvent(
    tuple(
        dp.SampledWithoutReplacementDpEvent(SIZE, b, dp.GaussianDpEvent(NOISE / math.sqrt(2.0)))
        for b in BATCHES.tolist()
    ),
    tuple(LAW.tolist()),
)
DESCENT = dp.SelfComposedDpEvent(dp.ComposedDpEvent([LEVELS, ONE]), STEPS)
SCORED = dp.ComposedDpEvent([DESCENT, dp.LaplaceDpEvent(40.0)])


@pytest.mark.parametrize("law", [Repetitions.geometric(64.0), Repetitions.poisson(64.0)])
def test_the_selection_costs_more_than_a_run_and_less_than_all(law):
    """Of many: of eight runs all could be released for less than the geometric selection."""
    best = Guarantee(select_best(SCORED, law), REPLACE).epsilon(1e-6).upper
    run = Guarantee(SCORED, REPLACE).epsilon(1e-6).upper
    assert run < best < Guarantee(SCORED, REPLACE).times(64).epsilon(1e-6).upper


def test_random_stopping_costs_what_the_theorem_says():
    """``r(a) + 2 (1 - 1/b) r(b) + 2 ln(1/g)/b + ln(E K)/(a - 1)``, by hand over sixty orders."""
    law = Repetitions.geometric(8.0)
    orders = np.geomspace(1.2, 300.0, 60)
    run = renyi_divergence(SCORED, REPLACE, orders)
    extra = np.min((1.0 - 1.0 / orders) * run + math.log(1.0 / law.gamma) / orders)
    cost = run + 2.0 * extra + math.log(8.0) / (orders - 1.0)
    cost = np.minimum.accumulate(cost[::-1])[::-1]  # a divergence increases with its order
    proved = renyi_divergence(select_best(SCORED, law), REPLACE, orders)
    assert proved == pytest.approx(cost, rel=0.01)
    by_hand = renyi_epsilon(orders, cost, 1e-6)
    best = Guarantee(select_best(SCORED, law), REPLACE).epsilon(1e-6)
    assert best.upper == pytest.approx(by_hand, rel=2e-3)


def test_a_stopped_run_is_selected_at_the_one_order_of_its_filter():
    law, order, divergence = Repetitions.geometric(8.0), 30.5, 0.2
    best = Guarantee(select_best(RenyiDpEvent(order, divergence), law), REPLACE)
    extra = (1.0 - 1.0 / order) * divergence + math.log(1.0 / law.gamma) / order
    cost = divergence + 2.0 * extra + math.log(8.0) / (order - 1.0)
    exact = renyi_epsilon([order], [cost], 1e-6)
    assert best.epsilon(1e-6).upper == pytest.approx(exact, rel=1e-9)
