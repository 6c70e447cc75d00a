"""Truncated Poisson batches: brute force over all batches, other accountants, and the limits."""

import itertools
import math
from functools import lru_cache

import dp_accounting as dp
import numpy as np
import pytest
from events import ADD, EVERY_RELATION, OUT, REPLACE, Gaussian, Poisson, Times
from scipy import stats

from privopt import privacy
from privopt.privacy.mechanisms.sampling import Truncated, chance_of_overflow
from privopt.privacy.pairs import GaussianPair


def truncated(size, rate, capacity, noise=1.0):
    return dp.TruncatedSubsampledGaussianDpEvent(size, rate, capacity, noise)


GRID = np.linspace(-30.0, 30.0, 20_001)


@lru_cache
def normal(mean, noise):
    return stats.norm.pdf(GRID, mean, noise)


def density(records, rate, capacity, noise):
    """One release of the sum of the first ``capacity`` sampled records, by enumeration."""
    total = np.zeros_like(GRID)
    for coins in itertools.product((0, 1), repeat=len(records)):
        taken = [value for value, coin in zip(records, coins, strict=True) if coin]
        chance = math.prod(rate if coin else 1.0 - rate for coin in coins)
        total += chance * normal(sum(taken[:capacity]), noise)
    return total


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (GRID[1] - GRID[0]))


@pytest.mark.cases(3)
@EVERY_RELATION
@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_dominates_every_batch_by_enumeration(relation, capacity):
    """The differing record is the last one, so it is the first to be dropped from a full batch."""
    rate, noise = 0.3, 0.8
    other = {REPLACE: [-1.0], ADD: [], OUT: [0.0]}[relation]
    guarantee = privacy.Guarantee(truncated(4, rate, capacity, noise), relation)
    for values in itertools.product((-1.0, 0.0, 1.0), repeat=3):
        p, q = (density([*values, *last], rate, capacity, noise) for last in ([1.0], other))
        for epsilon in (0.0, 0.5, 2.0):
            spent = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
            assert spent <= guarantee.delta(epsilon).upper + 1e-6


def test_the_loss_by_truncation_is_charged():
    """Truncation adds to the loss.

    Records that fill the batch displace others, so a claim without it would be false.
    """
    rate, noise, epsilon = 0.9, 0.5, 3.0
    plain = privacy.Guarantee(Poisson(rate, Gaussian(noise)), ADD)
    # The record precedes three others. If present, it displaces one of norm 1.
    others = [-1.0, -1.0, -1.0]
    present, absent = (density(each, rate, 1, noise) for each in ([1.0, *others], others))
    spent = hockey_stick(present, absent, epsilon)
    assert spent > 2.0 * plain.delta(epsilon).upper
    charged = privacy.Guarantee(truncated(4, rate, 1, noise), ADD)
    assert spent <= charged.delta(epsilon).upper


@EVERY_RELATION
def test_ample_capacity_is_poisson_sampling(relation):
    poisson = Poisson(0.01, Gaussian(1.0))
    expected = privacy.epsilon(poisson, 1e-5, relation=relation)
    assert privacy.epsilon(truncated(1000, 0.01, 1000), 1e-5, relation=relation) == expected
    close = privacy.epsilon(truncated(1000, 0.01, 45), 1e-5, relation=relation)
    assert close.upper == pytest.approx(expected.upper, rel=1e-3)
    assert close.lower <= close.upper


def test_contains_what_dp_accounting_says():
    """Compare with dp-accounting. Its event keeps a random subset, and its analysis is finer."""
    event = Times(truncated(10_000, 0.0256, 380), 200)
    ours = privacy.epsilon(event, 1e-6, relation="add_or_remove_one")
    other = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    other.compose(event)
    assert ours.lower <= other.get_epsilon(1e-6)
    assert other.get_epsilon(1e-6) <= 1.002 * ours.upper


def test_losses_add_over_steps():
    """Only the truncation loss remains at a very large epsilon: ``1 - (1 - tau)^T``."""
    lost = chance_of_overflow(999, 0.05, 80)
    event = Times(truncated(1000, 0.05, 80, 4.0), 50)
    delta = privacy.Guarantee(event, "zero_out").delta(60.0).upper
    assert delta == pytest.approx(-math.expm1(50 * math.log1p(-lost)), rel=1e-2)


@pytest.mark.parametrize(
    ("others", "rate", "capacity"), [(9, 0.3, 1), (9, 0.3, 9), (5000, 0.1, 600)]
)
def test_overflow_is_the_binomial_tail(others, rate, capacity):
    exact = stats.binom.sf(capacity - 1, others, rate)
    found = chance_of_overflow(others, rate, capacity)
    assert exact <= found <= exact * (1.0 + 1e-6)
    assert chance_of_overflow(others, rate, others + 1) == 0.0


def test_a_batch_that_is_always_full_claims_nothing():
    assert math.isinf(privacy.epsilon(truncated(100, 1.0, 10), 1e-5, relation="zero_out").upper)


def test_bins_lose_no_mass():
    pair = Truncated(GaussianPair(1.0), 0.125, None)
    bins = pair.bins(np.linspace(-5.0, 5.0, 11))
    assert bins.p.sum() + pair.infinite()[0] == pytest.approx(1.0)
    assert bins.q.sum() + pair.infinite()[1] == pytest.approx(1.0)
