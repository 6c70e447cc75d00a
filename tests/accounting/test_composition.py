"""Basic, advanced and optimal composition: printed numbers, exact sums, planted faults."""

import math

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from privopt.accounting import Advanced, Basic, advanced_epsilon, optimal_delta, optimal_epsilon
from privopt.privacy import (
    Guarantee,
    approximate_event,
    gaussian_epsilon,
    gaussian_trade_off,
    pure_event,
)
from privopt.spec import Relation

ADD = Relation.ADD_OR_REMOVE_ONE
EVERY_RELATION = pytest.mark.parametrize("relation", list(Relation))
EVERY_FORM = pytest.mark.parametrize("form", ["kov", "drv"])


def gaussian(z, k=1):
    return dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), k)


@pytest.mark.parametrize(("form", "epsilon"), [("drv", 6.308230950513), ("kov", 5.756105519336)])
@EVERY_RELATION
def test_golden_composition(form, epsilon, relation):
    assert advanced_epsilon([(0.1, 100)], 1e-6, form) == pytest.approx(epsilon, rel=1e-12)
    event = dp.SelfComposedDpEvent(pure_event(0.1), 100)
    assert Advanced(form).epsilon(event, relation, 1e-6).upper == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(("form", "epsilon"), [("drv", 8.220e-4), ("kov", 8.359e-4)])
def test_golden_number_of_queries(form, epsilon):
    """The largest single ``epsilon`` of 5e4 queries with total 1 and slack 1e-6."""
    assert advanced_epsilon([(epsilon - 5e-8, 50_000)], 1e-6, form) <= 1.0
    assert advanced_epsilon([(epsilon + 1e-7, 50_000)], 1e-6, form) > 1.0
    assert epsilon * 50_000 == pytest.approx(41.0 if form == "drv" else 41.8, rel=5e-3)


@pytest.mark.parametrize(("epsilon", "crossover"), [(0.1, 34.5), (0.6, 873.0)])
def test_crossover_with_basic_composition(epsilon, crossover):
    """``k > 2 ln(1/delta') / (2 - e^epsilon)^2``, and none from ``ln 2`` on."""
    exact = -2.0 * math.log(1e-6) / (2.0 - math.exp(epsilon)) ** 2
    assert exact == pytest.approx(crossover, rel=2e-3)
    for k in (math.floor(exact), math.ceil(exact)):
        assert (advanced_epsilon([(epsilon, k)], 1e-6, "drv") < k * epsilon) == (k > exact)
    assert advanced_epsilon([(math.log(2.0), 10**9)], 1e-6, "drv") > 10**9 * math.log(2.0)


def exact_delta(epsilon, delta, k, total):
    """The formula of Kairouz, Oh and Viswanath as printed, term by term."""
    epsilon, delta, total = mpmath.mpf(epsilon), mpmath.mpf(delta), mpmath.mpf(total)
    terms = (
        math.comb(k, lies)
        * max(mpmath.exp((k - lies) * epsilon) - mpmath.exp(total + lies * epsilon), mpmath.mpf(0))
        for lies in range(k + 1)
    )
    rest = mpmath.fsum(terms) / (1 + mpmath.exp(epsilon)) ** k
    return 1 - (1 - delta) ** k * (1 - rest)


def test_golden_optima():
    assert optimal_epsilon(0.1, 0.0, 100, 1e-6).contains(4.77456758811)
    assert optimal_epsilon(0.2, 1e-8, 30, 1e-6).contains(5.08024678906)
    assert optimal_delta(0.1, 0.0, 100, 1.0).contains(0.125688390241)


@pytest.mark.cases(3)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 0.0), (0.3, 1e-7), (2.0, 1e-3)])
@pytest.mark.parametrize("k", [1, 7, 60])
def test_the_optimum_holds_the_exact_sum(epsilon, delta, k):
    with mpmath.workdps(60):
        for fraction in (0.0, 0.1, 0.5):
            total = fraction * k * epsilon
            exact = exact_delta(epsilon, delta, k, total)
            found = optimal_delta(epsilon, delta, k, total)
            assert found.lower <= exact <= found.upper
            assert found.width <= 2e-3 * exact
        for target in (min(2.0 * k * delta + 1e-9, 0.5), 0.5):
            lower, upper = optimal_epsilon(epsilon, delta, k, target)
            assert exact_delta(epsilon, delta, k, upper) <= target
            assert lower == 0.0 or exact_delta(epsilon, delta, k, lower) >= target
            assert upper - lower <= 1e-3 * max(upper, 1e-3)


def test_edges_of_the_optimum():
    assert tuple(optimal_epsilon(0.0, 0.0, 50, 0.0)) == (0.0, 0.0)
    assert tuple(optimal_epsilon(0.3, 0.0, 0, 0.0)) == (0.0, 0.0)
    assert tuple(optimal_epsilon(0.3, 0.1, 10, 0.5)) == (math.inf, math.inf)
    assert tuple(optimal_delta(0.3, 0.0, 10, 3.1)) == (0.0, 0.0)
    assert optimal_epsilon(0.3, 0.0, 10, 0.0).contains(3.0)


@EVERY_RELATION
@pytest.mark.parametrize(("z", "k"), [(0.5, 2), (8.0, 50), (100.0, 10**6)])
def test_equal_releases_share_equally(relation, z, k):
    for delta in (1e-12, 1e-5, 0.1):
        single = gaussian_epsilon(delta / k, mu=relation.multiple / z)
        upper = Basic().epsilon(gaussian(z, k), relation, delta).upper
        assert upper == pytest.approx(k * single.upper, rel=1e-9, abs=1e-12)
        assert upper >= k * single.lower * (1 - 1e-14)


def test_unequal_releases_against_a_naive_twin():
    def laplace(b, k=1):
        return dp.SelfComposedDpEvent(dp.LaplaceDpEvent(b), k)

    event = dp.ComposedDpEvent([gaussian(2.0, 3), laplace(5.0, 2), gaussian(7.0), laplace(2.0)])
    delta = 1e-5
    exempt = (
        3 * gaussian_epsilon(delta / 4, mu=0.5).upper + gaussian_epsilon(delta / 4, mu=1 / 7).upper
    )
    exempt += 2 / 5 + 1 / 2
    assert Basic().epsilon(event, ADD, delta).upper == pytest.approx(exempt, rel=1e-12)


@given(st.floats(-4.0, 1.5), st.integers(1, 10**6), st.floats(-15.0, -1.0))
@settings(max_examples=20)
def test_never_below_the_optimum_and_in_order(log10_epsilon, k, log10_slack):
    epsilon, slack = 10.0**log10_epsilon, 10.0**log10_slack
    optimum = optimal_epsilon(epsilon, 0.0, k, slack)
    kov = advanced_epsilon([(epsilon, k)], slack, "kov")
    drv = advanced_epsilon([(epsilon, k)], slack, "drv")
    assert optimum.lower <= kov <= drv


@EVERY_RELATION
@EVERY_FORM
def test_between_the_truth_and_basic_composition(relation, form):
    for k in (2, 100, 10**6):
        mu = 0.5 / math.sqrt(k)
        event = gaussian(relation.multiple / mu, k)
        for delta in (1e-10, 1e-5, 0.1):
            lower, upper = Advanced(form).epsilon(event, relation, delta)
            assert lower <= gaussian_epsilon(delta, mu=0.5).upper <= upper
            assert upper <= Basic().epsilon(event, relation, delta).upper
    assert upper < 0.1 * Basic().epsilon(event, relation, 1e-5).upper


def test_unequal_pure_releases_by_the_formula():
    event = dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(pure_event(e), k) for e, k in ((0.05, 400), (0.1, 50))]
    )
    squares, drift = 400 * 0.05**2 + 50 * 0.1**2, 400 * 0.05 * math.tanh(0.025)
    drift += 50 * 0.1 * math.tanh(0.05)
    expected = drift + math.sqrt(2 * math.log(1e5) * squares)
    assert Advanced().epsilon(event, ADD, 1e-5).upper == pytest.approx(expected, rel=1e-12)


@EVERY_FORM
def test_what_releases_spend_of_delta_is_no_slack(form):
    """A quarter of it each alone: of the fractions that are tried 0.3 is the least that pays."""
    one, k, delta = approximate_event(0.01, 1e-9), 1000, 4e-6
    each = Guarantee(one, ADD).epsilon(0.3 * delta / k).upper
    expected = advanced_epsilon([(each, k)], 0.7 * delta, form)
    found = Advanced(form).epsilon(dp.SelfComposedDpEvent(one, k), ADD, delta).upper
    assert found == pytest.approx(expected, rel=1e-9)


def test_unequal_releases_hold_by_convolution():
    """Randomised response of two kinds: the losses are multiples of 0.05, so this is exact."""
    law = np.ones(1)
    for cells, count in ((6, 30), (1, 100)):
        truth = 1.0 / (1.0 + math.exp(-0.05 * cells))
        single = np.zeros(2 * cells + 1)
        single[0], single[-1] = 1.0 - truth, truth
        for _ in range(count):
            law = np.convolve(law, single)
    losses = 0.05 * (np.arange(law.size) - law.size // 2)
    for slack in (1e-8, 1e-3, 0.1):
        epsilon = advanced_epsilon([(0.3, 30), (0.05, 100)], slack)
        at, below = (law @ -np.expm1(np.minimum(x - losses, 0.0)) for x in (epsilon, epsilon / 2))
        assert at <= slack < below


@EVERY_FORM
def test_round_trip_and_monotony(form):
    accountant = Advanced(form)
    event = dp.ComposedDpEvent([gaussian(60.0, 500), dp.SelfComposedDpEvent(pure_event(0.01), 99)])
    deltas = np.geomspace(1e-13, 0.5, 4)
    uppers = np.array([accountant.epsilon(event, ADD, float(d)).upper for d in deltas])
    assert np.all(np.diff(uppers) < 0.0)
    for delta, epsilon in zip(deltas, uppers, strict=True):
        back = accountant.delta(event, ADD, float(epsilon)).upper
        assert back == pytest.approx(delta, rel=1e-8)
        assert accountant.epsilon(event, ADD, back).upper <= epsilon * (1 + 1e-12)


@EVERY_FORM
def test_trade_off_is_below_the_truth(form):
    alphas = np.linspace(0.0, 1.0, 51)
    curve = Advanced(form).trade_off(gaussian(100.0, 400), ADD, alphas)
    assert np.all(curve <= gaussian_trade_off(alphas, 0.2))
    assert np.all(np.diff(curve) <= 0.0)
    assert curve[1] > Basic().trade_off(gaussian(100.0, 400), ADD, alphas)[1]


def test_forms_have_names_and_are_values():
    assert Advanced("drv").name == "advanced composition (DRV)"
    assert Advanced() == Advanced("kov")
    assert len({Advanced(), Advanced("kov"), Advanced("drv")}) == 2


test_bad_arguments_are_named = refused(
    (lambda: Advanced("dwork"), "form must be one of kov, drv, got 'dwork'"),
    (lambda: advanced_epsilon([(0.1, 3)], 1e-6, "x"), "form must be one of kov, drv, got 'x'"),
    (lambda: advanced_epsilon([(0.1, 3)], 0.0), r"slack must lie in \(0, 1\), got 0.0"),
    (lambda: advanced_epsilon([(-0.1, 3)], 0.1), "epsilon must be non-negative and finite"),
)


@pytest.mark.parametrize(("epsilon", "right", "wrong"), [(0.1, 34.5, 2498.0), (0.6, 873.0, 40.5)])
def test_advanced_beats_basic_from_two_minus_e_to_the_epsilon(epsilon, right, wrong):
    """The crossing is ``k = 2 ln(1/delta')/(2 - e^epsilon)^2``, with the drift outside the root.

    A printed formula has ``e^epsilon - 1`` in place of ``2 - e^epsilon``.
    """
    log = -2.0 * math.log(1e-6)
    assert log / (2.0 - math.exp(epsilon)) ** 2 == pytest.approx(right, rel=1e-2)
    assert log / math.expm1(epsilon) ** 2 == pytest.approx(wrong, rel=2e-2)
    for count in (math.floor(0.99 * right), math.ceil(1.01 * right)):
        advanced = advanced_epsilon([(epsilon, count)], 1e-6, "drv")
        assert (advanced < count * epsilon) == (count > right)
