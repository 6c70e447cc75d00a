"""The Gaussian curve against 60 digits, its identities, and its edges."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from events import EVERY_RELATION, Gaussian, Poisson, Times, Together, Tree
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.special import ndtri

from privopt.privacy import (
    GaussianDP,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_trade_off,
)
from privopt.spec import Relation

TINIEST = 5e-324


def exact_log_delta(epsilon, mu):
    """``ln delta`` by its definition, with 60 digits (more where the two terms cancel)."""
    with mpmath.workdps(80):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        below = mpmath.ncdf(-epsilon / mu + mu / 2)
        above = mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)
        return mpmath.log(below - above)


def exact_delta(epsilon, mu):
    with mpmath.workdps(80):
        return mpmath.exp(exact_log_delta(epsilon, mu))


def holds(interval, exact):
    return mpmath.mpf(interval.lower) <= exact <= mpmath.mpf(interval.upper)


def test_the_classic_noise_is_not_enough_at_large_epsilon():
    classic = math.sqrt(2.0 * math.log(1.25e5)) / 10.0
    assert gaussian_delta(10.0, mu=1.0 / classic).lower == pytest.approx(2.265374e-5, rel=1e-6)
    assert 1.0 / classic > gaussian_mu(10.0, 1e-5)


@given(st.floats(-8.0, 3.0), st.floats(-20.0, 38.0))
def test_delta_interval_holds_the_exact_value(log_mu, a):
    mu = 10.0**log_mu
    epsilon = mu * max(0.0, a + mu / 2)
    interval, exact = gaussian_delta(epsilon, mu=mu), exact_delta(epsilon, mu)
    assert holds(interval, exact)
    if interval.lower > 1e-300:
        assert interval.upper <= interval.lower * (1.0 + 1e-10)


@given(st.floats(-8.0, 3.0), st.floats(-690.0, -1e-3))
def test_epsilon_interval_holds_the_exact_value(log_mu, log_delta):
    mu, delta = 10.0**log_mu, math.exp(log_delta)
    lower, upper = gaussian_epsilon(delta, mu=mu)
    assert exact_log_delta(upper, mu) <= mpmath.log(delta)
    assert lower == 0.0 or exact_log_delta(lower, mu) >= mpmath.log(delta)
    assert upper - lower <= 1e-9 * max(mu, upper)


@given(st.floats(-6.0, 3.0), st.floats(-690.0, -1e-3))
def test_mu_is_safe_and_tight(log_epsilon, log_delta):
    epsilon, delta = 10.0**log_epsilon, math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu=mu).upper <= delta
    assert exact_delta(epsilon, mu) <= mpmath.mpf(delta) < exact_delta(epsilon, mu * (1 + 1e-9))


@given(st.floats(0.0, 40.0), st.floats(-3.0, 1.0))
def test_negative_epsilon_holds_the_exact_value(epsilon, log_mu):
    mu = 10.0**log_mu
    assert holds(gaussian_delta(-epsilon, mu=mu), exact_delta(-epsilon, mu))


def test_no_shift_costs_nothing():
    assert tuple(gaussian_delta(0.0, mu=0.0)) == (0.0, 0.0)
    assert tuple(gaussian_epsilon(0.0, mu=0.0)) == (0.0, 0.0)


def test_no_noise_costs_everything():
    assert tuple(gaussian_delta(5.0, mu=math.inf)) == (1.0, 1.0)
    assert tuple(gaussian_epsilon(0.999, mu=math.inf)) == (math.inf, math.inf)


def test_pure_privacy_is_out_of_reach_of_gaussian_noise():
    assert tuple(gaussian_epsilon(0.0, mu=1e-8)) == (math.inf, math.inf)
    assert gaussian_mu(1.0, 0.0) == 0.0


def test_epsilon_is_exactly_zero_from_the_total_variation_on():
    for mu in (1e-8, 0.3, 5.0):
        distance = gaussian_delta(0.0, mu=mu).upper
        assert tuple(gaussian_epsilon(distance * (1 + 1e-10), mu=mu)) == (0.0, 0.0)
        assert gaussian_epsilon(distance * (1 - 1e-10), mu=mu).upper > 0.0


def test_underflowing_delta_keeps_a_positive_upper_end():
    assert tuple(gaussian_delta(1e4, mu=1.0)) == (0.0, TINIEST)
    assert tuple(gaussian_delta(1e10, mu=1e-308)) == (0.0, TINIEST)


def test_smallest_deltas_are_answered():
    for delta in (1e-300, TINIEST):
        lower, upper = gaussian_epsilon(delta, mu=1.0)
        assert 37.0 < lower <= upper < 39.5
        assert upper - lower < 1e-9


def test_delta_near_one_is_answered():
    for mu in (1e-3, 1.0, 100.0):
        lower, upper = gaussian_epsilon(math.nextafter(1.0, 0.0), mu=mu)
        assert 0.0 <= lower <= upper < math.inf


def test_numbers_beyond_the_stated_range_fail_safe():
    lower, upper = gaussian_delta(5e33, mu=1e17)  # a = 0 up to a rounding error above one
    assert (lower, upper) == (0.0, 1.0)
    assert gaussian_epsilon(1e-6, mu=1e200).upper == math.inf


@pytest.mark.parametrize("mu", [0.0, 1e-8, 0.5, 3.0, 37.0, 1e3])
def test_trade_off_is_the_curve_from_below(mu):
    alphas = np.concatenate(
        [[0.0, 1.0], np.geomspace(1e-300, 0.5, 20), 1 - np.geomspace(1e-9, 0.4)]
    )
    curve = gaussian_trade_off(alphas, mu)
    with mpmath.workdps(60):
        for alpha, value in zip(alphas[2:], curve[2:], strict=True):
            # the curve is decreasing: compare at the quantile of a definition free of Phi^{-1}
            exact = mpmath.ncdf(-_quantile(alpha) - mu)
            assert value <= exact
            assert value >= exact * (1 - mpmath.mpf(10) ** -10) - 1e-307
    assert tuple(curve[:2]) == (1.0, 0.0)


def _quantile(alpha):
    """``Phi^{-1}(alpha)`` by Newton's method on ``ln Phi`` from the float64 answer."""
    x = mpmath.mpf(float(ndtri(alpha)))
    for _ in range(4):
        x -= (mpmath.ncdf(x) - mpmath.mpf(float(alpha))) / mpmath.npdf(x)
    return x


def test_trade_off_at_infinity_and_its_minimal_error_sum():
    assert not gaussian_trade_off([0.0, 0.5, 1.0], math.inf).any()
    alphas = np.linspace(0.0, 1.0, 20001)
    total = np.min(alphas + gaussian_trade_off(alphas, 1.5))
    assert total == pytest.approx(math.erfc(0.75 / math.sqrt(2.0)), abs=1e-8)  # 2 Phi(-mu/2)


test_bad_arguments_are_named = refused(
    (lambda: gaussian_delta(math.nan, mu=1.0), "epsilon must be a real number, got nan"),
    (lambda: gaussian_delta(1.0, mu=-1.0), "mu must be non-negative, got -1.0"),
    (lambda: gaussian_epsilon(1.0, mu=1.0), r"delta must lie in \[0, 1\), got 1.0"),
    (lambda: gaussian_mu(-1.0, 0.1), "epsilon must be non-negative and finite, got -1.0"),
    (lambda: gaussian_trade_off([0.5, 1.5], 1.0), r"alpha must lie in \[0, 1\]"),
)


# The accountant of trees and of sampling that is none.
ACCOUNTANT = GaussianDP()


def sampled(rate, event):
    return Poisson(rate, event)


def mu(event, relation=Relation.ZERO_OUT):
    lower, upper = ACCOUNTANT.distance(event, relation)
    assert lower <= upper <= lower * (1 + 1e-14)
    return upper


def test_golden_tree():
    assert mu(Tree(10.0, 1024)) == pytest.approx(0.331662479, abs=1e-9)
    assert mu(Tree(10.0, 1024), Relation.REPLACE_ONE) == pytest.approx(0.663324958, abs=1e-9)


def nodes_of_the_busiest_record(steps):
    """Count, for every record, the completed nodes of a binary Tree that its leaf is part of."""
    counts = np.zeros(steps, dtype=int)
    for height in itertools.count():
        size = 2**height
        if size > steps:
            return int(counts.max(initial=0))
        for start in range(0, steps - size + 1, size):
            counts[start : start + size] += 1


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 100])
def test_a_tree_is_as_many_releases_as_its_busiest_record_has_nodes(steps):
    nodes = nodes_of_the_busiest_record(steps)
    flat = Times(Gaussian(3.0), nodes)
    assert mu(Tree(3.0, steps)) == mu(flat)


@pytest.mark.parametrize("steps", [[5, 64, 17], (64,), [np.int64(64), 0]])
def test_one_participation_in_total_is_charged_for_the_largest_tree(steps):
    assert mu(Tree(3.0, steps)) == mu(Tree(3.0, 64)) == pytest.approx(math.sqrt(7) / 3)


def test_trees_without_steps_cost_nothing():
    for steps in (0, [], [0, 0]):
        assert mu(Tree(3.0, steps)) == 0.0
        assert mu(Tree(0.0, steps)) == 0.0


def test_trees_compose_with_everything_gaussian():
    event = Together([Times(Tree(5.0, 100), 3), Gaussian(2.0), Tree(4.0, [3, 8])])
    assert mu(event) == pytest.approx(math.sqrt(3 * 7 / 25 + 1 / 4 + 4 / 16), rel=1e-14)


@EVERY_RELATION
def test_rate_one_is_the_full_batch(relation):
    inner = Together([Gaussian(3.0), Times(Gaussian(5.0), 4)])
    for delta in (1e-2, 1e-10):
        for rate in (1.0, 1, np.float64(1.0)):
            event = Times(sampled(rate, inner), 6)
            plain = Times(inner, 6)
            assert ACCOUNTANT.epsilon(event, relation, delta) == ACCOUNTANT.epsilon(
                plain, relation, delta
            )
