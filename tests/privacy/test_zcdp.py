"""zCDP: goldens, the exact Gaussian curve, and every release it knows."""

import math
from itertools import pairwise

import dp_accounting as dp
import mpmath
import pytest
from events import ADD, EVERY_RELATION, Gaussian, Response, Times, Together, Tree
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from privopt.privacy import ZCDP, GaussianDP
from privopt.privacy.renyi import zcdp_delta, zcdp_epsilon

ACCOUNTANT = ZCDP()


def test_golden():
    assert zcdp_epsilon(0.5, 1e-5) == pytest.approx(4.728386984943, rel=1e-9)
    assert GaussianDP().epsilon(Gaussian(1.0), ADD, 1e-5).upper < 4.7283


def optimum(rho, delta, xi=0.0):
    """The improved conversion, minimised with 40 digits by Newton's method in ``ln(alpha - 1)``."""
    with mpmath.workdps(40):

        def epsilon(t):
            a = 1 + mpmath.exp(t)
            return xi + rho * a + mpmath.log((a - 1) / a) - (mpmath.log(delta * a)) / (a - 1)

        start = mpmath.log(mpmath.sqrt(-mpmath.log(delta) / rho))
        t = mpmath.findroot(lambda t: mpmath.diff(epsilon, t), start)
        return epsilon(t)


@given(st.floats(-6.0, 3.0), st.floats(-100.0, -4.0), st.sampled_from([0.0, 0.3]))
def test_conversion_is_optimal_and_rounded_up(log_rho, log10_delta, xi):
    rho, delta = 10.0**log_rho, 10.0**log10_delta
    epsilon, exact = zcdp_epsilon(rho, delta, xi), optimum(rho, delta, xi)
    assert max(mpmath.mpf(0), exact) <= epsilon
    assert epsilon <= max(0.0, float(exact)) * (1 + 1e-7) + 1e-12
    assert zcdp_delta(rho, epsilon, xi) == pytest.approx(delta, rel=1e-4) or epsilon == 0.0


@given(st.floats(-6.0, 6.0), st.floats(-300.0, -0.001))
def test_simple_is_never_better(log_rho, log10_delta):
    rho, delta = 10.0**log_rho, 10.0**log10_delta
    simple = rho + 2.0 * math.sqrt(-rho * math.log(delta))
    assert 0.0 <= zcdp_epsilon(rho, delta) <= simple * (1 + 1e-14)


def test_delta_is_not_anti_conservative():
    """The Gaussian truth is below the bound at every epsilon, also below ``rho``."""
    for z in (0.05, 0.5, 1.0, 10.0):
        event = Gaussian(z)
        for epsilon in (0.0, 0.01, 0.1, 1.0, 5.0, 50.0, 300.0):
            truth = GaussianDP().delta(event, ADD, epsilon).upper
            assert truth <= ACCOUNTANT.delta(event, ADD, epsilon).upper <= 1.0


@EVERY_RELATION
def test_concentration_of_every_release(relation):
    m = relation.multiple
    half = m * m / 2

    def pure(loss):
        return loss * math.tanh(loss / 2)

    for event, rho, xi in [
        (Gaussian(2.0), half / 4, 0.0),
        (Times(Gaussian(2.0), 12), 3 * half, 0.0),
        (dp.LaplaceDpEvent(4.0), m / 4 + math.expm1(-m / 4), 0.0),
        (Response(0.5, 3), pure(math.log(4.0)), 0.0),
        (Together([dp.ZCDpEvent(1.0, 0.5), dp.ZCDpEvent(0.25)]), 1.25, 0.5),
        (dp.NoOpDpEvent(), 0.0, 0.0),
    ]:
        got = ACCOUNTANT.concentration(event, relation)
        assert got == pytest.approx((rho, xi), rel=1e-13)
        assert got[0] >= rho
    tree = Tree(2.0, [3, 1000])
    assert ACCOUNTANT.supports(tree, relation) is (relation is not ADD)
    if relation is not ADD:
        assert ACCOUNTANT.concentration(tree, relation)[0] == pytest.approx(10 * half / 4)


def test_edges():
    with pytest.raises(ValueError, match="event must be supported under"):
        ACCOUNTANT.epsilon(dp.UnsupportedDpEvent(), ADD, 0.1)
    pure = dp.ZCDpEvent(0.0, 0.7)
    rho = 0.7 * math.tanh(0.35)
    assert ACCOUNTANT.concentration(pure, ADD) == pytest.approx((rho, 0.0), rel=1e-13)
    assert 0.0 < ACCOUNTANT.delta(pure, ADD, 0.1).upper <= 1.0
    endless = Times(Gaussian(1e-110), 10**100)
    assert ACCOUNTANT.epsilon(endless, ADD, 0.5).upper == math.inf
    for rho in (1e-300, 1e-9, 1.0, 1e9, 1e300):
        values = [
            zcdp_epsilon(rho, delta)
            for delta in (5e-324, 1e-300, 1e-15, 1e-5, 0.5, 0.9, 1 - 2**-53)
        ]
        assert all(a >= b >= 0.0 for a, b in pairwise(values))
        deltas = [zcdp_delta(rho, epsilon) for epsilon in (0.0, 1e-3, 1.0, 1e3, 1e300)]
        assert all(1.0 >= a >= b > 0.0 for a, b in pairwise(deltas))


test_bad_arguments_are_named = refused(
    (lambda: zcdp_epsilon(-1.0, 0.1), "rho must be non-negative, got -1.0"),
    (lambda: zcdp_epsilon(1.0, 0.1, -1.0), "xi must be non-negative, got -1.0"),
    (lambda: zcdp_epsilon(1.0, 1.0), r"delta must lie in \[0, 1\), got 1.0"),
    (lambda: zcdp_delta(math.nan, 1.0), "rho must be a real number, got nan"),
    (lambda: zcdp_delta(1.0, -1.0), "epsilon must be non-negative and finite, got -1.0"),
)
