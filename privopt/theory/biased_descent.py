"""Descent along biased gradient estimates: projected means and bias-reduced estimates.

Let ``g_t = grad F(w_t) + u_t`` with ``|E u_t| <= b``, ``E |g_t|^2 <= nu^2`` and ``E |u_t|^2 <=
e^2``, all given the past. For a projected mean only ``b <= e`` is known. The start is the centre of
a set of diameter ``D``::

    E F(w) - F* <= R^2/(2 eta (T + 1)) + eta nu^2/2 + D b            convex, average,
    E F(w) - F* <= R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + D b     and smooth, eta < 1/H,
    E |grad F(w)|^2 <= gap/(eta T) + eta H nu^2/2 + L b              smooth, any eta,
    E |grad F(w)|^2 <= 2 gap/(eta T) + e^2                           smooth, eta <= 1/H.

The last two hold on the whole space, convex or not, for a random iterate, with ``F(w_1) - inf F <=
gap``. Proofs: :ref:`Descent, Theorems 6 <theory-descent-6>` and :ref:`7 <theory-descent-7>`.
Sources: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5; Devolder,
Glineur and Nesterov 2014; constants derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.descent import MAX_STEPS
from privopt.theory.rate import (
    FIXED,
    GIVEN_STEPS,
    Exponents,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    no_rate,
    no_rate_if,
)
from privopt.theory.sparse_means import Body, NoiseKind, NoiseVector, projected_error

_SOURCE = (
    "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5; constants "
    "derived here"
)


@checked
def biased_descent_step_size(
    problem_class: ProblemClass, *, steps: int, second_moment: float, gap: float | None = None
) -> float:
    """Return ``R/(nu sqrt(T + 1))``, or ``sqrt(2 gap/(H T))/nu`` if a gap is given.

    ``second_moment`` is ``nu^2``; ``gap`` is at least ``F(w_1) - inf F``.
    """
    if gap is None:
        return problem_class.radius / math.sqrt(second_moment * (steps + 1.0))
    smoothness = _smoothness(problem_class)
    if smoothness == 0.0:
        raise ValueError("smoothness must be positive for this step size, got 0.0")
    return math.sqrt(2.0 * gap / (smoothness * steps * second_moment))


@checked
def biased_descent_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    bias: Term,
    second_moment: Term,
    step_size: float | None = None,
    gap: float | None = None,
    steps_powers: Exponents = GIVEN_STEPS,
) -> Rate:
    """Return the rate in terms of the bias ``b`` and the second moment ``nu^2``, with their
    exponents.

    Without ``gap``: excess risk of the average of all iterates, for a convex class of finite
    radius. With a ``gap`` of at least ``F(w_1) - inf F``: gradient norm of a random iterate, for a
    smooth class. The first term is the privacy term, the larger of bias and second moment if both
    depend on epsilon. The default ``step_size`` is :func:`biased_descent_step_size`. If the theorem
    does not apply, the rate has no terms and states the reason.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = biased_descent_rate(facts, steps=24, bias=Term("bias", 0.05, Exponents(n=-0.5)),
    ...                            second_moment=Term("gradients", 1.0))
    >>> round(rate.upper, 9), round(rate.slope("n"), 3)
    (0.3, -0.167)
    """
    facts, refusal = problem_class, no_rate_if(_unmet(problem_class, gap), _quantity(gap))
    if refusal is not None:
        return refusal
    best = biased_descent_step_size(facts, steps=steps, second_moment=second_moment.value, gap=gap)
    eta = best if step_size is None else step_size
    tuned = math.isclose(eta, best, rel_tol=1e-9)
    if gap is None:
        start, factor, root = facts.radius**2 / (2.0 * eta * (steps + 1.0)), 0.5 * eta, 1.0
        shift = _scaled("bias", bias, facts.diameter)
        theorem = "E F(w) - F* <= R^2/(2 eta (T + 1)) + eta nu^2/2 + D b"
    else:
        start, root = gap / (eta * steps), 0.5
        factor = 0.5 * eta * _smoothness(facts)
        shift = _scaled("bias", bias, facts.lipschitz)
        theorem = "E |grad F(w)| <= sqrt(gap/(eta T) + eta H nu^2/2 + L b)"
    if tuned:  # start and second moment are equal and have the same exponents
        powers = 0.5 * second_moment.powers + -0.5 * steps_powers
        first = [Term("second moment", 2.0 * factor * second_moment.value, powers)]
    else:
        first = [_scaled("second moment", second_moment, factor)]
        first.append(Term("start", start, -1.0 * steps_powers))
    return _rate(facts, [shift, *first], gap, root, theorem)


@checked
def inexact_descent_step_size(
    problem_class: ProblemClass, *, steps: int, error: float, gap: float | None = None
) -> float:
    """Return ``1/(H + e sqrt(T)/R)``, or ``1/H`` if a gap is given; ``error`` is ``e^2``."""
    smoothness = _smoothness(problem_class)
    if gap is not None:
        return 1.0 / smoothness if smoothness > 0.0 else math.inf
    return 1.0 / (smoothness + math.sqrt(error * steps) / problem_class.radius)


def inexact_descent_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    error: Term,
    step_size: float | None = None,
    gap: float | None = None,
    steps_powers: Exponents = GIVEN_STEPS,
) -> Rate:
    """Return the rate in terms of ``e^2``: the second bound with ``b = e``, or the fourth.

    ``error`` is ``e^2``, with its exponents; other arguments as for :func:`biased_descent_rate`.
    """
    facts, quantity = problem_class, _quantity(gap)
    smooth = {"the losses are not smooth": facts.smoothness is None}
    refusal = no_rate_if({**_unmet(facts, gap), **smooth}, quantity)
    if refusal is not None:
        return refusal
    best = inexact_descent_step_size(facts, steps=steps, error=error.value, gap=gap)
    eta = best if step_size is None else step_size
    curved = eta * _smoothness(facts)
    if curved > 1.0 + 1e-9 or (gap is None and curved >= 1.0):
        return no_rate("steps must be shorter than 1/H", quantity=quantity)
    if gap is not None:
        start = Term("start", 2.0 * gap / (eta * steps), -1.0 * steps_powers)
        theorem = "E |grad F(w)| <= sqrt(2 gap/(eta T) + e^2)"
        return _rate(facts, [_scaled("error", error, 1.0), start], gap, 0.5, theorem)
    bias = Term("bias", facts.diameter * math.sqrt(error.value), 0.5 * error.powers)
    if math.isclose(eta, best, rel_tol=1e-9):
        powers = 0.5 * error.powers + -0.5 * steps_powers
        noise = Term("error", facts.radius * math.sqrt(error.value / steps), powers)
        start_value = _smoothness(facts) * facts.radius**2 / (2.0 * steps)
    else:
        noise = _scaled("error", error, 0.5 * eta / (1.0 - curved))
        start_value = facts.radius**2 / (2.0 * eta * steps)
    terms = [bias, noise, Term("start", start_value, -1.0 * steps_powers)]
    theorem = "E F(w) - F* <= R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + D e"
    return _rate(facts, terms, None, 1.0, theorem)


def _rate(
    facts: ProblemClass, terms: list[Term], gap: float | None, root: float, theorem: str
) -> Rate:
    """Return a rate with each term to the power ``root``, terms with epsilon first."""
    ordered = sorted(terms, key=lambda term: (term.powers.epsilon == 0.0, -term.value))
    return Rate(
        quantity=_quantity(gap),
        theorem=theorem,
        source=_SOURCE,
        terms=tuple(
            Term(term.name, term.value**root, root * term.powers)
            for term in ordered
            if term.value > 0.0
        ),
        combine=add if root == 1.0 else math.hypot,
        cap=largest_excess(facts) if gap is None else math.inf,
        regime="the first term leading, at fixed steps",
    )


def _scaled(name: str, term: Term, factor: float) -> Term:
    return Term(name, factor * term.value, term.powers)


def _quantity(gap: float | None) -> Quantity:
    return Quantity.EMPIRICAL_RISK if gap is None else Quantity.GRADIENT_NORM


def _unmet(facts: ProblemClass, gap: float | None) -> dict[str, bool]:
    if gap is not None:
        return {"the losses are not smooth": facts.smoothness is None}
    return {
        "the losses are not convex, and no gap is given": not facts.convex,
        "the set is not bounded": math.isinf(facts.radius),
    }


def _smoothness(facts: ProblemClass) -> float:
    if facts.smoothness is None:
        raise ValueError("smoothness must be declared for this step size, got None")
    return facts.smoothness


class BiasedMoments(NamedTuple):
    """Upper bounds of ``|E G - grad F|`` and ``E |G|^2`` of a gradient estimate, given the past."""

    bias: Term
    second: Term


@checked
def bias_reduced_moments(
    problem_class: ProblemClass,
    *,
    noise: float,
    base: int,
    probabilities: Sequence[float],
    body: Body | str,
    clip_norm: float | None = None,
    steps_powers: Exponents = GIVEN_STEPS,
) -> BiasedMoments:
    """Return bias and second moment of :class:`privopt.mechanisms.BiasReducedGradient`.

    The mean of ``b`` records has noise of standard deviation ``sigma/b``. Its mean squared error is
    at most ``e_b^2``, the smallest bound of :func:`projected_error`. With the single mean ``I`` of
    ``b_0`` records and the mean ``m_M`` of the largest batch::

        |E G - grad F| <= e_b at the largest batch, 0 without projection,
        nu^2 <= E |I|^2 + |m_M|^2/2 + sum_k (e_b + e_{2b})^2 / p_k,    b = b_0 2^k.

    Proof: :ref:`Sparse gradients, Theorem 8 <theory-sparse-8>`. ``noise`` is ``sigma``, added to
    sums. ``base`` is ``b_0`` and ``probabilities`` are ``p_0..p_M``. Means are projected onto the
    set ``body``. ``clip_norm`` is the clipping norm ``C``, by default ``L``. The exponents of
    ``sigma`` are those of ``sqrt(T/n)/epsilon``, for ``T >= n/b_0``.
    """
    body = Body.named("body", body)
    clip_norm = problem_class.lipschitz if clip_norm is None else clip_norm
    sigma = Exponents(n=-0.5, epsilon=-1.0) + 0.5 * steps_powers

    def square(batch: int) -> Term:
        """Return ``e_b^2`` with its exponents at a fixed batch size."""
        least = _least_error(problem_class, noise / batch, body, clip_norm)
        sizes = Exponents(dim=least.powers.dim, sparsity=least.powers.sparsity)
        return Term("error", least.value, sizes + -least.powers.epsilon * sigma)

    levels = [square(base << level) for level in range(len(probabilities) + 1)]
    errors = [math.sqrt(level.value) for level in levels]
    if body is Body.NONE:
        first, jumps = clip_norm**2 + levels[0].value, [0.75 * level.value for level in levels]
    else:
        jumps = [(small + large) ** 2 for small, large in pairwise(errors)]
        reach = (errors[0], errors[-1]) if body is Body.L1 else (0.0, 0.0)
        first = (clip_norm + reach[0]) ** 2 + 0.5 * (clip_norm + reach[1]) ** 2
    increments = [jump / p for jump, p in zip(jumps, probabilities, strict=False)]
    total = first + math.fsum(increments)
    powers = Exponents()
    for value, level in zip(increments, levels, strict=False):
        powers += value / total * level.powers
    powers += increments[-1] / total * Exponents(n=1.0 / math.log(2.0))  # one more level
    last = levels[-1]
    by_bias = last.powers + last.powers.epsilon * Exponents(n=1.0)  # largest batch is of order n
    largest = 0.0 if body is Body.NONE else math.sqrt(last.value)
    return BiasedMoments(Term("bias", largest, 0.5 * by_bias), Term("second moment", total, powers))


def _least_error(facts: ProblemClass, noise_std: float, body: Body, clip_norm: float) -> Term:
    """Return the smallest bound of the squared error of a projected mean with Gaussian noise."""
    noise = NoiseVector(NoiseKind.GAUSSIAN, noise_std, facts.dim)
    sparsity = facts.sparsity or facts.dim
    bounds = projected_error(noise, body=body, clip_norm=clip_norm, sparsity=sparsity)
    return min(bounds, key=lambda term: term.value)


@checked
def bias_reduced_steps(problem_class: ProblemClass, *, delta: float, base: int) -> int:
    """Return ``T = ceil(2 n/(b_0 ln(4/delta)))``, the mean of the published stopping time."""
    return max(1, math.ceil(2.0 * problem_class.n / (base * math.log(4.0 / delta))))


@checked
def projected_gradient(
    problem_class: ProblemClass,
    *,
    noise_std: float,
    clip_norm: float | None = None,
    steps_powers: Exponents = GIVEN_STEPS,
) -> tuple[Term, Term]:
    """Return ``e^2`` and ``nu^2 = C^2`` of a projected noisy mean gradient, with their exponents.

    The convex set is ``{|v|_1 <= C sqrt(s), |v|_2 <= C}``. ``noise_std`` is the noise per
    coordinate of the mean gradient, of order ``sqrt(T)/(n epsilon)``. ``clip_norm`` is the clipping
    norm ``C``, by default ``L``.
    """
    clip_norm = problem_class.lipschitz if clip_norm is None else clip_norm
    least = _least_error(problem_class, noise_std, Body.L1_L2, clip_norm)
    powers = least.powers + -0.5 * least.powers.epsilon * steps_powers
    return Term("error", least.value, powers), Term("second moment", clip_norm**2, FIXED)


@checked
def projected_descent_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    clip_norm: float | None = None,
    step_size: float | None = None,
    smooth: bool = False,
    gap: float | None = None,
    steps_powers: Exponents = GIVEN_STEPS,
) -> Rate:
    """Return the rate of ``w_{t+1} = Proj(w_t - eta P_B(grad F(w_t) + z_t))``, ``z_t`` Gaussian.

    With ``smooth``: the bound in ``e^2`` of the average of ``w_2..w_{T+1}``. Else: the bound of
    :func:`biased_descent_rate` for the average. Other arguments are those of
    :func:`biased_descent_rate` and :func:`projected_gradient`.

    Examples
    --------
    >>> facts = ProblemClass(n=2048, dim=8192, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> rate = projected_descent_rate(facts, steps=99, noise_std=0.004)
    >>> round(rate.upper, 3), rate.leading.name, round(rate.exponents["n"], 2)
    (0.395, 'bias', -0.57)
    """
    error, square = projected_gradient(
        problem_class, noise_std=noise_std, clip_norm=clip_norm, steps_powers=steps_powers
    )
    if smooth:
        return inexact_descent_rate(
            problem_class,
            steps=steps,
            error=error,
            step_size=step_size,
            gap=gap,
            steps_powers=steps_powers,
        )
    return biased_descent_rate(
        problem_class,
        steps=steps,
        bias=Term("bias", math.sqrt(error.value), 0.5 * error.powers),
        second_moment=square,
        step_size=step_size,
        gap=gap,
        steps_powers=steps_powers,
    )


@checked
def projected_descent_steps(
    problem_class: ProblemClass,
    *,
    one_step_noise: float,
    clip_norm: float | None = None,
    smooth: bool = False,
) -> int:
    """Return the minimiser ``T`` of :func:`projected_descent_rate`.

    The noise is ``sigma = one_step_noise sqrt(T)``. The minimiser is of order ``(L/b)^(4/3)``,
    where ``b`` is the bias of a single step. The search compares 64 values up to 10,000, and then
    64 values around the best of them.
    """

    def bound(steps: int) -> float:
        noise_std = one_step_noise * math.sqrt(steps)
        rate = projected_descent_rate(
            problem_class, steps=steps, noise_std=noise_std, clip_norm=clip_norm, smooth=smooth
        )
        return math.fsum(term.value for term in rate.terms)

    def best(low: float, high: float) -> int:
        candidates = np.unique(np.round(np.geomspace(low, high, 64))).astype(int)
        return min(candidates.tolist(), key=bound)

    ratio = MAX_STEPS ** (1.0 / 63.0)
    near = best(1.0, MAX_STEPS)
    return best(max(1.0, near / ratio - 1.0), min(MAX_STEPS, near * ratio + 1.0))
