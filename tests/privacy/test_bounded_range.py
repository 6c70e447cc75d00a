"""Bounded range: the envelope over all two-outcome mechanisms, and how it composes."""

import math

import numpy as np
import pytest
from events import ADD, Times

from privopt.accounting import ACCOUNTANTS
from privopt.privacy import (
    BoundedRangeDpEvent,
    Fourier,
    Guarantee,
    PureDP,
    Renyi,
    pure_event,
    renyi_divergence,
)
from privopt.privacy.mechanisms.base import zcdp_cost
from privopt.privacy.mechanisms.pure import BoundedRangePair
from privopt.spec import Relation

SPANS = pytest.mark.parametrize("span", [1e-3, 0.3, 2.0, 20.0])


def two_outcomes(span, t):
    """Probabilities of the losses ``t`` and ``t - span``."""
    p = -math.expm1(t - span) / -math.expm1(-span)
    return np.array([p, 1.0 - p]), np.array([t, t - span])


@SPANS
def test_the_pair_is_the_envelope_over_all_two_outcome_mechanisms(span):
    pair = BoundedRangePair(span)
    for epsilon in np.linspace(-1.2, 1.2, 13) * span:
        bins = pair.bins(np.array([epsilon]))
        bound = bins.p[1] - math.exp(epsilon) * bins.q[1]
        worst = 0.0
        for t in np.linspace(0.0, span, 2001)[1:-1]:
            p, losses = two_outcomes(span, t)
            worst = max(worst, float(p @ np.maximum(-np.expm1(epsilon - losses), 0.0)))
        assert worst <= bound + 1e-12
        assert bound == pytest.approx(worst, rel=1e-3, abs=1e-5 * -math.expm1(-span))


@SPANS
def test_divergences_are_those_of_the_worst_two_outcomes(span):
    orders = np.array([1.01, 1.5, 2.0, 8.0, 64.0])
    proved = renyi_divergence(BoundedRangeDpEvent(span), ADD, orders)
    worst = np.zeros_like(orders)
    for t in np.linspace(0.0, span, 4001)[1:-1]:
        p, losses = two_outcomes(span, t)
        with np.errstate(over="ignore"):
            moment = np.exp((orders[:, None] - 1.0) * (losses - t)) @ p
        worst = np.maximum(worst, t + np.log(moment) / (orders - 1.0))
    assert np.all(worst <= proved * (1.0 + 1e-9) + 1e-12)
    assert proved == pytest.approx(worst, rel=2e-3)
    assert np.all(proved <= np.minimum(span, orders * span**2 / 8.0) * (1.0 + 1e-12))


def test_many_selections_compose_better_than_pure_releases():
    selections = Times(BoundedRangeDpEvent(0.1), 1000)
    lower, upper = Guarantee(selections, ADD).epsilon(1e-6)
    pure = Guarantee(Times(pure_event(0.1), 1000), ADD).epsilon(1e-6)
    assert upper < 0.5 * pure.lower
    assert upper < 1.08 * lower
    assert upper == pytest.approx(8.8358, rel=1e-4)  # Rényi, the closed form above


@pytest.mark.parametrize("relation", list(Relation))
def test_one_selection_is_never_dearer_than_pure(relation):
    for span in (0.1, 1.0, 5.0):
        event = BoundedRangeDpEvent(span)
        assert Guarantee(event, relation).epsilon(0.0).upper == pytest.approx(span, rel=1e-10)
        exact = span + 2.0 * math.log1p(-math.sqrt(1e-3 * -math.expm1(-span)))
        for each in (Fourier(1e-5), Renyi(), PureDP()):
            lower, upper = each.epsilon(event, relation, 1e-3)
            assert lower <= exact <= upper
        assert Fourier(1e-5).epsilon(event, relation, 1e-3).upper == pytest.approx(exact, rel=2e-5)


def test_costs_in_filters():
    assert zcdp_cost(BoundedRangeDpEvent(2.0), ADD) == 0.5


def test_ends():
    for span, upper in ((0.0, 0.0), (math.inf, math.inf), (1e300, 1e300)):
        for accountant in ACCOUNTANTS:
            event = BoundedRangeDpEvent(span)
            if accountant.supports(event, ADD):
                assert accountant.epsilon(event, ADD, 1e-6).upper >= upper * (1.0 - 1e-12)
    for bad in (-1.0, math.nan, "1", None):
        assert not any(each.supports(BoundedRangeDpEvent(bad), ADD) for each in ACCOUNTANTS)
