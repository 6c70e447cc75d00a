"""The event of objective perturbation: its curves by 50 digits, its claims by change of variables.

A minimiser of a tilted objective on the line has the density ``phi(g(w)) g'(w)``, and in the
plane ``phi(g(w)) det g'(w)``: everything the event promises is compared with these.
"""

import math
from itertools import pairwise

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from builders import dominating_pairs
from events import ADD, REPLACE, Gaussian, Poisson, Together
from scipy import integrate, special, stats

from privopt.privacy import (
    Guarantee,
    ObjectivePerturbationDpEvent,
    calibrate,
    delta,
    gaussian_delta,
    renyi_divergence,
)
from privopt.privacy.mechanisms.objective import ObjectivePair
from privopt.privacy.mechanisms.sampling import Sampled
from privopt.privacy.pairs import NOTHING, GaussianPair
from privopt.spec import Budget

mp = mpmath.mp.clone()
mp.dps = 50

PAIRS = [(1e-6, 0.0), (0.05, 1e-9), (0.2, 0.3), (1.0, 0.0), (1.0, 2.0), (20.0, 1.0), (300.0, 5.0)]


def event(sigma, curvature=0.25, regularisation=1.0, lipschitz=1.0):
    return ObjectivePerturbationDpEvent(sigma / lipschitz, math.log1p(curvature / regularisation))


def exact_delta(eps, s, c):
    """``E (1 - e^(eps - U))_+`` by integration of 50 digits, in pieces."""
    eps, s, c = mp.mpf(eps), mp.mpf(s), mp.mpf(c)
    start = max(mp.mpf(0), (eps - c - s * s / 2) / s)

    def integrand(z):
        return 2 * mp.npdf(z) * -mp.expm1(eps - c - s * s / 2 - s * z)

    return mp.quad(integrand, [start + k / (1 + start) for k in (0, 0.5, 1, 2, 4, 8, 16, 60)])


@pytest.mark.cases(4)
@pytest.mark.parametrize(("s", "c"), [(0.05, 0.0), (0.2, 0.2), (1.0, 0.5), (3.0, 0.0), (2.0, 2.0)])
@pytest.mark.parametrize("eps", [0.0, 0.45, 3.0])
def test_profile_is_the_hockey_stick_of_its_loss(eps, s, c):
    curve = Guarantee(ObjectivePerturbationDpEvent(1.0 / s, c), ADD)
    expected = exact_delta(eps, s, c)
    upper = curve.delta(eps).upper
    assert expected * (1 - mp.mpf("1e-14")) <= upper <= expected * (1 + mp.mpf("1e-9")) + 1e-15
    if 1e-290 < upper < 0.999:
        back = curve.epsilon(upper * (1.0 + 1e-9)).upper
        assert back <= eps + 1e-9
        assert back >= min(eps, curve.epsilon(upper * (1.0 + 1e-6)).upper) - 1e-12


@pytest.mark.parametrize(("regularisation", "sigma"), [(1.0, 5.30), (5.0, 4.08), (20.0, 3.93)])
def test_noise_table(regularisation, sigma):
    budget = Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    published = -math.log1p(-0.25 / regularisation)
    noise = calibrate(lambda z: ObjectivePerturbationDpEvent(z, published), budget)
    assert noise == pytest.approx(sigma, abs=0.006)
    ours = calibrate(lambda z: event(z, regularisation=regularisation), budget)
    assert ours < noise


def masses(s, c):
    s, c = mp.mpf(s), mp.mpf(c)

    def tails(loss):
        if loss == mp.inf:
            return mp.mpf(0), mp.mpf(0)
        z = max(mp.mpf(0), (loss - c - s * s / 2) / s) if loss != -mp.inf else mp.mpf(0)
        return 2 * mp.ncdf(-z), 2 * mp.exp(-c) * mp.ncdf(-z - s)

    return lambda a, b: tuple(x - y for x, y in zip(tails(a), tails(b), strict=True))


@pytest.mark.parametrize(("s", "c"), PAIRS)
def test_bins_are_within_a_quarter_of_their_claimed_errors(s, c):
    pair, exact = ObjectivePair(s, c), masses(s, c)
    edges = np.unique(np.concatenate([pair.losses(1e-197, 13), pair.losses(1e-9, 6) * 1.0001]))
    edges = np.concatenate([[-3.0, 0.5 * edges[0], edges[0] - 1e-7], edges, [edges[-1] + 1e-7]])
    edges = np.unique(edges)
    bins = pair.bins(edges)
    ends = [-mp.inf, *map(mp.mpf, edges.tolist()), mp.inf]
    for i, (a, b) in enumerate(pairwise(ends)):
        for claimed, error, true in zip(
            (bins.p[i], bins.q[i]), (bins.p_error[i], bins.q_error[i]), exact(a, b), strict=True
        ):
            assert abs(mp.mpf(float(claimed)) - true) <= mp.mpf(float(error)) / 4 + mp.mpf("1e-320")
    assert math.fsum(bins.p) == pytest.approx(1.0, abs=1e-12)
    assert math.fsum(bins.q) + pair.infinite()[1] == pytest.approx(1.0, abs=1e-12)


def test_a_vanishing_spread_is_widened_not_lost():
    pair = ObjectivePair(1e-19, 2.0)
    edges = pair.losses(1e-20, 50)
    assert np.all(np.diff(edges) > 0.0)
    bins = pair.bins(np.array([2.0 - 1e-9, 2.0 + 1e-5]))
    assert bins.p[1] == pytest.approx(1.0)
    curve = Guarantee(ObjectivePerturbationDpEvent(1e19, 2.0), ADD)
    assert curve.epsilon(1e-9).upper == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(("s", "c"), [(0.01, 0.0), (0.2, 0.2), (2.0, 1.0)])
def test_renyi_curve_is_the_moment_of_the_loss(s, c):
    orders = np.array([1.01, 1.5, 2.0, 8.0, 40.0])
    found = renyi_divergence(ObjectivePerturbationDpEvent(1.0 / s, c), ADD, orders)
    for order, value in zip(orders.tolist(), found.tolist(), strict=True):
        t = (mp.mpf(order) - 1) * mp.mpf(s)
        moment = 2 * mp.exp(t * t / 2) * mp.ncdf(t)
        exact = mp.mpf(c) + mp.mpf(s) ** 2 / 2 + mp.log(moment) / (mp.mpf(order) - 1)
        assert exact * (1 - mp.mpf("1e-15")) <= value <= exact * (1 + mp.mpf("1e-10"))


@pytest.mark.parametrize("eps", [0.3, 1.0])
@pytest.mark.parametrize("ratio", [0.01, 0.3])
def test_an_inexact_minimiser_composes_with_its_output_noise(eps, ratio):
    """``E_Z delta_G(eps - c - s^2/2 - s|Z|; 2 tau / sigma_2)``."""
    s, c = 0.25, 0.05
    mu = ratio * s

    def inner(z):
        x = eps - c - 0.5 * s * s - s * z
        a, b = x / mu - 0.5 * mu, x / mu + 0.5 * mu
        return 2 * stats.norm.pdf(z) * (special.ndtr(-a) - math.exp(x) * special.ndtr(-b))

    kink = (eps - c - 0.5 * s * s) / s
    parts = sorted({0.0, *np.clip(np.linspace(kink - 8 * ratio, kink + 8 * ratio, 9), 0, 20), 20.0})
    expected = sum(integrate.quad(inner, a, b, epsabs=1e-15)[0] for a, b in pairwise(parts))
    both = Together([ObjectivePerturbationDpEvent(1 / s, c), Gaussian(1 / mu)])
    found = Guarantee(both, ADD).delta(eps).upper
    assert expected * (1 - 1e-6) <= found <= expected * (1 + 5e-3)


def test_edges_of_the_event():
    assert dominating_pairs(ObjectivePerturbationDpEvent(math.inf, 0.0), ADD) == (NOTHING, NOTHING)
    for bad in (ObjectivePerturbationDpEvent(-1.0, 0.0), ObjectivePerturbationDpEvent(1.0, -0.1)):
        assert dominating_pairs(bad, ADD) is None
        assert Guarantee(bad, ADD).epsilon(1e-5).upper == math.inf
    for open_ in (
        ObjectivePerturbationDpEvent(0.0, 0.0),
        ObjectivePerturbationDpEvent(1.0, math.inf),
    ):
        assert Guarantee(open_, ADD).epsilon(1e-5).upper == math.inf
        assert Guarantee(open_, ADD).delta(1.0).upper == 1.0
    sure = Guarantee(ObjectivePerturbationDpEvent(math.inf, 0.7), ADD)
    assert sure.epsilon(0.0).upper == pytest.approx(0.7)
    assert sure.delta(0.7001).upper == 0.0


def test_the_event_speaks_dp_accounting():
    release = event(5.0)
    assert dp.DpEvent.from_named_tuple(release.to_named_tuple()) == release
    assert hash(release) == hash(event(5.0))
    assert Guarantee(release, ADD).times(3).epsilon(1e-5).upper > 1.0


@pytest.mark.parametrize("eps", [0.0, 0.05, 0.4])
def test_a_sample_of_it(eps):
    """``q delta(ln(1 + (e^eps - 1)/q))``, by the pair as by the profile; the other order less."""
    release = Poisson(0.1, event(2.0))
    curve = Guarantee(release, ADD)
    found = delta(release, eps, relation=ADD, accountant="fourier")
    exact = curve.delta(eps).upper
    assert exact * (1 - 1e-9) <= found.upper <= 1.1 * exact
    removed, added = dominating_pairs(release, ADD)
    assert isinstance(removed, Sampled)
    bins = added.bins(np.array([eps]))
    assert bins.p[1] - math.exp(eps) * bins.q[1] <= curve.delta(eps).upper


def test_its_lower_ends_are_a_linear_loss():
    """If ``f = L x w`` the release is a Gaussian mechanism. No proof can improve on it."""
    assert ObjectivePair(0.3, 0.1).attained == GaussianPair(0.3)
    both = Guarantee(event(5.0), REPLACE).delta(1.0)
    assert both.lower == pytest.approx(gaussian_delta(1.0, mu=2.0 / 5.0).upper, rel=2e-3)
    assert both.lower <= both.upper


def logistic_line(records, regularisation, sigma):
    """Log density of ``argmin sum log(1 + e^(-x w)) + (lambda/2) w^2 + b w`` at ``w``."""
    records = np.asarray(records, np.float64)[:, None]

    def log_density(w):
        pull = regularisation * w - np.sum(records * special.expit(-records * w), axis=0)
        probability = special.expit(records * w)
        curvature = regularisation + np.sum(records**2 * probability * (1 - probability), axis=0)
        return stats.norm.logpdf(pull, scale=sigma) + np.log(curvature)

    return log_density


def divergences(first, second, orders, reach):
    """``int (p - e^eps q)_+`` in both orders of the pair, by 40,000 trapezoids, for every eps."""
    w = np.linspace(-reach, reach, 40_001)
    p, q = np.exp(first(w)), np.exp(second(w))
    assert np.trapezoid(p, w) == pytest.approx(1.0, abs=1e-5)
    return [
        tuple(
            float(np.trapezoid(np.maximum(a - math.exp(eps) * b, 0.0), w))
            for a, b in ((p, q), (q, p))
        )
        for eps in orders
    ]


def divergence(first, second, eps, reach):
    return divergences(first, second, [eps], reach)[0][0]


EPSILONS = (0.0, 0.1, 0.5, 1.0)


@pytest.mark.cases(3)
@pytest.mark.parametrize("n", [0, 3, 10])
@pytest.mark.parametrize(("regularisation", "sigma"), [(1.0, 3.0), (0.3, 2.0), (5.0, 1.0)])
def test_one_record_removed_added_or_replaced(n, regularisation, sigma):
    rest = np.random.default_rng(n).uniform(-1.0, 1.0, n)
    reach = (n + 1 + 12 * sigma) / regularisation

    def density(*records):
        return logistic_line([*rest, *records], regularisation, sigma)

    for relation, neighbours in (
        (ADD, [((1.0,), ()), ((-1.0,), ()), ((0.6,), ())]),
        (REPLACE, [((1.0,), (-1.0,)), ((1.0,), (0.0,)), ((0.5,), (1.0,))]),
    ):
        curve = Guarantee(event(sigma, regularisation=regularisation), relation)
        for one, other in neighbours:
            found = divergences(density(*one), density(*other), EPSILONS, reach)
            for eps, both in zip(EPSILONS, found, strict=True):
                assert max(both) <= curve.delta(eps).upper + 1e-9


def rounded_slopes(width, regularisation, sigma, kinks):
    """Return the log density for slopes ``clip((w - y)/h, -1, 1)``, with curvature 0 or ``1/h``."""
    kinks = np.asarray(kinks, np.float64)[:, None]

    def log_density(w):
        pull = regularisation * w + np.sum(np.clip((w - kinks) / width, -1, 1), axis=0)
        curvature = regularisation + np.sum(np.abs(w - kinks) < width, axis=0) / width
        return stats.norm.logpdf(pull, scale=sigma) + np.log(curvature)

    return log_density


def test_a_determinant_left_out_would_be_found():
    """A narrow Huber loss: with its jacobian the bound holds, without it is broken many times."""
    width, sigma = 0.0495, 4.0  # its ends midway between two trapezoids
    present = rounded_slopes(width, 1.0, sigma, [0.0])
    without = rounded_slopes(width, 1.0, sigma, [])
    with_it = Guarantee(event(sigma, curvature=1 / width), ADD)
    without_it = Guarantee(ObjectivePerturbationDpEvent(sigma, 0.0), ADD)
    found = divergence(present, without, 1.0, 60.0)
    assert found <= with_it.delta(1.0).upper
    assert found > 5 * without_it.delta(1.0).upper


def logistic_plane(records, regularisation, sigma, grid):
    """Density on the grid, ``phi(g) det g'``."""
    pull = regularisation * grid
    hessian = np.zeros((2, 2, *grid.shape[1:])) + regularisation * np.eye(2)[:, :, None, None]
    for x in records:
        probability = special.expit(np.tensordot(x, grid, 1))
        pull = pull - (1 - probability) * x[:, None, None]
        hessian = hessian + np.outer(x, x)[:, :, None, None] * probability * (1 - probability)
    determinant = hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
    return (
        np.exp(-0.5 * np.sum(pull**2, axis=0) / sigma**2) * determinant / (2 * math.pi * sigma**2)
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("angle", [0.7, math.pi / 2, math.pi])
@pytest.mark.parametrize(("regularisation", "sigma"), [(1.0, 2.0), (0.2, 4.0)])
def test_one_record_replaced_in_the_plane(angle, regularisation, sigma):
    half = (2.0 + 8 * sigma) / regularisation
    axis = np.linspace(-half, half, 1201)
    grid, cell = np.stack(np.meshgrid(axis, axis, indexing="ij")), (axis[1] - axis[0]) ** 2
    first, second = (
        logistic_plane([np.array([math.cos(a), math.sin(a)])], regularisation, sigma, grid)
        for a in (0.0, angle)
    )
    assert first.sum() * cell == pytest.approx(1.0, abs=1e-6)
    curve = Guarantee(event(sigma, regularisation=regularisation), REPLACE)
    for eps in (0.0, 0.2, 0.6):
        found = np.maximum(first - math.exp(eps) * second, 0.0).sum() * cell
        assert found <= curve.delta(eps).upper + 1e-6


@pytest.mark.parametrize("norm", [12.0, 1.0, 0.1])
def test_records_of_any_norm(norm):
    """``|x| = R``: the gradient is ``R`` and the curvature ``R^2/4``, not ``R/4``."""
    regularisation, sigma = 1.0, 3.0 * norm
    present, without = (logistic_line(x, regularisation, sigma) for x in ([norm], []))
    reach = (norm + 12 * sigma) / regularisation
    right = event(sigma, norm**2 / 4, regularisation, lipschitz=norm)
    for eps in (0.1, 0.5, 1.0):
        found = divergence(present, without, eps, reach)
        assert found <= Guarantee(right, ADD).delta(eps).upper + 1e-9
    wrong = event(sigma, norm / 4, regularisation, lipschitz=norm)
    if norm == 12.0:
        assert (
            divergence(present, without, 2.5, reach) > 10 * Guarantee(wrong, ADD).delta(2.5).upper
        )
