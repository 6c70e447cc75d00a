"""The odometer against the best adaptive adversary, enumerated, and against closed forms."""

import dataclasses
import math
from functools import cache

import dp_accounting as dp
import pytest
from events import ADD, REPLACE, Gaussian, Laplace, Response, bit
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from privopt.accounting.odometers import ZCDPOdometer


def bit_event(epsilon):
    return Response(2.0 / (1.0 + math.exp(epsilon)), num_buckets=2)


def worst_probability(odometer, moves, steps):
    """``P(L_t > epsilon_t for some t)`` under the best adaptive adversary, exactly."""
    releases, mechanisms = list(moves), list(moves.values())

    @cache
    def bound_after(counts):
        seen = odometer
        for release, count in zip(releases, counts, strict=True):
            seen = seen.after(release, count)
        return seen.epsilon

    @cache
    def value(counts, loss):
        if loss > bound_after(counts):
            return 1.0
        if sum(counts) == steps:
            return 0.0
        return max(
            sum(
                p * value((*counts[:i], counts[i] + 1, *counts[i + 1 :]), round(loss + step, 9))
                for p, step in outcomes
            )
            for i, outcomes in enumerate(mechanisms)
        )

    return value((0,) * len(releases), 0.0)


BITS = {bit_event(0.2 * k): bit(0.2 * k) for k in (1, 2, 4)}


@pytest.mark.parametrize("delta", [0.3, 0.1, 0.01])
def test_no_adversary_outruns_an_odometer(delta):
    worst = worst_probability(ZCDPOdometer(delta, ADD, planned=0.5), BITS, 10)
    assert worst <= delta
    assert worst > 0.0 or delta == 0.01


def test_the_smooth_bound_is_the_mixture_over_all_orders():
    delta, planned, spent = 1e-4, 0.3, 0.7
    bound = ZCDPOdometer(delta, ADD, planned, spent).epsilon
    log = -2.0 * math.log(delta)
    r = 2.0 * planned / (1.0 + log + math.log1p(log))

    def integrand(excess):
        density = 2.0 * stats.norm.pdf(excess, scale=1.0 / math.sqrt(r))
        return density * math.exp(excess * (bound - spent) - excess**2 * spent)

    top = (bound - spent) / (2.0 * spent + r)
    total = integrate.quad(integrand, 0.0, 10.0 * top, points=[top], epsabs=0.0)[0]
    assert total == pytest.approx(1.0 / delta, rel=1e-9)
    assert total >= 1.0 / delta * (1.0 - 1e-9)


def test_the_price_of_all_times_is_small_where_it_was_planned():
    for rho in (1e-3, 0.1, 5.0):
        for delta in (1e-3, 1e-6, 1e-12):
            fixed = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))  # one time only
            planned = ZCDPOdometer(delta, ADD, rho, rho).epsilon
            assert fixed < planned < 1.4 * fixed
            for other in (rho / 30.0, rho * 30.0):
                assert ZCDPOdometer(delta, ADD, other, rho).epsilon > planned * (1.0 - 1e-3)


def test_gaussian_and_laplace_releases_are_priced_under_the_relation():
    one = ZCDPOdometer(1e-6, ADD, 0.5)
    two = ZCDPOdometer(1e-6, REPLACE, 0.5)
    seen = one.after(Gaussian(5.0), 3)
    assert seen.spent == pytest.approx(3 / 50, rel=1e-14)
    assert seen.spent >= 3 / 50
    assert two.after(Gaussian(10.0), 3).spent == pytest.approx(seen.spent, rel=1e-14)
    stepwise = one
    for _ in range(3):
        stepwise = stepwise.after(Gaussian(5.0))
    assert stepwise.spent == pytest.approx(seen.spent, rel=1e-14)
    assert one.spent == 0.0  # reading and adding change nothing
    assert seen.after(Laplace(1.0), 0) is seen


def test_nothing_released_and_everything_released():
    smooth = ZCDPOdometer(1e-6, ADD, 0.5)
    assert smooth.epsilon == 0.0
    assert smooth.after(dp.NoOpDpEvent(), 7).epsilon == 0.0
    assert smooth.after(Gaussian(0.0)).epsilon == math.inf


@given(st.floats(-300.0, -1e-3), st.floats(-12.0, 4.0), st.floats(-12.0, 4.0))
def test_the_smooth_bound_is_finite_and_monotone(log_delta, log10_planned, log10_spent):
    planned, spent = 10.0**log10_planned, 10.0**log10_spent
    odometer = ZCDPOdometer(math.exp(log_delta), ADD, planned, spent)
    assert spent < odometer.epsilon < math.inf
    assert dataclasses.replace(odometer, spent=1.001 * spent).epsilon > odometer.epsilon


def test_bad_arguments_are_named():
    for delta in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="delta must"):
            ZCDPOdometer(delta, ADD, 0.5)
    with pytest.raises(ValueError, match="relation must be one of replace_one"):
        ZCDPOdometer(0.1, "twins", 0.5)
    assert ZCDPOdometer(0.1, "replace_one", 0.5).relation is REPLACE
    for planned in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="planned must be positive and finite"):
            ZCDPOdometer(0.1, ADD, planned)
    for spent in (math.nan, -3, -1e-300, "1", True):
        with pytest.raises(ValueError, match="spent must be"):
            ZCDPOdometer(0.1, ADD, 0.5, spent)
    odometer = ZCDPOdometer(0.1, ADD, 0.5)
    for count in (-1, 0.5, True):
        with pytest.raises(ValueError, match="count must be a non-negative integer"):
            odometer.after(Gaussian(1.0), count)
    with pytest.raises(ValueError, match="release must have a zCDP bound"):
        odometer.after(dp.NonPrivateDpEvent())
    with pytest.raises(ValueError, match="release must have a zCDP bound"):
        odometer.after((0.1, 1e-9))


def test_the_largest_counts_run_along():
    huge = 10**100
    assert ZCDPOdometer(0.1, ADD, 0.5).after(Gaussian(1e-110), huge).epsilon == math.inf
    far = ZCDPOdometer(0.1, ADD, 0.5).after(dp.ZCDpEvent(1e-50), huge)
    assert far.spent == pytest.approx(1e50)
