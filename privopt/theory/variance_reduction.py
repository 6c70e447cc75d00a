"""Noisy descent along gradients whose noise is shared by all steps of a period."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.rate import (
    GIVEN_STEPS,
    Powers,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    obstacles,
    refused,
)
from privopt.theory.steps import OutputRule, StepRule

_UNCLIPPED = 1.0 - 1e-6  # a clip norm this close to its bound changes nothing but round-off


@checked
def gradient_difference(problem_class: ProblemClass) -> float:
    """``min(2 L, 2 H R)``: no two gradients of one record's loss on the set are farther apart."""
    smoothness = problem_class.smoothness
    far = math.inf if smoothness is None else smoothness * problem_class.diameter
    return min(2.0 * problem_class.lipschitz, far)


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
    """``eta = R/sqrt(A (T + 1))``, where the bound of :func:`variance_reduced_rate` is least.

    Of the average, or ``last``. Where ``L`` is not declared the noise alone is counted.
    """
    root, late = math.sqrt(problem_class.dim), _late(steps, period) if last else (0.0, 0.0)
    sizes = root * anchor_noise, root * difference_noise
    moment = _moment(problem_class, period, *sizes, sampling, late)
    return problem_class.radius / math.sqrt(moment * (steps + 1.0))


@checked
def variance_reduced_period(
    problem_class: ProblemClass, *, steps: int, one_step_noise: float, most: int
) -> int:
    """The longest period, up to ``most``, whose bound is at most 1.5 times that of ``p = 1``.

    As if anchors and differences shared the budget evenly, and sampled batches cost as little as
    all records do: ``sigma = sigma_1 sqrt(2 T/p)`` and ``sigma' = (D/L) sigma_1 sqrt(2 T)``. A long
    period saves reading all records; by the bound the best is 1, which is DP-GD.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> variance_reduced_period(facts, steps=100, one_step_noise=0.01, most=30)
    8
    """
    if math.isinf(problem_class.lipschitz):
        return most

    root = math.sqrt(problem_class.dim) * one_step_noise
    change = gradient_difference(problem_class) / problem_class.lipschitz

    def moment(period: int) -> float:
        if period == 1:
            return _moment(problem_class, 1, root * math.sqrt(steps), 0.0, 0.0)
        anchor = root * math.sqrt(2.0 * -(-steps // period))
        return _moment(problem_class, period, anchor, change * root * math.sqrt(2.0 * steps), 0.0)

    most_moment = 2.25 * moment(1)
    return max(
        period for period in range(1, most + 1) if period == 1 or moment(period) <= most_moment
    )


def _moment(
    problem_class: ProblemClass,
    period: int,
    anchor: float,
    difference: float,
    sampling: float,
    late: tuple[float, float] = (0.0, 0.0),
    alone: bool = False,
) -> float:
    """``A``, of noise vectors of these sizes; without ``L`` and sampling, of the noise alone."""
    lipschitz, far = problem_class.lipschitz, gradient_difference(problem_class)
    lipschitz, far = (0.0 if alone or math.isinf(size) else size for size in (lipschitz, far))
    first = lipschitz**2 + anchor**2
    later = first + 2.0 * anchor * min(lipschitz, far) + sampling * far**2 + difference**2
    drifted = 2.0 * math.sqrt(first) + (period - 2) * math.sqrt(later)
    moment = first + (1.0 - 1.0 / period) * (later - first + anchor * drifted)
    return moment + 2.0 * anchor * (late[0] * math.sqrt(first) + late[1] * math.sqrt(later))


def _late(steps: int, period: int) -> tuple[float, float]:
    """The means of ``r_t - 1`` over ``T + 1`` steps, and of ``(k - 1)`` times that."""
    times = np.arange(1.0, steps + 1.0)
    since = (times - 1.0) % period
    begun = steps + 1.0 - times + since  # T + 1 - a
    excess = np.where(since > 0.0, begun * (2.0 / (begun - since) - 1.0 / (begun + 1.0)) - 1.0, 0.0)
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
    clip: float,
    difference_clip: float,
    steps_powers: Powers = GIVEN_STEPS,
) -> Rate:
    """``E F(w) - F* <= R^2/(2 eta (T + 1)) + eta A/2`` for an average, or for the last iterate.

    ``R sqrt(A/(T + 1))`` at the best step size, for the average of ``w_1..w_{T+1}`` of steps
    ``eta``, or the last of steps ``eta (T + 1 - t)/(T + 1)``. For convex, L-Lipschitz losses, steps
    along ``g_t = grad F(w_t) + N + e_t``, where ``N``, of scale ``sigma``, is drawn every ``p``
    steps at the anchor ``a``, and ``e_t`` has mean zero given the past: Gaussian noise of scale
    ``sigma'``, none at anchors, and what sampling leaves of ``g_i(w_t) - g_i(a)``, of norm at most
    ``D = min(2 L, 2 H R)``, a variance of ``s D^2`` at most, ``s = (1 - q)/b`` for Poisson batches.
    ``A`` is the mean, over the ``k = 0..p - 1`` steps since an anchor, of::

        A_k = G_k^2 + 2 sqrt(d) sigma (G_0 + (k - 1) G),    the second part for k >= 1 alone,
        G_0^2 = L^2 + d sigma^2,
        G_k^2 = G^2 = L^2 + d sigma^2 + 2 sqrt(d) sigma min(L, D) + s D^2 + d sigma'^2.

    ``E |g_t|^2 <= G_k^2``, whence the first part as for averages of noisy descent
    (:func:`privopt.theory.descent_rate`). Behind an anchor ``N`` has no mean zero given the past,
    but it is independent of ``a``: ``E <grad F(w_t), N> = E <grad F(w_t) - grad F(a), N>`` is at
    most ``sqrt(d) sigma min(L, D)``, and ``E <N, w_t - w*> = E <N, w_t - a>`` at least ``-sqrt(d)
    sigma eta (G_0 + (k - 1) G)``: twice that is the second part. ``A_k`` grows with ``k``, so a
    period that is cut short costs no more.

    *The last iterate.* By the argument of :func:`privopt.theory.descent.last_iterate`, with ``u_t =
    v u_{a-1} + (1 - v) w'``, ``v = (T + 1 - t)/(T + 2 - a)`` and ``w'`` a mean of the points since
    the anchor, which is step ``a``. But for drift ``w_t - u_t`` is ``v (a - u_{a-1})``, of which
    ``N`` is independent: the second part of ``A_k`` counts ``r_t = (T + 1 - a) (2/(T + 1 - t) -
    1/(T + 2 - a))`` times, which is near 1 until the last periods. Derived here.

    The first term is what ``A`` is without ``L`` and without sampling; what these add is the
    second, whose exponents are those at this setting.

    ``anchor_noise``, ``difference_noise`` and ``sampling`` are ``sigma``, ``sigma'`` and ``s``. The
    rate has no terms, and the reason, for other steps and outputs, and where a clip norm, at
    anchors or of differences, changes a gradient. ``steps_powers`` say how ``T`` moves with the
    axes.
    """
    averaged = step_rule.constant and output in (OutputRule.AVERAGE, OutputRule.RANDOM_ITERATE)
    last = step_rule.linear_decay and output == OutputRule.LAST
    difference = gradient_difference(problem_class)
    refusal = refused(
        {
            **obstacles(problem_class, clipped=clip < problem_class.lipschitz * _UNCLIPPED),
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

    whole, noise = moment(1.0, 1.0), moment(1.0, 1.0, alone=True)

    def rest(noise_factor: float, variance: float) -> float:
        return moment(noise_factor, variance) - noise_factor**2 * noise

    def slope(of: Callable[[float], float], step: float = 1.0001) -> float:
        return math.log(of(step) / of(1.0 / step)) / (2.0 * math.log(step))

    at_noise = Powers(n=-1.0, dim=0.5, epsilon=-1.0) + 0.5 * steps_powers
    local = slope(lambda factor: rest(factor, 1.0)) * at_noise
    local += slope(lambda factor: rest(1.0, factor)) * Powers(n=-1.0)
    eta, radius = float(step_rule.scale), problem_class.radius
    eta *= (steps + 1.0) / steps if last else 1.0
    tuned = math.isclose(eta, radius / math.sqrt(whole * (steps + 1.0)), rel_tol=1e-9)
    parts = (Term("noise", noise, 2.0 * at_noise), Term("gradients", whole - noise, local))
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
