"""The numbers that theory chooses for noisy descent: steps, step size and output."""

from __future__ import annotations

import math
from typing import NamedTuple

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.descent import Descent, covering, settled
from privopt.theory.rate import FIXED, Powers
from privopt.theory.steps import ALL_RECORDS, Moments, OutputRule, StepRule

MAX_STEPS = 10**4
_SLACK, _SMOOTH_SLACK = 0.1, 0.5  # of the bound over its limit
_TO_BALANCE_NOISE = Powers(n=2.0, dim=-1.0, epsilon=2.0)  # 1/(d sigma_1^2)


class DefaultSteps(NamedTuple):
    """A number of steps, and how it moves with the axes."""

    steps: int
    powers: Powers = FIXED


class DescentNumbers(NamedTuple):
    """The step rule and the output rule of a theorem."""

    step_rule: StepRule
    output: OutputRule


@checked
def descent_steps(
    problem_class: ProblemClass,
    *,
    one_step_noise: float,
    clip: float | None = None,
    moments: Moments = ALL_RECORDS,
    plain: bool = True,
) -> DefaultSteps:
    """The default ``T``, at which the bound is near ``R sqrt(d) sigma_1``, its limit.

    ``T`` steps need noise ``sigma = sigma_1 sqrt(T)``. The bound for any convex losses, ``R sqrt(a
    C^2/T + d sigma_1^2)``, is a tenth above the limit after ``a C^2/(0.21 d sigma_1^2)`` steps.
    That for smooth ones is half above it after ``H R/(sqrt(d) sigma_1)`` steps, and batches ask for
    ``5 v L^2/(d sigma_1^2)``. Strongly convex ones have forgotten the start after ``2 A H/m``, with
    ``A`` of :attr:`Descent.strongly_convex_step`. The fewest steps are taken, and never more than
    ten thousand. A Moreau envelope saves none: where its own cost is below the limit, its curvature
    asks for more.

    ``one_step_noise`` is ``sigma_1``, the noise of each coordinate that a single full gradient
    would need within the budget; ``clip`` is ``C``, by default ``L``; ``moments`` have ``a`` and
    ``v`` of the batches. The smooth theorem speaks of ``plain`` descent alone.
    """
    facts, noise = problem_class, math.sqrt(problem_class.dim) * one_step_noise
    clip = facts.lipschitz if clip is None else clip
    steps = moments.second_moment * (clip / noise) ** 2 / ((1.0 + _SLACK) ** 2 - 1.0)
    powers = _TO_BALANCE_NOISE
    if facts.convex and facts.smoothness is not None and plain and math.isfinite(facts.radius):
        curved, moves = _curved_steps(facts, noise)
        sampled = 0.0
        if moments.variance > 0.0:
            sampled = moments.variance * (facts.lipschitz / noise) ** 2 / (2.0 * _SMOOTH_SLACK)
        if curved + sampled < steps:
            steps = curved + sampled
            share = sampled / steps if sampled > 0.0 else 0.0
            powers = (1.0 - share) * moves + share * (_TO_BALANCE_NOISE + Powers(n=-1.0))
    moving = 1.0 < steps < MAX_STEPS
    return DefaultSteps(math.ceil(min(max(steps, 1.0), MAX_STEPS)), powers if moving else FIXED)


def _curved_steps(facts: ProblemClass, noise: float) -> tuple[float, Powers]:
    """What curvature asks for, and how that moves."""
    assert facts.smoothness is not None
    start = facts.radius / noise
    convex = facts.smoothness * start / (2.0 * _SMOOTH_SLACK), 0.5 * _TO_BALANCE_NOISE
    if facts.strong_convexity == 0.0:
        return convex
    settling, slope = settled(facts.strong_convexity * start)
    curved = 2.0 * settling * facts.smoothness / facts.strong_convexity
    return min(convex, (curved, 0.5 * slope * _TO_BALANCE_NOISE), key=lambda each: each[0])


@checked
def descent_batch(problem_class: ProblemClass, *, one_step_noise: float) -> float:
    """``b = L^2/(H R sqrt(d) sigma_1)``: batches then ask for as many steps as curvature does.

    Steps and gradients are then both at most twice what they could be. 0 where kinks ask for more
    steps than either.
    """
    facts, noise = problem_class, math.sqrt(problem_class.dim) * one_step_noise
    if not facts.smoothness or not facts.convex or math.isinf(facts.lipschitz * facts.radius):
        return 0.0
    curved, _ = _curved_steps(facts, noise)
    return (facts.lipschitz / noise) ** 2 / (2.0 * _SMOOTH_SLACK * max(curved, 1.0))


@checked
def descent_numbers(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    moments: Moments = ALL_RECORDS,
    step_rule: StepRule | None = None,
    output: OutputRule | None = None,
) -> DescentNumbers:
    """The step sizes and the output of the theorem with the smallest bound at these ``steps``.

    The last iterate after steps in linear decay, from the best step for smooth losses, or for any.
    Strongly convex losses also ``2/(m (t + 1))``, and weights in proportion to ``t``. A
    ``step_rule`` or ``output`` that is chosen already is kept: a constant step decides between the
    two averages, an output between the steps of the theorems.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=25, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> descent_numbers(facts, steps=99, noise_std=0.0, output=OutputRule.AVERAGE).step_rule
    StepRule(scale=0.1, power=0.0, offset=0.0, decay=0.0)
    """
    known = Descent(problem_class, steps, noise_std, moments)
    if step_rule is None:
        candidates = _without_a_step(known, output)
    elif step_rule.constant:
        averages = (OutputRule.AVERAGE, OutputRule.AVERAGE_AFTER_STEP)
        candidates = [DescentNumbers(step_rule, each) for each in averages]
    else:
        others = (OutputRule.LAST, OutputRule.WEIGHTED_AVERAGE)
        candidates = [DescentNumbers(step_rule, each) for each in others]
    if step_rule is not None and output is not None:
        return DescentNumbers(step_rule, output)

    def bound(numbers: DescentNumbers) -> float:
        rate = covering(known, *numbers)
        return math.inf if rate is None else rate.uncapped

    return min(candidates, key=bound)


def _without_a_step(known: Descent, output: OutputRule | None) -> list[DescentNumbers]:
    """The theorems' step rules, of all outputs that they speak of or of the one that is chosen."""
    facts, steps, modulus = known.facts, known.steps, known.facts.strong_convexity
    found = []
    if modulus > 0.0 and output in (None, OutputRule.WEIGHTED_AVERAGE):
        rule = StepRule.strongly_convex(modulus)
        found.append(DescentNumbers(rule, OutputRule.WEIGHTED_AVERAGE))
    if math.isinf(facts.radius):
        if not found:
            raise ValueError("step_size must be given where radius is infinite, got None")
        return found
    size, smooth = known.rough_step, math.inf
    if facts.smoothness is not None and output != OutputRule.AVERAGE:
        smooth = known.strongly_convex_step if modulus > 0.0 else known.smooth_step
    if output in (None, OutputRule.LAST):
        decay = [smooth] if math.isfinite(smooth) else []
        if modulus == 0.0 or not (decay or found):
            decay.append(size * steps / (steps + 1.0))
        found += [DescentNumbers(StepRule(each, decay=1.0), OutputRule.LAST) for each in decay]
    elif not found:
        after = output == OutputRule.AVERAGE_AFTER_STEP and math.isfinite(smooth)
        found.append(DescentNumbers(StepRule(smooth if after else size), output))
    return found
