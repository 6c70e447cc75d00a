"""Dominating pairs against 50 digits and closed forms, and the theorems that they rest on."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from builders import dominating_pairs
from events import ADD, OUT, REPLACE, FixedSize, Gaussian, Laplace, Poisson

from privopt.privacy import gaussian_delta
from privopt.privacy.mechanisms.laplace import LaplacePair
from privopt.privacy.mechanisms.pure import response_pair
from privopt.privacy.mechanisms.sampling import Sampled, SampledWithoutReplacement
from privopt.privacy.pairs import NOTHING, DiscretePair, GaussianPair, ReplacedGaussian, Reversed
from privopt.spec import Relation

mp = mpmath.mp.clone()
mp.dps = 50

EXTREME_RATES = (1e-6, 0.01, 0.5, 1.0 - 1e-9)
EXTREME_NOISES = (0.05, 0.5, 1.0, 5.0, 50.0)


# Exact laws of the loss: mass of (a, b] under P and Q.
def normal_mass(a, b):
    return mp.ncdf(-a) - mp.ncdf(-b) if a > 0 else mp.ncdf(b) - mp.ncdf(a)


def gaussian(mu):
    mu = mp.mpf(mu)
    return lambda a, b: tuple(
        normal_mass(a / mu + s * mu / 2, b / mu + s * mu / 2) for s in (-1, 1)
    )


def laplace(mu):
    mu = mp.mpf(mu)

    def cdfs(loss):
        if loss < -mu:
            return mp.mpf(0), mp.mpf(0)
        if loss >= mu:
            return mp.mpf(1), mp.mpf(1)
        return mp.exp((loss - mu) / 2) / 2, 1 - mp.exp(-(loss + mu) / 2) / 2

    return lambda a, b: tuple(y - x for x, y in zip(cdfs(a), cdfs(b), strict=True))


def sampled(base, rate):
    rate = mp.mpf(rate)

    def inverse(loss):
        inside = mp.expm1(loss) + rate
        return mp.log(inside / rate) if inside > 0 else -mp.inf

    def mass(a, b):
        p, q = base(inverse(a), inverse(b))
        return (1 - rate) * q + rate * p, q

    return mass


def replaced(rate, noise):
    r, z = mp.mpf(rate), mp.mpf(noise)
    odds = (1 - r) / r * mp.exp(1 / (2 * z * z))

    def mass(a, b):
        a, b = (z * (x / 2 + mp.asinh(odds * mp.sinh(x / 2))) for x in (a, b))
        middle = (1 - r) * normal_mass(a, b)
        return tuple(middle + r * normal_mass(a - s / z, b - s / z) for s in (1, -1))

    return mass


def mirrored(exact):
    return lambda a, b: tuple(reversed(exact(-b, -a)))


CONTINUOUS = [
    *((GaussianPair(mu), gaussian(mu)) for mu in (1e-6, 0.02, 1.0, 20.0, 300.0)),
    *((LaplacePair(mu), laplace(mu)) for mu in (1e-6, 0.1, 2.0, 50.0)),
    (Sampled(LaplacePair(2.0), 0.1), sampled(laplace(2.0), 0.1)),
    *(
        (Sampled(GaussianPair(1.0 / z), q), sampled(gaussian(mp.mpf(1.0 / z)), q))
        for q in EXTREME_RATES
        for z in EXTREME_NOISES
    ),
    *((ReplacedGaussian(q, z), replaced(q, z)) for q in EXTREME_RATES for z in EXTREME_NOISES),
]
NAMES = [str(pair) for pair, _ in CONTINUOUS]  # an address would differ between processes


def edges_of(pair):
    """Bulk and tails thirty standard deviations out, with a few irregular ones between."""
    edges = np.unique(np.concatenate([pair.losses(1e-197, 13), 0.77 * pair.losses(1e-9, 6)]))
    return np.concatenate([[edges[0] - 1e-7], edges, [edges[-1] + 1e-7]])


def check(pair, exact, spare, edges=None):
    edges = edges_of(pair) if edges is None else edges
    bins = pair.bins(edges)
    ends = [-mp.inf, *map(mp.mpf, edges.tolist()), mp.inf]
    for i, (a, b) in enumerate(pairwise(ends)):
        blur = mp.mpf(bins.blur)
        wide = exact(a - blur, b + blur)
        narrow = exact(a + blur, b - blur) if b - a > 2 * blur else (mp.mpf(0), mp.mpf(0))
        for claimed, error, most, least in zip(
            (bins.p[i], bins.q[i]), (bins.p_error[i], bins.q_error[i]), wide, narrow, strict=True
        ):
            slack = mp.mpf(error) / spare + mp.mpf("1e-322")
            assert least - slack <= claimed <= most + slack, (pair, i, claimed, error)


@pytest.mark.cases(8)
@pytest.mark.parametrize(("pair", "exact"), CONTINUOUS, ids=NAMES)
def test_masses_lie_within_an_eighth_of_their_claimed_errors(pair, exact):
    check(pair, exact, spare=8)


@pytest.mark.parametrize(("pair", "exact"), CONTINUOUS[::4], ids=NAMES[::4])
def test_the_reverse_too(pair, exact):
    edges = edges_of(Reversed(pair))
    check(Reversed(pair), mirrored(exact), 8, edges + 1e-9 * (1 + np.abs(edges)))  # off the atoms


@pytest.mark.parametrize(
    "pair",
    [pair for pair, _ in CONTINUOUS]
    + [
        response_pair(0.3, 4),
        Sampled(DiscretePair((0.0, 1.0), (1.0, 0.0)), 0.2),
        SampledWithoutReplacement(Sampled(GaussianPair(0.5), 0.1)),
    ],
    ids=lambda x: str(x)[:60],
)
def test_each_law_sums_to_one_and_losses_lie_in_their_bins(pair):
    edges = edges_of(pair)
    bins = pair.bins(edges)
    for mass, error, infinite in zip(
        (bins.p, bins.q), (bins.p_error, bins.q_error), pair.infinite(), strict=True
    ):
        assert mass.min() >= 0.0
        assert abs(math.fsum(mass) + infinite - 1.0) <= math.fsum(error) + 1e-15
    p, q = bins.p[1:-1], bins.q[1:-1]
    known = (
        (p > 1e-290) & (q > 1e-290) & (2 * bins.p_error[1:-1] < p) & (2 * bins.q_error[1:-1] < q)
    )
    loss = np.log(p[known] / q[known])
    error = 2 * (bins.p_error[1:-1] / np.maximum(p, 1e-300))[known]
    error += 2 * (bins.q_error[1:-1] / np.maximum(q, 1e-300))[known]
    error += bins.blur + 1e-15 * (1 + np.abs(loss))
    assert np.all(loss >= edges[:-1][known] - error)
    assert np.all(loss <= edges[1:][known] + error)


@pytest.mark.parametrize(("n", "m"), [(10, 1), (10, 9), (1000, 30), (10**6, 1)])
@pytest.mark.parametrize("noise", [0.3, 1.0, 20.0])
def test_a_fixed_batch_has_the_curve_of_the_closed_form(n, m, noise):
    event = FixedSize(n, m, Gaussian(noise))
    pair, _ = dominating_pairs(event, Relation.REPLACE_ONE)
    assert isinstance(pair, SampledWithoutReplacement)

    def curve(epsilon):
        whole = math.log1p(math.expm1(epsilon) * n / m)
        return m / n * gaussian_delta(whole, mu=2.0 / noise).upper

    for epsilon in (0.0, 1e-3, 0.1, 1.0, 4.0):
        bins = pair.bins(np.array([epsilon]))
        delta = bins.p[1] - math.exp(epsilon) * bins.q[1]
        assert delta == pytest.approx(curve(epsilon), rel=1e-9, abs=1e-15)
        mirror = pair.bins(np.array([-epsilon]))  # H at e^-eps, by 1 - gamma + gamma H(1 / gamma)
        gamma = math.exp(-epsilon)
        delta = mirror.p[1] - gamma * mirror.q[1]
        if epsilon > 0.0:
            expected = 1.0 - gamma + gamma * curve(epsilon)
            assert delta == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_the_mass_that_is_left_has_loss_zero():
    pair = SampledWithoutReplacement(Sampled(GaussianPair(2.0), 0.1))
    for edges in ([-1e-12, 1e-12], [-1e-12, 0.0], [-0.5, -1e-12, 1e-12]):
        bins = pair.bins(np.array(edges))
        at = len(edges) - 1
        assert bins.p[at] == pytest.approx(0.9 * (1.0 - 2.0 * float(mp.ncdf(-1))), rel=1e-6)
        assert bins.p[at] == pytest.approx(bins.q[at], rel=1e-11)
    assert pair.attained == pair.sampled


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.05), (0.3, 1.0), (2.0, 2.5), (0.01, 6.0)])
def test_one_laplace_coordinate_dominates_two(a, b):
    """Compare with noise of scale 1 in the plane. The midpoint rule errs by less than 1e-4."""
    x = np.linspace(-12.0, 18.0, 1501)[:-1] + 0.01
    laws = [(np.exp(-abs(x - s)) / 100.0, np.exp(-abs(x)) / 100.0) for s in (a, b)]
    p, q = (np.multiply.outer(*each) for each in zip(*laws, strict=True))
    for epsilon in np.array([-0.8, 0.0, 0.3, 0.9]) * (a + b):
        bins = LaplacePair(a + b).bins(np.array([epsilon]))
        bound = bins.p[1] - math.exp(epsilon) * bins.q[1]
        assert np.maximum(p - math.exp(epsilon) * q, 0.0).sum() <= bound + 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_a_replaced_gaussian_dominates_every_pair_of_gradients(seed):
    random = np.random.default_rng(seed)
    rate, z = random.uniform(0.05, 0.95), random.uniform(0.4, 2.0)
    pair = ReplacedGaussian(rate, z)
    axis = np.linspace(-1.0 - 7.0 * z, 1.0 + 7.0 * z, 401)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2 / (2 * math.pi * z * z)

    def density(g):
        return cell * np.exp(-((x - g[0]) ** 2 + (y - g[1]) ** 2) / (2 * z * z))

    for _ in range(4):
        first, second = random.normal(size=(2, 2))
        first *= random.uniform(0.3, 1.0) / np.linalg.norm(first)
        second *= random.uniform(0.3, 1.0) / np.linalg.norm(second)
        none = (1.0 - rate) * density((0.0, 0.0))
        p, q = none + rate * density(first), none + rate * density(second)
        for epsilon in (-2.0, -0.5, -0.05, 0.0, 0.05, 0.3, 1.0, 2.5):
            bins = pair.bins(np.array([epsilon]))
            bound = bins.p[1] - math.exp(epsilon) * bins.q[1]
            assert float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) <= bound + 1e-4


def test_relations_multiply_the_distance():
    assert dominating_pairs(Gaussian(4.0), ADD)[0] == GaussianPair(0.25)
    assert dominating_pairs(Gaussian(4.0), OUT)[0] == GaussianPair(0.25)
    assert dominating_pairs(Gaussian(4.0), REPLACE)[0] == GaussianPair(0.5)
    assert dominating_pairs(Laplace(4.0), REPLACE)[0] == LaplacePair(0.5)


def test_extremes():
    assert dominating_pairs(Gaussian(math.inf), ADD)[0] is NOTHING
    assert dominating_pairs(Poisson(0.0, Gaussian(1.0)), ADD)[0] is NOTHING
    for noise, attained in ((0.0, True), (1e-6, False)):
        pair = dominating_pairs(Gaussian(noise), ADD)[0]
        assert pair.infinite() == (1.0, 1.0)
        assert (pair.attained is not None) == attained
        (seen, _) = dominating_pairs(Poisson(0.25, Gaussian(noise)), REPLACE)
        assert seen.infinite() == (0.25, 0.25)
        assert (seen.attained is not None) == attained
