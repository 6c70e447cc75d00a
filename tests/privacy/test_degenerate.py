"""Noise and rates at the ends of float64: no noise is never private, and lower ends are true."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from events import ADD, OUT, Gaussian, Laplace, Poisson, Response, Times, Tree

from privopt.accounting import ACCOUNTANTS
from privopt.privacy import BoundedRangeDpEvent, Fourier, Guarantee, pure_event
from privopt.privacy.events import ObjectivePerturbationDpEvent

ACCOUNTANT = pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda each: each.name)

NOISY = {
    "Gaussian": Gaussian,
    "Laplace": Laplace,
    "tree": lambda z: Tree(z, 4),
    "objective": lambda z: ObjectivePerturbationDpEvent(z, 0.0),
    "selected": lambda z: RepeatAndSelectDpEvent(Laplace(z), 3.0, 1.0),
    "mixture": lambda z: dp.dp_event.MixtureOfGaussiansDpEvent(z, [1.0, 2.0], [0.5, 0.5]),
    "sampled": lambda z: Poisson(0.5, Gaussian(z)),
    "sampled twice": lambda z: Poisson(0.5, Times(Gaussian(z), 2)),
    "sampled Laplace": lambda z: Poisson(0.5, Laplace(z)),
    "truncated": lambda z: dp.TruncatedSubsampledGaussianDpEvent(4, 0.5, 3, z),
    "concentrated": lambda z: dp.ZCDpEvent(1.0 / z if z else math.inf),
    "pure": lambda z: dp.ZCDpEvent(0.0, 1.0 / z if z else math.inf),
    "bounded range": lambda z: BoundedRangeDpEvent(1.0 / z if z else math.inf),
    "response": lambda z: Response(min(z, 1.0), 3),
}


KNOWN = {  # how many of these kinds each accountant knows
    "non-private": 0,
    "Gaussian DP": 2,
    "pure DP": 5,
    "zCDP": 8,
    "Fourier": 13,
    **dict.fromkeys(("Rényi DP", "moments accountant"), 11),
    "basic composition": 14,
    **dict.fromkeys(("advanced composition (KOV)", "advanced composition (DRV)"), 14),
}
PAIRS = [
    pytest.param(each, kind, id=f"{each.name}-{kind}")
    for each in ACCOUNTANTS
    for kind, made in NOISY.items()
    if each.supports(made(1e-5), OUT)
]


def test_everybody_is_asked_for_what_it_knows():
    for each in ACCOUNTANTS:
        assert sum(pair.values[0] is each for pair in PAIRS) == KNOWN[each.name]


@pytest.mark.cases(12)
@pytest.mark.parametrize(("accountant", "kind"), PAIRS)
def test_no_noise_is_not_private_and_little_noise_is_not_none(accountant, kind):
    """Released once and several times; numbers between that overflow in their own ways."""
    for noise, count in ((0.0, 1), (0.0, 7), (5e-324, 7), (1e-310, 1), (1e-200, 7), (1e-5, 1)):
        event = Times(NOISY[kind](noise), count)
        assert accountant.supports(event, OUT)
        spent = [accountant.epsilon(event, OUT, delta) for delta in (1e-6, 0.3)]
        lost = accountant.delta(event, OUT, 1.0)
        if noise == 0.0:
            assert {each.upper for each in spent} == {math.inf}
            assert lost.upper >= 0.5 - 1e-9
        elif 1.0 / noise < math.inf or kind not in ("concentrated", "pure", "bounded range"):
            assert all(each.lower < math.inf for each in spent), (noise, spent)
            assert accountant.epsilon(event, OUT, 0.0).upper > 0.0


@pytest.mark.parametrize("p", [1.0 - 1e-12, 1.0 - 1e-9, 1e-200])
def test_the_loss_of_two_buckets_is_known_to_the_last_digits(p):
    """Near ``p = 1`` the lower end once exceeded the truth by a relative 5e-5."""
    exact = math.log1p((1.0 - p) * 2.0 / p)
    lower, upper = Fourier().epsilon(Response(p, 2), OUT, 0.0)
    assert lower <= exact <= upper <= exact * (1.0 + 1e-9)


@pytest.mark.cases(30)
@ACCOUNTANT
@pytest.mark.parametrize("loss", [1e-300, 1e-20, 1e-3, 800.0, 1e5, 1e200, 1e308])
def test_every_pure_loss_has_answers(accountant, loss):
    event = Times(pure_event(loss), 3)
    if accountant.name in ("non-private", "Gaussian DP"):
        assert not accountant.supports(event, ADD)
        return
    exact = Guarantee(event, ADD).epsilon(1e-6)
    spent = accountant.epsilon(event, ADD, 1e-6)
    assert spent.lower <= exact.upper
    assert spent.upper >= exact.lower
    assert 0.0 <= accountant.delta(event, ADD, 0.5).lower <= 1.0
    assert not np.isnan(accountant.trade_off(event, ADD, np.array([0.0, 0.1, 1.0]))).any()
