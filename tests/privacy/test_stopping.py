"""Runs of a random number of steps: rules that look at what public levels have cost so far."""

import math
from functools import cache

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.stats import chi2

from privopt.privacy import (
    Fourier,
    Guarantee,
    Renyi,
    RenyiDpEvent,
    approximate_event,
    renyi_divergence,
)
from privopt.privacy.accountants import Mixture
from privopt.privacy.numbers import bisect
from privopt.privacy.renyi.conversion import renyi_epsilon
from privopt.spec import Relation

REPLACE, OUT = Relation.REPLACE_ONE, Relation.ZERO_OUT
SIZE, EPSILON, DELTA = 2**10, 1.0, 1e-6
LEVELS = np.arange(SIZE.bit_length() - 1)  # batches of 2^(k+1), up to all records
LAW = 0.5**LEVELS / (0.5**LEVELS).sum()
SHARES = (3.0 * 2.0 ** (LEVELS + 1) + 1.0) / (16.0 * SIZE)  # of epsilon and delta, for one step
MOST_STEPS = 4 * SIZE // 7 + 1
NOISE, ORDER = 14.5, 24.0


@cache
def coins():
    """Levels of 10^4 runs, longer than nearly all of them."""
    return np.random.default_rng(11).choice(LEVELS.size, (10_000, 700), p=LAW).astype(np.int8)


def steps(costs, limits, *, reject=False):
    """How many steps each run takes: while no sum so far is above its limit."""
    over = np.zeros(coins().shape, dtype=bool)
    for cost, limit in zip(costs, limits, strict=True):
        over |= np.cumsum(cost[coins()], axis=1) > limit
    over[:, -1] = True  # a public cap
    return np.argmax(over, axis=1) + (not reject)  # the draw that crossed is taken, or rejected


def told(taken):
    """How often every level came up in each run."""
    seen = np.arange(coins().shape[1]) < taken[:, None]
    return np.stack([((coins() == level) & seen).sum(axis=1) for level in LEVELS], axis=1)


def statistic(counts):
    """Chi-square of the levels of executed steps; degrees of freedom: levels less one."""
    expected = LAW * counts.sum()
    return float(((counts.sum(axis=0) - expected) ** 2 / expected).sum())


@cache
def published():
    """Costs and limits; ``root`` solves ``(e/2) x^2 + sqrt(2 ln(4/d)) x = 1/2``."""
    log = 2.0 * math.log(4.0 / DELTA)
    root = 1.0 / (math.sqrt(log) + math.sqrt(log + EPSILON))
    return (SHARES**2, SHARES), (root**2, 0.25)


def test_the_published_rule_never_spends_more_than_three_quarters():
    """Advanced composition of all steps but the last, which is added to it."""
    taken = steps(*published())
    last = SHARES[coins()[np.arange(taken.size), taken - 1]]
    before = told(taken - 1)
    squares, sums = before @ SHARES**2, before @ SHARES
    log = math.log(4.0 / DELTA)
    spent = np.sqrt(2.0 * log * squares) * EPSILON + 0.5 * squares * EPSILON**2
    assert spent.max() <= 0.5 * EPSILON
    assert (spent + last * EPSILON).max() <= 0.75 * EPSILON
    assert (sums + last).max() * DELTA + 0.25 * DELTA <= 0.75 * DELTA
    assert taken.max() <= MOST_STEPS
    assert taken.mean() * log / SIZE == pytest.approx(2.0, abs=0.1)


def test_levels_of_executed_steps_have_their_law_unless_a_level_is_rejected():
    """False alarm 1e-6: by Wald's identity ``E #{N_t = k, t <= T} = p_k E T``."""
    worst = chi2(LEVELS.size - 1).isf(1e-6)
    assert statistic(told(steps(*published()))) < worst
    counts = told(steps(*published(), reject=True))
    assert statistic(counts) > 50.0 * worst
    assert counts[:, -2:].sum() == 0  # the two largest batches are never taken
    assert LAW[-2:].sum() > 2e-3


def test_reserving_the_worst_level_at_one_order_keeps_every_run_within_the_budget():
    events = [
        dp.ComposedDpEvent(
            [
                dp.SampledWithoutReplacementDpEvent(SIZE, 2 ** (k + 1), dp.GaussianDpEvent(z))
                for z, k in ((NOISE / math.sqrt(2.0), level), (NOISE, -1))
            ]
        )
        for level in LEVELS.tolist()
    ]
    costs = np.array([renyi_divergence(each, REPLACE, [ORDER])[0] for each in events])
    most = EPSILON * (1.0 - 1e-12)  # less, for rounding
    limit = bisect(lambda b: renyi_epsilon([ORDER], [b], DELTA) <= most, 0.0, 10.0)
    counts = told(steps([costs], [limit - costs.max()]))
    assert statistic(counts) < chi2(LEVELS.size - 1).isf(1e-6)
    worst = float((counts @ costs).max())
    assert limit - costs.max() < worst <= limit
    claim = Guarantee(RenyiDpEvent(ORDER, limit), REPLACE)
    assert 0.999 * EPSILON <= claim.epsilon(DELTA).upper <= EPSILON
    assert np.all(worst <= renyi_divergence(claim.event, REPLACE, [ORDER]))


# --- the events of whole runs ---


def test_one_divergence_is_worth_its_conversion():
    event = RenyiDpEvent(32.0, 0.5)
    exact = renyi_epsilon([32.0], [0.5], 1e-6)
    assert Guarantee(event, OUT).epsilon(1e-6).upper == pytest.approx(exact, rel=1e-14)
    assert exact * (1.0 - 1e-14) <= Renyi().epsilon(event, OUT, 1e-6).upper <= 1.01 * exact
    assert Guarantee(event, OUT).delta(exact).upper == pytest.approx(1e-6, rel=1e-9)
    found = renyi_divergence(event, OUT, [1.5, 32.0, 32.5])
    assert found.tolist() == pytest.approx([0.5, 0.5, math.inf], rel=1e-12)
    both = dp.ComposedDpEvent([event, dp.GaussianDpEvent(50.0)])
    assert exact < Guarantee(both, OUT).epsilon(1e-6).upper < exact + 0.02
    told, theirs = Guarantee(event, REPLACE).exported()
    assert not RdpAccountant(neighboring_relation=theirs).supports(told)
    for order, divergence in ((1.0, 0.5), (math.inf, 0.5), (2.0, -1.0), (math.nan, 1.0)):
        assert Guarantee(RenyiDpEvent(order, divergence), OUT).epsilon(1e-6).upper == math.inf
    assert Guarantee(RenyiDpEvent(2.0, 0.0), OUT).epsilon(1e-6).upper == 0.0
    assert Guarantee(RenyiDpEvent(2.0, math.inf), OUT).epsilon(1e-6).upper == math.inf


def test_an_approximate_event_is_what_it_says():
    event = approximate_event(0.7, 1e-6)
    for relation in (REPLACE, OUT):
        assert Mixture().epsilon(event, relation, 1.0001e-6).upper == pytest.approx(0.7, rel=1e-9)
        assert Mixture().epsilon(event, relation, 0.9999e-6).lower == math.inf
        assert Mixture().delta(event, relation, 0.7).upper == pytest.approx(1e-6, rel=1e-9)
    exact = 1e-6 + (1.0 - 1e-6) * (math.e**0.7 - math.e**0.3) / (1.0 + math.e**0.7)
    for accountant in (Mixture(), Fourier()):
        lower, upper = accountant.delta(event, OUT, 0.3)
        assert lower <= exact <= upper <= exact * (1.0 + 1e-3)
    twice = Guarantee(dp.SelfComposedDpEvent(event, 2), OUT)
    assert twice.epsilon(3e-6).upper == pytest.approx(1.4, rel=1e-3)
    assert twice.epsilon(1.9e-6).lower == math.inf
    said = dp.ComposedDpEvent([dp.NonPrivateDpEvent()])
    same = type(event)((said, event.events[1]), event.probabilities)
    assert Fourier().delta(same, OUT, 0.3) == Fourier().delta(event, OUT, 0.3)
    assert Guarantee(approximate_event(0.7, 0.0), OUT).epsilon(0.0).upper == pytest.approx(0.7)
    for epsilon, delta in ((0.7, 1e-6), (0.0, 0.3), (5.0, 1e-9)):
        own = Guarantee(approximate_event(epsilon, delta), OUT)
        assert own.epsilon(delta).upper == pytest.approx(epsilon, rel=1e-12)
        assert tuple(own.delta(epsilon * (1.0 + 1e-12))) == (delta, delta)
        assert own.epsilon(math.nextafter(delta, 0.0)).lower == math.inf
    for epsilon, delta in ((-1.0, 0.1), (1.0, 1.0), (math.inf, 0.1)):
        with pytest.raises(ValueError, match=r"epsilon must|delta must"):
            approximate_event(epsilon, delta)
