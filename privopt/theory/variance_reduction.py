"""Variance-reduced noisy descent: all steps of a period share the noise of its anchor gradient."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import (
    GIVEN_STEPS,
    Exponents,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    no_rate_if,
    unmet_assumptions,
)
from privopt.theory.steps import OutputRule, StepRule

_UNCLIPPED = 1.0 - 1e-6  # relative tolerance for a clipping norm that changes no gradient
_MOST_COST = 1.5  # largest ratio of the bound of a period to that of period 1


@checked
def gradient_difference(problem_class: ProblemClass) -> float:
    """Return ``D = min(2 L, 2 H R)``, which bounds the difference of two gradients of one loss."""
    smoothness = problem_class.smoothness
    by_smoothness = math.inf if smoothness is None else smoothness * problem_class.diameter
    return min(2.0 * problem_class.lipschitz, by_smoothness)


@checked
def variance_reduced_step_size(
    problem_class: ProblemClass,
    *,
    steps: int,
    period: int,
    anchor_noise: float,
    difference_noise: float,
    sampling: float,
    last: bool = False,
) -> float:
    """Return ``eta = R/sqrt(A (T + 1))``, the minimiser of :func:`variance_reduced_rate`.

    For the average, or for the last iterate if ``last``. If ``L`` is not declared, ``A`` contains
    the noise alone.
    """
    root, late = math.sqrt(problem_class.dim), _late(steps, period) if last else (0.0, 0.0)
    sizes = root * anchor_noise, root * difference_noise
    moment = _moment(problem_class, period, *sizes, sampling, late)
    return problem_class.radius / math.sqrt(moment * (steps + 1.0))


@checked
def variance_reduced_period(problem_class: ProblemClass) -> int:
    """Return the longest period that raises the bound by at most a half, at every noise; at most
    12.

    The bound is smallest for ``p = 1`` (DP-GD), at every ``T`` and every noise. A longer period
    reads fewer records. The period is the longest one with ``A_p(x) <= 1.5^2 A_1(x)`` for every
    noise ``x`` of ``T`` full gradients (:ref:`Descent, Theorem 9 <theory-descent-9>`). It depends
    on ``D/L`` alone, so that the bound decreases in epsilon and ``n`` at fixed ``T``.

    Examples
    --------
    >>> facts = [ProblemClass(n=9, dim=4, lipschitz=1.0, radius=1.0, smoothness=h)
    ...          for h in (0.0, 0.05, 0.25, 1.0)]
    >>> [variance_reduced_period(each) for each in facts]
    [12, 9, 2, 1]
    """
    change = gradient_difference(problem_class) / problem_class.lipschitz
    if not math.isfinite(change):
        return 1
    sizes = problem_class.lipschitz * np.geomspace(0.01, 100.0, 161)

    def within_limit(period: int) -> bool:
        return all(
            _moment(
                problem_class,
                period,
                size * math.sqrt((1.0 + change) / period),
                size * math.sqrt(change * (1.0 + change)),
                sampling=0.0,
            )
            <= _MOST_COST**2 * (problem_class.lipschitz**2 + size**2)
            for size in sizes.tolist()
        )

    return next(period for period in itertools.count(1) if not within_limit(period + 1))


def _moment(
    problem_class: ProblemClass,
    period: int,
    anchor: float,
    difference: float,
    sampling: float,
    late: tuple[float, float] = (0.0, 0.0),
    alone: bool = False,
) -> float:
    """Return ``A`` for noise vectors of these norms; ``alone`` omits ``L`` and sampling."""
    lipschitz, change = problem_class.lipschitz, gradient_difference(problem_class)
    lipschitz, change = (0.0 if alone or math.isinf(x) else x for x in (lipschitz, change))
    first = lipschitz**2 + anchor**2
    later = first + 2.0 * anchor * min(lipschitz, change) + sampling * change**2 + difference**2
    drift = 2.0 * math.sqrt(first) + (period - 2) * math.sqrt(later)
    moment = first + (1.0 - 1.0 / period) * (later - first + anchor * drift)
    return moment + 2.0 * anchor * (late[0] * math.sqrt(first) + late[1] * math.sqrt(later))


def _late(steps: int, period: int) -> tuple[float, float]:
    """Return the means over ``T + 1`` steps of ``r_t - 1`` and of ``(k - 1)(r_t - 1)``."""
    times = np.arange(1.0, steps + 1.0)
    since = (times - 1.0) % period
    from_anchor = steps + 1.0 - times + since  # T + 1 - a
    ratio = from_anchor * (2.0 / (from_anchor - since) - 1.0 / (from_anchor + 1.0))
    excess = np.where(since > 0.0, ratio - 1.0, 0.0)
    return float(excess.sum() / (steps + 1.0)), float(excess @ (since - 1.0) / (steps + 1.0))


@checked
def variance_reduced_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_rule: StepRule,
    output: OutputRule | str | None,
    period: int,
    anchor_noise: float,
    difference_noise: float,
    sampling: float,
    clip_norm: float,
    difference_clip: float,
    steps_powers: Exponents = GIVEN_STEPS,
) -> Rate:
    """Return the rate ``R^2/(2 eta (T + 1)) + eta A/2`` of an average or of the last iterate.

    For convex, ``L``-Lipschitz losses and steps along ``g_t = grad F(w_t) + N + e_t``: Gaussian
    noise ``N`` of standard deviation ``sigma``, drawn every ``p`` steps at the anchor, and an error
    ``e_t`` of mean zero given the past. It contains Gaussian noise of standard deviation ``sigma'``
    (none at anchors) and the sampling error of ``g_i(w_t) - g_i(a)``, of variance at most ``s
    D^2``, ``D = min(2 L, 2 H R)``, with ``s = (1 - q)/b`` for Poisson batches. ``A`` is the mean
    over the steps ``k = 0..p - 1`` since an anchor of::

        A_k = G_k^2 + 2 sqrt(d) sigma (G_0 + (k - 1) G),    the second part for k >= 1 only,
        G_0^2 = L^2 + d sigma^2,
        G_k^2 = G^2 = L^2 + d sigma^2 + 2 sqrt(d) sigma min(L, D) + s D^2 + d sigma'^2.

    The outputs are the average of ``w_1..w_{T+1}`` for steps ``eta``, or the last iterate for steps
    ``eta (T + 1 - t)/(T + 1)``, for which the second part of ``A_k`` has a factor ``r_t`` that is
    near 1 until the last periods. At the best step size the bound is ``R sqrt(A/(T + 1))``. Proof:
    :ref:`Descent, Theorem 9 <theory-descent-9>`.

    The first term is ``A`` without ``L`` and without sampling. The second term is the remainder,
    with its local exponents. ``anchor_noise``, ``difference_noise`` and ``sampling`` are ``sigma``,
    ``sigma'`` and ``s``. ``steps_powers`` are the exponents of ``T``. The rate has no terms, and
    states the reason, for other steps and outputs, or if a clipping norm (of gradients at anchors
    or of differences) changes a gradient.
    """
    averaged = step_rule.constant and output in (OutputRule.AVERAGE, OutputRule.RANDOM_ITERATE)
    last = step_rule.linear_decay and output == OutputRule.LAST
    difference = gradient_difference(problem_class)
    refusal = no_rate_if(
        {
            **unmet_assumptions(
                problem_class, clipped=clip_norm < problem_class.lipschitz * _UNCLIPPED
            ),
            "differences of gradients are clipped": difference_clip < difference * _UNCLIPPED,
            "no theorem for these step sizes with this output": not (averaged or last),
        }
    )
    if refusal is not None:
        return refusal
    root, late = math.sqrt(problem_class.dim), _late(steps, period) if last else (0.0, 0.0)

    def moment(noise: float, variance: float, alone: bool = False) -> float:
        sizes = noise * root * anchor_noise, noise * root * difference_noise
        return _moment(problem_class, period, *sizes, variance * sampling, late, alone)

    total, noise = moment(1.0, 1.0), moment(1.0, 1.0, alone=True)

    def remainder(noise_factor: float, variance: float) -> float:
        return moment(noise_factor, variance) - noise_factor**2 * noise

    def slope(function: Callable[[float], float], step: float = 1.0001) -> float:
        return math.log(function(step) / function(1.0 / step)) / (2.0 * math.log(step))

    by_noise = Exponents(n=-1.0, dim=0.5, epsilon=-1.0) + 0.5 * steps_powers
    local = slope(lambda factor: remainder(factor, 1.0)) * by_noise
    local += slope(lambda factor: remainder(1.0, factor)) * Exponents(n=-1.0)
    eta, radius = float(step_rule.scale), problem_class.radius
    eta *= (steps + 1.0) / steps if last else 1.0
    tuned = math.isclose(eta, radius / math.sqrt(total * (steps + 1.0)), rel_tol=1e-9)
    parts = (Term("noise", noise, 2.0 * by_noise), Term("gradients", total - noise, local))
    if tuned:
        factor = radius / math.sqrt(steps + 1.0)
        terms = [part.root(factor, -0.5 * steps_powers) for part in parts]
    else:
        start = Term("start", radius**2 / (2.0 * eta * (steps + 1.0)), -1.0 * steps_powers)
        terms = [*(part.times(0.5 * eta) for part in parts), start]
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= R sqrt(A/(T + 1)), A <= G^2 + (p - 1) G sqrt(d) sigma",
        source="derived here, from the regret of projected descent (Zinkevich 2003)",
        terms=tuple(terms),
        combine=math.hypot if tuned else add,
        cap=largest_excess(problem_class),
        regime="noise leading, sqrt(d) sigma >= 7 L, at fixed rate and period",
        tight_on="linear" if tuned else None,
    )
