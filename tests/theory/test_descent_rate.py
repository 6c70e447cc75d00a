"""Tests of the theorem that covers each method, and of the sum of its terms."""

import dataclasses
import itertools
import math

import pytest

from privopt.spec import ProblemClass
from privopt.theory import (
    ALL_RECORDS,
    GIVEN_STEPS,
    Exponents,
    StepRule,
    batch_moments,
    descent_numbers,
    descent_rate,
)
from privopt.theory.descent import DescentSetting, last_iterate
from privopt.theory.rate import largest_excess

FACTS = ProblemClass(n=400, dim=9, lipschitz=2.0, radius=0.7, smoothness=1.5)
CURVED = dataclasses.replace(FACTS, strong_convexity=0.5)
SHARP = dataclasses.replace(FACTS, smoothness=None)
SHARP_AND_CURVED = dataclasses.replace(SHARP, strong_convexity=0.5)
NUMBERS = {"steps": 50, "noise_std": 0.3}
MOMENTS = {
    "all": ALL_RECORDS,
    "poisson": batch_moments("poisson", n=400, batch_size=20),
    "fixed": batch_moments("without_replacement", n=400, batch_size=20),
}


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("sampler", MOMENTS)
def test_terms_add_up_to_the_theorem(sampler, tuned):
    """Check all theorems, as sums at given step sizes and as roots of squares at the best ones."""
    known = NUMBERS | {"moments": MOMENTS[sampler]}
    before = DescentSetting(FACTS, **known).convex_step if tuned else 0.11
    after = DescentSetting(FACTS, **known).smooth_step if tuned else 0.13
    moments, varied = known["moments"], 9 * 0.09
    square, variance = 4.0 * moments.second_moment + varied, 4.0 * moments.variance + varied
    rough = 0.49 / (2 * before * 51) + before * square / 2
    smooth = 0.49 / (2 * after * 50) + after * variance / (2 * (1 - 1.5 * after))
    start, noise, end = last_iterate(StepRule(0.2, 0.5).sizes(50))
    decay = StepRule(before * 50 / 51, decay=1.0)
    cases = [
        (FACTS, StepRule(before), "average", rough),
        (FACTS, StepRule(before), "random_iterate", rough),
        (SHARP, decay, "last", rough),
        (FACTS, StepRule(after), "average_after_step", smooth),
        (FACTS, StepRule(after, decay=1.0), "last", smooth),
        (CURVED, StepRule(4.0, 1.0, 1.0), "weighted_average", 2 * square / (0.5 * 52)),
        (SHARP, StepRule(0.2, 0.5), "last", 0.49 * start + noise * square + 4.0 * end),
    ]  # fmt: skip
    for facts, step_rule, output, expected in cases:
        rate = descent_rate(facts, step_rule=step_rule, output=output, **known)
        combined = rate.uncapped
        assert combined == pytest.approx(expected, rel=1e-9)
        assert rate.upper == min(combined, largest_excess(facts))
        assert rate.terms[0].name == "noise"


@pytest.mark.parametrize(
    ("changes", "choices", "reason"),
    [
        ({"convex": False}, {}, "the losses are not convex"),
        ({"lipschitz": math.inf}, {}, "clipped below the Lipschitz constant"),
        ({}, {"clipped": True}, "clipped below the Lipschitz constant"),
        ({}, {"plain": False}, "the update is not plain descent"),
        ({"radius": math.inf}, {}, "the set is not bounded"),
        ({}, {"moments": None}, "gradients of shuffled passes are biased"),
        ({}, {"output": None}, "no theorem for these step sizes with this output"),
        ({}, {"step_rule": StepRule(0.1, decay=1.0)}, "no theorem for these step sizes"),
        ({}, {"step_rule": StepRule(0.7), "output": "average_after_step"}, "no theorem for these"),
        ({"smoothness": None}, {"output": "average_after_step"}, "no theorem for these step sizes"),
    ],
)
def test_nothing_is_claimed_where_no_theorem_speaks(changes, choices, reason):
    usual = {"step_rule": StepRule(0.1), "output": "average"}
    assert descent_rate(FACTS, **NUMBERS, **usual).upper < math.inf
    rate = descent_rate(dataclasses.replace(FACTS, **changes), **NUMBERS, **(usual | choices))
    assert rate.upper == math.inf
    assert reason in rate.theorem


def moved(facts, noise_std, axis, factor, *, steps, steps_powers, batch=None, output=None):
    """The rate where an axis is ``factor`` times as large, the noise as ``sqrt(T)/(n epsilon)``."""
    grown = {axis: int(getattr(facts, axis) * factor)} if axis in ("n", "dim") else {}
    steps = round(steps * factor ** getattr(steps_powers, axis))
    noise_std *= 1.0 / factor if axis in ("n", "epsilon") else 1.0
    noise_std *= factor ** (0.5 * getattr(steps_powers, axis))
    there = dataclasses.replace(facts, **grown)
    moments = ALL_RECORDS
    if batch is not None:
        moments = batch_moments("poisson", n=there.n, batch_size=batch * there.n / facts.n)
    known = {"steps": steps, "noise_std": noise_std, "moments": moments}
    step_rule, output = descent_numbers(there, output=output, **known)
    return descent_rate(
        there, step_rule=step_rule, output=output, steps_powers=steps_powers, **known
    )


@pytest.mark.parametrize(
    ("steps_powers", "axis"),
    [
        *itertools.product(
            [Exponents(), Exponents(2, -1, 2), Exponents(1, -0.5, 1)], ["n", "dim", "epsilon"]
        ),
        (GIVEN_STEPS, "steps"),
    ],
)
@pytest.mark.parametrize("batch", [None, 40.0])
@pytest.mark.parametrize("which", ["smooth", "rough", "curved"])
def test_every_declared_exponent_is_the_measured_one(which, batch, steps_powers, axis):
    """``log_4`` of the ratio of a term between a setting and one four times as large."""
    facts = {"smooth": FACTS, "rough": SHARP, "curved": SHARP_AND_CURVED}[which]
    facts = dataclasses.replace(facts, n=40_000, dim=16)
    numbers = {"steps": 4096, "steps_powers": steps_powers, "batch": batch}
    ends = [moved(facts, 0.5, axis, factor, **numbers) for factor in (1.0, 4.0)]
    assert ends[0].theorem == ends[1].theorem
    for one, other in zip(ends[0].terms, ends[1].terms, strict=True):
        measured = math.log(other.value / one.value) / math.log(4.0)
        assert measured == pytest.approx(getattr(one.powers, axis), abs=3e-3)
    assert {"smooth": "H R", "rough": "R G", "curved": "2 G^2"}[which] in ends[0].theorem


@pytest.mark.cases(4)
@pytest.mark.parametrize("axis", ["n", "dim", "epsilon", "steps"])
@pytest.mark.parametrize("steps_powers", [Exponents(), Exponents(1, -0.5, 1), GIVEN_STEPS])
def test_exponents_of_smooth_and_strongly_convex_losses_are_local(steps_powers, axis):
    """Logarithms move: by a factor of 1.1 to either side; the bound's slope is theirs."""
    facts = dataclasses.replace(CURVED, n=40_000, dim=1000)
    numbers = {"steps": 8000, "steps_powers": steps_powers}
    low, here, high = (moved(facts, 0.5, axis, factor, **numbers) for factor in (1 / 1.1, 1.0, 1.1))
    for one, now, other in zip(low.terms, here.terms, high.terms, strict=True):
        measured = math.log(other.value / one.value) / (2.0 * math.log(1.1))
        assert measured == pytest.approx(getattr(now.powers, axis), abs=0.02)
    assert here.tight_on == "squared_distance"


@pytest.mark.parametrize(
    ("smoothness", "noise_std", "output", "family"),
    [
        (None, 0.3, "average", "medians"),
        (0.0, 0.3, "average", "linear"),
        (1.5, 0.3, "average", "linear"),
        (0.0, 0.3, "average_after_step", "linear"),
        (1.5, 0.3, "average_after_step", "rounded_medians"),
        (None, 0.0, "average", "far_distance"),
    ],
)
def test_the_hard_family_is_one_that_the_class_admits(smoothness, noise_std, output, family):
    facts = dataclasses.replace(FACTS, smoothness=smoothness)
    known = {"steps": 50, "noise_std": noise_std}
    numbers = descent_numbers(facts, output=output, **known)
    rate = descent_rate(facts, step_rule=numbers.step_rule, output=output, **known)
    assert rate.tight_on == family
