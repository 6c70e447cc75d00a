"""Accelerated noisy descent (AC-SA): bound, step sizes, envelope width and default steps.

The method starts at ``v_1 = w_1``. For ``t = 1..T`` and ``a_t = 2/(t + 1)`` it takes the steps::

    u_t     = v_t + a_t (w_t - v_t)
    w_{t+1} = Proj(w_t - eta (t + 1) (grad F_h(u_t) + z_t))
    v_{t+1} = v_t + a_t (w_{t+1} - v_t)

and returns ``v_{T+1}``. ``z_t`` is noise of standard deviation ``sigma`` per coordinate. ``F_h`` is
the mean of the Moreau envelopes of width ``h`` of convex, ``L``-Lipschitz losses, or the mean of
the losses themselves if they are smooth. The start is within ``R`` of every point of the set.

Theorem and proof: :ref:`Descent, Theorem 12 <theory-descent-12>`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from privopt.arguments import checked, positive_number, shown
from privopt.spec import ProblemClass
from privopt.theory.descent import MAX_STEPS, DefaultSteps, DescentSetting
from privopt.theory.rate import (
    FIXED,
    GIVEN_STEPS,
    Exponents,
    Rate,
    Term,
    add,
    no_rate,
    no_rate_if,
    unmet_assumptions,
)

_ROUND_OFF = 1e-9
_SLACK = 0.5  # relative excess of the bound over its limit, at default steps
_LIMIT = 2.0 / math.sqrt(3.0)  # of the noise term, in units of R sqrt(d) sigma_1
_BY_LIMIT = Exponents(n=1.0, dim=-0.5, epsilon=1.0)  # 1/(sqrt(d) sigma_1)


class AcceleratedNumbers(NamedTuple):
    """Step size ``eta`` and width ``h`` of the envelopes; ``h`` is None for smooth losses."""

    step_size: float
    smoothing: float | None


@checked
def accelerated_steps(
    problem_class: ProblemClass, *, one_step_noise: float, clip_norm: float | None = None
) -> DefaultSteps:
    """Return the default ``T``, at which the bound is near its limit ``1.155 R sqrt(d) sigma_1``.

    ``one_step_noise`` is ``sigma_1``, the noise per coordinate of a single full gradient within the
    budget. The noise of ``T`` steps is ``sigma = sigma_1 sqrt(T)``. ``clip_norm`` is ``C``, by
    default ``L``. With ``x = sqrt(d) sigma_1``, the bound is half above its limit at

    - ``T + 1 = 3.5 C/x`` without declared smoothness, where ``2 L R/(T + 1)`` is half of it;
    - ``T + 1 = sqrt(3.5 H R/x)`` for smooth losses, where ``2 H R^2/(T + 1)^2`` is half of it.

    ``T`` is rounded up and at most 10,000. More steps reduce the bound to its limit.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=16, lipschitz=1.0, radius=1.0)
    >>> accelerated_steps(facts, one_step_noise=0.001).steps
    866
    """
    facts = problem_class
    excess = _SLACK * _LIMIT * math.sqrt(facts.dim) * one_step_noise
    if facts.smoothness is None:
        slope = facts.lipschitz if clip_norm is None else clip_norm
        steps, powers = 2.0 * slope / excess - 1.0, _BY_LIMIT
    else:
        ratio = 2.0 * facts.smoothness * facts.radius / excess
        steps, powers = math.sqrt(ratio) - 1.0, 0.5 * _BY_LIMIT
    capped = not 1.0 < steps < MAX_STEPS
    return DefaultSteps(math.ceil(min(max(steps, 1.0), MAX_STEPS)), FIXED if capped else powers)


@checked
def accelerated_numbers(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    clip_norm: float | None = None,
    smoothing: float | None = None,
) -> AcceleratedNumbers:
    """Return the step size and the width that minimise the bound of :func:`accelerated_rate`.

    They are::

        h   = 2 R/(C (T + 1)),             at most 4/C^2
        eta = 1/(2 H + sqrt(d S) sigma/R), S = 2^2 + 3^2 + .. + (T + 1)^2

    with the declared smoothness ``H``, and no envelope, or ``H = max(1/h, C^2/4)``. A given
    ``smoothing`` replaces ``h``. ``clip_norm`` is ``C``, by default ``L``. The limit ``4/C^2``
    costs nothing, because a loss that equals its envelope, such as the logistic loss, may have
    curvature ``L^2/4``.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=16, lipschitz=1.0, radius=1.0)
    >>> numbers = accelerated_numbers(facts, steps=99, noise_std=0.01)
    >>> numbers.smoothing, round(numbers.step_size, 4)
    (0.02, 0.0081)
    """
    facts = problem_class
    if smoothing is not None:
        if facts.smoothness is not None:
            raise ValueError(
                "smoothing must be left out where smoothness is declared, got "
                f"{shown(smoothing)}: smooth losses need no envelope"
            )
        smoothing = positive_number("smoothing", smoothing)
    if math.isinf(facts.radius):
        raise ValueError("radius must be finite for accelerated descent, got inf")
    slope = facts.lipschitz if clip_norm is None else clip_norm
    if smoothing is None and facts.smoothness is None:
        smoothing = min(_best_width(facts.radius, slope, steps), 4.0 / slope**2)
    curvature = _curvature(facts, smoothing, slope)
    return AcceleratedNumbers(_best_step(facts, steps, noise_std, curvature), smoothing)


@checked
def accelerated_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float,
    smoothing: float | None,
    noise_std: float,
    steps_powers: Exponents = GIVEN_STEPS,
    clipped: bool = False,
) -> Rate:
    """Return the bound on the empirical risk of accelerated descent, started at the centre.

    For ``2 eta H < 1``, with ``H`` and ``S`` of :func:`accelerated_numbers` at ``C = L``::

        E F(v) - F* <= (R^2/eta + eta d sigma^2 S/(1 - 2 eta H))/(T + 1)^2 + L^2 h/2

    At the best step the first two terms are ``2 H R^2/(T + 1)^2 + 2 R sqrt(d S) sigma/(T + 1)^2``.
    At the best width the terms with ``H`` and ``h`` are ``2 L R/(T + 1)``. For ``sigma = sigma_1
    sqrt(T)`` the noise term is at most ``1.18 R sqrt(d) sigma_1``, and tends to ``2/sqrt(3)`` times
    ``R sqrt(d) sigma_1``.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts: convex, ``L``-Lipschitz losses and a finite radius.
    steps, step_size, smoothing : int, float, float or None
        ``T``, ``eta`` and ``h``. ``smoothing`` is None without an envelope, for smooth losses.
    noise_std : float
        ``sigma``. Its exponents are those of ``sqrt(T)/(n epsilon)``.
    steps_powers : Exponents
        Exponents of ``T`` in the axes; by default ``T`` is an axis.
    clipped : bool
        True if clipping may change gradients. There is no bound then.

    References
    ----------
    Lan 2012 (doi:10.1007/s10107-010-0434-y). The paper bounds the initial distance by the diameter
    and allows ``eta <= 1/(4 H)``; proof and constants are derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=16, lipschitz=1.0, radius=1.0)
    >>> numbers = accelerated_numbers(facts, steps=99, noise_std=0.01)
    >>> rate = accelerated_rate(facts, steps=99, noise_std=0.01, **numbers._asdict())
    >>> {term.name: round(term.value, 5) for term in rate.terms}
    {'noise': 0.00465, 'start': 0.01, 'smoothing': 0.01}
    """
    facts = problem_class
    if reason := no_rate_if(unmet_assumptions(facts, clipped=clipped)):
        return reason
    if smoothing is not None and not smoothing > 0.0:
        return no_rate("the width of the envelopes is not positive")
    curvature = _curvature(facts, smoothing, facts.lipschitz)
    margin = 1.0 - 2.0 * step_size * curvature
    if not (step_size > 0.0 and margin > 0.0):
        return no_rate("no theorem for steps that are not positive or not below 1/(2 H)")
    setting = DescentSetting(facts, steps, noise_std, steps_powers=steps_powers)
    squares, total = setting.squares(0.0, 0.0), _sum_of_squares(steps)
    best_step = _best_step(facts, steps, noise_std, curvature)
    by_width, best_width = FIXED, _best_width(facts.radius, facts.lipschitz, steps)
    if smoothing is not None and math.isclose(smoothing, best_width, rel_tol=_ROUND_OFF):
        by_width = -1.0 * steps_powers
    if math.isclose(step_size, best_step, rel_tol=_ROUND_OFF):
        factor = 2.0 * facts.radius * math.sqrt(total) / (steps + 1.0) ** 2
        terms = [each.root(factor, -0.5 * steps_powers) for each in squares]
        start, by_start = 2.0 * curvature * facts.radius**2, -1.0 * by_width
    else:
        factor = step_size * total / (margin * (steps + 1.0) ** 2)
        terms = [each.times(factor, steps_powers) for each in squares]
        start, by_start = facts.radius**2 / step_size, FIXED
    terms.append(Term("start", start / (steps + 1.0) ** 2, by_start + -2.0 * steps_powers))
    if smoothing is not None:
        terms.append(Term("smoothing", 0.5 * facts.lipschitz**2 * smoothing, by_width))
    return setting.rate(
        "E F(v) - F* <= (R^2/eta + eta d sigma^2 S/(1 - 2 eta H))/(T + 1)^2 + L^2 h/2 "
        "(order L R sqrt(d)/(n mu))",
        "Lan 2012 (doi:10.1007/s10107-010-0434-y); constants derived here",
        terms,
        add,
        "the other terms below a fiftieth of the bound",
    )


def _curvature(problem_class: ProblemClass, smoothing: float | None, slope: float) -> float:
    """Return ``H`` of the losses that descent uses; infinite for kinks without an envelope."""
    if smoothing is not None:
        return max(1.0 / smoothing, 0.25 * slope**2)
    return math.inf if problem_class.smoothness is None else problem_class.smoothness


def _best_width(radius: float, slope: float, steps: int) -> float:
    return 2.0 * radius / (slope * (steps + 1.0))


def _best_step(
    problem_class: ProblemClass, steps: int, noise_std: float, curvature: float
) -> float:
    """Return ``eta``, or infinity for linear losses without noise."""
    noise = math.sqrt(problem_class.dim * _sum_of_squares(steps)) * noise_std
    inverse = 2.0 * curvature + noise / problem_class.radius
    return 1.0 / inverse if inverse > 0.0 else math.inf


def _sum_of_squares(steps: int) -> float:
    """Return ``S = 2^2 + 3^2 + .. + (T + 1)^2``."""
    return (steps + 1) * (steps + 2) * (2 * steps + 3) / 6 - 1.0
