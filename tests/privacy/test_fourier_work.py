"""Tests of the limits on work and memory of the Fourier accountant, and of larger problems."""

import cProfile
import math
import pstats
import tracemalloc

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from events import ADD, OUT, REPLACE, Gaussian, Laplace, Poisson, Times, Together
from selection import few

from privopt import privacy
from privopt.privacy import (
    BoundedRangeDpEvent,
    Fourier,
    Guarantee,
    ObjectivePerturbationDpEvent,
    pure_event,
)
from privopt.privacy.flatten import bounding_events
from privopt.privacy.pairs import spread_points
from privopt.spec import Budget

ENOUGH = 200_000  # calls of functions, each on little memory; runs of hours need millions


def calls(ask):
    """The answer, and the number of calls of functions that it took: the same on every machine."""
    profile = cProfile.Profile()
    found = profile.runcall(ask)
    return found, pstats.Stats(profile).total_calls


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("event", "relation", "delta"),
    [
        (Times(Poisson(0.01, Gaussian(1e-4)), 100), ADD, 1e-5),
        (Times(dp.SampledWithoutReplacementDpEvent(1000, 10, Gaussian(1e-3)), 100), REPLACE, 1e-5),
        (Times(Poisson(7.02e-8, Gaussian(1.9e-4)), 4_551_902), REPLACE, 3.45e-8),
        (Times(Poisson(6.1e-9, Laplace(0.00463)), 740_499), OUT, 0.00964),
        (Times(Poisson(0.0109, Laplace(2.992)), 802_064), OUT, 9.9e-9),
        (Times(Poisson(0.388, Gaussian(2.82e-4)), 211_663), ADD, 0.0869),
    ],
)
def test_little_noise_and_many_steps_end_in_time_and_close(event, relation, delta):
    found, made = calls(lambda: privacy.epsilon(event, delta, relation=relation))
    assert made < ENOUGH
    assert found.upper - found.lower <= 5e-3 * found.upper


def test_participations_are_counted_where_nothing_else_is_hidden():
    """Noise 1e-4: ``k`` participations of 100 have a privacy loss of about ``k / (2 z^2)``."""
    found = Fourier().epsilon(Times(Poisson(0.01, Gaussian(1e-4)), 100), ADD, 1e-5)
    seen = [math.comb(100, k) * 0.01**k * 0.99 ** (100 - k) for k in range(20)]
    k = next(k for k in range(20) if sum(seen[k + 1 :]) <= 1e-5)
    assert found.lower == pytest.approx(k / 2e-8, rel=1e-3)


def test_rare_losses_within_delta_tell_nothing():
    """Each of a million steps reveals everything with probability 1e-9. Delta allows 2e-3."""
    event = Times(Poisson(1e-9, Laplace(0.005)), 10**6)
    assert tuple(Fourier().epsilon(event, OUT, 2e-3)) == (0.0, 0.0)
    lower, upper = Fourier().delta(event, OUT, 1.0)
    assert lower <= -math.expm1(10**6 * math.log1p(-1e-9)) <= upper <= 1.002 * lower


def test_two_atoms_stay_on_the_lattice():
    step = Poisson(0.0088, pure_event(0.00209))
    found = Fourier().epsilon(Times(step, 200_640), ADD, 4.9e-6)
    assert 0.999 * found.upper < found.lower


def test_batches_that_often_overflow_have_a_lower_end():
    event = Times(dp.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 100, 1.0), 100)
    lower, upper, reason = (*(found := privacy.epsilon(event, 1e-5, relation=ADD)), found.reason)
    assert upper == math.inf
    assert lower > 3.0
    assert "revealed" in reason


@pytest.mark.parametrize(
    ("event", "relation", "delta", "reason"),
    [
        (Times(Poisson(1e-7, Gaussian(0.7)), 10**8), ADD, 1e-12, "rounding"),
        (Times(Poisson(1.0572e-4, Gaussian(0.9643)), 11_549), ADD, 8.25e-12, ""),
        (Times(Poisson(1e-4, Gaussian(2.0)), 10_000), ADD, 1e-12, ""),
        (
            Times(dp.SampledWithoutReplacementDpEvent(1000, 10, Gaussian(1.0)), 10_000),
            REPLACE,
            1e-5,
            "no pair of data sets",
        ),
        (Times(Poisson(0.1, Gaussian(1.0)), 10**12), ADD, 1e-5, "1e11"),
        (Poisson(0.01, Gaussian(1.0)), ADD, 1e-5, ""),
    ],
)
def test_what_was_not_reached_has_a_reason(event, relation, delta, reason):
    found = Fourier().epsilon(event, relation, delta)
    assert (found.width <= 2e-3 * found.upper < math.inf) == (not reason)
    assert reason in found.reason
    assert bool(reason) == bool(found.reason)


def test_gaussian_releases_among_others_are_one():
    many = Together([Laplace(50.0), Times(Gaussian(2.0), 300), Times(Gaussian(4.0), 400)])
    one = Together([Laplace(50.0), Gaussian(0.1)])
    found, expected = (Fourier().epsilon(each, ADD, 1e-6) for each in (many, one))
    assert found.lower == pytest.approx(expected.lower, rel=1e-8)
    assert found.upper == pytest.approx(expected.upper, rel=1e-8)


def test_far_centres_have_points_of_their_own():
    points = spread_points((-1e4, 0.0, 1e4), 10.0, 200)
    assert np.all(np.diff(points) > 0.0)
    for centre in (-1e4, 0.0, 1e4):
        assert np.sum(np.abs(points - centre) <= 10.0) >= 60
    assert spread_points((-1.0, 1.0), 10.0, 200).size == 200


MEMORY = 200 * 2**20  # bytes; some of these took gigabytes

NORMS = [1.0, 2.0, 3.0], [0.9, 0.05, 0.05]
EXTREMES = [
    Laplace(1e20),
    Times(Laplace(1e99), 10**6),
    Poisson(1e-9, Laplace(1e8)),
    Poisson(1e-9, BoundedRangeDpEvent(1e-20)),
    Poisson(1e-4, Poisson(1e-12, Gaussian(1.0))),
    Poisson(1e-300, dp.RandomizedResponseDpEvent(0.5, 3)),
    dp.RandomizedResponseDpEvent(1.0 - 1e-15, 5),
    Times(dp.RandomizedResponseDpEvent(1e-12, 10**6), 1000),
    MixtureOfGaussiansDpEvent(1e16, *NORMS),
    Together([MixtureOfGaussiansDpEvent(1e16, *NORMS), Times(Laplace(1e3), 10)]),
    Times(MixtureOfGaussiansDpEvent(1e-3, *NORMS), 100),
    Gaussian(1e99),
    ObjectivePerturbationDpEvent(1e20, 1e-9),
]


@pytest.mark.cases(2)
@pytest.mark.parametrize("event", few(EXTREMES, EXTREMES[::3]), ids=lambda event: str(event)[:60])
def test_nothing_takes_more_than_its_share(event):
    questions = (
        lambda: Fourier().epsilon(event, ADD, 1e-5),
        lambda: Fourier().delta(event, ADD, 0.0),
        lambda: Fourier().delta(event, ADD, 1e6),
        lambda: Fourier().trade_off(event, ADD, np.linspace(0.0, 1.0, 3)),
    )
    for ask, share in zip(questions, (1, 2, 2, 2), strict=True):
        tracemalloc.start()
        _, made = calls(ask)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert made < ENOUGH
        assert most < share * MEMORY


def test_what_is_told_is_no_more_than_the_largest_loss():
    assert Fourier().delta(Laplace(1e20), ADD, 0.0).upper == pytest.approx(1e-20, rel=1e-8)
    line = Fourier().trade_off(
        Times(dp.RandomizedResponseDpEvent(1.0 - 1e-12, 3), 100), ADD, np.array([0.5])
    )
    assert line == pytest.approx([0.5], abs=1e-8)


def test_the_largest_loss_of_a_rare_sample_has_all_its_digits():
    """``ln(1 + 1e-9 (e^(1e-8) - 1))``, from below too."""
    lower, upper = Fourier().epsilon(Poisson(1e-9, Laplace(1e8)), ADD, 0.0)
    assert lower <= 1.000000005e-17 <= upper
    assert upper <= lower * (1.0 + 1e-11)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_sampling_twice_is_sampling_once(relation):
    twice = Times(Poisson(0.25, Poisson(0.125, Gaussian(1.5))), 50)
    once = Times(Poisson(0.03125, Gaussian(1.5)), 50)
    assert Fourier().epsilon(twice, relation, 1e-6) == Fourier().epsilon(once, relation, 1e-6)


def test_budgets_of_many_distinct_steps_ask_about_one_end(monkeypatch):
    monkeypatch.setattr("privopt.privacy.flatten._MAX_EVENTS", 2)
    steps = [Poisson(0.01, Laplace(5.0 + 0.01 * i)) for i in range(8)]
    guarantee = Guarantee(Together(steps), ADD)
    spent, asked = guarantee.epsilon(1e-5), []
    ask = Fourier._epsilon
    monkeypatch.setattr(
        Fourier,
        "_epsilon",
        lambda self, event, *rest: asked.append(event) or ask(self, event, *rest),
    )
    assert spent.lower < spent.upper
    close = spent.lower + 0.5 * (spent.upper - spent.lower)
    assert not guarantee.meets(Budget(epsilon=close, delta=1e-5, relation=ADD))
    below = str(bounding_events(guarantee.event)[1])
    assert list(map(str, asked)).count(below) == 1  # by the first accuracy alone
    assert len(asked) > 2
