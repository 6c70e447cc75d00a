"""The bound of descent along gradients with shared noise: its optimum, its limits, its truth."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from privopt.spec import ProblemClass
from privopt.theory import (
    Exponents,
    StepRule,
    gradient_difference,
    variance_reduced_period,
    variance_reduced_rate,
    variance_reduced_step_size,
)

NOISE = {"anchor_noise": 0.3, "difference_noise": 0.2, "sampling": 0.05}
FACTS = ProblemClass(n=10, dim=4, lipschitz=1.0, radius=2.0, smoothness=0.25)


def variance_reduced_descent(facts, *, step_size, **numbers):
    """Return the bound without the cap of the set."""
    rate = variance_reduced_rate(
        facts, step_rule=StepRule(step_size), output="average", clip_norm=math.inf,
        difference_clip=math.inf, **numbers,
    )  # fmt: skip
    return rate.uncapped


def test_differences_are_bounded_by_either_fact():
    assert gradient_difference(FACTS) == 1.0
    assert gradient_difference(ProblemClass(n=1, dim=1, lipschitz=0.3, radius=2.0)) == 0.6
    far = ProblemClass(n=1, dim=1, lipschitz=math.inf, radius=2.0, smoothness=0.5)
    assert gradient_difference(far) == 2.0
    undeclared = ProblemClass(n=1, dim=1, lipschitz=math.inf, radius=2.0)
    assert gradient_difference(undeclared) == math.inf


def test_the_bound_is_least_at_the_step_size():
    known = {"steps": 40, "period": 5, **NOISE}
    best = variance_reduced_step_size(FACTS, **known)
    near, least, far = (
        variance_reduced_descent(FACTS, step_size=factor * best, **known)
        for factor in (0.99, 1.0, 1.01)
    )
    assert least < min(near, far)
    first, later = 1.0 + 0.36, (1.0 + 0.6) ** 2 + 0.05 * 1.0 + 4 * 0.04
    passed = [2 * 0.6 * (math.sqrt(first) + k * math.sqrt(later)) for k in range(4)]
    expected = 2.0 * math.sqrt((first + 4 * later + sum(passed)) / 5 / 41)
    assert least == pytest.approx(expected, rel=1e-9)


def test_without_anchor_noise_it_is_noisy_descent():
    ours = variance_reduced_descent(
        FACTS, steps=40, step_size=0.1, period=9, anchor_noise=0.0, difference_noise=0.2,
        sampling=0.0,
    )  # fmt: skip
    noise_std = 0.2 * math.sqrt(8.0 / 9.0)  # none at anchors
    theirs = 4.0 / (2 * 0.1 * 41) + 0.05 * (1.0 + 4.0 * noise_std**2)
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("period", [1, 2, 4])
def test_no_risk_on_the_line_exceeds_it_over_all_signs(period, last):
    """Two slopes on ``[-1, 1]``, eight steps, noise ``+-sigma`` that a period shares."""
    rng, worst = np.random.default_rng(1), 0.0
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=-(-8 // period))))
    facts = ProblemClass(n=10, dim=1, lipschitz=1.0, radius=1.0)
    for _ in range(300):
        fall, rise, kink = rng.uniform(0.01, 1.0), rng.uniform(0.01, 1.0), rng.uniform(0.0, 1.0)
        sigma = float(rng.choice([0.1, 1.0, 5.0]))
        noise = {"anchor_noise": sigma, "difference_noise": 0.0, "sampling": 0.0, "period": period}
        size = variance_reduced_step_size(facts, steps=8, last=last, **noise)
        size *= math.exp(rng.normal())
        rule = StepRule(size * 8 / 9, decay=1.0) if last else StepRule(size)
        point, total = np.zeros(len(signs)), np.zeros(len(signs))
        for t, eta in enumerate(rule.sizes(8)):
            total += point
            slope = np.where(point < kink, -fall, rise)
            point = np.clip(point - eta * (slope + sigma * signs[:, t // period]), -1.0, 1.0)
        released = point if last else (total + point) / 9
        risk = np.where(released < kink, fall * (kink - released), rise * (released - kink))
        rate = variance_reduced_rate(
            facts, steps=8, step_rule=rule, output="last" if last else "average", clip_norm=1.0,
            difference_clip=2.0, **noise,
        )  # fmt: skip
        worst = max(worst, risk.mean() / rate.uncapped)
    assert 0.2 < worst <= 1.0


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_the_terms_of_the_rate_add_up_to_the_bound(factor, last):
    """A root of squares at the best step size, a sum elsewhere."""
    known = {"steps": 40, "period": 5, **NOISE}
    best = variance_reduced_step_size(FACTS, last=last, **known)
    assert last is (best < variance_reduced_step_size(FACTS, **known))
    rule = StepRule(factor * best * 40 / 41, decay=1.0) if last else StepRule(factor * best)
    told = {"clip_norm": 1.0, "difference_clip": 1.0, "output": "last" if last else "average"}
    rate = variance_reduced_rate(FACTS, step_rule=rule, **told, **known)
    least = FACTS.radius**2 / (41 * best)
    bound = 0.5 * least * (factor + 1.0 / factor)
    assert rate.upper == pytest.approx(bound, rel=1e-12)
    assert rate.terms[0].name == "noise"


def test_the_terms_of_the_rate_move_as_declared():
    """The noises and the variance of a batch decrease like ``1/n`` at a fixed rate."""
    rates = []
    for factor in (1.0, 1.001):
        noise = {name: value / factor for name, value in NOISE.items()}
        known = {"steps": 40, "period": 5, **noise}
        eta = variance_reduced_step_size(FACTS, **known)
        rates.append(
            variance_reduced_rate(
                FACTS, step_rule=StepRule(eta), output="average", clip_norm=1.0,
                difference_clip=1.0, **known,
            )
        )  # fmt: skip
    for one, other in zip(*(rate.terms for rate in rates), strict=True):
        measured = math.log(other.value / one.value) / math.log(1.001)
        assert measured == pytest.approx(one.powers.n, abs=1e-3)
    assert rates[0].terms[0].powers == Exponents(n=-1.0, dim=0.5, epsilon=-1.0)


def moment(facts, period, size):
    """``A`` of a period by the bound of an average: ``size`` is ``x`` of the docstring."""
    change = gradient_difference(facts) / facts.lipschitz
    steps, root = 10**6 * period, math.sqrt(facts.dim)
    bound = 1.0 / variance_reduced_step_size(
        facts, steps=steps, period=period, sampling=0.0,
        anchor_noise=size * math.sqrt((1.0 + change) / period) / root,
        difference_noise=size * math.sqrt(change * (1.0 + change)) / root,
    )  # fmt: skip
    return (bound * facts.radius) ** 2 / (steps + 1.0)


@pytest.mark.parametrize(
    ("smoothness", "period"), [(0.0, 12), (0.05, 9), (0.25, 2), (0.36, 1), (2.0, 1), (None, 1)]
)
def test_a_period_costs_at_most_half_of_the_bound_at_every_noise(smoothness, period):
    """The next period costs more than half of the bound at some noise.

    The condition contains neither epsilon nor n.
    """
    facts = ProblemClass(n=10, dim=4, lipschitz=3.0, radius=3.0, smoothness=smoothness)
    assert variance_reduced_period(facts) == period
    sizes = np.geomspace(0.03, 300.0, 97)
    most = [
        max(moment(facts, each, size) / (9.0 + size**2) for size in sizes)
        for each in (period, period + 1)
    ]
    assert (period == 1 and most[0] < 3.0) or most[0] <= 1.5**2
    assert most[1] > 1.5**2
    undeclared = replace(facts, lipschitz=math.inf)
    assert variance_reduced_period(undeclared) == 1


@pytest.mark.parametrize("smoothness", [0.0, 0.05, 0.25])
def test_no_period_is_better_than_one(smoothness):
    """A period of one is best for every noise. Longer periods only save time."""
    facts = ProblemClass(n=10, dim=4, lipschitz=3.0, radius=3.0, smoothness=smoothness)
    for size in np.geomspace(0.03, 300.0, 25):
        assert min(moment(facts, each, size) for each in (2, 3, 5, 12)) >= 9.0 + size**2
