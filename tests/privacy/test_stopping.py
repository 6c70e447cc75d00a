"""The events of whole runs: one divergence, and one pair of epsilon and delta."""

import math

import dp_accounting as dp
import pytest
from dp_accounting.rdp import RdpAccountant
from events import OUT, REPLACE, Gaussian, Times, Together

from privopt.privacy import (
    Fourier,
    Guarantee,
    Renyi,
    RenyiDpEvent,
    approximate_event,
    renyi_divergence,
)
from privopt.privacy.accountants import Mixture
from privopt.privacy.renyi import renyi_epsilon


def test_one_divergence_is_worth_its_conversion():
    event = RenyiDpEvent(32.0, 0.5)
    exact = renyi_epsilon([32.0], [0.5], 1e-6)
    assert Guarantee(event, OUT).epsilon(1e-6).upper == pytest.approx(exact, rel=1e-14)
    assert exact * (1.0 - 1e-14) <= Renyi().epsilon(event, OUT, 1e-6).upper <= 1.01 * exact
    assert Guarantee(event, OUT).delta(exact).upper == pytest.approx(1e-6, rel=1e-9)
    found = renyi_divergence(event, OUT, [1.5, 32.0, 32.5])
    assert found.tolist() == pytest.approx([0.5, 0.5, math.inf], rel=1e-12)
    both = Together([event, Gaussian(50.0)])
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
    twice = Guarantee(Times(event, 2), OUT)
    assert twice.epsilon(3e-6).upper == pytest.approx(1.4, rel=1e-3)
    assert twice.epsilon(1.9e-6).lower == math.inf
    said = Together([dp.NonPrivateDpEvent()])
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
