"""Basic composition: what the releases spend is added, and never less than the truth."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from privopt.privacy import gaussian_trade_off
from privopt.privacy.accountants.basic import Basic
from privopt.privacy.bracketing import false_position
from privopt.privacy.gaussian import gaussian_delta, gaussian_epsilon
from privopt.spec import Relation

ADD, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
EVERY_RELATION = pytest.mark.parametrize("relation", list(Relation))
BASIC = Basic()


def gaussian(z, k=1):
    return dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), k)


def laplace(b, k=1):
    return dp.SelfComposedDpEvent(dp.LaplaceDpEvent(b), k)


# --- the formula ----------------------------------------------------------------------------------


@EVERY_RELATION
@given(st.floats(0.3, 100.0), st.integers(2, 10**6), st.floats(-12.0, -0.5))
def test_equal_releases_share_equally(relation, z, k, log10_delta):
    delta = 10.0**log10_delta
    mu = relation.multiple / z
    upper = BASIC.epsilon(gaussian(z, k), relation, delta).upper
    assert upper == pytest.approx(k * gaussian_epsilon(delta / k, mu).upper, rel=1e-9, abs=1e-12)
    assert upper >= k * gaussian_epsilon(delta / k, mu).lower * (1 - 1e-14)
    inverse = BASIC.delta(gaussian(z, k), relation, k * 0.7).upper
    assert inverse == pytest.approx(min(1.0, k * gaussian_delta(0.7, mu).upper), rel=1e-9)


def test_unequal_releases_against_a_naive_twin():
    event = dp.ComposedDpEvent([gaussian(2.0, 3), laplace(5.0, 2), gaussian(7.0), laplace(2.0)])
    delta = 1e-5
    exempt = 3 * gaussian_epsilon(delta / 4, 0.5).upper + gaussian_epsilon(delta / 4, 1 / 7).upper
    exempt += 2 / 5 + 1 / 2
    all_share = 3 * gaussian_epsilon(delta / 7, 0.5).upper
    all_share += gaussian_epsilon(delta / 7, 1 / 7).upper
    all_share += 2 * (1 / 5 + 2 * math.log1p(-delta / 7)) + (1 / 2 + 2 * math.log1p(-delta / 7))
    upper = BASIC.epsilon(event, ADD, delta).upper
    assert upper == pytest.approx(min(exempt, all_share), rel=1e-12)
    assert exempt < all_share


def test_pure_releases_share_where_that_is_better():
    """At a generous ``delta`` Laplace noise is worth its own profile."""
    event = laplace(10.0, 4)
    assert BASIC.epsilon(event, ADD, 0.0).upper == pytest.approx(0.4, rel=1e-14)
    shared = 4 * (0.1 + 2 * math.log1p(-0.1 / 4))
    assert BASIC.epsilon(event, ADD, 0.1).upper == pytest.approx(shared, rel=1e-12)


@EVERY_RELATION
def test_one_release_is_its_profile(relation):
    mu = relation.multiple / 3.0
    for event in (gaussian(3.0), dp.ComposedDpEvent([dp.NoOpDpEvent(), gaussian(3.0)])):
        lower, upper = BASIC.epsilon(event, relation, 1e-5)
        exact = gaussian_epsilon(1e-5, mu)
        assert lower <= exact.upper
        assert upper >= exact.lower
        assert upper == pytest.approx(lower, rel=1e-12)
        assert BASIC.delta(event, relation, 1.0).contains(gaussian_delta(1.0, mu).upper * 1.0)


# --- it holds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "lower"),
    [
        (
            dp.GaussianDpEvent(3.0),
            pld.from_gaussian_mechanism(
                3.0, pessimistic_estimate=False, value_discretization_interval=1e-3
            ),
        ),
        (
            dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(1.0)),
            pld.from_gaussian_mechanism(
                1.0,
                sampling_prob=0.05,
                pessimistic_estimate=False,
                value_discretization_interval=1e-3,
            ),
        ),
        (
            dp.LaplaceDpEvent(4.0),
            pld.from_laplace_mechanism(
                4.0, pessimistic_estimate=False, value_discretization_interval=1e-3
            ),
        ),
    ],
    ids=["Gaussian", "Poisson", "Laplace"],
)
@pytest.mark.parametrize("k", [2, 20])
def test_never_below_a_lower_bound_of_the_truth(event, lower, k):
    truth, composed = lower.self_compose(k), dp.SelfComposedDpEvent(event, k)
    for epsilon in np.linspace(0.0, 8.0, 17):
        delta = truth.get_delta_for_epsilon(float(epsilon))
        assert BASIC.delta(composed, ADD, float(epsilon)).upper >= delta * (1 - 1e-9) - 1e-12
    for delta in (1e-9, 1e-5, 1e-2, 0.5):
        assert (
            BASIC.epsilon(composed, ADD, delta).upper >= truth.get_epsilon_for_delta(delta) - 1e-9
        )


@EVERY_RELATION
def test_lower_ends_are_below_the_truth(relation):
    mu = relation.multiple / 3.0 * math.sqrt(10)
    for epsilon in (0.0, 1.0, 3.0):
        interval = BASIC.delta(gaussian(3.0, 10), relation, epsilon)
        assert 0.0 < interval.lower <= gaussian_delta(epsilon, mu).upper <= interval.upper
    interval = BASIC.epsilon(gaussian(3.0, 10), relation, 1e-5)
    assert 0.0 < interval.lower <= gaussian_epsilon(1e-5, mu).upper <= interval.upper


@EVERY_RELATION
def test_trade_off_is_below_the_truth(relation):
    alphas = np.linspace(0.0, 1.0, 101)
    alone = BASIC.trade_off(gaussian(3.0), relation, alphas)
    exact = gaussian_trade_off(alphas, relation.multiple / 3.0)
    assert np.all(alone <= exact + 1e-15)
    assert np.max(exact - alone) < 0.01
    many = BASIC.trade_off(gaussian(3.0, 10), relation, alphas)
    assert np.all(many <= gaussian_trade_off(alphas, relation.multiple / 3.0 * math.sqrt(10)))
    assert np.all(np.diff(many) <= 0.0)


MIXED = dp.ComposedDpEvent(
    [gaussian(9.0, 5), laplace(20.0, 3), dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))]
)


@EVERY_RELATION
def test_round_trip_and_monotony(relation):
    deltas = np.geomspace(1e-14, 0.9, 8)
    uppers = np.array([BASIC.epsilon(MIXED, relation, float(d)).upper for d in deltas])
    assert np.all(np.diff(uppers) < 0.0)
    for delta, epsilon in zip(deltas, uppers, strict=True):
        back = BASIC.delta(MIXED, relation, float(epsilon)).upper
        assert back <= delta * (1 + 1e-8)
        assert back >= delta * (1 - 1e-8) or epsilon == 0.0
        assert BASIC.epsilon(MIXED, relation, min(back, 0.999)).upper <= epsilon * (1 + 1e-12)


# --- edges ----------------------------------------------------------------------------------------


@EVERY_RELATION
def test_nothing_and_everything(relation):
    for event in (dp.NoOpDpEvent(), gaussian(0.0, 0), gaussian(math.inf, 5)):
        assert BASIC.supports(event, relation)
        assert tuple(BASIC.epsilon(event, relation, 0.0)) == (0.0, 0.0)
        assert tuple(BASIC.delta(event, relation, 0.0)) == (0.0, 0.0)
    for event in (gaussian(0.0, 3), dp.ComposedDpEvent([gaussian(1.0), dp.NonPrivateDpEvent()])):
        assert tuple(BASIC.epsilon(event, relation, 0.5)) == (math.inf, math.inf)
        assert tuple(BASIC.delta(event, relation, 5.0)) == (1.0, 1.0)
    assert tuple(BASIC.epsilon(gaussian(1.0, 2), relation, 0.0)) == (math.inf, math.inf)


def test_delta_near_one_and_tiny():
    event = gaussian(1.0, 100)
    lower, upper = BASIC.epsilon(event, ADD, math.nextafter(1.0, 0.0))
    assert 0.0 <= lower <= upper < math.inf
    lower, upper = BASIC.epsilon(event, ADD, 1e-300)
    assert 30.0 < lower <= upper < 1e4
    assert BASIC.delta(event, ADD, 1e9).upper <= 1e-300


def test_support():
    assert BASIC.supports(MIXED, REPLACE)
    assert not BASIC.supports(dp.ComposedDpEvent([MIXED, dp.UnsupportedDpEvent()]), ADD)
    assert not BASIC.supports(gaussian(-1.0, 2), ADD)
    assert not BASIC.supports(dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1.0), -1), ADD)


# --- the root finder behind the inverses ----------------------------------------------------------


@given(st.floats(-3.0, 3.0), st.floats(0.1, 8.0), st.booleans())
def test_false_position_brackets_and_has_tested_its_ends(root, power, flipped):
    calls = []

    def gap(x):
        calls.append(x)
        value = math.copysign(abs(x - root) ** power, x - root)
        return -value if flipped else value

    ends = (5.0, -5.0) if flipped else (-5.0, 5.0)
    inside, outside = false_position(gap, *ends, absolute=1e-12)
    assert abs(inside - outside) <= 1e-12
    assert min(inside, outside) - 1e-12 <= root <= max(inside, outside) + 1e-12
    assert gap(inside) <= 0.0
    assert {inside, outside} <= set(calls)
    assert len(calls) < 240


def test_false_position_allows_for_infinite_values_and_jumps():
    inside, outside = false_position(
        lambda x: -math.inf if x < 0.3 else math.inf, 0.0, 1.0, relative=1e-9
    )
    assert inside == pytest.approx(0.3, rel=1e-8)
    assert inside < 0.3 <= outside
    stuck = false_position(lambda x: 1.0 if x > 1.0 else -1.0, 1.0, math.nextafter(1.0, 2.0))
    assert stuck == (1.0, math.nextafter(1.0, 2.0))
