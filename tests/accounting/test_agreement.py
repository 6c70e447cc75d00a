"""Every accountant beside every other: relation by relation, sampler by sampler."""

import math
from functools import cache

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.dp_event import (
    MixtureOfGaussiansDpEvent,
    RepeatAndSelectDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import choose

from privopt.accounting import ACCOUNTANTS, ESTIMATORS, Approximation
from privopt.privacy import (
    Fourier,
    Guarantee,
    Interval,
    ObjectivePerturbationDpEvent,
    UnsupportedEventError,
    delta,
    epsilon,
    gaussian_epsilon,
    gaussian_trade_off,
    pure_event,
)
from privopt.spec import Relation

REPLACE, ADD, ZERO = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT

Gaussian, Laplace, Times = dp.GaussianDpEvent, dp.LaplaceDpEvent, dp.SelfComposedDpEvent
Poisson, FixedSize = dp.PoissonSampledDpEvent, dp.SampledWithoutReplacementDpEvent
Tree, Response = dp.SingleEpochTreeAggregationDpEvent, dp.RandomizedResponseDpEvent


def together(*events):
    return dp.ComposedDpEvent(list(events))


EVENTS = {
    "nothing": dp.NoOpDpEvent(),
    "Gaussian": Times(Gaussian(3.0), 10),
    "Laplace": Times(Laplace(5.0), 20),
    "randomised response": Times(Response(0.5, 3), 5),
    "one bit": Times(pure_event(0.2), 30),
    "tree": Times(Tree(8.0, 100), 2),
    "Poisson step": Poisson(0.01, Gaussian(1.0)),
    "Poisson": Times(Poisson(0.01, Gaussian(1.0)), 300),
    "Poisson Laplace": Times(Poisson(0.1, Laplace(1.0)), 50),
    "one sample": Times(Poisson(0.2, together(Gaussian(4.0), Times(Gaussian(6.0), 4))), 3),
    "fixed size": Times(FixedSize(1000, 10, Gaussian(3.0)), 100),
    "fixed-size Laplace": FixedSize(100, 10, Laplace(2.0)),
    "mixed": together(Times(Gaussian(5.0), 10), Laplace(2.0)),
    "mixed samplers": together(Times(Poisson(0.01, Gaussian(1.0)), 50), Gaussian(20.0)),
    "concentrated": dp.ZCDpEvent(0.1, 0.01),
    "objective": ObjectivePerturbationDpEvent(5.0, 0.2),
    "best of many": RepeatAndSelectDpEvent(Gaussian(4.0), 10.0, 1.0),
    "non-private": together(Gaussian(1.0), dp.NonPrivateDpEvent()),
}
EVERYBODY = (*ACCOUNTANTS, *ESTIMATORS)
DELTAS = (1e-10, 0.2)
CLOSED_FORM = ("Laplace", "one bit", "randomised response", "Poisson step", "fixed-size Laplace")


def supporting(event, relation, among=ACCOUNTANTS):
    return [each for each in among if each.supports(event, relation)]


@cache
def certified(event_name, relation, target):
    """Return the Fourier interval, or the trivial interval if the event is not supported."""
    event, accountant = EVENTS[event_name], Fourier()
    if not accountant.supports(event, relation):
        return Interval(0.0, math.inf)
    return accountant.epsilon(event, relation, target)


UNKNOWN = {
    ("tree", ADD),
    ("Poisson Laplace", REPLACE),
    *(
        (name, relation)
        for name in ("fixed size", "fixed-size Laplace")
        for relation in (ADD, ZERO)
    ),
}


# The bounds of one are never below those of another.
# Records zeroed cost what records added do, whoever is asked: a test below says so.
MORE_AND_REPLACED = pytest.mark.parametrize("relation", [ADD, REPLACE])


@pytest.mark.parametrize("name", EVENTS)
@MORE_AND_REPLACED
def test_no_epsilon_is_below_what_another_certifies(name, relation):
    everybody = supporting(EVENTS[name], relation)
    assert bool(everybody) != ((name, relation) in UNKNOWN)
    for target in DELTAS:
        proved = [each.epsilon(EVENTS[name], relation, target) for each in everybody]
        lower = certified(name, relation, target).lower
        assert all(interval.upper >= lower for interval in proved)
        assert max((each.lower for each in proved), default=0.0) <= min(
            (each.upper for each in proved), default=math.inf
        )


@pytest.mark.cases(12)
@pytest.mark.parametrize("name", sorted(set(EVENTS) - {"fixed size", "Poisson"}))
@MORE_AND_REPLACED
def test_no_delta_is_below_what_another_certifies(name, relation):
    usual = certified(name, relation, 1e-5).upper
    for loss in (0.0, usual) if 0.0 < usual < math.inf else (0.0, 1.0):
        everybody = supporting(EVENTS[name], relation)
        if loss == 0.0 or name not in CLOSED_FORM:  # where inverses by search take seconds
            everybody = [each for each in everybody if "composition" not in each.name]
        proved = [each.delta(EVENTS[name], relation, loss) for each in everybody]
        assert all(0.0 <= each.lower <= each.upper <= 1.0 for each in proved)
        assert max((each.lower for each in proved), default=0.0) <= min(
            (each.upper for each in proved), default=1.0
        )


CERTIFIED = [
    (name, relation)
    for name, event in EVENTS.items()
    for relation in Relation
    if name != "non-private" and Fourier().supports(event, relation)
]

BOTH = [name for name in EVENTS if {(name, REPLACE), (name, ZERO)} <= set(CERTIFIED)]


def test_what_is_certified():
    """Count the events and relations, so that none is dropped from the tests below."""
    assert len(CERTIFIED) == 39
    assert sum(relation is REPLACE for _, relation in CERTIFIED) == 14
    assert len(BOTH) == 12


@pytest.mark.cases(12)
@pytest.mark.parametrize(("name", "relation"), CERTIFIED)
def test_a_trade_off_lies_on_the_safe_side_of_what_is_certified(name, relation):
    """``delta(eps) = max_alpha 1 - f(alpha) - e^eps alpha``; a bound of ``f`` gives more."""
    event, exact = EVENTS[name], Fourier()
    alphas = np.append(0.0, np.geomspace(1e-7, 1.0, 200))
    curves = [
        each.trade_off(event, relation, alphas)
        for each in supporting(event, relation)
        if each.name in ("Gaussian DP", "pure DP", "Fourier", "Rényi DP", "zCDP")
    ]
    for curve in curves:
        assert np.all((curve >= 0.0) & (curve <= 1.0 - alphas + 1e-15))
        assert np.all(np.diff(curve) <= 1e-12)
        slopes = np.diff(curve) / np.diff(alphas)
        assert np.all(np.diff(slopes) >= -1e-4 * np.abs(slopes[1:]) - 1e-4)
    for loss in (0.0, 0.2 * exact.epsilon(event, relation, 1e-3).upper):
        lower = exact.delta(event, relation, loss).lower
        for curve in curves:
            # The best test may stand between two alphas, 8 % apart.
            assert np.max(1.0 - curve - math.exp(loss) * alphas) >= 0.99 * lower - 1e-9


@pytest.mark.parametrize("accountant", EVERYBODY, ids=lambda a: a.name)
@pytest.mark.parametrize("z", [0.7, 5.0])
def test_replacing_costs_what_half_the_noise_costs(accountant, z):
    def event(noise):
        return Times(Gaussian(noise), 3)

    if not accountant.supports(event(z), REPLACE):
        assert accountant.name in ("non-private", "pure DP")
        return
    for cheap in (ADD, ZERO):
        whole = accountant.epsilon(event(z), REPLACE, 1e-5)
        half = accountant.epsilon(event(z / 2), cheap, 1e-5)
        full = accountant.epsilon(event(z), cheap, 1e-5)
        if isinstance(whole, Approximation):
            assert whole.value == pytest.approx(half.value, rel=1e-12)
            assert whole.value > 1.5 * full.value
        else:
            assert whole.upper == pytest.approx(half.upper, rel=1e-9)
            assert whole.lower == pytest.approx(half.lower, rel=1e-9)
            assert whole.upper > 1.5 * full.upper


ALL = pytest.mark.parametrize("accountant", EVERYBODY, ids=lambda each: each.name)


@ALL
def test_nothing_released_costs_nothing(accountant):
    alphas, unsampled = np.linspace(0.0, 1.0, 5), [dp.NoOpDpEvent(), Times(Gaussian(0.0), 0)]
    events = [*unsampled, Poisson(0.0, Gaussian(0.0))]
    strangers = {"non-private": events, "pure DP": events[2:], "zCDP": events[2:]}
    known = [each for each in events if accountant.supports(each, REPLACE)]
    assert known == [each for each in events if each not in strangers.get(accountant.name, [])]
    for event in known:
        loss = accountant.epsilon(event, REPLACE, 0.0)
        chance = accountant.delta(event, REPLACE, 0.0)
        curve = accountant.trade_off(event, REPLACE, alphas)
        if isinstance(loss, Approximation):
            assert (loss.value, chance.value) == (0.0, 0.0)
            curve = curve.values
        else:
            assert (*loss, *chance) == (0.0, 0.0, 0.0, 0.0)
        assert curve == pytest.approx(1.0 - alphas, abs=1e-13)


FAR = {  # at most so far below the exact curve
    "Gaussian DP": 1e-12,
    "Fourier": 2e-3,
    "Rényi DP": 0.2,
    "zCDP": 0.2,
    "moments accountant": 0.6,
}


@pytest.mark.parametrize("name", FAR)
def test_a_trade_off_lies_below_the_exact_curve_and_near_it(name):
    alphas = np.append(0.0, np.geomspace(1e-6, 1.0, 60))
    (accountant,) = (each for each in ACCOUNTANTS if each.name == name)
    below = gaussian_trade_off(alphas, 1.0) - accountant.trade_off(
        Times(Gaussian(2.0), 4), ADD, alphas
    )
    assert -1e-12 <= below.min() <= below.max() < FAR[name]
    assert not accountant.trade_off(Gaussian(0.0), ADD, alphas).any()


@pytest.mark.parametrize("name", BOTH)
def test_replacing_is_never_cheaper_and_two_removals_pay_for_it(name):
    """``epsilon_replace(delta)`` is between ``epsilon(delta)`` and the triangle rule."""
    event = EVENTS[name]
    once, replaced = certified(name, ZERO, 1e-5), certified(name, REPLACE, 1e-5)
    assert replaced.upper >= once.lower
    if once.upper < math.inf:
        # A removal and an addition at epsilon each: delta (1 + e^epsilon) at 2 epsilon.
        twice = Fourier().delta(event, REPLACE, 2.0 * once.upper)
        assert twice.lower <= 1e-5 * (1.0 + math.exp(min(once.upper, 700.0)))


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", [name for name in EVENTS if name != "tree"])
def test_a_null_record_is_as_good_as_none(name):
    event = EVENTS[name]
    for accountant in supporting(event, ADD):
        assert accountant.supports(event, ZERO)
        assert accountant.epsilon(event, ADD, 1e-6) == accountant.epsilon(event, ZERO, 1e-6)


@given(st.floats(0.3, 30.0), st.integers(1, 200), st.floats(-12.0, -0.5), st.sampled_from(Relation))
@settings(max_examples=choose(30, 12))
def test_the_exact_gaussian_is_inside_every_interval(z, count, log10_delta, relation):
    target = 10.0**log10_delta
    event = Times(Gaussian(z), count)
    exact = gaussian_epsilon(target, mu=relation.multiple * math.sqrt(count) / z)
    for accountant in supporting(event, relation):
        lower, upper = accountant.epsilon(event, relation, target)
        assert lower <= exact.upper * (1 + 1e-12)
        assert upper >= exact.lower * (1 - 1e-12)


NOBODY = [
    (FixedSize(100, 10, Gaussian(2.0)), (ADD, ZERO)),
    (FixedSize(100, 10, Laplace(2.0)), (ADD, ZERO)),
    (FixedSize(100, 10, Tree(2.0, 5)), Relation),
    (FixedSize(100, 10, Poisson(0.1, Gaussian(2.0))), Relation),
    (FixedSize(10, 11, Gaussian(2.0)), Relation),
    (FixedSize(0, 0, Gaussian(2.0)), Relation),
    (dp.SampledWithReplacementDpEvent(100, 10, Gaussian(2.0)), Relation),
    (Poisson(0.1, FixedSize(100, 10, Gaussian(2.0))), Relation),
    (Poisson(0.1, Tree(2.0, 5)), Relation),
    (Poisson(0.1, together(Gaussian(2.0), Laplace(2.0))), Relation),
    (Poisson(0.1, Times(Laplace(2.0), 2)), Relation),
    (Poisson(0.1, dp.ZCDpEvent(0.1)), Relation),
    (Poisson(0.1, Laplace(2.0)), (REPLACE,)),
    (Poisson(0.1, Response(0.5, 2)), (REPLACE,)),
    (Tree(2.0, 5), (ADD,)),
    (TruncatedSubsampledGaussianDpEvent(100, 1.1, 20, 2.0), Relation),
    (MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]), [REPLACE]),
    (Poisson(1.0, Tree(2.0, 5)), (ADD,)),
    (RepeatAndSelectDpEvent(dp.UnsupportedDpEvent(), 5.0, 1.0), Relation),
    (dp.UnsupportedDpEvent(), Relation),
    (dp.DpEvent(), Relation),
]
REFUSAL = r"does not support .* under zero_out"
SOMEBODY = [  # an event, and who must refuse it although others know it
    (RepeatAndSelectDpEvent(Gaussian(4.0), 10.0, 1.0), {"Fourier", "Gaussian DP", "zCDP"}),
    (dp.ZCDpEvent(0.1), {"Fourier", "Gaussian DP", "pure DP"}),
    (Poisson(0.1, Gaussian(2.0)), {"zCDP", "Gaussian DP", "pure DP"}),
    (Poisson(1.0 - 2.0**-53, Gaussian(2.0)), {"Gaussian DP"}),
    (Poisson(5e-324, Gaussian(2.0)), {"Gaussian DP"}),
    (Poisson(1.0, Laplace(2.0)), {"Gaussian DP", "Rényi DP", "CLT"}),
    (Poisson(0.1, Poisson(0.1, Gaussian(2.0))), {"Gaussian DP", "CLT"}),
    (dp.NonPrivateDpEvent(), {"Gaussian DP", "pure DP", "zCDP", "Rényi DP", "CLT"}),
    (Laplace(1.0), {"Gaussian DP", "CLT"}),
    (Gaussian(1.0), {"pure DP", "non-private"}),
    (together(Gaussian(1.0), Laplace(1.0)), {"pure DP", "Gaussian DP"}),
]


@pytest.mark.parametrize(("event", "relations"), NOBODY, ids=lambda x: str(x)[:60])
def test_what_no_theorem_covers_is_refused_by_everybody(event, relations):
    for relation in relations:
        for whole in (event, together(Gaussian(1.0), Times(event, 3))):
            assert supporting(whole, relation, EVERYBODY) == []
            guarantee = Guarantee(whole, relation)
            assert tuple(guarantee.epsilon(0.5)) == (0.0, math.inf)
            assert tuple(guarantee.delta(20.0)) == (0.0, 1.0)
            assert not guarantee.trade_off([0.0, 0.5]).any()
    rest = set(Relation) - set(relations)
    assert all(supporting(event, relation) for relation in rest)


@pytest.mark.parametrize(
    ("event", "names"), SOMEBODY, ids=[repr(event)[:40] for event, _ in SOMEBODY]
)
def test_an_accountant_refuses_by_name_what_is_beyond_it(event, names):
    assert names <= {each.name for each in EVERYBODY}
    for accountant in EVERYBODY:
        if accountant.name in names:
            assert not accountant.supports(event, ZERO)
            with pytest.raises(UnsupportedEventError, match=REFUSAL):
                epsilon(event, 1e-5, relation="zero_out", accountant=accountant)
            with pytest.raises(UnsupportedEventError, match=REFUSAL):
                delta(event, 1.0, relation="zero_out", accountant=accountant)
    assert supporting(event, ZERO)


PARTS = [
    Times(Gaussian(4.0), 3),
    Laplace(3.0),
    Times(Poisson(0.05, Gaussian(1.0)), 20),
    Response(0.6, 3),
    dp.NoOpDpEvent(),
]


TOGETHER = {  # how many of these parts, whose composition it knows too
    "Gaussian DP": 2,
    "pure DP": 3,
    "zCDP": 4,
    **dict.fromkeys(("Fourier", "Rényi DP", "moments accountant", "basic composition"), 5),
    **dict.fromkeys(("advanced composition (KOV)", "advanced composition (DRV)"), 5),
}


@pytest.mark.parametrize(
    "accountant", [each for each in ACCOUNTANTS if each.name != "non-private"], ids=lambda a: a.name
)
def test_order_and_nesting_of_a_composition_do_not_matter(accountant):
    parts = [part for part in PARTS if accountant.supports(part, ADD)]
    assert len(parts) == TOGETHER[accountant.name]
    flat = together(*parts, *parts)
    known = accountant.epsilon(flat, ADD, 1e-6)
    for same in (
        together(*reversed(parts), *parts),
        Times(together(*parts), 2),
        together(together(*parts[:2]), Times(together(*parts[2:]), 2), together(*parts[:2])),
        together(Times(flat, 1), Times(parts[0], 0)),
    ):
        ours = accountant.epsilon(same, ADD, 1e-6)
        assert ours.upper == pytest.approx(known.upper, rel=1e-9)
        assert ours.lower == pytest.approx(known.lower, rel=1e-9)
        assert ours.lower <= known.upper
        assert known.lower <= ours.upper


@settings(max_examples=15)
@given(
    st.floats(0.005, 0.9),
    st.floats(0.4, 8.0),
    st.integers(1, 300),
    st.floats(-12.0, -1.0),
    st.sampled_from(list(Relation)),
)
def test_less_noise_more_records_more_steps_less_delta_never_cost_less(
    q, z, count, power, relation
):
    def bounds(rate, noise, times, target):
        event = Times(Poisson(rate, Gaussian(noise)), times)
        fourier = Fourier().epsilon(event, relation, target)
        others = [each.epsilon(event, relation, target).upper for each in ACCOUNTANTS[4:5]]
        return fourier, others

    target = 10.0**power
    known, loose = bounds(q, z, count, target)
    for worse in (
        bounds(min(1.0, 1.1 * q), z, count, target),
        bounds(q, z / 1.1, count, target),
        bounds(q, z, count + 1 + count // 10, target),
        bounds(q, z, count, target / 3.0),
    ):
        assert worse[0].upper >= known.lower
        assert all(b >= a * (1 - 1e-9) for a, b in zip(loose, worse[1], strict=True))


RIGHT = [  # events that dp-accounting's accountants account for correctly, and under what
    ("Gaussian", ADD),
    ("Laplace", ADD),
    ("Poisson step", ADD),
    ("Poisson", ADD),
    ("Poisson", REPLACE),
    ("Poisson Laplace", ADD),
    ("mixed", ADD),
    ("mixed samplers", ADD),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("name", "relation"), RIGHT)
def test_its_loss_distributions_agree(name, relation):
    guarantee = Guarantee(EVENTS[name], relation)
    event, theirs = guarantee.exported()
    oracle = PLDAccountant(theirs).compose(event)
    lower, upper = certified(name, relation, 1e-5)
    theirs = oracle.get_epsilon(1e-5)
    assert lower <= theirs <= upper * (1 + 2e-3) + 2e-3


@pytest.mark.parametrize("name", ["Gaussian", "Laplace", "Poisson", "tree", "concentrated"])
def test_its_renyi_bounds_are_never_below_ours(name):
    relation = ZERO if name == "tree" else ADD
    event, named = Guarantee(EVENTS[name], relation).exported()
    oracle = RdpAccountant(neighboring_relation=named)
    if not oracle.supports(event):
        pytest.skip("not known to this version")
    theirs = oracle.compose(event).get_epsilon(1e-5)
    assert theirs >= certified(name, relation, 1e-5).lower
    renyi = next(each for each in ACCOUNTANTS if each.name == "Rényi DP")
    ours = renyi.epsilon(EVENTS[name], relation, 1e-5).upper
    assert ours <= theirs * (1 + 1e-9)
    assert theirs <= 1.2 * ours + 0.05
