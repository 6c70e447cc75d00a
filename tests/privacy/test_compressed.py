"""Noise on random measurements: forty digits, closed forms, and where it is not private."""

import math

import mpmath
import numpy as np
import pytest
from builders import dominating_pairs
from dp_accounting.pld import PLDAccountant
from events import ADD, OUT, REPLACE, Gaussian, Times
from scipy.stats import chi2, norm

from privopt.accounting import ACCOUNTANTS
from privopt.privacy import (
    CompressedGaussianDpEvent,
    Fourier,
    GaussianDP,
    Guarantee,
    compressed_noise_multiplier,
    gaussian_delta,
    gaussian_noise_multiplier,
    renyi_divergence,
)
from privopt.privacy.mechanisms.compressed import CompressedPair
from privopt.privacy.pairs import NOTHING
from privopt.spec import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation=OUT)
Compressed = CompressedGaussianDpEvent


def tail(mu, m, c, sign):
    """``E Phi(sign S/2 - c/S)`` by another rule, to forty digits."""
    with mpmath.workdps(40):
        mu, c, m = mpmath.mpf(mu), mpmath.mpf(c), mpmath.mpf(m)
        scale = 2 * mpmath.exp(-m / 2) * (m / 2) ** (m / 2) / mpmath.gamma(m / 2)

        def integrand(v):
            s = mu * mpmath.exp(v)
            weight = mpmath.exp(-m / 2 * (mpmath.expm1(2 * v) - 2 * v))
            return scale * weight * mpmath.ncdf(sign * s / 2 - c / s)

        ends = -90 / m - mpmath.sqrt(200 / m), mpmath.log(2000 / m + 2)
        return mpmath.quad(integrand, mpmath.linspace(*ends, 24))


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("mu", "m", "c"), [(0.24, 1, 1e-3), (0.24, 20, 5.0), (3.0, 5, 10.0), (0.1, 1000, 0.2)]
)
def test_tails_against_forty_digits(mu, m, c):
    found = CompressedPair(mu, m).tails(np.array([0.0, c, 2.0 * c]))
    for sign, values, errors in (
        (1, found.likely, found.likely_error),
        (-1, found.rare, found.rare_error),
    ):
        exact = tail(mu, m, c, sign)
        assert abs(values[1] - exact) <= errors[1] <= 2e-12 * exact
    assert found.likely[0] + found.rare[0] == pytest.approx(1.0, abs=1e-13)


def test_bins_are_differences_of_the_tails():
    edges = np.array([-1.0, -0.2, 0.0, 0.01, 0.7])
    pair = CompressedPair(0.5, 3)
    bins = pair.bins(edges)
    scale = np.sqrt(chi2(3).ppf((np.arange(20000) + 0.5) / 20000) / 3.0) * 0.5
    for mass, sign in ((bins.p, 1.0), (bins.q, -1.0)):
        below = [norm.cdf(e / scale - 0.5 * sign * scale).mean() for e in edges]
        assert mass == pytest.approx(np.diff([0.0, *below, 1.0]), abs=2e-5)
        assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    flipped = pair.bins(-edges[::-1])
    assert flipped.p[::-1] == pytest.approx(bins.q, rel=1e-12)


@pytest.mark.parametrize(("m", "ratio"), [(20, 1.164), (100, 1.039), (1000, 1.004)])
def test_noise_beside_that_of_the_uncompressed_release(m, ratio):
    plain = gaussian_noise_multiplier(BUDGET)
    noise = compressed_noise_multiplier(BUDGET, m)
    assert noise / plain == pytest.approx(ratio, abs=6e-4)
    lower, upper = Fourier(1e-6).epsilon(Compressed(noise, m), OUT, 1e-6)
    assert 0.998 < lower <= upper <= 1.0
    assert Guarantee(Compressed(noise, m), OUT).delta(1.0).upper == pytest.approx(1e-6, rel=2e-2)


def test_the_other_calibrations_cost_more():
    plain = gaussian_noise_multiplier(BUDGET)
    renyi, split, published = (
        compressed_noise_multiplier(BUDGET, 20, each) / plain
        for each in ("renyi", "split", "published")
    )
    assert (renyi, split) == pytest.approx((1.300, 1.885), abs=2e-3)
    assert published == pytest.approx(1.927, abs=1e-3)
    replaced = Budget(epsilon=1.0, delta=1e-6, relation=REPLACE)
    for each in ("mixture", "split", "published"):
        twice = compressed_noise_multiplier(replaced, 20, each)
        assert twice == pytest.approx(2.0 * compressed_noise_multiplier(BUDGET, 20, each), rel=1e-3)
        assert Guarantee(Compressed(twice, 20), REPLACE).delta(1.0).upper <= 1.002e-6


def test_the_published_noise_is_not_private_for_tiny_numbers_of_measurements():
    noise = 1.5 * math.sqrt(2.0 * math.log(2.5 / 1e-6))
    assert Guarantee(Compressed(noise, 1), OUT).delta(1.0).lower == pytest.approx(7.22e-6, rel=1e-3)
    with pytest.raises(ValueError, match=r"measurements must be more .* 7\.22e-06 .* got 1"):
        compressed_noise_multiplier(BUDGET, 1, "published")
    assert compressed_noise_multiplier(BUDGET, 2, "published") == pytest.approx(noise)
    strict = Budget(epsilon=1.0, delta=1e-10, relation=OUT)
    private = []
    for m in range(1, 8):
        try:
            compressed_noise_multiplier(strict, m, "published")
            private.append(m)
        except ValueError:
            pass
    assert private == [6, 7]
    with pytest.raises(ValueError, match=r"epsilon must be at most 1 .* got 1\.5"):
        compressed_noise_multiplier(Budget(epsilon=1.5, delta=1e-6, relation=OUT), 100, "published")


def test_refusals_name_argument_value_and_rule():
    for arguments, message in (
        ((BUDGET, 0), "measurements must be an integer from 1"),
        ((BUDGET, 10, "classical"), "calibration must be one of mixture"),
        ((Budget(epsilon=1.0, delta=0.0, relation=OUT), 10), "delta must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            compressed_noise_multiplier(*arguments)


def test_divergences_in_closed_form_and_beyond():
    m, mu, orders = 50, 0.25, np.array([1.0 + 1e-9, 1.5, 6.0, 28.0, 29.0, 1e6])
    found = renyi_divergence(Compressed(1.0 / mu, m), ADD, orders)
    assert found[2] == pytest.approx(0.191106, abs=1e-6)
    assert found[0] == pytest.approx(0.5 * mu**2, rel=1e-6)
    assert math.isfinite(found[3])
    assert np.isinf(found[4:]).all()  # 29 x 28 > m / mu^2 = 800
    with mpmath.workdps(40):
        a, y = mpmath.mpf(orders[3]), mpmath.mpf(28 * 27) / 800
        exact = float(-m / (2 * (a - 1)) * mpmath.log1p(-y))
    assert exact <= found[3] <= exact * (1.0 + 1e-10)
    many = renyi_divergence(Compressed(4.0, 2**40), ADD, [6.0])
    assert many[0] == pytest.approx(6.0 / 32.0, rel=1e-9)


def test_a_composition_against_sampling():
    """Five fresh matrices: given them the release is Gaussian. False alarm below 1e-6."""
    count, m, noise, epsilon = 5, 2, 6.0, 1.0
    random = np.random.default_rng(5)
    square = random.chisquare(m, (200_000, count)).sum(axis=1) / m
    deltas = [gaussian_delta(epsilon, mu=x).upper for x in np.sqrt(square[:4000]) / noise]
    error = np.std(deltas) / math.sqrt(len(deltas))
    found = Fourier().delta(Times(Compressed(noise, m), count), OUT, epsilon)
    assert found.upper == pytest.approx(np.mean(deltas), abs=5.0 * error)
    assert found.upper - found.lower <= 2e-3 * found.upper


def test_many_measurements_are_none():
    plain = GaussianDP().epsilon(Gaussian(3.0), OUT, 1e-6)
    found = Fourier(1e-5).epsilon(Compressed(3.0, 2**40), OUT, 1e-6)
    assert found.upper == pytest.approx(plain.upper, rel=2e-5)
    assert found.lower == pytest.approx(plain.lower, rel=2e-5)
    less = [Guarantee(Compressed(4.0, m), OUT).epsilon(1e-6).upper for m in (1, 3, 10, 100)]
    assert less == sorted(less, reverse=True)


@pytest.mark.cases(5)
@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda each: each.name)
def test_ends(accountant):
    for noise, count in ((-1.0, 5), (math.nan, 5), (1.0, 0), (1.0, 2.5), (1.0, -1), (1.0, True)):
        assert not accountant.supports(Compressed(noise, count), ADD)
    for noise, upper in ((0.0, math.inf), (1e-3, math.inf), (math.inf, 0.0)):
        event = Compressed(noise, 3)
        if accountant.supports(event, ADD):
            found = accountant.epsilon(event, ADD, 1e-6)
            assert found.upper == upper
            assert (found.lower == math.inf) <= (noise == 0.0)
    for noise in (2.0, 1e3, 1e90):
        event = Compressed(noise, 1)
        if accountant.supports(event, ADD):
            assert accountant.epsilon(event, ADD, 1e-100).upper > 0.0
            assert 0.0 <= accountant.delta(event, ADD, 0.5 / noise).upper <= 1.0
            assert 0.0 < accountant.delta(event, ADD, 0.0).upper <= 1.0


def test_it_is_exported_as_itself_and_refused():
    guarantee = Guarantee(Compressed(4.0, 10), REPLACE)
    event, theirs = guarantee.exported()
    assert event == Compressed(2.0, 10)
    assert not PLDAccountant(neighboring_relation=theirs).supports(event)
    assert dominating_pairs(Compressed(math.inf, 3), ADD)[0] is NOTHING
