"""Huge and tiny parameters: no question of the Fourier accountant takes much memory or time."""

import time
import tracemalloc

import dp_accounting as dp
import numpy as np
import pytest

from privopt.privacy import Fourier, Guarantee, grouping
from privopt.privacy.events import BoundedRangeDpEvent as Range
from privopt.privacy.events import ObjectivePerturbationDpEvent as Objective
from privopt.spec import Budget, Relation

G, LAPLACE, SELF = dp.GaussianDpEvent, dp.LaplaceDpEvent, dp.SelfComposedDpEvent
POISSON, RESPONSE = dp.PoissonSampledDpEvent, dp.RandomizedResponseDpEvent
DISCRETE, MIXTURE = dp.dp_event.DiscreteLaplaceDpEvent, dp.dp_event.MixtureOfGaussiansDpEvent
ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
ENOUGH = 2.0  # seconds of processor time
MEMORY = 200 * 2**20  # bytes; some of these took gigabytes

NORMS = [1.0, 2.0, 3.0], [0.9, 0.05, 0.05]
EXTREMES = [
    LAPLACE(1e20),
    SELF(LAPLACE(1e99), 10**6),
    POISSON(1e-9, LAPLACE(1e8)),
    POISSON(1e-9, Range(1e-20)),
    POISSON(1e-4, POISSON(1e-12, G(1.0))),
    POISSON(1e-300, RESPONSE(0.5, 3)),
    RESPONSE(1.0 - 1e-15, 5),
    SELF(RESPONSE(1e-12, 10**6), 1000),
    DISCRETE(2e-6, 10**8),
    SELF(POISSON(0.1, DISCRETE(1e-5, 10**7)), 1000),
    MIXTURE(1e16, *NORMS),
    dp.ComposedDpEvent([MIXTURE(1e16, *NORMS), SELF(LAPLACE(1e3), 10)]),
    SELF(MIXTURE(1e-3, *NORMS), 100),
    G(1e99),
    Objective(1e20, 1e-9),
]


@pytest.mark.parametrize("event", EXTREMES, ids=lambda event: str(event)[:60])
def test_nothing_takes_more_than_its_share(event):
    questions = (
        lambda: Fourier().epsilon(event, ADD, 1e-5),
        lambda: Fourier().delta(event, ADD, 0.0),
        lambda: Fourier().delta(event, ADD, 1e6),
        lambda: Fourier().trade_off(event, ADD, np.linspace(0.0, 1.0, 3)),
    )
    for ask in questions:
        start = time.process_time()
        ask()
        assert time.process_time() - start < ENOUGH
    tracemalloc.start()
    questions[0]()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < MEMORY


def test_what_is_told_is_no_more_than_the_largest_loss():
    for ask, largest in (
        (lambda: Fourier().delta(LAPLACE(1e20), ADD, 0.0), 1e-20),
        (lambda: Fourier().epsilon(POISSON(1e-9, LAPLACE(1e8)), ADD, 0.0), 1e-17),
    ):
        assert ask().upper == pytest.approx(largest, rel=1e-8)
    line = Fourier().trade_off(SELF(RESPONSE(1.0 - 1e-12, 3), 100), ADD, np.array([0.5]))
    assert line == pytest.approx([0.5], abs=1e-8)


def test_the_largest_loss_of_a_rare_sample_has_all_its_digits():
    """``ln(1 + 1e-9 (e^(1e-8) - 1))``, from below too."""
    lower, upper = Fourier().epsilon(POISSON(1e-9, LAPLACE(1e8)), ADD, 0.0)
    assert lower <= 1.000000005e-17 <= upper
    assert upper <= lower * (1.0 + 1e-11)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_sampling_twice_is_sampling_once(relation):
    twice = SELF(POISSON(0.25, POISSON(0.125, G(1.5))), 50)
    once = SELF(POISSON(0.03125, G(1.5)), 50)
    assert Fourier().epsilon(twice, relation, 1e-6) == Fourier().epsilon(once, relation, 1e-6)


def test_budgets_of_many_distinct_steps_ask_about_one_end(monkeypatch):
    monkeypatch.setattr(grouping, "_MAX_RELEASES", 2)
    steps = [POISSON(0.01, LAPLACE(5.0 + 0.01 * i)) for i in range(8)]
    guarantee = Guarantee(dp.ComposedDpEvent(steps), ADD)
    spent, asked = guarantee.epsilon(1e-5), []
    ask = Fourier._epsilon
    monkeypatch.setattr(
        Fourier,
        "_epsilon",
        lambda self, event, *rest: asked.append(event) or ask(self, event, *rest),
    )
    assert spent.lower < spent.upper
    close = spent.lower + 0.5 * (spent.upper - spent.lower)
    assert not guarantee.meets(Budget(epsilon=close, delta=1e-5, relation=ADD))
    below = str(grouping.bracket(guarantee.event)[1])
    assert list(map(str, asked)).count(below) == 1  # by the first accuracy alone
    assert len(asked) > 2
