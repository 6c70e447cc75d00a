"""``Guarantee.mu``: bounds of the smallest ``mu`` for which releases are ``mu``-Gaussian DP."""

import math
from itertools import pairwise

import dp_accounting as dp
import numpy as np
import pytest
from events import ADD, EVERY_RELATION, OUT, REPLACE, Gaussian, Laplace, Poisson, Times, Together
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from selection import choose, few

from privopt.privacy import BoundedRangeDpEvent, Guarantee, approximate_event, pure_event
from privopt.privacy.mu import covering_mu
from privopt.privacy.numbers import Interval
from privopt.spec import Relation

PURE = -2.0 * ndtri(1.0 / (1.0 + math.e))  # of randomised response with epsilon = 1
FLOOR = 1e-8


def gaussian_profile(x, mu):
    """``delta(x; mu)`` as in a textbook."""
    return ndtr(0.5 * mu - x / mu) - np.exp(x) * ndtr(-0.5 * mu - x / mu)


def smallest_mu(deltas, epsilons, floor=0.0):
    """The largest ``m`` with ``delta(x; m) + floor = delta``, over a grid of points."""
    points = [(d - floor, x) for d, x in zip(deltas, epsilons, strict=True) if d > 1.001 * floor]
    return max(brentq(lambda m: gaussian_profile(x, m) - d, 1e-9, 50.0) for d, x in points)  # noqa: B023


def poisson_profile(rate, noise, x):
    """``delta(x)`` of one Poisson-sampled Gaussian step, in the worse order."""
    gamma = np.exp(x)
    grid = np.linspace(-12.0, 13.0, 200_001) * noise
    q = np.exp(-0.5 * (grid / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi))
    p = (1.0 - rate) * q + rate * np.exp(-0.5 * ((grid - 1.0) / noise) ** 2) / (
        noise * math.sqrt(2.0 * math.pi)
    )
    step = grid[1] - grid[0]
    orders = (p - gamma * q, q - gamma * p)
    return max(float(np.maximum(each, 0.0).sum()) * step for each in orders)


@EVERY_RELATION
def test_gaussian_composition_has_the_root_of_the_sum_of_squares(relation):
    event = Together([Times(Gaussian(2.0), 3), Gaussian(0.7)])
    exact = relation.multiple * math.hypot(math.sqrt(3.0) / 2.0, 1.0 / 0.7)
    lower, upper = Guarantee(event, relation).mu()
    assert lower <= exact <= upper
    assert upper <= lower * (1.0 + 1e-14)


@EVERY_RELATION
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 20.0])
def test_a_pure_release_has_the_mu_of_randomised_response(relation, epsilon):
    lower, upper = Guarantee(pure_event(epsilon), relation).mu()
    exact = -2.0 * ndtri(1.0 / (1.0 + math.exp(epsilon)))
    assert lower * (1.0 - 1e-12) <= exact <= upper * (1.0 + 1e-12)
    assert upper <= lower * (1.0 + 1e-5)


def test_laplace_noise_agrees_with_a_grid():
    x = np.linspace(0.0, 0.999, 4000)
    exact = smallest_mu(-np.expm1(0.5 * (x - 1.0)), x)
    interval = Guarantee(Laplace(1.0), ADD).mu()
    assert interval.lower * (1.0 - 1e-9) <= exact <= interval.upper
    assert interval.upper <= 1.002 * interval.lower
    assert interval.reason == ""


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 1.0), (0.5, 2.0)])
def test_a_sampled_gaussian_agrees_with_a_grid_above_the_floor(rate, noise):
    guarantee = Guarantee(Poisson(rate, Gaussian(noise)), ADD)
    x = np.linspace(0.0, guarantee.epsilon(FLOOR).upper, 60)
    exact = smallest_mu([poisson_profile(rate, noise, each) for each in x], x, FLOOR)
    interval = guarantee.mu(FLOOR)
    assert exact <= interval.upper
    assert interval.lower <= 1.01 * exact  # the grid is coarse
    assert interval.upper <= 1.002 * interval.lower


@EVERY_RELATION
def test_without_a_floor_sampling_does_not_help(relation):
    step = Poisson(0.01, Gaussian(2.0))
    lower, upper, reason = (*(run := Guarantee(Times(step, 9), relation).mu()), run.reason)
    assert upper == pytest.approx(1.5 * relation.multiple, rel=1e-9)
    assert 0.0 < lower < upper
    assert "sampling" in reason
    single = Guarantee(Poisson(0.5, Gaussian(2.0)), ADD)
    assert single.mu(1e-100).lower > 0.85 * 0.5  # it approaches 1/z as the floor vanishes


@pytest.mark.thorough  # five curves; each end is tested above
def test_mu_decreases_with_the_floor():
    run = Guarantee(Times(Poisson(0.02, Gaussian(1.0)), 50), ADD)
    ends = [run.mu(floor) for floor in (0.0, 1e-12, 1e-8, 1e-4, 1e-2)]
    for one, other in pairwise(ends):
        assert other.lower <= one.upper
    assert ends[-1].upper < ends[1].lower


@pytest.mark.parametrize("floor", [0.0, 1e-9])
def test_the_releases_are_gaussian_dp_with_the_upper_end(floor):
    events = [
        Together([Laplace(2.0), Gaussian(2.0)]),
        Times(dp.SampledWithoutReplacementDpEvent(100, 10, Gaussian(1.0)), 5),
        Times(BoundedRangeDpEvent(0.3), 4),  # its curve takes seconds
    ]
    for event in few(events, events[:2]):
        guarantee = Guarantee(event, REPLACE)
        lower, upper = guarantee.mu(floor)
        assert upper < math.inf
        end = guarantee.epsilon(1e-12).upper
        profile = [(x, guarantee.delta(x)) for x in np.linspace(0.0, end, choose(60, 15))]
        for x, delta in profile:
            assert delta.lower <= (gaussian_profile(x, upper) + floor) * (1.0 + 1e-9) + 1e-15
        # Without a floor the lower end belongs to events that are rarer than these.
        less = 0.97 * lower
        assert floor == 0.0 or any(
            delta.upper > gaussian_profile(x, less) + floor for x, delta in profile
        )


def test_what_is_revealed_with_some_probability_has_no_mu():
    release = Guarantee(approximate_event(1.0, 1e-6), OUT)
    assert tuple(release.mu()) == (math.inf, math.inf)
    assert tuple(release.mu(9e-7)) == (math.inf, math.inf)
    lower, upper = release.mu(1e-6)
    assert lower <= PURE <= 1.00001 * upper
    assert upper <= 1.0001 * PURE
    assert tuple(Guarantee(dp.NonPrivateDpEvent(), OUT).mu(0.5)) == (math.inf, math.inf)


@pytest.mark.parametrize("relation", list(Relation))
def test_edges(relation):
    assert tuple(Guarantee(dp.NoOpDpEvent(), relation).mu()) == (0.0, 0.0)
    unknown = Guarantee(dp.UnsupportedDpEvent(), relation).mu()
    assert tuple(unknown) == (0.0, math.inf)
    assert unknown.reason
    with pytest.raises(ValueError, match=r"delta must lie in \[0, 1\), got 1"):
        Guarantee(Gaussian(1.0), relation).mu(1.0)
    with pytest.raises(ValueError, match="delta must be 0 or at least 1e-300"):
        Guarantee(Gaussian(1.0), relation).mu(1e-301)


@pytest.mark.parametrize("mu", [0.05, 0.8, 3.0])
def test_a_profile_with_loose_ends_is_covered_from_both_sides(mu):
    """The ends of ``mu`` enclose those of the profile, and say so."""

    def profile(x):
        delta = gaussian_profile(x, mu)
        return Interval(0.9 * delta, 1.1 * delta)

    floor = 1e-6
    largest = brentq(lambda x: 1.1 * gaussian_profile(x, mu) - floor, 0.0, 30.0)
    interval = covering_mu(profile, largest * (1.0 + 1e-9), floor)
    x = np.linspace(0.0, largest, 2000)
    low, high = (smallest_mu(c * gaussian_profile(x, mu), x, floor) for c in (0.9, 1.1))
    assert interval.lower <= low * (1.0 + 1e-6)
    assert high <= interval.upper <= 1.003 * high
    assert interval.reason
