"""The numbers that theory chooses for noisy descent: steps, step size and output."""

from __future__ import annotations

import math
from typing import NamedTuple, TypedDict

from privopt.arguments import Names
from privopt.spec import ProblemClass
from privopt.theory.descent import (
    MAX_STEPS,
    noise_limited_steps,
    noisy_descent,
    noisy_descent_step_size,
)
from privopt.theory.moments import ALL_RECORDS, Moments
from privopt.theory.rate import FIXED, Powers
from privopt.theory.smooth_descent import (
    smooth_descent,
    smooth_descent_step_size,
    smooth_descent_steps,
)

__all__ = [
    "DefaultSteps",
    "DescentNumbers",
    "OutputRule",
    "StepRule",
    "descent_numbers",
    "descent_steps",
]

_TO_BALANCE_NOISE = Powers(n=2.0, dim=-1.0, epsilon=2.0)  # 1/(d sigma_1^2)


class OutputRule(Names):
    """What a first-order method returns of ``w_1..w_{T+1}``, of which ``T`` gradients are asked.

    ``average``
        The mean of all.
    ``average_after_step``
        The mean of ``w_2..w_{T+1}``, the points that steps lead to.
    ``weighted_average``
        Of all, with weights in proportion to ``t``.
    ``random_iterate``
        One of all, each as likely as another.
    ``last``
        ``w_{T+1}``.
    """

    AVERAGE = "average"
    AVERAGE_AFTER_STEP = "average_after_step"
    WEIGHTED_AVERAGE = "weighted_average"
    RANDOM_ITERATE = "random_iterate"
    LAST = "last"


class StepRule(NamedTuple):
    """``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)`` for ``t = 1..T``.

    Examples
    --------
    >>> StepRule.linear_decay(0.5, steps=4)
    StepRule(scale=0.4, power=0.0, offset=0.0, decay=1.0)
    """

    scale: float
    power: float = 0.0
    offset: float = 0.0
    decay: float = 0.0

    @classmethod
    def strongly_convex(cls, modulus: float) -> StepRule:
        """``2/(m (t + 1))``."""
        return cls(2.0 / modulus, power=1.0, offset=1.0)

    @classmethod
    def linear_decay(cls, step_size: float, *, steps: int) -> StepRule:
        """``eta (1 - t/(T + 1))``: it would be 0 at the step after the last."""
        return cls(step_size * steps / (steps + 1.0), decay=1.0)

    @property
    def constant(self) -> bool:
        """Whether all steps have one size."""
        return self.power == self.decay == 0.0


class DefaultSteps(NamedTuple):
    """A number of steps, and how it moves with the axes."""

    steps: int
    powers: Powers = FIXED


class DescentNumbers(NamedTuple):
    """The step rule and the output rule of a theorem."""

    step_rule: StepRule
    output: OutputRule


def descent_steps(
    problem_class: ProblemClass,
    *,
    one_step_noise: float,
    clip: float | None = None,
    moments: Moments = ALL_RECORDS,
    plain: bool = True,
) -> DefaultSteps:
    """The default ``T``: the smaller of those of the smooth and of the non-smooth theorem.

    Smooth losses need ``max(5 H R/(sqrt(d) sigma_1), 5 v L^2/(d sigma_1^2))`` steps
    (:func:`smooth_descent_steps`), any need ``a C^2/(d sigma_1^2)`` (:func:`noise_limited_steps`).
    Fewer steps go with the smaller bound: the former is within 1.2 of its limit there, the latter
    within ``sqrt(2)`` of the same limit. Strongly convex losses have the latter.

    Parameters
    ----------
    problem_class : ProblemClass
    one_step_noise : float
        ``sigma_1``, the noise of each coordinate that a single full gradient would need within the
        budget; ``T`` gradients need about ``sigma_1 sqrt(T)``.
    clip : float, optional
        ``C``; default ``L``.
    moments : Moments
        ``a`` and ``v`` of the batches.
    plain : bool
        Whether the update is plain descent: the smooth theorem speaks of no other.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=25, lipschitz=1.0, radius=1.0)
    >>> descent_steps(facts, one_step_noise=0.002).steps
    10000
    >>> facts = ProblemClass(n=1000, dim=25, lipschitz=1.0, radius=1.0, smoothness=1.0)
    >>> descent_steps(facts, one_step_noise=0.002).steps
    500
    """
    clip = problem_class.lipschitz if clip is None else clip
    ratio = math.sqrt(problem_class.dim) * one_step_noise
    any_loss = noise_limited_steps(ratio / (clip * math.sqrt(moments.second_moment)))
    moving = 1 < any_loss < MAX_STEPS
    found = DefaultSteps(any_loss, _TO_BALANCE_NOISE if moving else FIXED)
    smooth = problem_class.convex and problem_class.smoothness is not None and plain
    if not smooth or problem_class.strong_convexity > 0.0 or math.isinf(problem_class.radius):
        return found
    fewest = smooth_descent_steps(problem_class, one_step_noise=one_step_noise, moments=moments)
    if math.ceil(fewest) >= any_loss:
        return found
    curved = smooth_descent_steps(problem_class, one_step_noise=one_step_noise)
    powers = FIXED
    if fewest > 1.0:
        sampled = _TO_BALANCE_NOISE + Powers(n=-1.0)  # v at a fixed rate
        powers = 0.5 * _TO_BALANCE_NOISE if fewest == curved else sampled
    return DefaultSteps(math.ceil(fewest), powers)


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

    Strongly convex losses: ``2/(m (t + 1))``, and weights in proportion to ``t``. Others: a
    constant step, the best for the smooth theorem with the average after each step, or the best
    for the non-smooth theorem with the average of all. The last iterate, where it is asked for:
    the non-smooth theorem's step, in linear decay.

    Parameters
    ----------
    problem_class : ProblemClass
    steps, noise_std, moments
        As for :func:`smooth_descent`.
    step_rule, output : optional
        What is chosen already, and kept. A constant step decides between the two averages, an
        output between the steps of the theorems.

    Raises
    ------
    ValueError
        If a step size is needed and ``radius`` is infinite.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=25, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> descent_numbers(facts, steps=100, noise_std=0.1).output.value
    'average_after_step'
    >>> descent_numbers(facts, steps=99, noise_std=0.0, output=OutputRule.LAST).step_rule
    StepRule(scale=0.099, power=0.0, offset=0.0, decay=1.0)
    """
    decaying = step_rule is not None and not step_rule.constant
    curved = problem_class.strong_convexity > 0.0 and (step_rule is None or decaying)
    if curved and output in (None, OutputRule.WEIGHTED_AVERAGE):
        strongly = StepRule.strongly_convex(problem_class.strong_convexity)
        return DescentNumbers(step_rule or strongly, OutputRule.WEIGHTED_AVERAGE)
    if step_rule is not None and decaying:
        return DescentNumbers(step_rule, output or OutputRule.LAST)
    if step_rule is None and math.isinf(problem_class.radius):
        raise ValueError("step_size must be given where radius is infinite, got None")
    theorems = {OutputRule.AVERAGE: (noisy_descent_step_size, noisy_descent)}
    if problem_class.smoothness is not None:
        theorems[OutputRule.AVERAGE_AFTER_STEP] = (smooth_descent_step_size, smooth_descent)
    if output is not None:
        rough = theorems[OutputRule.AVERAGE]
        theorems = {output: theorems.get(output, rough)}
    found = []
    for rule, (best_step_size, bound) in theorems.items():
        known: _Known = {"steps": steps, "noise_std": noise_std, "moments": moments}
        size = step_rule.scale if step_rule else best_step_size(problem_class, **known)
        if math.isfinite(size):
            found.append((bound(problem_class, step_size=size, **known), rule, size))
    _, rule, size = min(found, key=lambda each: each[0])
    best = StepRule.linear_decay(size, steps=steps) if rule is OutputRule.LAST else StepRule(size)
    return DescentNumbers(step_rule or best, rule)


class _Known(TypedDict):
    """What bounds and step sizes ask for."""

    steps: int
    noise_std: float
    moments: Moments
