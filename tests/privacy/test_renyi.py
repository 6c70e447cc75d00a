"""Tests of Rényi divergences (30 digits, definitions) and of the bounds that they prove."""

import math
from itertools import pairwise

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from events import (
    ADD,
    EVERY_RELATION,
    OUT,
    REPLACE,
    Gaussian,
    Laplace,
    Times,
    fixed_size,
    sgd,
)
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, logsumexp

from privopt.privacy import GaussianDP, Renyi
from privopt.privacy.gaussian import gaussian_delta
from privopt.privacy.mechanisms.base import renyi_divergence
from privopt.privacy.mechanisms.laplace import laplace_divergence
from privopt.privacy.mechanisms.pure import response_divergence as randomised_response
from privopt.privacy.renyi import (
    ORDERS,
    renyi_delta,
    renyi_epsilon,
    renyi_epsilons,
    renyi_log_deltas,
)
from privopt.privacy.renyi_moments import (
    fixed_size_gaussian,
    one_sided,
    poisson_gaussian,
    pure_divergence,
)

RENYI = Renyi()


def divergence(event, relation, *orders):
    return renyi_divergence(event, relation, orders)


def test_golden_conversion():
    order, divergence = np.array([10.0]), np.array([1.0])
    assert renyi_epsilons(order, divergence, 1e-5)[0] == pytest.approx(1.918010636784, rel=1e-12)
    assert renyi_log_deltas(order, divergence, 1.918010636784)[0] == pytest.approx(math.log(1e-5))


def exact_moment(q, s, order, kind):
    """``ln(1 + J)`` with 30 digits: ``J`` integrates ``g(r) = r^a - 1 - a (r - 1) >= 0``."""
    with mpmath.workdps(30):
        q, s, a = mpmath.mpf(q), mpmath.mpf(s), mpmath.mpf(order)

        def mixture(y):
            return 1 - q + q * mpmath.exp(s * y - s * s / 2)

        def integrand(y):
            base = mixture(-y) if kind == "mirrored" else mpmath.mpf(1)
            r = mixture(y) / base
            return mpmath.npdf(y) * base * (r**a - 1 - a * (r - 1))

        left = s / 2 if kind == "half" else -15 - s
        right = (2 * a if kind == "mirrored" else a) * s + 15
        points = mpmath.linspace(left, right, int((right - left) / 2) + 2)
        value = mpmath.quad(integrand, points, maxdegree=4)
        return mpmath.log1p(2 * value if kind == "half" else value)


BOUNDS = {
    "one-sided": lambda q, s, order: poisson_gaussian(q, s, (order,), replace=False)[0],
    "mirrored": lambda q, s, order: poisson_gaussian(q, s, (order,), replace=True)[0],
    "half": lambda q, s, order: fixed_size_gaussian(q, s, (order,))[0],
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize(
    ("q", "z", "order"),
    [
        (1e-6, 50.0, 1.01),
        (1e-6, 0.3, 6.5),
        (1e-3, 0.5, 2.0001),
        (0.01, 1.0, 32.0),
        (0.01, 50.0, 512.0),
        (0.5, 0.3, 1.5),
        (0.999, 1.0, 12.0),
        (1 - 1e-9, 2.0, 3.7),
    ],
)
def test_quadrature_is_an_upper_bound_and_tight(kind, q, z, order):
    s = 1.0 / z
    exact = exact_moment(q, s, order, kind) / (mpmath.mpf(order) - 1)
    if kind == "half":  # a bound of a divergence; that without sampling is another
        exact = min(exact, mpmath.mpf(order) * mpmath.mpf(s) ** 2 / 2)
    bound = mpmath.mpf(float(BOUNDS[kind](q, s, order)))
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-10"))


@given(
    st.floats(-6.0, -0.01), st.floats(-1.0, 1.5), st.integers(2, 60), st.sampled_from([0.0, 1e-9])
)
def test_integer_orders_are_binomial_sums(log_q, log_z, order, shift):
    """Orders a hair above integers take the other path, and must agree."""
    q, s = 10.0**log_q, 10.0**-log_z
    k = np.arange(order + 1.0)
    ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = ways + k * math.log(q) + (order - k) * math.log1p(-q) + (k * k - k) * s * s / 2
    exact = logsumexp(terms) / (order - 1)
    ours = poisson_gaussian(q, s, (order + shift,), replace=False)[0]
    assert ours == pytest.approx(exact, rel=1e-6, abs=1e-12)


def test_more_orders_than_nodes_fall_back_on_valid_bounds():
    q, s = 0.3, 30.0  # real orders cannot be integrated here
    k = np.arange(4.0)
    ways = np.log([1.0, 3.0, 3.0, 1.0])
    exact = logsumexp(ways + k * math.log(q) + (3 - k) * math.log1p(-q) + (k * k - k) * s * s / 2)
    assert one_sided(q, s, np.array([3.0]))[0] == pytest.approx(exact, rel=1e-12)
    for kind in BOUNDS:
        values = [BOUNDS[kind](q, s, order) for order in (2.0, 2.3, 2.9, 3.0)]
        assert all(a <= b * (1 + 1e-9) for a, b in pairwise(values))
    with np.errstate(all="raise", under="ignore"):
        for s in (1e-200, 1e-9, 40.0, 1e4, 1e200):
            for replace in (False, True):
                curve = poisson_gaussian(0.1, s, ORDERS, replace=replace)
                shift = (2.0 if replace else 1.0) * s
                whole = np.asarray(ORDERS) * (0.5 * shift * shift)
                assert np.all((curve >= 0.0) & (curve <= whole * (1 + 1e-9) + 1e-300))


def test_the_other_order_of_the_pair_is_never_worse():
    for q, s, order in [(0.01, 1.0, 1.5), (0.5, 2.0, 3.0), (0.9, 0.7, 8.0), (0.3, 3.0, 1.1)]:

        def integrand(y, q=q, s=s, order=order):
            r = 1 - q + q * math.exp(s * y - s * s / 2)
            return math.exp(-y * y / 2) / math.sqrt(2 * math.pi) * r ** (1 - order)

        reverse = math.log(quad(integrand, -12.0, 12.0, limit=200)[0]) / (order - 1)
        assert reverse <= poisson_gaussian(q, s, (order,), replace=False)[0] + 1e-12


@pytest.mark.parametrize(("q", "s", "order"), [(0.05, 1.0, 2.5), (0.3, 0.5, 6.0), (0.01, 2.0, 4.0)])
def test_fixed_size_bound_holds_what_the_subsampled_profile_implies(q, s, order):
    """``D_alpha`` is an integral of the hockey-stick curve, the curve is known (Balle et al.)."""

    def above(gamma):  # H_gamma, gamma >= 1
        return q * gaussian_delta(math.log1p((gamma - 1) / q), mu=s).upper

    def weight(gamma):
        return order * (order - 1) * gamma ** (order - 2)

    upper = quad(lambda t: math.exp(t) * weight(math.exp(t)) * above(math.exp(t)), 0, 40, limit=400)
    # below one, H_gamma = 1 - gamma + gamma H_{1/gamma}
    lower = quad(lambda gamma: weight(gamma) * gamma * above(1 / gamma), 0, 1, limit=400)
    implied = math.log1p(upper[0] + lower[0]) / (order - 1)
    bound = fixed_size_gaussian(q, s, (order,))[0]
    assert implied <= bound * (1 + 1e-7)
    assert bound <= 1.5 * implied
    # attained by data: every other record at one end, one flips
    assert poisson_gaussian(q, s, (order,), replace=False)[0] <= bound


@pytest.mark.parametrize(("q", "z"), [(0.01, 2.0), (0.1, 4.0), (0.001, 1.0)])
def test_fixed_size_bound_is_below_the_published_one(q, z):
    orders = [2, 3, 4, 8, 16, 32]
    size = round(1000 * q)
    ours = divergence(fixed_size(1000, size, z), REPLACE, *map(float, orders))
    oracle = RdpAccountant(orders, dp.NeighboringRelation.REPLACE_ONE)
    oracle.compose(fixed_size(1000, size, z / 2))  # its noise is in units of the sensitivity
    assert np.all(ours <= oracle.rdp * (1 + 1e-9))


def test_whole_samples_are_no_samples():
    whole = divergence(Gaussian(2.0), REPLACE, 1.5, 30.0)
    for event in (sgd(2.0, 1.0), fixed_size(7, 7, 2.0)):
        assert divergence(event, REPLACE, 1.5, 30.0) == pytest.approx(whole, rel=1e-13)


@EVERY_RELATION
def test_gaussian_and_tree(relation):
    orders = np.array([1.5, 2.0, 100.0])
    m = relation.multiple
    assert divergence(Gaussian(3.0), relation, *orders) == pytest.approx(
        orders * m * m / 18, rel=1e-14
    )
    for steps, nodes in ((1, 1), (3, 2), (4, 3), (1024, 11), ([5, 1000, 2], 10), (0, 0)):
        tree = dp.SingleEpochTreeAggregationDpEvent(3.0, steps)
        if relation is ADD:
            assert divergence(tree, relation, *orders) is None
        else:
            assert divergence(tree, relation, *orders) == pytest.approx(
                nodes * orders * m * m / 18, rel=1e-14
            )


def exact_list(p, q, order):
    with mpmath.workdps(50):
        p, q, a = [mpmath.mpf(x) for x in p], [mpmath.mpf(x) for x in q], mpmath.mpf(order)
        return mpmath.log(mpmath.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (
            a - 1
        )


@given(st.floats(-4.0, 2.0), st.floats(-6.0, 3.0))
def test_laplace_against_50_digits(log_t, log_power):
    t, power = 10.0**log_t, 10.0**log_power
    order = 1.0 + power
    with mpmath.workdps(50):
        a, x = mpmath.mpf(order), mpmath.mpf(t)
        moment = a * mpmath.exp((a - 1) * x) + (a - 1) * mpmath.exp(-a * x)
        exact = mpmath.log(moment / (2 * a - 1)) / (a - 1)
    bound = mpmath.mpf(float(laplace_divergence(t, np.array([order]))[0]))
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-9"))


@given(st.floats(-6.0, -1e-3), st.integers(2, 9), st.floats(-6.0, 3.0))
def test_randomised_response_against_50_digits(log_p, k, log_power):
    p, order = 10.0**log_p, 1.0 + 10.0**log_power
    with mpmath.workdps(50):
        rare = mpmath.mpf(p) / k
        common = 1 - mpmath.mpf(p) + rare
        rest = [rare] * (k - 2)
        exact = exact_list([common, rare, *rest], [rare, common, *rest], order)
    bound = mpmath.mpf(float(randomised_response(p, k, np.array([order]))[0]))
    assert exact <= bound <= exact * (1 + mpmath.mpf("1e-9"))


@given(st.floats(-6.0, 2.5), st.floats(-6.0, 5.0))
def test_pure_releases_cost_less_than_the_textbook_says(log_epsilon, log_power):
    epsilon, order = 10.0**log_epsilon, 1.0 + 10.0**log_power
    bound = pure_divergence(epsilon, np.array([order]))[0]
    assert 0.0 < bound <= min(epsilon, order * epsilon**2 / 2) * (1 + 1e-12)
    p = 2.0 / (1.0 + math.exp(min(epsilon, 30.0)))
    if epsilon < 30.0:
        same = randomised_response(p, 2, np.array([order]))[0]
        assert bound == pytest.approx(same, rel=1e-6)


def test_composition_adds_and_nothing_costs_nothing():
    orders = (1.5, 4.0)
    parts = [Gaussian(2.0), Laplace(3.0), sgd(1.0, 0.1)]
    total = sum(divergence(part, ADD, *orders) for part in parts)
    both = dp.ComposedDpEvent([*parts, dp.NoOpDpEvent()])
    assert divergence(both, ADD, *orders) == pytest.approx(total, rel=1e-13)
    twice = Times(both, 2)
    assert divergence(twice, ADD, *orders) == pytest.approx(2 * total, rel=1e-13)
    assert divergence(dp.ZCDpEvent(0.5, 0.25), ADD, *orders) == pytest.approx(
        [1.0, 2.25], rel=1e-13
    )
    for nothing in (dp.NoOpDpEvent(), Times(both, 0)):
        assert not divergence(nothing, ADD, *orders).any()


def test_an_order_next_to_one_does_not_lower_epsilon():
    with_it = renyi_epsilon([1 + 1e-8, 8.0], [1.0, 1.0], 1e-5)
    assert with_it == pytest.approx(renyi_epsilon([8.0], [1.0], 1e-5), rel=1e-9)
    assert renyi_epsilon([1 + 1e-8], [1.0], 1e-5) > 9e4  # a mass of 1e-5 may lose 1e5 nats
    assert renyi_epsilon([1 + 1e-8], [1e-12], 1e-5) == 0.0  # Pinsker: delta <= 7.1e-7 at once


def attained(order, rho, epsilon):
    """The largest ``p - e^epsilon q`` of two coins with ``D_order <= rho``, found from below."""

    def gain(log_q):
        q = math.exp(log_q)

        def excess(y):  # 1 - p = (1 - q) e^-y
            p = q - (1.0 - q) * math.expm1(-y)
            powers = order * math.log(p) + (1.0 - order) * log_q, math.log1p(-q) - order * y
            return np.logaddexp(*powers) - (order - 1.0) * rho

        settings = {"xtol": 1e-22, "rtol": 1e-14, "maxiter": 1000}
        y = 700.0 if excess(700.0) <= 0.0 else brentq(excess, 0.0, 700.0, **settings)
        return -(1.0 - q) * math.expm1(-y) - math.expm1(epsilon) * q

    near_one = np.log1p(-np.geomspace(0.63, 1e-6, 60))
    grid = np.concatenate([np.linspace(-60.0 - rho - epsilon, -1.0, 300), near_one])
    values = [gain(log_q) for log_q in grid]
    i = int(np.argmax(values))
    between = (grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)])
    best = minimize_scalar(
        lambda log_q: -gain(log_q), bounds=between, method="bounded", options={"xatol": 1e-13}
    )
    return max(-best.fun, values[i])


@pytest.mark.cases(6)
@pytest.mark.parametrize("order", [1.01, 2.0, 8.0, 64.0])
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 10.0])
def test_the_conversion_is_attained_by_two_coins(order, rho):
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        delta = renyi_delta([order], [rho], epsilon)
        truth = attained(order, rho, epsilon)
        assert truth * (1.0 - 1e-9) - 1e-15 <= delta <= truth * (1.0 + 1e-6) + 1e-14
        simple = math.exp(float(renyi_log_deltas(np.array([order]), np.array([rho]), epsilon)[0]))
        assert delta <= simple * (1.0 + 1e-12)
        if order >= 2.0 and (order - 1.0) * rho < 0.01:
            assert delta < simple / 4.0


@given(st.floats(-3.0, 1.0), st.floats(-200.0, -0.05))
def test_gaussian_truth_is_below_what_is_proved_and_near(log_mu, log10_delta):
    z, delta = 10.0**-log_mu, 10.0**log10_delta
    event = Gaussian(z)
    exact = GaussianDP().epsilon(event, OUT, delta)
    proved = RENYI.epsilon(event, OUT, delta).upper
    assert exact.upper <= proved or proved == exact.upper == 0.0
    if delta <= 1e-5:
        assert proved <= 1.35 * exact.upper


@given(st.floats(1.0001, 1e4), st.floats(-60.0, 60.0), st.floats(-60.0, 60.0), st.floats(0.0, 1.0))
def test_no_two_coins_are_further_apart_than_is_proved(order, logit_p, logit_q, part):
    with mpmath.workdps(60):
        p, q = sorted(1 / (1 + mpmath.exp(-mpmath.mpf(x))) for x in (logit_p, logit_q))[::-1]
        epsilon = part * float(mpmath.log(p / q))
        delta = p - mpmath.exp(epsilon) * q
        moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
        rho = float(mpmath.log(moment) / (mpmath.mpf(order) - 1))
        rho = max(0.0, rho * (1 + 1e-15))
        assert delta <= renyi_delta([order], [rho], epsilon)
        if delta > 1e-300 and float(delta) < 1.0:
            assert epsilon <= renyi_epsilon([order], [rho], float(delta)) * (1 + 1e-12) + 1e-300


@given(st.floats(1.0001, 1e4), st.floats(-8.0, 3.0), st.floats(-250.0, -0.01))
def test_conversions_invert_each_other(order, log_rho, log10_delta):
    rho, delta = 10.0**log_rho, 10.0**log10_delta
    epsilon = renyi_epsilon([order], [rho], delta)
    if 0.0 < epsilon < 1e12:
        again = renyi_delta([order], [rho], epsilon)
        assert again == pytest.approx(delta, rel=1e-9 * (1 + order * (epsilon + rho)) + 1e-9)


test_bad_arguments_are_named = refused(
    (lambda: renyi_epsilon([1.0], [1.0], 0.1), "orders must be increasing, finite and above 1"),
    (lambda: renyi_epsilon([], [], 0.1), "orders must be a non-empty sequence"),
    (lambda: renyi_epsilon([2.0], [1.0, 2.0], 0.1), "divergences must be non-negative, one"),
    (lambda: renyi_epsilon([2.0], [1.0], 1.0), r"delta must lie in \[0, 1\), got 1.0"),
    (lambda: renyi_delta([2.0], [1.0], -1.0), "epsilon must be non-negative and finite"),
    (lambda: renyi_divergence(dp.NoOpDpEvent(), ADD, [math.inf]), "orders must be increasing"),
    (lambda: renyi_divergence(dp.NoOpDpEvent(), "any", [2.0]), "relation must be one of"),
    (lambda: Renyi((0.5, 2.0)), "orders must be increasing, finite and above 1"),
)


EVENTS = [
    (sgd(1.0, 0.01, 1000), ADD),
    (sgd(1.0, 0.01, 1000), REPLACE),
    (sgd(0.5, 0.001, 2000), OUT),
    (fixed_size(1000, 10, 2.0, 100), REPLACE),
    (Times(Laplace(10.0), 100), ADD),
]


@pytest.mark.parametrize(("event", "relation"), EVENTS, ids=lambda x: str(x)[:40])
def test_epsilon_and_delta_are_nearly_inverse_and_monotone(event, relation):
    for delta in (1e-12, 1e-5, 1e-2):
        epsilon = RENYI.epsilon(event, relation, delta).upper
        assert RENYI.delta(event, relation, epsilon).upper == pytest.approx(delta, rel=1e-3)
        assert RENYI.epsilon(event, relation, delta).lower == 0.0
    longer = Times(event, 2)
    assert RENYI.epsilon(longer, relation, 1e-5).upper > RENYI.epsilon(event, relation, 1e-5).upper


def test_fixed_size_is_above_its_known_range():
    assert 2.19891 < RENYI.epsilon(fixed_size(10_000, 100, 2.0, 1000), REPLACE, 1e-5).upper < 2.8


def test_reading_twice_gives_the_same_and_orders_are_hashable():
    event = sgd(1.0, 0.01, 10)
    assert RENYI.epsilon(event, ADD, 1e-5) == RENYI.epsilon(event, ADD, 1e-5)
    assert hash(Renyi([2.0, 3.0])) == hash(Renyi((2.0, 3.0)))
    curve = divergence(event, ADD, 2.0)
    curve[0] = 0.0
    assert divergence(event, ADD, 2.0)[0] > 0.0
