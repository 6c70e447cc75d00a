"""Numbers at the edges of float64, and things that are no numbers: an answer or a clear refusal."""

import math
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.dp_event import (
    MixtureOfGaussiansDpEvent,
    RepeatAndSelectDpEvent,
)

from privopt.accounting import ACCOUNTANTS, CLT, ESTIMATORS, Advanced, Basic, Moments
from privopt.accounting.compared import advanced_epsilon
from privopt.privacy import (
    ZCDP,
    BoundedRangeDpEvent,
    GaussianDP,
    Guarantee,
    ObjectivePerturbationDpEvent,
    PureDP,
    Renyi,
    Repetitions,
    UnsupportedEventError,
    epsilon,
    gaussian_noise_multiplier,
    group_privacy,
    pure_noise_multiplier,
    select_best,
    trade_off,
)
from privopt.privacy.flatten import flatten
from privopt.privacy.mechanisms.base import gaussian_cost, zcdp_cost
from privopt.privacy.numbers import half_square, weighted_sum
from privopt.spec import Budget, Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
Gaussian, Laplace, Response = dp.GaussianDpEvent, dp.LaplaceDpEvent, dp.RandomizedResponseDpEvent
Poisson, FixedSize = dp.PoissonSampledDpEvent, dp.SampledWithoutReplacementDpEvent
Tree, Times = dp.SingleEpochTreeAggregationDpEvent, dp.SelfComposedDpEvent
HUGE, MOST = 10**400, 10**100


NO_NUMBERS = ["1", None, 1j, [1.0], {}, True, math.nan, -1.0, -1e-300, -math.inf]
NO_NUMBERS += [np.array([1.0, 2.0]), np.array(1.0)]
FITTING = {("parts", "[1.0]"), ("shape", "-1e-300")}  # the part is none; a number like others
KINDS = {
    "Gaussian": Gaussian,
    "Laplace": Laplace,
    "response": lambda x: Response(x, 2),
    "buckets": lambda x: Response(0.5, x),
    "tree": lambda x: Tree(x, 3),
    "steps": lambda x: Tree(1.0, x),
    "steps of one tree": lambda x: Tree(1.0, [3, x]),
    "objective": lambda x: ObjectivePerturbationDpEvent(x, 0.0),
    "jacobian": lambda x: ObjectivePerturbationDpEvent(1.0, x),
    "span": BoundedRangeDpEvent,
    "norms": lambda x: MixtureOfGaussiansDpEvent(x, [1.0, 2.0], [0.5, 0.5]),
    "truncated": lambda x: dp.TruncatedSubsampledGaussianDpEvent(4, x, 3, 1.0),
    "truncated noise": lambda x: dp.TruncatedSubsampledGaussianDpEvent(4, 0.5, 3, x),
    "zCDP": lambda x: dp.ZCDpEvent(x, 0.0),
    "offset": lambda x: dp.ZCDpEvent(0.1, x),
    "rate": lambda x: Poisson(x, Gaussian(1.0)),
    "sampled": lambda x: Poisson(0.1, Gaussian(x)),
    "of what": lambda x: Poisson(0.1, x),
    "size": lambda x: FixedSize(x, 1, Gaussian(1.0)),
    "batch": lambda x: FixedSize(10, x, Gaussian(1.0)),
    "mean": lambda x: RepeatAndSelectDpEvent(Gaussian(1.0), x, 1.0),
    "shape": lambda x: RepeatAndSelectDpEvent(Gaussian(1.0), 2.0, x),
    "count": lambda x: Times(Gaussian(1.0), x),
    "parts": dp.ComposedDpEvent,
    "part": lambda x: dp.ComposedDpEvent([Gaussian(1.0), x]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_is_answered_with_no(kind):
    for value in NO_NUMBERS:
        if (kind, repr(value)) in FITTING:
            continue
        event = KINDS[kind](value)
        for each in (*ACCOUNTANTS, *ESTIMATORS):
            for relation in Relation:
                assert not each.supports(event, relation), (each.name, value)
        assert Guarantee(event, ADD).epsilon(1e-5).upper == math.inf
        for cost in (gaussian_cost, zcdp_cost):
            assert cost(event, ADD) is None


@pytest.mark.parametrize(
    "event",
    [
        Response(1.0 + 2.0**-52, 2),
        Response(0.5, 1),
        Tree(1.0, 2.5),
        Tree(1.0, "8"),
        Poisson(1.0 + 2.0**-52, Gaussian(1.0)),
        Poisson(math.inf, Gaussian(1.0)),
        FixedSize(10, 2.0, Gaussian(1.0)),
        RepeatAndSelectDpEvent(Gaussian(1.0), 0.5, 1.0),
        Times(Gaussian(1.0), 2.0),
        Times(dp.ComposedDpEvent([Gaussian(1.0), Gaussian(-1.0)]), 2),
        dp.TruncatedSubsampledGaussianDpEvent(4, math.inf, 3, 1.0),
    ],
    ids=str,
)
def test_numbers_out_of_range_are_answered_with_no(event):
    for relation in Relation:
        assert not any(each.supports(event, relation) for each in (*ACCOUNTANTS, *ESTIMATORS))


def test_alphas_are_numbers():
    for alphas in (["0.5"], [True], np.array([True]), [None], [1j], [10**400]):
        with pytest.raises(ValueError, match="alphas must"):
            trade_off(Gaussian(1.0), alphas, relation="zero_out")
    assert trade_off(Gaussian(1.0), [Fraction(1, 2)], relation="zero_out").dtype == np.float64


@pytest.mark.parametrize("count", [-5, 1.5, True, "2"])
def test_advanced_composition_counts_whole_releases(count):
    with pytest.raises(ValueError, match="count must be a non-negative integer"):
        advanced_epsilon([(0.1, count)], 1e-5)


def test_unhashable_parts_cost_what_hashable_ones_do():
    event = dp.ComposedDpEvent([Gaussian(3.0), Tree(1.0, [3, 4]), Gaussian(3.0)])
    assert gaussian_cost(event, REPLACE) == pytest.approx(2 * 4 / 9 + 3 * 4, rel=1e-12)
    assert gaussian_cost(event, ADD) is None
    thrice = dp.ComposedDpEvent([Gaussian(3.0), Times(Gaussian(3.0), 2)])
    assert gaussian_cost(thrice, REPLACE) == 3 * Fraction(4, 9)


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda one: one.name)
def test_float32_parameters_are_computed_with_in_float64(accountant):
    for make in (lambda x: Response(x, 2), Laplace):
        narrow, wide = make(np.float32(1e-3)), make(float(np.float32(1e-3)))
        if accountant.supports(wide, ADD):
            assert accountant.epsilon(narrow, ADD, 0.0) == accountant.epsilon(wide, ADD, 0.0)
            assert accountant.delta(narrow, ADD, 0.5) == accountant.delta(wide, ADD, 0.5)
    batch = FixedSize(np.int8(100), np.int8(3), Gaussian(1.0))
    if accountant.supports(batch, REPLACE):
        exact = accountant.epsilon(FixedSize(100, 3, Gaussian(1.0)), REPLACE, 1e-5)
        assert accountant.epsilon(batch, REPLACE, 1e-5) == exact


LITTLE = {
    "Gaussian": Gaussian(1e170),
    "Laplace": Laplace(1e170),
    "Poisson": Poisson(1e-200, Gaussian(1e170)),
    "fixed size": FixedSize(10**100, 1, Gaussian(1e170)),
    "tree": Tree(1e170, 5),
    "one bit": Response(math.nextafter(1.0, 0.0), 2),
    "mixed": dp.ComposedDpEvent([Gaussian(1e170), dp.ZCDpEvent(0.0, 0.0)]),
    "selected": select_best(Gaussian(1e170), Repetitions(1.0, 1.0)),
}


@pytest.mark.parametrize("kind", LITTLE)
@pytest.mark.parametrize("count", [1, 10**100])
def test_a_loss_that_underflows_is_not_nothing(kind, count):
    event = Times(LITTLE[kind], count)
    for accountant in (Renyi(), Moments(), ZCDP()):
        if accountant.supports(event, REPLACE):
            assert accountant.epsilon(event, REPLACE, 0.0).upper > 0.0, accountant.name
            assert accountant.delta(event, REPLACE, 0.0).upper > 0.0, accountant.name
    if kind not in ("Poisson", "fixed size"):
        assert epsilon(event, 0.0, relation=REPLACE).upper > 0.0


def test_what_is_learnt_of_noise_without_end_is_nothing():
    for event in (
        Gaussian(math.inf),
        Laplace(math.inf),
        Response(1.0, 2),
        Poisson(0.0, Gaussian(1)),
    ):
        for accountant in ACCOUNTANTS:
            if accountant.supports(Times(event, MOST), ADD) and accountant.name != "Fourier":
                assert accountant.epsilon(Times(event, MOST), ADD, 0.0).upper == 0.0


def test_costs_that_underflow_are_paid():
    for release in (Laplace(1e170), Response(math.nextafter(1.0, 0.0), 2), (1e-200, 0.0)):
        assert zcdp_cost(release, ADD) > 0.0


def test_sums_that_leave_float64():
    assert (weighted_sum([(1e308, 1), (1e308, 1)]), weighted_sum([])) == (math.inf, 0.0)
    assert weighted_sum([(-1e308, 1), (-1e308, 1)]) == -math.inf
    assert weighted_sum([(0.5, 3), (1e-60, MOST)]) == pytest.approx(1e40)
    assert 0.0 == half_square(0.0) < half_square(1e-200)
    assert half_square(3.0) == 4.5


@pytest.mark.parametrize("accountant", [*ACCOUNTANTS, *ESTIMATORS], ids=lambda one: one.name)
def test_the_largest_counts_have_answers(accountant):
    events = Gaussian(1.0), Laplace(1.0), Poisson(0.1, Gaussian(1.0)), Response(0.5, 3)
    for event, count in ((Gaussian(1.0), 10**30), *((each, 10**50) for each in events)):
        often = Times(Times(event, count), count)
        if accountant.supports(often, ADD):
            answers = accountant.epsilon(often, ADD, 1e-5), accountant.delta(often, ADD, 1.0)
            if accountant not in ESTIMATORS:
                assert answers[0].upper > 1e10
                assert answers[1].upper == pytest.approx(1.0)


def test_larger_counts_are_refused():
    for event in (Times(Gaussian(1.0), HUGE), Times(Times(Gaussian(1.0), 10**80), 10**80)):
        assert not any(each.supports(event, ADD) for each in (*ACCOUNTANTS, *ESTIMATORS))
        assert tuple(Guarantee(event, ADD).epsilon(1e-5)) == (0.0, math.inf)
        assert gaussian_cost(event, ADD) is None
    with pytest.raises(UnsupportedEventError, match="count must be at most 1e100"):
        epsilon(Times(Gaussian(1.0), HUGE), 1e-5, relation=ADD)
    for refused in (
        lambda: Guarantee(Gaussian(1.0), ADD).times(HUGE),
        lambda: group_privacy(1.0, 0.1, HUGE),
        lambda: gaussian_noise_multiplier(Budget(epsilon=1.0, delta=1e-5, relation=ADD), HUGE),
    ):
        with pytest.raises(ValueError, match="must be at most 1e100"):
            refused()


def test_the_largest_counts_meet_the_largest_noise():
    assert PureDP().epsilon(Times(Laplace(1e80), MOST), ADD, 0.0).contains(1e20)
    assert GaussianDP().distance(Times(Gaussian(1e50), MOST), ADD).contains(1.0)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    assert gaussian_noise_multiplier(budget, MOST) == pytest.approx(3.730631634816e50, rel=1e-9)
    assert Basic().epsilon(Times(Laplace(1e60), MOST), ADD, 1e-5).upper == pytest.approx(1e40)
    for accountant in (Advanced("kov"), Advanced("drv")):  # the true drift is 5e9
        assert accountant.epsilon(Times(Laplace(1e45), MOST), ADD, 1e-5).upper > 5e9
    with pytest.raises(ValueError, match="noise that float64 can hold"):
        pure_noise_multiplier(Budget(epsilon=1e-310, delta=0.0, relation=ADD))


def test_the_largest_groups():
    assert group_privacy(1e210, 0.1, MOST) == (math.inf, 1.0)
    assert group_privacy(1e210, 0.0, MOST) == (math.inf, 0.0)
    assert group_privacy(0.0, 0.0, MOST) == (0.0, 0.0)
    assert group_privacy(1e-60, 0.0, MOST)[0] == pytest.approx(1e40)


def test_parameters_beyond_float64_are_refused_clearly():
    for event in (
        FixedSize(HUGE, 3, Gaussian(1.0)),
        RepeatAndSelectDpEvent(Gaussian(1.0), 1e308, 1.0),
        Gaussian(HUGE),
        Response(0.5, HUGE),
    ):
        with pytest.raises(UnsupportedEventError, match="no accountant supports"):
            epsilon(event, 1e-5, relation=REPLACE)
    sampled = Poisson(1e-200, Gaussian(0.01))
    assert CLT().mu(dp.SelfComposedDpEvent(sampled, 10), ADD).value == math.inf
    # e^(1/z^2) = e^900 leaves float64, and so small a rate brings it back.
    assert CLT().mu(Poisson(1e-195, Gaussian(1.0 / 30.0)), ADD).value == pytest.approx(
        math.exp(450.0 + math.log(1e-195)), rel=1e-9
    )
    assert CLT().epsilon(sampled, ADD, 1e-5).value > 0.0


def test_thirty_doublings_are_thirty_steps():
    event = Gaussian(1e4)
    for _ in range(30):
        event = dp.ComposedDpEvent((event, event))
    assert list(flatten(event)) == [(Gaussian(1e4), 2**30)]
    assert Guarantee(event, ADD).epsilon(1e-5) == Guarantee(
        Times(Gaussian(1e4), 2**30), ADD
    ).epsilon(1e-5)


def test_leaves_keep_their_order_and_their_counts():
    a, b = Gaussian(1.0), Laplace(2.0)
    shared = dp.ComposedDpEvent([b, a])
    event = dp.ComposedDpEvent([a, Times(shared, 3), dp.NoOpDpEvent(), Times(b, 0), shared])
    assert list(flatten(event)) == [(a, 5), (b, 4)]
    assert list(flatten(Times(a, 0))) == []
    assert list(flatten(a)) == [(a, 1)]
