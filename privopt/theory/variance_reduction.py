"""Noisy descent along gradients whose noise is shared by all steps of a period."""

from __future__ import annotations

import math
from collections.abc import Callable

from privopt.spec import ProblemClass
from privopt.theory.descent_numbers import OutputRule, StepRule
from privopt.theory.rate import Powers, Quantity, Rate, Term, add, no_rate

__all__ = [
    "gradient_difference",
    "variance_reduced_descent",
    "variance_reduced_rate",
    "variance_reduced_step_size",
]

_UNCLIPPED = 1.0 - 1e-6  # a clip norm this close to its bound changes nothing but round-off


def gradient_difference(problem_class: ProblemClass) -> float:
    """``min(2 L, 2 H R)``: no two gradients of one record's loss on the set are farther apart.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> gradient_difference(facts)
    0.5
    """
    smoothness = problem_class.smoothness
    far = math.inf if smoothness is None else smoothness * problem_class.diameter
    return min(2.0 * problem_class.lipschitz, far)


def variance_reduced_descent(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float,
    period: int,
    anchor_noise: float,
    difference_noise: float,
    sampling: float,
) -> float:
    """Excess risk of the average iterate: ``R^2/(2 eta T) + eta A/2``.

    For convex, L-Lipschitz losses, steps along ``g_t = grad F(w_t) + N + e_t``, where ``N``, of
    scale ``sigma``, is drawn every ``p`` steps at the anchor ``a``, and ``e_t`` has mean zero given
    the past: Gaussian noise of scale ``sigma'``, none at anchors, and what sampling leaves of
    ``g_i(w_t) - g_i(a)``, of norm at most ``D``, a variance of ``s D^2`` at most::

        A = G^2 + (p - 1) G sqrt(d) sigma,    G^2 = (L + sqrt(d) sigma)^2 + s D^2 + d sigma'^2.

    ``E |g_t|^2 <= G^2``, whence the first term as in :func:`noisy_descent`. ``N`` is not of mean
    zero given a later ``w_t`` of its period, but independent of ``a``: ``E <N, w_t - w*> = E <N,
    w_t - a>``, at least ``-sqrt(d) sigma eta G (t - t_a)``, as projections bring points no farther
    apart. On average over a period ``t - t_a`` is at most ``(p - 1)/2``.

    ``s = sampling`` is ``(1 - q)/b`` for Poisson batches. Derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> noise = {"anchor_noise": 0.5, "difference_noise": 0.0, "sampling": 0.0}
    >>> variance_reduced_descent(facts, steps=25, step_size=0.1, period=1, **noise)
    0.4
    """
    if math.isinf(problem_class.radius):
        return math.inf
    moment = _moment(problem_class, period, anchor_noise, difference_noise, sampling)
    return problem_class.radius**2 / (2.0 * step_size * steps) + 0.5 * step_size * moment


def variance_reduced_step_size(
    problem_class: ProblemClass,
    *,
    steps: int,
    period: int,
    anchor_noise: float,
    difference_noise: float,
    sampling: float,
) -> float:
    """``eta = R/sqrt(A T)``, the minimiser of :func:`variance_reduced_descent`.

    Where ``L`` is not declared the noise alone is counted.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> noise = {"anchor_noise": 0.5, "difference_noise": 0.0, "sampling": 0.0}
    >>> variance_reduced_step_size(facts, steps=25, period=1, **noise)
    0.1
    """
    moment = _moment(problem_class, period, anchor_noise, difference_noise, sampling)
    return problem_class.radius / math.sqrt(moment * steps)


def _moment(
    problem_class: ProblemClass, period: int, anchor: float, difference: float, sampling: float
) -> float:
    """``A``."""
    lipschitz, far = problem_class.lipschitz, gradient_difference(problem_class)
    lipschitz, far = (0.0 if math.isinf(size) else size for size in (lipschitz, far))
    noise = math.sqrt(problem_class.dim) * anchor
    square = (lipschitz + noise) ** 2 + sampling * far**2 + problem_class.dim * difference**2
    return square + (period - 1) * math.sqrt(square) * noise


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
    lower: float = 0.0,
) -> Rate:
    """The rate of :func:`variance_reduced_descent`: ``R sqrt(A/T)`` at its best step size.

    The first term is what ``A`` is without ``L`` and without sampling; what these add is the
    second, whose exponents are those at this setting.

    Parameters
    ----------
    problem_class, steps, period, anchor_noise, difference_noise, sampling
        As for :func:`variance_reduced_descent`.
    step_rule, output
        What the method does; a constant step and the average are what the theorem speaks of.
    clip, difference_clip : float
        Clip norms at anchors and of differences.
    lower : float
        What no algorithm with this guarantee can beat.

    Returns
    -------
    Rate
        Of the empirical risk; without terms, and with the reason, where the theorem says nothing.
    """
    constant = step_rule.power == step_rule.decay == 0.0 and output == OutputRule.AVERAGE
    if not problem_class.convex:
        return no_rate("the losses are not convex", lower=lower)
    if math.isinf(problem_class.lipschitz) or clip < problem_class.lipschitz * _UNCLIPPED:
        return no_rate("gradients are clipped below the Lipschitz constant", lower=lower)
    if difference_clip < gradient_difference(problem_class) * _UNCLIPPED:
        return no_rate("differences of gradients are clipped", lower=lower)
    if math.isinf(problem_class.radius):
        return no_rate("the set is not bounded", lower=lower)
    if not constant:
        return no_rate("no theorem for these step sizes with this output", lower=lower)

    def moment(noise: float, variance: float) -> float:
        return _moment(
            problem_class, period, noise * anchor_noise, noise * difference_noise,
            variance * sampling,
        )  # fmt: skip

    whole = moment(1.0, 1.0)
    root = math.sqrt(problem_class.dim)
    both = math.hypot(anchor_noise, difference_noise)
    noise = root**2 * both * (both + (period - 1) * anchor_noise)

    def rest(noise_factor: float, variance: float) -> float:
        return moment(noise_factor, variance) - noise_factor**2 * noise

    def slope(of: Callable[[float], float], step: float = 1.0001) -> float:
        return math.log(of(step) / of(1.0 / step)) / (2.0 * math.log(step))

    at_noise, at_variance = Powers(n=-1.0, dim=0.5, epsilon=-1.0), Powers(n=-1.0)
    local = slope(lambda factor: rest(factor, 1.0)) * at_noise
    local += slope(lambda factor: rest(1.0, factor)) * at_variance
    eta, radius = float(step_rule.scale), problem_class.radius
    tuned = math.isclose(eta, radius / math.sqrt(whole * steps), rel_tol=1e-9)
    parts = (Term("noise", noise, 2.0 * at_noise), Term("gradients", whole - noise, local))
    if tuned:
        terms = tuple(
            Term(part.name, radius * math.sqrt(part.value / steps), 0.5 * part.powers)
            for part in parts
        )
    else:
        start = Term("start", radius**2 / (2.0 * eta * steps))
        halves = (Term(part.name, 0.5 * eta * part.value, part.powers) for part in parts)
        terms = (*halves, start)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= R sqrt(A/T), A = G^2 + (p - 1) G sqrt(d) sigma",
        source="derived here, from the regret of projected descent (Zinkevich 2003)",
        terms=terms,
        combine=math.hypot if tuned else add,
        lower=lower,
        regime="noise leading, sqrt(d) sigma >= L, at fixed rate, steps and period",
        tight_on="linear" if tuned else None,
    )
