"""Noisy descent along gradients whose noise is shared by all steps of a period."""

from __future__ import annotations

import itertools
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
_MOST_COST = 1.5  # of a period, as a factor of the bound


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
def variance_reduced_period(problem_class: ProblemClass) -> int:
    """Return the longest period that raises the bound by at most a half.

    At every ``T`` and every noise the bound is least for ``p = 1``, which is DP-GD. A longer period
    saves reading all records. Let ``x = sqrt(d) sigma_1 sqrt(T)`` be the size of the noise of ``T``
    full gradients within the budget, with ``A = L^2 + x^2`` at ``p = 1``, and let ``A_p(x)`` be
    that of a period ``p`` whose budget is shared as ``L : D`` and whose batches cost as little as
    all records do::

        sigma^2 d = (1 + D/L) x^2 / p,    sigma'^2 d = (D/L) (1 + D/L) x^2.

    The period is the longest one with ``A_p(x) <= 1.5^2 A_1(x)`` for every ``x``, 12 at most. It
    depends on ``D/L`` alone. A period that grew with epsilon or ``n`` would raise the bound of the
    same ``T`` where it has to fall.

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

    def costs_little(period: int) -> bool:
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

    return next(period for period in itertools.count(1) if not costs_little(period + 1))


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
