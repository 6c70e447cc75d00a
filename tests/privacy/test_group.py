"""Groups of records: closed forms, hockey-stick divergences by quadrature, and brute force."""

from __future__ import annotations

import itertools
import math

import dp_accounting as dp
import numpy as np
import pytest
from events import (
    ADD,
    OUT,
    REPLACE,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Times,
    Together,
    sgd,
)
from scipy import stats
from selection import few

from privopt.privacy import (
    BoundedRangeDpEvent,
    CompressedGaussianDpEvent,
    Guarantee,
    PublicMixtureDpEvent,
    approximate_event,
    group_privacy,
    pure_event,
)
from privopt.privacy.accountants import TIGHT, Group
from privopt.privacy.events import GroupDpEvent
from privopt.spec import Relation

GRID = np.linspace(-40.0, 60.0, 400_001)


def hockey_stick(p, q, epsilon):
    """``H(P || Q)`` at ``e^epsilon`` of densities on ``GRID``, the larger of the two orders."""
    step, slope = GRID[1] - GRID[0], math.exp(epsilon)
    return step * max(np.maximum(p - slope * q, 0.0).sum(), np.maximum(q - slope * p, 0.0).sum())


SAME = [  # an event for groups of four, and the event of one record that costs as much
    (Gaussian(3.0), Gaussian(0.75)),
    (Times(Gaussian(8.0), 9), Times(Gaussian(2.0), 9)),
    (Poisson(1.0, Gaussian(3.0)), Gaussian(0.75)),
    (Laplace(2.0), Laplace(0.5)),
    (pure_event(0.1), pure_event(0.4)),
    (dp.ZCDpEvent(0.01, 0.02), dp.ZCDpEvent(0.16, 0.02 * 4 * (1 + 1 / 2 + 1 / 3 + 1 / 4))),
    (BoundedRangeDpEvent(0.2), BoundedRangeDpEvent(0.8)),
    (CompressedGaussianDpEvent(6.0, 20), CompressedGaussianDpEvent(1.5, 20)),
    (Together([Gaussian(4.0), Laplace(4.0)]), Together([Gaussian(1.0), Laplace(1.0)])),
    (
        PublicMixtureDpEvent((Gaussian(4.0), Gaussian(8.0)), (0.5, 0.5)),
        PublicMixtureDpEvent((Gaussian(1.0), Gaussian(2.0)), (0.5, 0.5)),
    ),
    (dp.NoOpDpEvent(), dp.NoOpDpEvent()),
    (dp.NonPrivateDpEvent(), dp.NonPrivateDpEvent()),
]
CASES = [(*pair, relation) for relation in Relation for pair in SAME]
# The curve of an event of bounded range is searched for 20 s at each delta.
QUICK = [each for each in CASES if type(each[0]) is not BoundedRangeDpEvent]


@pytest.mark.cases(8)
@pytest.mark.parametrize(("event", "same", "relation"), few(CASES, QUICK))
def test_a_group_of_four_is_one_record_of_four_times_the_size(event, same, relation):
    four, one = Guarantee(event, relation).group(4), Guarantee(same, relation)
    for delta in (0.0, 1e-9, 1e-3):
        assert four.epsilon(delta).upper == pytest.approx(one.epsilon(delta).upper, rel=1e-6)
    assert four.records == 4
    alphas = np.array([0.0, 0.01, 0.5])
    np.testing.assert_allclose(four.trade_off(alphas), one.trade_off(alphas), atol=1e-6)


@pytest.mark.cases(5)
@pytest.mark.parametrize("relation", [ADD, OUT])
@pytest.mark.parametrize(("rate", "noise", "k"), [(0.1, 1.0, 3), (0.3, 2.0, 5), (0.01, 0.7, 40)])
def test_a_sample_of_a_group_is_the_binomial_mixture(relation, rate, noise, k):
    weights, shifts = stats.binom.pmf(np.arange(k + 1), k, rate), np.arange(k + 1)
    p = sum(w * stats.norm.pdf(GRID, c, noise) for w, c in zip(weights, shifts, strict=True))
    q = stats.norm.pdf(GRID, 0.0, noise)
    result = Guarantee(Poisson(rate, Gaussian(noise)), relation).group(k)
    for epsilon in (0.1, 0.5, 1.0):
        expected, proved = hockey_stick(p, q, epsilon), result.delta(epsilon)
        assert proved.lower - 1e-7 <= expected <= proved.upper + 1e-7
        assert proved.upper == pytest.approx(expected, rel=2e-3)
    fewer = Guarantee(Poisson(rate, Gaussian(noise)), relation).group(k - 1)
    assert fewer.delta(0.5).upper < result.delta(0.5).lower


def test_no_contributions_of_two_dimensions_tell_more_than_equal_ones():
    """Test all subsets of three records of norm at most one, on a grid of the plane."""
    rng, rate, noise = np.random.default_rng(0), 0.3, 1.0
    claimed = Guarantee(Poisson(rate, Gaussian(noise)), ADD).group(3)
    axis = np.linspace(-8.0, 10.0, 361)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2
    q = np.exp(-(x**2 + y**2) / 2) / (2 * math.pi)
    result = []
    for trial in range(6):
        angles = rng.uniform(0.0, 0.3 if trial else 0.0, 3)
        moves = np.column_stack([np.cos(angles), np.sin(angles)])
        p = np.zeros_like(q)
        for subset in itertools.product((0, 1), repeat=3):
            chance = math.prod(rate if each else 1 - rate for each in subset)
            centre = np.asarray(subset) @ moves
            p += chance * np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / 2) / (2 * math.pi)
        for one, two in ((p, q), (q, p)):
            result.append(cell * np.maximum(one - math.exp(0.5) * two, 0.0).sum())
    assert max(result) <= claimed.delta(0.5).upper * (1.0 + 1e-3)
    assert max(result) == pytest.approx(claimed.delta(0.5).upper, rel=1e-2)  # equal ones attain it


@pytest.mark.parametrize("relation", [ADD, OUT])
def test_a_batch_of_bounded_size_costs_what_its_overflow_adds(relation):
    def truncated(capacity):
        return Guarantee(dp.TruncatedSubsampledGaussianDpEvent(100, 0.1, capacity, 1.0), relation)

    whole, small = Guarantee(Poisson(0.1, Gaussian(1.0)), relation).group(3), truncated(20).group(3)
    lost = stats.binom.sf(17, 99, 0.1)
    expected = lost + (1.0 - lost) * whole.delta(0.5).upper
    assert small.delta(0.5).upper == pytest.approx(expected, rel=1e-3)
    assert truncated(100).group(3).delta(0.5).upper == pytest.approx(
        whole.delta(0.5).upper, rel=1e-3
    )
    assert truncated(2).group(3).event == GroupDpEvent(truncated(2).event, 3)


def test_many_steps_cost_less_than_the_general_bound_says():
    event = sgd(1.0, 0.01, 100)
    exact = Guarantee(event, ADD).group(4)
    general = Guarantee(GroupDpEvent(event, 4), ADD)
    assert exact.epsilon(1e-6).upper < 0.7 * general.epsilon(1e-6).upper < math.inf
    assert exact.epsilon(1e-6).lower > Guarantee(event, ADD).epsilon(1e-6).upper


@pytest.mark.parametrize("event", [FixedSize(100, 10, Gaussian(2.0)), sgd(2.0, 0.1, 5)])
def test_other_releases_have_the_general_bound(event):
    """Both kinds of sampling under ``replace_one``."""
    one, three = Guarantee(event, REPLACE), Guarantee(event, REPLACE).group(3)
    for epsilon in (0.2, 0.5):
        bound = group_privacy(epsilon, one.delta(epsilon).upper, 3)
        assert three.delta(3 * epsilon).upper == pytest.approx(bound[1], rel=1e-6)
        assert three.delta(3 * epsilon).lower <= one.delta(3 * epsilon).upper
    for delta in (1e-6, 1e-3):
        epsilon = three.epsilon(delta).upper
        assert three.delta(epsilon).upper <= delta * (1.0 + 1e-6)
        assert three.delta(0.998 * epsilon).upper > delta
    assert np.all(three.trade_off([0.01, 0.3]) <= one.trade_off([0.01, 0.3]))


def test_the_general_bound_of_a_release_that_may_fail():
    """``(1/2, 1e-6)``: pure but for ``delta``, times ``1 + e^(1/2)``; and no less."""
    two = Guarantee(GroupDpEvent(approximate_event(0.5, 1e-6), 2), ADD)
    most = 1e-6 * (1.0 + math.exp(0.5))
    assert two.epsilon(1.001 * most).upper == pytest.approx(1.0, rel=1e-3)
    assert two.epsilon(0.9 * most).upper == math.inf
    assert two.epsilon(0.0).upper == math.inf
    pure = Guarantee(GroupDpEvent(pure_event(0.5), 2), ADD)
    assert pure.epsilon(0.0).upper == pytest.approx(1.0, rel=1e-3)


def test_steps_along_the_gaussian_curve_are_longer_gaussian_ones():
    group, alphas = Group(TIGHT), np.array([1e-6, 0.01, 0.5])
    result = group.trade_off(GroupDpEvent(Gaussian(4.0), 3), OUT, alphas)
    np.testing.assert_allclose(result, stats.norm.cdf(stats.norm.isf(alphas) - 0.75), atol=1e-9)


def test_bad_groups_are_refused_and_groups_of_two_sizes_do_not_compose():
    one = Guarantee(Gaussian(1.0), OUT)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"k must be a positive integer, got {bad}"):
            one.group(bad)
    with pytest.raises(ValueError, match="cannot compose guarantees of 1 and of 3 records"):
        one.then(one.group(3))
    assert one.group(1) is one
    assert one.group(2).group(3).records == 6
    assert one.group(2).times(2).records == 2
