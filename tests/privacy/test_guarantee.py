"""Guarantees and their accountants against closed forms and dp-accounting's own accountants."""

import math
from fractions import Fraction
from itertools import pairwise

import dp_accounting as dp
import numpy as np
import pytest
from events import Gaussian, Laplace, Poisson, Times, Together
from refusals import refused

from privopt.privacy import Guarantee, Interval, PublicMixtureDpEvent, gaussian_epsilon, pure_event
from privopt.privacy.accountants import TIGHT, Fourier
from privopt.spec import Budget, Relation


def gaussian(z, relation="zero_out"):
    return Guarantee(Gaussian(z), relation)


def laplace(b, relation="zero_out"):
    return Guarantee(Laplace(b), relation)


def test_gaussian_composition_is_pythagorean_however_nested():
    nested = gaussian(3.0).then(gaussian(4.0).times(2)).times(3).then(gaussian(5.0))
    mu = math.sqrt(3 * (1 / 9 + 2 / 16) + 1 / 25)
    for delta in (1e-3, 1e-15, 1e-300):
        ours, exact = nested.epsilon(delta), gaussian_epsilon(delta, mu=mu)
        assert ours.lower <= exact.lower <= exact.upper <= ours.upper
        assert ours.upper == pytest.approx(exact.upper, rel=1e-10)


def test_ten_million_laplace_releases_at_a_delta_of_1e_minus_300():
    """Above the saddle-point value and below the best Rényi order, both from the exact moments.

    ``E e^(lambda L) = [e^lambda + e^(-1 - lambda) + e^(-1/2) sinh(lambda + 1/2) / (lambda + 1/2)]
    / 2`` under the one hypothesis.
    """
    log_delta = -300.0 * math.log(10.0)

    def log_moment(t):
        atoms = math.expm1(t) + math.expm1(-1.0 - t)
        return math.log1p((atoms + math.exp(-0.5) * math.sinh(t + 0.5) / (t + 0.5)) / 2.0)

    def converted(t):
        return (1e7 * log_moment(t) - log_delta + t * math.log(t) - (1 + t) * math.log1p(t)) / t

    best = min(converted(t) for t in np.linspace(0.014, 0.015, 2001).tolist())
    assert best == pytest.approx(3773938.5148, rel=1e-9)
    lower, upper = laplace(1.0).times(10**7).epsilon(1e-300)
    assert upper <= best * (1 + 1e-8)
    assert lower <= 3773630.790422 <= upper  # saddle point, mpmath; the truth to 1e-6


@pytest.mark.parametrize(("factor", "met"), [(1.0 - 1e-5, False), (1.0 + 1e-5, True)])
def test_a_budget_inside_the_coarse_interval_is_decided_by_a_finer_one(factor, met):
    step = Poisson(0.01, Gaussian(1.0))
    guarantee = Guarantee(Times(step, 1000), "add_or_remove_one")
    fine = Fourier(accuracy=1e-7).epsilon(guarantee.event, guarantee.relation, 1e-5)
    target = factor * (fine.upper if met else fine.lower)
    coarse = guarantee.epsilon(1e-5)
    assert coarse.lower < target < coarse.upper
    budget = Budget(epsilon=target, delta=1e-5, relation="add_or_remove_one")
    assert guarantee.meets(budget) is met


EXAMPLES = [
    Guarantee(dp.NoOpDpEvent(), "zero_out"),
    gaussian(1.0, "replace_one"),
    gaussian(0.05).times(3),
    laplace(0.7),
    Guarantee(pure_event(2.0), "add_or_remove_one").times(4),
    Guarantee(dp.NonPrivateDpEvent(), "zero_out"),
    Guarantee(Poisson(0.01, Gaussian(1.0)), "replace_one").times(500),
]
EVERY_EXAMPLE = pytest.mark.parametrize("guarantee", EXAMPLES, ids=lambda g: repr(g.event)[:30])


@pytest.mark.cases(2)
@EVERY_EXAMPLE
def test_answers_are_in_range_monotone_and_repeatable(guarantee):
    deltas = [0.0, 1e-300, 1e-15, 1e-5, 0.01, 0.5, 0.9, 1 - 2**-53]
    answers = [guarantee.epsilon(delta) for delta in deltas]
    assert answers == [guarantee.epsilon(delta) for delta in deltas]
    assert all(a.upper >= b.upper for a, b in pairwise(answers))
    epsilons = [0.0, 1e-9, 0.1, 1.0, 10.0, 1e3, 1e6]
    answers = [guarantee.delta(epsilon) for epsilon in epsilons]
    assert all(a.upper >= b.upper for a, b in pairwise(answers))
    assert all(0.0 <= a.lower <= a.upper <= 1.0 for a in answers)


@EVERY_EXAMPLE
def test_trade_off_and_delta_are_dual(guarantee):
    """``delta(eps) = sup_alpha 1 - f(alpha) - e^eps alpha``, up to rounding and the grid."""
    alphas = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 4001)])
    curve = guarantee.trade_off(alphas)
    assert curve.shape == alphas.shape
    assert np.all((curve >= 0.0) & (curve <= 1.0 - alphas + 1e-16))
    for epsilon in (0.0, 0.5, 2.0):
        from_curve = np.max(1.0 - curve - math.exp(epsilon) * alphas)
        delta = guarantee.delta(epsilon).upper
        assert delta - 1e-3 <= from_curve <= 1.01 * delta + 1e-11


@pytest.mark.parametrize("loss", [0.0, 1.0, 5.0, 15.0])
@pytest.mark.parametrize(
    "guarantee",
    [
        gaussian(1.0).times(5),
        laplace(1.0).times(30),
        Guarantee(Poisson(0.05, Gaussian(1.0)), "zero_out").times(50),
    ],
    ids=["Gaussian", "Laplace", "sampled"],
)
def test_epsilon_and_delta_are_inverse_also_where_delta_is_small(guarantee, loss):
    target = guarantee.delta(loss).upper
    if 1e-300 <= target < 1.0:
        back = guarantee.epsilon(target)
        assert back.lower <= loss * (1 + 1e-9)
        assert back.upper >= loss * (1 - 4e-3) - 1e-9


def test_sums_of_losses_are_rounded_outwards():
    """The nearest float can be below the exact sum of ten thousand."""
    for scale, count in ((3.0, 10_000), (7.3, 999), (0.1, 33)):
        total = laplace(scale).times(count).epsilon(0.0).upper
        assert Fraction(total) >= count / Fraction(scale)


def test_nothing_released_costs_nothing():
    nothing = Guarantee(dp.NoOpDpEvent(), "replace_one")
    for guarantee in (nothing, nothing.times(5), gaussian(1.0).times(0), nothing.then(nothing)):
        assert tuple(guarantee.epsilon(0.0)) == (0.0, 0.0)
        assert tuple(guarantee.delta(0.0)) == (0.0, 0.0)
        assert guarantee.trade_off(0.3) == pytest.approx(0.7, rel=1e-13)
    spent = gaussian(1.0, "replace_one")
    assert spent.then(nothing).epsilon(1e-6) == spent.epsilon(1e-6)


def test_one_non_private_release_spoils_all():
    spoiled = gaussian(1.0).then(Guarantee(dp.NonPrivateDpEvent(), "zero_out").times(2))
    also = spoiled.then(Guarantee(dp.UnsupportedDpEvent(), "zero_out"))
    for guarantee in (spoiled, also):
        assert tuple(guarantee.epsilon(0.9)) == (math.inf, math.inf)
        assert tuple(guarantee.delta(100.0)) == (1.0, 1.0)
        assert not guarantee.trade_off([0.0, 0.5]).any()


def test_composition_unites_assumptions_and_stays_flat():
    first = Guarantee(Gaussian(1.0), "zero_out", ("convex", "clipped"))
    second = Guarantee(Gaussian(2.0), "zero_out", ("clipped", "n is public"))
    assert first.then(second).assumptions == ("convex", "clipped", "n is public")
    assert first.times(3).assumptions == first.assumptions
    chain = first
    for _ in range(2000):
        chain = chain.then(first)
    assert len(chain.event.events) == 2001
    assert chain.epsilon(1e-6).upper == pytest.approx(first.times(2001).epsilon(1e-6).upper)


def test_what_was_handed_in_can_no_longer_change_the_claim():
    parts, sides = [Gaussian(10.0)], [dp.NoOpDpEvent(), Gaussian(2.0)]
    law = np.array([0.5, 0.5])
    mixture = PublicMixtureDpEvent(sides, law)
    inner = Together(parts)
    event = Together([inner, Times(inner, 3), mixture])
    claim = Guarantee(event, Relation.ZERO_OUT)
    before = claim.epsilon(1e-6)
    assert before == Guarantee(event, Relation.ZERO_OUT).epsilon(1e-6)
    parts.append(Gaussian(0.1))
    sides[0] = dp.NonPrivateDpEvent()
    law[:] = (0.0, 1.0)
    event.events.append(dp.NonPrivateDpEvent())
    assert claim.epsilon(1e-6) == before
    assert Guarantee(event, Relation.ZERO_OUT).epsilon(1e-6).upper == math.inf
    assert claim.event.events[0] is claim.event.events[1].event
    settled = claim.event
    assert Guarantee(settled, Relation.ZERO_OUT).event.events[0] is settled.events[0]


def test_deep_nesting_is_no_trouble():
    event = Gaussian(1.0)
    for _ in range(5000):
        event = Together([event])
    assert Guarantee(event, "zero_out").epsilon(1e-6) == gaussian(1.0).epsilon(1e-6)


def test_relations_do_not_mix():
    with pytest.raises(ValueError, match="different neighbouring relations: zero_out and replace"):
        gaussian(1.0, "zero_out").then(gaussian(1.0, "replace_one"))


def test_a_guarantee_is_frozen_and_a_value():
    assert gaussian(1.0) == gaussian(1.0)
    assert hash(gaussian(1.0).times(2)) == hash(gaussian(1.0).times(2))
    assert gaussian(1.0, "zero_out") != gaussian(1.0, "replace_one")
    with pytest.raises(AttributeError):
        gaussian(1.0).relation = Relation.REPLACE_ONE


test_bad_arguments_are_named = refused(
    (lambda: gaussian(1.0).epsilon(1.0), r"delta must lie in \[0, 1\), got 1.0"),
    (lambda: gaussian(1.0).delta(-1.0), "epsilon must be non-negative and finite, got -1.0"),
    (lambda: gaussian(1.0).trade_off([-0.1]), r"alpha must lie in \[0, 1\]"),
    (lambda: gaussian(1.0).times(-1), "k must be a non-negative integer, got -1"),
    (lambda: gaussian(1.0).times(1.5), "k must be a non-negative integer, got 1.5"),
    (lambda: gaussian(1.0, "swap"), "relation must be one of replace_one.*got 'swap'"),
    (lambda: Guarantee(1.0, "zero_out"), "event must be a dp_accounting.DpEvent, got 1.0"),
    (lambda: Guarantee(dp.NoOpDpEvent(), "zero_out", "convex"), "assumptions must be a tuple, got"),
)


def test_the_best_proof_counts(monkeypatch):
    class Loose:  # looser than the exact curve from above, no bound from below
        name = "loose"

        def supports(self, event, relation):
            return True

        def epsilon(self, event, relation, delta):
            return Interval(0.0, 5.0)

        def delta(self, event, relation, epsilon):
            return Interval(0.0, 0.9)

        def trade_off(self, event, relation, alphas):
            return 0.01 * (1.0 - alphas)

    four = gaussian(2.0).times(4)
    exact = four.epsilon(1e-5), four.delta(1.0), four.trade_off(0.5)
    monkeypatch.setattr("privopt.privacy.guarantee.TIGHT", (Loose(), *TIGHT, Loose()))
    both = four.epsilon(1e-5), four.delta(1.0), four.trade_off(0.5)
    assert both == exact
    assert tuple(Guarantee(dp.UnsupportedDpEvent(), "zero_out").epsilon(0.0)) == (0.0, 5.0)
    with pytest.raises(ValueError, match="lower must lie in"):  # proofs that contradict
        four.epsilon(1e-9)


def test_ends_that_are_far_apart_have_a_reason():
    for event in (dp.UnsupportedDpEvent(), Times(Gaussian(1.0), 10**400)):
        assert Guarantee(event, "replace_one").epsilon(1e-6).reason
    assert not gaussian(1.0).epsilon(1e-6).reason
