"""The Fourier accountant where something is extreme: noise, rates, deltas, gaps between losses."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from events import ADD, REPLACE, Gaussian, Laplace, Poisson, Response, Times, Together, sgd
from selection import few

from privopt.privacy import Fourier, GaussianDP, Guarantee, pure_event
from privopt.privacy.fourier.search import AtDelta, AtEpsilon, NeighbourOrder, bounds
from privopt.privacy.numbers import Interval
from privopt.privacy.pairs import PurePair
from privopt.spec import Relation

FOURIER = Fourier()


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.01, 0.05])
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_who_takes_part_is_seen_and_no_mode_is_lost(noise, steps):
    """Next to no noise: delta(1) is the probability of taking part at least once."""
    lower, upper = FOURIER.delta(sgd(noise, 0.5, steps), ADD, 1.0)
    chance = 1.0 - 0.5**steps
    assert upper >= chance * (1.0 - 1e-15)
    assert upper <= chance + 1e-6
    if noise > 0.0 or steps == 1:
        assert lower >= chance - 2e-6


def test_noise_below_the_known_range_proves_nothing_from_below():
    for event in (Gaussian(1e-6), sgd(1e-6, 0.5, 3)):
        assert tuple(FOURIER.epsilon(event, ADD, 1e-5)) == (0.0, math.inf)
    assert tuple(FOURIER.epsilon(Gaussian(0.0), ADD, 1e-5)) == (math.inf, math.inf)
    assert FOURIER.delta(Gaussian(1e-6), ADD, 1.0).contains(1.0)
    assert FOURIER.delta(Gaussian(1e-6), ADD, 1.0).lower == 0.0


def test_hardly_any_noise_in_an_answer():
    event = Times(Response(1e-300, 2), 3)
    lower, upper = FOURIER.epsilon(event, ADD, 1e-5)
    assert lower <= 3 * math.log(2e300) + math.log1p(-1e-5) <= upper * (1 + 1e-12)


@pytest.mark.parametrize("scale", [0.35, 0.7, 5.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-7, 1e-3])
def test_laplace_close_to_its_largest_loss(scale, delta):
    """``delta = 1 - e^((eps - 1/b) / 2)``: tilts so steep that weights underflow."""
    exact = 1.0 / scale + 2.0 * math.log1p(-delta)
    lower, upper = FOURIER.epsilon(Laplace(scale), ADD, delta)
    assert lower * (1 - 1e-12) <= exact <= upper * (1 + 1e-12)
    assert upper <= lower * 1.002


def test_pure_privacy_at_delta_zero():
    event = Together([Times(Laplace(2.0), 3), Response(0.5, 2)])
    exact = 1.5 + math.log(3.0)
    for end in FOURIER.epsilon(event, ADD, 0.0):
        assert end == pytest.approx(exact, rel=1e-11)
    assert FOURIER.epsilon(event, ADD, 1e-13).upper <= exact * (1 + 1e-11)
    assert tuple(FOURIER.delta(event, ADD, exact * 1.001)) == (0.0, 0.0)
    assert FOURIER.epsilon(Gaussian(1.0), ADD, 0.0).upper == math.inf


def test_a_planted_infinite_loss_is_visible():
    planted = Poisson(1e-6, dp.NonPrivateDpEvent())
    event = Together([sgd(1.0, 0.01, 100), planted])
    clean = FOURIER.delta(sgd(1.0, 0.01, 100), ADD, 30.0)
    assert clean.upper < 1e-100
    assert FOURIER.delta(event, ADD, 30.0).contains(1e-6)
    assert tuple(FOURIER.epsilon(event, ADD, 0.99e-6)) == (math.inf, math.inf)
    assert FOURIER.epsilon(event, ADD, 1.01e-6).upper < math.inf
    assert tuple(FOURIER.trade_off(dp.NonPrivateDpEvent(), ADD, np.array([0.0, 0.5]))) == (0.0, 0.0)
    lines = FOURIER.trade_off(Poisson(0.3, dp.NonPrivateDpEvent()), ADD, np.array([0.0]))
    assert lines == pytest.approx([0.7], abs=1e-6)
    assert lines[0] <= 0.7


# At the smallest number every window is tried, for seconds.
@pytest.mark.parametrize(
    "delta",
    few(
        [math.nextafter(1.0, 0.0), 1.0 - 1e-9, 0.999, 1e-280, 5e-324],
        [math.nextafter(1.0, 0.0), 1.0 - 1e-9, 0.999, 1e-280],
    ),
)
@pytest.mark.parametrize("noise", [0.05, 1.0, 40.0])
def test_deltas_at_both_ends(noise, delta):
    result, exact = (each.epsilon(Gaussian(noise), ADD, delta) for each in (FOURIER, GaussianDP()))
    assert result.lower <= exact.upper
    assert exact.lower <= result.upper


def test_underflowing_deltas_stay_positive_from_above():
    for event in (Gaussian(1.0), sgd(1.0, 0.1, 10)):
        lower, upper = FOURIER.delta(event, ADD, 1e5)
        assert lower == 0.0 < upper < 1e-280


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_everybody_sampled_is_no_sampling(relation):
    whole = FOURIER.epsilon(Times(Gaussian(2.0), 10), relation, 1e-6)
    assert FOURIER.epsilon(sgd(2.0, 1.0, 10), relation, 1e-6) == whole
    nearly = FOURIER.epsilon(sgd(2.0, 1.0 - 1e-12, 10), relation, 1e-6)
    assert nearly.lower <= whole.upper
    assert whole.lower <= nearly.upper * (1 + 1e-9)


def test_the_trade_off_of_far_modes_lies_below_the_truth_and_close():
    modes = FOURIER.trade_off(sgd(0.01, 0.5, 3), ADD, np.array([0.0]))
    assert 0.1249 < modes[0] <= 0.125


# One large loss decides: tilted laws of two modes.
def test_a_rare_sample_holds_what_a_convolution_finds():
    """Golden: 2^24 points of the summed loss by one FFT, exact to 1e-6 at this delta."""
    step = Poisson(3.53e-6, Gaussian(0.529))
    result = Fourier(3e-4).epsilon(Times(step, 57), Relation.REPLACE_ONE, 9.96e-7)
    assert result.lower <= 0.001505081 <= result.upper


@pytest.mark.parametrize(
    ("z", "q", "steps", "delta", "relation"),
    [
        (1.0, 1e-3, 100, 1e-10, ADD),
        (1.0, 1e-3, 10**4, 1e-10, ADD),
        (2.0, 1e-3, 100, 1e-10, ADD),
        (1.3478081609320283, 0.0011729157071865856, 146, 2.0519131450376774e-8, ADD),
        (1.476, 0.001275, 425, 2.3e-10, REPLACE),
        (1.4625, 0.0010225, 494, 4.9e-10, ADD),
    ],
)
def test_rare_samples_are_as_certain_as_frequent_ones(z, q, steps, delta, relation):
    lower, upper = FOURIER.epsilon(sgd(z, q, steps), relation, delta)
    assert 0.0 < lower <= upper <= 1.002 * lower


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (sgd(10.3654, 0.00157387, 241), REPLACE),
        (sgd(10.76, 0.0029, 1641), ADD),
        (Gaussian(1e5), ADD),
    ],
)
def test_delta_at_zero_is_refined_where_the_mesh_is_coarse_at_first(event, relation):
    lower, upper = FOURIER.delta(event, relation, 0.0)
    assert 0.0 < lower <= upper <= 1.002 * lower


def test_delta_at_zero_of_a_step_in_closed_form():
    """``delta(0)`` of one sampled Gaussian is ``q (2 Phi(mu / 2) - 1)``, both ways."""
    lower, upper = FOURIER.delta(sgd(8.0, 0.01, 1), ADD, 0.0)
    assert lower <= 0.01 * math.erf(1.0 / (16.0 * math.sqrt(2.0))) <= upper <= 1.002 * lower


@pytest.mark.parametrize("delta", [1e-14, 1e-16, 1e-40])
def test_no_mass_is_imagined_beyond_the_largest_loss(delta):
    event = Together([Times(Laplace(20.98), 5), Gaussian(0.7166)])
    lower, upper = FOURIER.epsilon(event, ADD, delta)
    assert 0.0 < lower <= upper <= 1.002 * lower
    single = GaussianDP().epsilon(Gaussian(0.7166), ADD, delta)
    assert single.lower <= upper <= single.upper + 5 / 20.98


@pytest.mark.parametrize("count", [10**3, 10**5])
def test_atoms_off_the_lattice_cost_a_square_of_its_spacing(count):
    """Many Laplace releases of a fixed total are almost one Gaussian release."""
    scale = 10.0 * math.sqrt(count)
    many = Times(Laplace(scale), count)
    lower, upper = FOURIER.epsilon(Together([many, Gaussian(5.0)]), ADD, 1e-6)
    assert 0.0 < lower <= upper <= 1.002 * lower
    limit = GaussianDP().epsilon(Together([Gaussian(10.0), Gaussian(5.0)]), ADD, 1e-6)
    assert lower == pytest.approx(limit.upper, rel=0.02)


def test_stand_ins_are_not_attained():
    batches = dp.SampledWithoutReplacementDpEvent(100, 1, Gaussian(1e-6))
    assert tuple(FOURIER.epsilon(batches, REPLACE, 1e-5)) == (0.0, math.inf)
    assert FOURIER.delta(batches, REPLACE, 1e14).lower == 0.0
    denormal = Response(5e-324, 2)
    assert tuple(FOURIER.epsilon(denormal, ADD, 1e-5)) == (0.0, math.inf)


@pytest.mark.parametrize("rate", [1e-300, 1e-30, 1e-15])
@pytest.mark.parametrize("event", [Laplace(1.0), Gaussian(1.0), Gaussian(1e-3)], ids=str)
def test_hardly_any_sampling_costs_hardly_anything(event, rate):
    sampled = Times(Poisson(rate, event), 10)
    assert FOURIER.epsilon(sampled, ADD, 1e-5) == Interval(0.0, 0.0)
    assert FOURIER.delta(sampled, ADD, 0.0).upper <= 1e-7


def test_numbers_beyond_floats_are_refused_or_cost_everything():
    assert not FOURIER.supports(Gaussian(1e170), ADD)
    assert not FOURIER.supports(Poisson(0.5, Laplace(1e170)), ADD)
    assert not FOURIER.supports(Times(Gaussian(1.0), 10**101), ADD)
    endless = Times(Gaussian(1.0), 10**100)
    assert FOURIER.epsilon(endless, ADD, 1e-5).contains(5e99)
    assert FOURIER.delta(endless, ADD, 1.0).contains(1.0)
    nothing = Times(dp.NoOpDpEvent(), 10**100)
    assert tuple(FOURIER.epsilon(nothing, ADD, 1e-5)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("rate", "steps", "pld"),
    few(
        [(1e-8, 10**8, 0.0398254793695499), (1e-8, 10**6, 0.0032398559305)],
        [(1e-8, 10**8, 0.0398254793695499)],
    ),
)
def test_very_rare_samples_are_bounded_from_above(rate, steps, pld):
    """A coarse mesh shows no upper bound at all. ``pld`` is that of dp-accounting 0.6.0."""
    cost = FOURIER.epsilon(Times(Poisson(rate, Gaussian(0.5)), steps), ADD, 1e-6)
    assert 0.0 < cost.lower < cost.upper <= pld


@pytest.mark.parametrize("by", [0.01, -0.01])
def test_losses_that_are_known_up_to_a_blur_are_taken_at_its_worse_end(by):
    """Atoms in the bins of losses ``by`` lower, and said to be within ``|by|``."""

    class Blurred(PurePair):
        def bins(self, edges):
            return super().bins(edges + by)._replace(blur=abs(by))

    parts, true = ((Blurred(1.0), 5),), Guarantee(pure_event(1.0), "zero_out").times(5)
    for query, exact in (
        (AtDelta(0.01, 0.0), true.epsilon(0.01)),
        (AtEpsilon(2.0), true.delta(2.0)),
    ):
        lower, upper, _ = bounds([NeighbourOrder(parts, parts)], query, 1e-3, two_sided=True)
        assert lower <= exact.lower
        assert exact.upper <= upper
