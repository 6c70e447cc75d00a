"""Descent along biased estimates of the gradient, and along those that reduce their bias.

Let ``g_t = grad F(w_t) + u_t`` with ``|E u_t| <= b``, ``E |g_t|^2 <= nu^2`` and ``E |u_t|^2 <=
e^2``, all given the past; no more is known of the bias of a projected mean than ``b <= e``. Started
at the centre, ``|w_1 - w*| <= R`` and ``|w_t - w*| <= D = 2 R``. Four theorems::

    E F(w) - F* <= R^2/(2 eta (T + 1)) + eta nu^2/2 + D b            convex, average,
    E F(w) - F* <= R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + D b     and smooth, eta < 1/H,
    E |grad F(w)|^2 <= gap/(eta T) + eta H nu^2/2 + L b              smooth, any eta,
    E |grad F(w)|^2 <= 2 gap/(eta T) + e^2                           smooth, eta <= 1/H.

The second is of the average of ``w_2..w_{T+1}``. The last two hold on the whole space, convex or
not, of one of ``w_1..w_T`` drawn at random, with ``F(w_1) - inf F <= gap``.

*Proofs.* The first two are those of unbiased descent (:mod:`privopt.theory.descent`), where ``<E
u_t, w_t - w*>`` costs ``D b``. The others follow from ``F(w_{t+1}) <= F(w_t) - eta <grad F(w_t),
g_t> + (H/2) eta^2 |g_t|^2`` in the mean, the last with ``-2 <grad F, g> + |g|^2 = |u|^2 - |grad
F|^2``.

Sources: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5, for the
first and third; Devolder, Glineur and Nesterov 2014 for inexact gradients of smooth functions.
Constants derived here. Convergence needs the whole set within ``D``, not only the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.rate import (
    GIVEN_STEPS,
    Powers,
    Quantity,
    Rate,
    Term,
    add,
    largest_excess,
    no_rate,
    refused,
)
from privopt.theory.sparse_means import Body, projected_error

_SOURCE = (
    "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5; constants "
    "derived here"
)


@checked
def biased_descent_step_size(
    problem_class: ProblemClass, *, steps: int, second_moment: float, gap: float | None = None
) -> float:
    """``R/(nu sqrt(T + 1))``, or ``sqrt(2 gap/(H T))/nu`` where a gap is given.

    ``second_moment`` is ``nu^2``, ``gap`` at least ``F(w_1) - inf F``.
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
    steps_powers: Powers = GIVEN_STEPS,
) -> Rate:
    """The rate by ``b`` and ``nu^2``: the first and the third theorem of the module.

    Of the excess risk of the average of all iterates, in a convex class of finite radius; or, where
    a ``gap`` of at least ``F(w_1) - inf F`` is given, of the gradient norm of a random one, in a
    smooth class. The first term is privacy's: the larger of the bias and the second moment, where
    both move with epsilon. ``bias`` is ``b`` and ``second_moment`` is ``nu^2``, each with its
    exponents. The default ``step_size`` is that of :func:`biased_descent_step_size`. No terms, and
    the reason, where the theorem does not apply.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = biased_descent_rate(facts, steps=24, bias=Term("bias", 0.05, Powers(n=-0.5)),
    ...                            second_moment=Term("gradients", 1.0))
    >>> round(rate.upper, 9), round(rate.slope("n"), 3)
    (0.3, -0.167)
    """
    facts, refusal = problem_class, refused(_obstacles(problem_class, gap), _quantity(gap))
    if refusal is not None:
        return refusal
    best = biased_descent_step_size(facts, steps=steps, second_moment=second_moment.value, gap=gap)
    eta = best if step_size is None else step_size
    tuned = math.isclose(eta, best, rel_tol=1e-9)
    if gap is None:
        start, factor, moved = facts.radius**2 / (2.0 * eta * (steps + 1.0)), 0.5 * eta, 1.0
        shift = _scaled("bias", bias, facts.diameter)
        theorem = "E F(w) - F* <= R^2/(2 eta (T + 1)) + eta nu^2/2 + D b"
    else:
        start, moved = gap / (eta * steps), 0.5
        factor = 0.5 * eta * _smoothness(facts)
        shift = _scaled("bias", bias, facts.lipschitz)
        theorem = "E |grad F(w)| <= sqrt(gap/(eta T) + eta H nu^2/2 + L b)"
    if tuned:  # start and second moment are equal, and move together
        moves = 0.5 * second_moment.powers + -0.5 * steps_powers
        first = [Term("second moment", 2.0 * factor * second_moment.value, moves)]
    else:
        first = [_scaled("second moment", second_moment, factor)]
        first.append(Term("start", start, -1.0 * steps_powers))
    return _rate(facts, [shift, *first], gap, moved, theorem)


@checked
def inexact_descent_step_size(
    problem_class: ProblemClass, *, steps: int, error: float, gap: float | None = None
) -> float:
    """``1/(H + e sqrt(T)/R)``, or ``1/H`` where a gap is given; ``error`` is ``e^2``."""
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
    steps_powers: Powers = GIVEN_STEPS,
) -> Rate:
    """The rate by ``e^2`` alone: the second theorem, with ``b = e``, and the fourth.

    ``error`` is ``e^2``, with its exponents; all else as for :func:`biased_descent_rate`.
    """
    facts, quantity = problem_class, _quantity(gap)
    smooth = {"the losses are not smooth": facts.smoothness is None}
    refusal = refused({**_obstacles(facts, gap), **smooth}, quantity)
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
    root = Term("bias", facts.diameter * math.sqrt(error.value), 0.5 * error.powers)
    if math.isclose(eta, best, rel_tol=1e-9):
        moves = 0.5 * error.powers + -0.5 * steps_powers
        spread = facts.radius * math.sqrt(error.value / steps)
        begun = _smoothness(facts) * facts.radius**2 / (2.0 * steps)
        noisy = Term("error", spread, moves)
    else:
        begun = facts.radius**2 / (2.0 * eta * steps)
        noisy = _scaled("error", error, 0.5 * eta / (1.0 - curved))
    terms = [root, noisy, Term("start", begun, -1.0 * steps_powers)]
    theorem = "E F(w) - F* <= R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + D e"
    return _rate(facts, terms, None, 1.0, theorem)


def _rate(
    facts: ProblemClass, terms: list[Term], gap: float | None, root: float, theorem: str
) -> Rate:
    """Privacy's terms first, the larger before the others; under a root each has its own."""
    ordered = sorted(terms, key=lambda term: (term.powers.epsilon == 0.0, -term.value))
    combine: Callable[..., float] = add if root == 1.0 else math.hypot
    return Rate(
        quantity=_quantity(gap),
        theorem=theorem,
        source=_SOURCE,
        terms=tuple(
            Term(term.name, term.value**root, root * term.powers)
            for term in ordered
            if term.value > 0.0
        ),
        combine=combine,
        cap=largest_excess(facts) if gap is None else math.inf,
        regime="the first term leading, at fixed steps",
    )


def _scaled(name: str, term: Term, factor: float) -> Term:
    return Term(name, factor * term.value, term.powers)


def _quantity(gap: float | None) -> Quantity:
    return Quantity.EMPIRICAL_RISK if gap is None else Quantity.GRADIENT_NORM


def _obstacles(facts: ProblemClass, gap: float | None) -> dict[str, bool]:
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
    """``|E G - grad F|`` and ``E |G|^2`` of an estimate of the gradient given the past, or more."""

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
    clip: float | None = None,
    steps_powers: Powers = GIVEN_STEPS,
) -> BiasedMoments:
    """Bias and second moment of :class:`privopt.mechanisms.BiasReducedGradient`.

    The mean of ``b`` records has noise of scale ``sigma/b``; ``e_b^2``, the least of
    :func:`projected_error`, bounds its mean square error. With ``D_k`` the increment at ``b = b_0
    2^k`` and ``I`` the single mean of ``b_0`` records::

        |E G - grad F| <= e_b at the largest batch, 0 where nothing is projected,
        nu^2 <= E |I|^2 + |m_M|^2/2 + sum_k (e_b + e_{2b})^2 / p_k.

    *The square.* ``G = D_N/p_N + I``, and ``I`` is independent of ``D_N`` given the past. With
    ``m_0 = E I`` and ``m_M`` the mean of the largest batch, the mixed term is ``2 <m_M - m_0, m_0>
    <= |m_M|^2/2``. In a ball of radius ``C`` both ``E |I|^2`` and ``|m_M|^2`` are at most ``C^2``;
    for ``l1`` they are at most ``(C + e)^2``, with the errors of their batches.

    *The increments.* Their clean parts cancel, and by Minkowski's inequality ``E |D_k|^2 <= (e_b +
    e_{2b})^2``; without a body it is ``3 e_b^2/4``, and ``m_M = m_0``.

    ``noise`` is ``sigma``, on sums; ``base`` is ``b_0``; ``probabilities`` are ``p_0..p_M``; the
    means are projected onto ``body``; ``clip`` is ``C``, by default ``L``. ``sigma`` moves like
    ``sqrt(T/n)/epsilon``, as it does for ``T >= n/b_0``.
    """
    body = Body.named("body", body)
    clip = problem_class.lipschitz if clip is None else clip
    sparsity = problem_class.sparsity or problem_class.dim
    sigma = Powers(n=-0.5, epsilon=-1.0) + 0.5 * steps_powers

    def square(batch: int) -> Term:
        """``e_b^2``, and how it moves for a batch of fixed size."""
        xi = NoiseVector(NoiseKind.GAUSSIAN, noise / batch, problem_class.dim)
        least = min(
            projected_error(xi, body=body, clip=clip, sparsity=sparsity),
            key=lambda term: term.value,
        )
        sizes = Powers(dim=least.powers.dim, sparsity=least.powers.sparsity)
        return Term("error", least.value, sizes + -least.powers.epsilon * sigma)

    levels = [square(base << level) for level in range(len(probabilities) + 1)]
    errors = [math.sqrt(level.value) for level in levels]
    if body is Body.NONE:
        first, jumps = clip**2 + levels[0].value, [0.75 * level.value for level in levels]
    else:
        jumps = [(small + large) ** 2 for small, large in pairwise(errors)]
        reach = (errors[0], errors[-1]) if body is Body.L1 else (0.0, 0.0)
        first = (clip + reach[0]) ** 2 + 0.5 * (clip + reach[1]) ** 2
    increments = [jump / p for jump, p in zip(jumps, probabilities, strict=False)]
    total = first + math.fsum(increments)
    moves = Powers()
    for value, level in zip(increments, levels, strict=False):
        moves += value / total * level.powers
    moves += increments[-1] / total * Powers(n=1.0 / math.log(2.0))  # one more level
    last = levels[-1]
    shrinks = last.powers + last.powers.epsilon * Powers(n=1.0)  # the largest batch is of order n
    largest = 0.0 if body is Body.NONE else math.sqrt(last.value)
    return BiasedMoments(Term("bias", largest, 0.5 * shrinks), Term("second moment", total, moves))


@checked
def bias_reduced_steps(problem_class: ProblemClass, *, delta: float, base: int) -> int:
    """``T = ceil(2 n/(b_0 ln(4/delta)))``: what the published stopping rule takes on average.

    The error that averages out falls like ``T^(-1/4)``, the bias rises like ``T^(1/4)``; they meet
    at ``T b_0`` of the order of ``n ln n``.
    """
    return max(1, math.ceil(2.0 * problem_class.n / (base * math.log(4.0 / delta))))
