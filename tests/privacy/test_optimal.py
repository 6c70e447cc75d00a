"""Optimal composition against exact sums, identities, and every other composition theorem."""

import math

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privopt.accounting.advanced import Advanced
from privopt.privacy import gaussian_epsilon, gaussian_trade_off, pure_event
from privopt.privacy.accountants.basic import Basic
from privopt.privacy.accountants.optimal import (
    OptimalComposition,
    optimal_delta,
    optimal_epsilon,
)
from privopt.privacy.accountants.pure_dp import PureDP
from privopt.spec import Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
EVERY_RELATION = pytest.mark.parametrize("relation", list(Relation))
OPTIMAL = OptimalComposition()


def gaussian(z, k=1):
    return dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), k)


def bits(epsilon, k):
    return dp.SelfComposedDpEvent(pure_event(epsilon), k)


def exact_delta(epsilon, delta, k, total):
    """The formula as printed, term by term."""
    epsilon, delta, total = mpmath.mpf(epsilon), mpmath.mpf(delta), mpmath.mpf(total)
    terms = (
        math.comb(k, l)
        * max(mpmath.exp((k - l) * epsilon) - mpmath.exp(total + l * epsilon), mpmath.mpf(0))
        for l in range(k + 1)  # noqa: E741
    )
    rest = mpmath.fsum(terms) / (1 + mpmath.exp(epsilon)) ** k
    return 1 - (1 - delta) ** k * (1 - rest)


# --- golden values --------------------------------------------------------------------------------


def test_golden_epsilons():
    for end in optimal_epsilon(0.1, 0.0, 100, 1e-6):
        assert end == pytest.approx(4.77456758811, rel=3e-12)
    for end in optimal_epsilon(0.2, 1e-8, 30, 1e-6):
        assert end == pytest.approx(5.08024678906, rel=3e-12)


def test_golden_delta():
    for end in optimal_delta(0.1, 0.0, 100, 1.0):
        assert end == pytest.approx(0.125688390241, rel=1e-11)


@EVERY_RELATION
def test_golden_epsilon_of_the_event(relation):
    for end in OPTIMAL.epsilon(bits(0.1, 100), relation, 1e-6):
        assert end == pytest.approx(4.77456758811, rel=3e-12)
    for end in OPTIMAL.delta(bits(0.1, 100), relation, 1.0):
        assert end == pytest.approx(0.125688390241, rel=1e-10)


# --- exact sums -----------------------------------------------------------------------------------


@given(st.floats(-3.0, 1.0), st.integers(1, 150), st.floats(-0.2, 1.0), st.floats(-12.0, -2.0))
def test_delta_holds_the_exact_sum(log10_epsilon, k, fraction, log10_delta):
    epsilon, delta = 10.0**log10_epsilon, 10.0**log10_delta
    total = max(0.0, fraction) * k * epsilon
    with mpmath.workdps(60):
        for single in (0.0, delta):
            exact = exact_delta(epsilon, single, k, total)
            interval = optimal_delta(epsilon, single, k, total)
            assert interval.lower <= exact <= interval.upper
            if exact > 1e-300:
                assert interval.width <= 1e-9 * exact + 1e-15 * (fraction > 0.99)


@given(st.floats(-3.0, 1.0), st.integers(1, 150), st.floats(-100.0, -0.01), st.floats(0.0, 0.9))
def test_epsilon_is_where_the_exact_sum_meets_delta(log10_epsilon, k, log_total, fraction):
    epsilon, total = 10.0**log10_epsilon, math.exp(log_total)
    delta = fraction * total / k
    lower, upper = optimal_epsilon(epsilon, delta, k, total)
    with mpmath.workdps(60):
        assert exact_delta(epsilon, delta, k, upper) <= mpmath.mpf(total)
        assert lower == 0.0 or exact_delta(epsilon, delta, k, lower) >= mpmath.mpf(total)
    assert upper - lower <= 1e-8 * max(upper, 1e-3)


@pytest.mark.parametrize(("epsilon", "k"), [(0.01, 10_000), (0.3, 5000), (1e-3, 10**6)])
def test_many_releases_against_the_binomial_distribution(epsilon, k):
    lie = 1.0 / (1.0 + math.exp(epsilon))
    for share in (0.1, 1.0, 4.0):
        total = k * epsilon * math.tanh(epsilon / 2) + share * epsilon * math.sqrt(k)
        last = math.ceil((k - total / epsilon) / 2) - 1
        exact = stats.binom.cdf(last, k, lie)
        exact -= math.exp(total) * stats.binom.sf(k - last - 1, k, lie)
        interval = optimal_delta(epsilon, 0.0, k, total)
        assert interval.lower * (1 - 1e-9) <= exact <= interval.upper * (1 + 1e-9)
        assert interval.width <= 1e-6 * exact
        back = optimal_epsilon(epsilon, 0.0, k, interval.upper)
        assert back.lower <= total * (1 + 1e-12)
        assert back.upper == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("k", [10**6, 10**8])
def test_huge_compositions_approach_the_gaussian_limit(k):
    """``epsilon = mu / sqrt(k)`` tends to ``mu``-GDP; the Edgeworth term is of order ``1/k``."""
    interval = optimal_epsilon(1.0 / math.sqrt(k), 0.0, k, 1e-6)
    assert interval.upper == pytest.approx(gaussian_epsilon(1e-6, 1.0).upper, rel=1e-3)
    assert interval.width <= 1e-4


# --- other theorems -------------------------------------------------------------------------------


@EVERY_RELATION
@pytest.mark.parametrize(
    "event",
    [
        bits(0.3, 40),
        gaussian(50.0, 300),
        dp.SelfComposedDpEvent(dp.LaplaceDpEvent(30.0), 200),
        dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.9, 5), 30),
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(3.0)), 500),
    ],
    ids=["bits", "Gaussian", "Laplace", "randomised response", "Poisson"],
)
def test_the_order_of_composition_theorems(event, relation):
    others = [OPTIMAL, Advanced("kov"), Advanced("drv"), Basic()]
    for delta in (1e-9, 1e-4, 0.2):
        uppers = [each.epsilon(event, relation, delta).upper for each in others[:3]]
        assert np.all(np.diff(uppers) >= -1e-9 * uppers[0])
        assert uppers[2] <= others[3].epsilon(event, relation, delta).upper * (1 + 1e-12)


@pytest.mark.parametrize("k", [2, 100])
def test_never_below_a_lower_bound_of_the_truth(k):
    mesh = {"value_discretization_interval": 1e-3, "pessimistic_estimate": False}
    for event, single in (
        (dp.GaussianDpEvent(8.0), pld.from_gaussian_mechanism(8.0, **mesh)),
        (dp.LaplaceDpEvent(20.0), pld.from_laplace_mechanism(20.0, **mesh)),
        (
            dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)),
            pld.from_gaussian_mechanism(2.0, sampling_prob=0.1, **mesh),
        ),
    ):
        truth, composed = single.self_compose(k), dp.SelfComposedDpEvent(event, k)
        for epsilon in (0.0, 0.5, 2.0, 6.0):
            upper = OPTIMAL.delta(composed, ADD, float(epsilon)).upper
            assert upper >= truth.get_delta_for_epsilon(float(epsilon)) * (1 - 1e-9) - 1e-12
        for delta in (1e-9, 1e-5, 1e-2, 0.5):
            upper = OPTIMAL.epsilon(composed, ADD, delta).upper
            assert upper >= truth.get_epsilon_for_delta(delta) - 1e-9


def test_bits_are_exact_and_inside_the_pure_bounds():
    for epsilon, k in ((0.01, 1000), (0.5, 20), (3.0, 4), (20.0, 3)):
        for delta in (0.0, 1e-12, 1e-3, 0.4):
            exact = OPTIMAL.epsilon(bits(epsilon, k), REPLACE, delta)
            pure = PureDP().epsilon(bits(epsilon, k), REPLACE, delta)
            assert exact.upper == pytest.approx(exact.lower, rel=1e-8, abs=1e-9)
            assert pure.lower <= exact.upper * (1 + 1e-12)
            assert exact.lower <= pure.upper * (1 + 1e-12)


def test_other_randomised_response_is_not_taken_to_be_exact():
    event = dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.9, 5), 30)
    interval = OPTIMAL.epsilon(event, REPLACE, 1e-4)
    assert interval.lower < 0.5 * interval.upper


# --- shape and edges ------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [bits(0.05, 500), gaussian(40.0, 200)], ids=["bits", "Gaussian"])
def test_round_trip_and_monotony(event):
    deltas = np.geomspace(1e-13, 0.4, 5)
    uppers = np.array([OPTIMAL.epsilon(event, ADD, float(d)).upper for d in deltas])
    assert np.all(np.diff(uppers) < 0.0)
    for delta, epsilon in zip(deltas, uppers, strict=True):
        back = OPTIMAL.delta(event, ADD, float(epsilon)).upper
        assert back <= delta * (1 + 1e-7)
        assert back >= delta * (1 - 1e-7) or epsilon == 0.0
        assert OPTIMAL.epsilon(event, ADD, back).upper <= epsilon * (1 + 1e-8)


@EVERY_RELATION
def test_trade_off_is_below_the_truth(relation):
    alphas = np.linspace(0.0, 1.0, 51)
    curve = OPTIMAL.trade_off(gaussian(relation.multiple * 100.0, 400), relation, alphas)
    assert np.all(curve <= gaussian_trade_off(alphas, 0.2))
    assert np.all(np.diff(curve) <= 0.0)
    pure = OPTIMAL.trade_off(bits(0.2, 10), relation, alphas)
    assert np.all(pure >= PureDP().trade_off(bits(0.2, 10), relation, alphas) - 1e-12)
    assert pure[0] == pytest.approx(1.0)


def test_edges_of_the_formulas():
    assert tuple(optimal_epsilon(0.0, 0.0, 50, 0.0)) == (0.0, 0.0)
    assert tuple(optimal_epsilon(0.3, 0.0, 0, 0.0)) == (0.0, 0.0)
    assert tuple(optimal_epsilon(0.3, 0.1, 10, 0.5)) == (math.inf, math.inf)
    assert tuple(optimal_delta(0.3, 0.0, 10, 3.1)) == (0.0, 0.0)
    assert optimal_epsilon(0.3, 0.0, 10, 0.0).contains(3.0)
    assert optimal_delta(0.3, 0.1, 10, 1e3).contains(1.0 - 0.9**10)
    assert optimal_delta(800.0, 0.0, 3, 1.0).upper == 1.0
    assert optimal_epsilon(800.0, 0.0, 3, 1e-5).upper == pytest.approx(2400.0, rel=1e-5)
    one = optimal_epsilon(1.0, 0.0, 1, 1e-300)
    assert one.upper == pytest.approx(1.0)
    for total in (0.1, 0.999, math.nextafter(1.0, 0.0)):
        lower, upper = optimal_epsilon(0.01, 1e-9, 10**5, total)
        assert 0.0 <= lower <= upper < 10.0


@EVERY_RELATION
def test_edges_of_the_accountant(relation):
    assert tuple(OPTIMAL.epsilon(dp.NoOpDpEvent(), relation, 0.0)) == (0.0, 0.0)
    assert tuple(OPTIMAL.epsilon(gaussian(0.0, 3), relation, 0.5)) == (math.inf, math.inf)
    assert tuple(OPTIMAL.delta(gaussian(0.0, 3), relation, 0.5)) == (1.0, 1.0)
    assert tuple(OPTIMAL.epsilon(gaussian(9.0, 3), relation, 0.0)) == (math.inf, math.inf)
    sampled = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(0.0)), 3)
    assert OPTIMAL.delta(sampled, relation, 1.0).upper == pytest.approx(0.03, rel=1e-6)
    assert OPTIMAL.epsilon(sampled, relation, 0.05).upper < 1e-9


def test_one_kind_of_release_only():
    two_kinds = dp.ComposedDpEvent([gaussian(1.0), gaussian(2.0)])
    assert not OPTIMAL.supports(two_kinds, ADD)
    assert not OPTIMAL.supports(dp.UnsupportedDpEvent(), ADD)
    assert not OPTIMAL.supports(gaussian(1.0, 2**41), ADD)
    same = dp.ComposedDpEvent(
        [gaussian(1.0, 3), dp.NoOpDpEvent(), gaussian(1.0), gaussian(math.inf)]
    )
    assert OPTIMAL.supports(same, ADD)
    assert OPTIMAL.epsilon(same, ADD, 1e-5) == OPTIMAL.epsilon(gaussian(1.0, 4), ADD, 1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_delta(-0.1, 0.0, 3, 1.0), "epsilon must be non-negative and finite"),
        (lambda: optimal_delta(0.1, 0.0, 3, math.inf), "epsilon must be non-negative and finite"),
        (lambda: optimal_delta(0.1, 1.0, 3, 1.0), r"delta must lie in \[0, 1\), got 1.0"),
        (lambda: optimal_epsilon(0.1, 0.0, 2.5, 0.1), r"k must be an integer in \[0, 2\^40\]"),
        (lambda: optimal_epsilon(0.1, 0.0, -1, 0.1), r"k must be an integer in \[0, 2\^40\]"),
        (lambda: optimal_epsilon(0.1, 0.0, 3, 1.0), r"delta must lie in \[0, 1\), got 1.0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
