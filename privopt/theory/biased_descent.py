"""Descent along biased estimates of the gradient, and along those that reduce their bias.

Let ``g_t = grad F(w_t) + u_t`` with ``|E u_t| <= b``, ``E |g_t|^2 <= nu^2`` and ``E |u_t|^2 <=
e^2``, all given the past: a projected mean of noisy gradients has ``b <= e``, as no more is known
of its bias. Started at the centre, ``|w_1 - w*| <= R`` and ``|w_t - w*| <= D = 2 R``.

*Convex.* ``2 eta (F(w_t) - F*) <= 2 eta <grad F(w_t), w_t - w*>``, in the mean at most ``E |w_t -
w*|^2 - E |w_{t+1} - w*|^2 + eta^2 nu^2 + 2 eta b D``. The sum over ``t = 1..T + 1`` (the
last step is part of the proof alone) bounds the average of ``w_1..w_{T+1}``::

    E F(w) - F* <= R^2/(2 eta (T + 1)) + eta nu^2/2 + D b.

*Convex and H-smooth, eta < 1/H.* ``F(w_{t+1}) - F* <= <grad F(w_t), w_{t+1} - w*> + (H/2)
|w_{t+1} - w_t|^2``; the projection gives ``<g_t, w_{t+1} - w*> <= (|w_t - w*|^2 - |w_{t+1} - w*|^2
- |w_{t+1} - w_t|^2)/(2 eta)``, and ``-<u_t, w_{t+1} - w_t>`` is at most ``eta |u_t|^2/(2 (1 - eta
H))`` beside half of ``(1/eta - H) |w_{t+1} - w_t|^2``. The average of ``w_2..w_{T+1}``::

    E F(w) - F* <= R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + D b.

*H-smooth on the whole space,* convex or not, ``F(w_1) - inf F <= gap``: one of ``w_1..w_T``, drawn
at random, has ::

    E |grad F(w)|^2 <= gap/(eta T) + eta H nu^2/2 + L b            any eta,
    E |grad F(w)|^2 <= 2 gap/(eta T) + e^2                         eta <= 1/H.

The first from ``F(w_{t+1}) <= F(w_t) - eta <grad F(w_t), g_t> + (H/2) eta^2 |g_t|^2`` in the mean.
The second from it too: ``-2 <grad F, g> + |g|^2 = |u|^2 - |grad F|^2``.

Sources: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5, for the
first and third; Devolder, Glineur and Nesterov 2014 for inexact gradients of smooth functions.
Constants derived here. Convergence needs the whole set within ``D``, not only the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

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
)
from privopt.theory.sparse_means import Body, projected_error

_SOURCE = (
    "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5; constants "
    "derived here"
)


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

    Of the excess risk of the average of all iterates, or, where a gap is given, of the gradient
    norm of a random one: the root of the sum. The first term is privacy's: the larger of the
    bias and the second moment, where both move with epsilon.

    The class is convex and of finite radius; or smooth, with a ``gap`` of at least ``F(w_1) - inf
    F``. ``bias`` is ``b`` and ``second_moment`` is ``nu^2``, each with its exponents. The default
    ``step_size`` is that of :func:`biased_descent_step_size`. No terms, and the reason, where the
    theorem does not apply.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = biased_descent_rate(facts, steps=24, bias=Term("bias", 0.05, Powers(n=-0.5)),
    ...                            second_moment=Term("gradients", 1.0))
    >>> round(rate.upper, 9), round(rate.slope("n"), 3)
    (0.3, -0.167)
    """
    facts, reason = problem_class, _obstacle(problem_class, gap)
    if reason:
        return no_rate(reason, quantity=_quantity(gap))
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


def inexact_descent_step_size(
    problem_class: ProblemClass, *, steps: int, error: float, gap: float | None = None
) -> float:
    """``1/(H + e sqrt(T)/R)``, or ``1/H`` where a gap is given.

    ``error`` is ``e^2``.
    """
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
    """The rate by ``e^2`` alone, for smooth losses: the second and the fourth theorem.

    Of the average after each step, or, where a gap is given, of the gradient norm of one of
    ``w_1..w_T`` drawn at random. ``b = e``.

    ``error`` is ``e^2``, with its exponents; all else as for :func:`biased_descent_rate`.
    """
    facts, reason = problem_class, _obstacle(problem_class, gap)
    if not reason and facts.smoothness is None:
        reason = "the losses are not smooth"
    if reason:
        return no_rate(reason, quantity=_quantity(gap))
    best = inexact_descent_step_size(facts, steps=steps, error=error.value, gap=gap)
    eta = best if step_size is None else step_size
    curved = eta * _smoothness(facts)
    if curved > 1.0 + 1e-9 or (gap is None and curved >= 1.0):
        return no_rate("steps must be shorter than 1/H", quantity=_quantity(gap))
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


def _obstacle(facts: ProblemClass, gap: float | None) -> str:
    """Why no theorem applies; empty if one may."""
    if gap is not None:
        return "the losses are not smooth" if facts.smoothness is None else ""
    if not facts.convex:
        return "the losses are not convex, and no gap is given"
    return "the set is not bounded" if math.isinf(facts.radius) else ""


def _smoothness(facts: ProblemClass) -> float:
    if facts.smoothness is None:
        raise ValueError("smoothness must be declared for this step size, got None")
    return facts.smoothness


class BiasedMoments(NamedTuple):
    """``|E G - grad F|`` and ``E |G|^2`` of an estimate of the gradient given the past, or more."""

    bias: Term
    second: Term


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
    ``m_0 = E I`` and ``m_M`` the mean of the largest batch, ``E D_N/p_N = m_M - m_0``: the mixed
    term is ``2 <m_M - m_0, m_0> <= |m_M|^2/2``, not the half of both squares. In a ball of radius
    ``C`` both ``E |I|^2`` and ``|m_M|^2`` are at most ``C^2``; for ``l1`` they are at most ``(C +
    e)^2``, with the errors of their batches.

    *The increments.* Their clean parts cancel, and by Minkowski's inequality ``E |D_k|^2 <= (e_b +
    e_{2b})^2``. Without a body all is noise, ``m_M = m_0``, and three independent vectors make
    ``E |D_k|^2 = d (sigma/b)^2 (1/4 + 1/4 + 1/4) = 3 e_b^2/4``: the bound is an equality but for
    ``E |I|^2 <= C^2 + e^2``.

    At ``sigma = 2 z C`` and ``e_b^2 <= A/b``, ``A = 2 sqrt(2) C^2 z sqrt(s ln 2d)``, the two bounds
    are at most ``sqrt(2 A/n)`` and ``3 C^2/2 + 6 A (M + 1)/b_0``.

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


def bias_reduced_steps(problem_class: ProblemClass, *, delta: float, base: int) -> int:
    """``T = ceil(2 n/(b_0 ln(4/delta)))``: what the published stopping rule takes on average.

    A function of public numbers. The error that averages out falls like ``T^(-1/4)``, the bias
    rises like ``T^(1/4)``; they meet at ``T b_0`` of the order of ``n ln n``.
    """
    return max(1, math.ceil(2.0 * problem_class.n / (base * math.log(4.0 / delta))))
