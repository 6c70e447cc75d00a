"""Mixtures of Gaussians: against dp-accounting, sampling, exact bins and brute force."""

import math

import mpmath
import numpy as np
import pytest
from builders import dominating_pairs
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent as Mixture
from events import ADD, OUT, REPLACE, Gaussian, Poisson, Times, Together

from privopt.privacy import Fourier, GaussianDP, Guarantee
from privopt.privacy.mechanisms.mixtures import MixturePair
from privopt.privacy.pairs import NOTHING


def test_the_example_of_dp_accounting():
    """Compare with ``pld_privacy_accountant_test``. Its discretisation is from above, by 1e-4."""
    event = Together(
        [
            Times(Mixture(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]), 3),
            Times(Mixture(2.0, [0.0, 2.0, 3.0], [0.33, 0.34, 0.33]), 2),
        ]
    )
    for relation in (ADD, OUT):
        lower, upper = Fourier(1e-5).epsilon(event, relation, 1e-6)
        assert lower <= 17.193115 <= upper * (1.0 + 2e-5)
        assert upper == pytest.approx(17.193115, rel=3e-5)


def test_one_size_is_gaussian_noise_and_two_with_zero_are_a_poisson_sample():
    one = Fourier().epsilon(Mixture(3.0, [1.5], [1.0]), ADD, 1e-6)
    exact = GaussianDP().epsilon(Gaussian(2.0), ADD, 1e-6)
    assert one.lower <= exact.lower <= exact.upper <= one.upper
    mixed, sampled = (
        Fourier(1e-5).epsilon(Times(event, 10), ADD, 1e-6)
        for event in (Mixture(2.0, [0.0, 2.0, 7.0], [0.9, 0.1, 0.0]), Poisson(0.1, Gaussian(1.0)))
    )
    assert mixed.upper == pytest.approx(sampled.upper, rel=2e-5)
    assert mixed.lower <= sampled.upper
    assert sampled.lower <= mixed.upper


@pytest.mark.parametrize(
    ("shifts", "weights", "rest"),
    [
        ((0.5, 2.0), (0.1, 0.05), 0.85),
        ((1.0, 1.5), (0.25, 0.75), 0.0),
        ((0.1, 5.0), (0.5, 0.5), 0.0),
    ],
)
def test_bins_against_fifty_digits(shifts, weights, rest):
    points = [-2.5, -0.3, 0.0, 0.1, 1.0, 4.0]
    with mpmath.workdps(50):
        parts = [(mpmath.mpf(c), mpmath.mpf(w)) for c, w in zip(shifts, weights, strict=True)]

        def edge(x):
            return mpmath.log(
                rest + mpmath.fsum(w * mpmath.exp(c * x - c**2 / 2) for c, w in parts)
            )

        edges = np.array([float(edge(mpmath.mpf(x))) for x in points])
        below_q = [*map(mpmath.ncdf, points), 1]
        moved = ([*(mpmath.ncdf(x - c) for x in points), 1] for c, _ in parts)
        below_p = rest * np.array(below_q)
        for (_, weight), each in zip(parts, moved, strict=True):
            below_p = below_p + weight * np.array(each)
        exact_p, exact_q = (np.diff([0, *each]).astype(float) for each in (below_p, below_q))
    found = MixturePair(shifts, weights, rest).bins(edges)
    assert found.blur < 1e-11
    for exact, mass, error in (
        (exact_p, found.p, found.p_error),
        (exact_q, found.q, found.q_error),
    ):
        assert np.all(np.abs(mass - exact) <= error + 1e-13)  # the edges were rounded
        assert float(error.max()) < 1e-12


def test_a_larger_contribution_dominates():
    random = np.random.default_rng(7)
    for _ in range(5):
        sizes = np.sort(random.uniform(0.0, 2.0, 3))
        weights = random.dirichlet(np.ones(3))
        weights[2] = 1.0 - weights[0] - weights[1]
        moved = weights + np.array([-0.5 * weights[0], 0.0, 0.5 * weights[0]])
        less, more = (
            Fourier().epsilon(Mixture(1.0, sizes.tolist(), each.tolist()), ADD, 1e-5)
            for each in (weights, moved)
        )
        assert less.lower <= more.upper


def test_what_rounding_leaves_goes_to_the_safe_side():
    short = [0.5 - 1e-10, 0.5]
    removed, added = dominating_pairs(Mixture(1.0, [0.0, 1.0], short), ADD)
    assert removed.attained is None
    assert removed.weights[0] == pytest.approx(0.5 + 1e-10, rel=1e-12)
    assert added.pair is removed
    (over, _) = dominating_pairs(Mixture(1.0, [0.0, 1.0], [0.5 + 1e-10, 0.5]), ADD)
    assert over.weights == (0.5,)
    assert over.rest == pytest.approx(0.5, rel=1e-14)
    tenths, _ = dominating_pairs(Mixture(1.0, list(range(10)), [0.1] * 10), ADD)
    assert tenths.attained is tenths


def test_ends():
    everything = Guarantee(Mixture(0.0, [1.0, 2.0], [0.5, 0.5]), ADD)
    assert everything.delta(1.0).lower == 1.0
    half = Guarantee(Mixture(0.0, [0.0, 2.0], [0.5, 0.5]), ADD).delta(1.0)
    assert half.lower == pytest.approx(0.5) == half.upper
    for event in (Mixture(1.0, [0.0], [1.0]), Mixture(0.0, [0], [1]), Mixture(math.inf, [1], [1])):
        assert dominating_pairs(event, ADD)[0] is NOTHING
    for sizes, weights in (
        ([1.0], [0.5]),
        ([1.0, 2.0], [1.0]),
        ([-1.0], [1.0]),
        ([math.nan], [1.0]),
        ([math.inf], [1.0]),
        ([1.0], [1.5]),
        ([], []),
        (1.0, 1.0),
    ):
        assert dominating_pairs(Mixture(1.0, sizes, weights), ADD) is None
    assert dominating_pairs(Mixture(1.0, [1.0], [1.0]), REPLACE) is None
    assert Guarantee(Mixture(1.0, [1.0], [1.0]), REPLACE).epsilon(1e-5).upper == math.inf
