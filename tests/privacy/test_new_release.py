"""A kind of release in one file: registered, it is known to every accountant, filter and export."""

import math
from dataclasses import dataclass

import attr
import dp_accounting as dp
import numpy as np
import pytest
from events import ADD, REPLACE, FixedSize, Gaussian, Poisson, Times, Together

from privopt.accounting import DpAccountant, ZCDPOdometer
from privopt.privacy import (
    ZCDP,
    Fourier,
    GaussianDP,
    GaussianFilter,
    Guarantee,
    PureDP,
    Release,
    Renyi,
    renyi_divergence,
)
from privopt.privacy.mechanisms.base import LargestLoss, Shift
from privopt.spec import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation=ADD)


@attr.s(frozen=True, auto_attribs=True)
class StairsDpEvent(dp.DpEvent):
    """Noise in steps: ``loss``-DP when one contribution moves."""

    loss: float


@dataclass(frozen=True)
class Stairs(Release, event=StairsDpEvent, parameters=("loss",)):
    """A release that declares only its largest loss."""

    largest: float

    def loss(self, relation):
        return LargestLoss(self.largest * relation.multiple)


@attr.s(frozen=True, auto_attribs=True)
class TwiceDpEvent(dp.DpEvent):
    """Two Gaussian releases of one query."""

    noise: float


@dataclass(frozen=True)
class Twice(Release, event=TwiceDpEvent, parameters=("noise",)):
    """A release that declares only its equivalent Gaussian releases."""

    noise: float

    def shifts(self, relation):
        return (Shift(relation.multiple, self.noise, 2),)


STAIRS, TWICE = StairsDpEvent(0.1), TwiceDpEvent(20.0)
GAUSSIANS = Times(Gaussian(20.0), 2)
RELATIONS = pytest.mark.parametrize("relation", [ADD, REPLACE])


@RELATIONS
@pytest.mark.parametrize("accountant", [Fourier(), Renyi(), ZCDP(), PureDP()])
def test_every_accountant_proves_of_the_toy_what_it_proves_of_a_pure_release(accountant, relation):
    run = Times(STAIRS, 30)
    pure = Times(dp.ZCDpEvent(0.0, 0.1 * relation.multiple), 30)
    assert accountant.supports(run, relation)
    ours, theirs = (accountant.epsilon(each, relation, 1e-6).upper for each in (run, pure))
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert 0.0 < accountant.delta(run, relation, 0.5).upper < 1.0


@RELATIONS
@pytest.mark.parametrize("accountant", [Fourier(), Renyi(), ZCDP(), GaussianDP()])
def test_every_accountant_proves_of_two_gaussians_what_it_proves_of_both(accountant, relation):
    ours, theirs = (accountant.epsilon(each, relation, 1e-6) for each in (TWICE, GAUSSIANS))
    assert ours.upper == pytest.approx(theirs.upper, rel=1e-3)
    assert ours.lower == pytest.approx(theirs.lower, rel=1e-3)


def test_a_sample_of_the_toy_is_amplified():
    whole, sampled = (
        Guarantee(Times(each, 50), ADD).epsilon(1e-6) for each in (STAIRS, Poisson(0.1, STAIRS))
    )
    assert sampled.upper < 0.2 * whole.upper
    assert sampled.lower == 0.0  # no pair of data sets is known to attain it
    fixed = FixedSize(100, 10, STAIRS)
    assert 0.0 < Guarantee(fixed, REPLACE).epsilon(0.0).upper < 0.04
    assert Guarantee(Poisson(0.1, STAIRS), REPLACE).epsilon(0.5).upper == math.inf


def test_filter_and_odometer_take_the_toy():
    assert GaussianFilter(BUDGET).fits(STAIRS) == GaussianFilter(BUDGET).fits((0.1, 0.0))
    assert GaussianFilter(BUDGET).fits(TWICE) == GaussianFilter(BUDGET).fits(GAUSSIANS)
    assert ZCDPOdometer(1e-6, ADD, 0.1).after(STAIRS, 10).epsilon > 0.0


@RELATIONS
def test_dp_accounting_can_be_asked_about_the_toy(relation):
    event, theirs = Guarantee(Together([STAIRS, TWICE]), relation).exported()
    reading = dp.rdp.RdpAccountant(neighboring_relation=theirs).compose(event).get_epsilon(1e-6)
    certain = Guarantee(Together([STAIRS, TWICE]), relation).epsilon(1e-6)
    assert certain.lower <= reading <= 1.5 * certain.upper
    adapted = DpAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE).compose(STAIRS, 3)
    assert adapted.get_epsilon(0.0) == pytest.approx(0.3)


@RELATIONS
def test_divergences_of_the_toy_are_those_of_one_bit(relation):
    loss, orders = 0.1 * relation.multiple, np.array([1.5, 2.0, 30.0])
    bit = np.log((np.exp(orders * loss) + np.exp((1 - orders) * loss)) / (1.0 + math.exp(loss))) / (
        orders - 1.0
    )
    assert renyi_divergence(STAIRS, relation, orders) == pytest.approx(bit, rel=1e-9)


def test_a_number_that_makes_no_sense_is_not_supported():
    assert Guarantee(StairsDpEvent(-1.0), ADD).epsilon(0.5).upper == math.inf
