"""Bias and second moment of gradients that are put together from projected means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from privopt.spec import ProblemClass
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.projected_error import Body, projected_error
from privopt.theory.rate import GIVEN_STEPS, Powers, Term

__all__ = ["BiasedMoments", "bias_reduced_moments", "bias_reduced_steps"]


class BiasedMoments(NamedTuple):
    """What is known of an estimate of the gradient, given the past.

    Attributes
    ----------
    bias : Term
        At least ``|E G - grad F|``.
    second : Term
        ``nu^2``, at least ``E |G|^2``.
    """

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

    Parameters
    ----------
    problem_class : ProblemClass
        Without a sparsity gradients are dense, ``s = d``.
    noise : float
        ``sigma``, on sums.
    base : int
        ``b_0``.
    probabilities : sequence of float
        ``p_0..p_M``.
    body : Body or its name
        Onto which the means are projected.
    clip : float, optional
        ``C``; default ``L``.
    steps_powers : Powers
        How ``T`` moves with the axes. ``sigma`` moves like ``sqrt(T/n)/epsilon``, as it does for
        ``T >= n/b_0``.

    Examples
    --------
    >>> facts = ProblemClass(n=1024, dim=64, lipschitz=1.0, radius=1.0, sparsity=2)
    >>> law = [2 ** (9 - k) / 1023 for k in range(10)]
    >>> bias, second = bias_reduced_moments(
    ...     facts, noise=4.0, base=1, probabilities=law, body="l1_l2"
    ... )
    >>> bias.value, round(second.value, 1)
    (0.03125, 533.4)
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

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> bias_reduced_steps(facts, delta=1e-6, base=1)
    132
    """
    return max(1, math.ceil(2.0 * problem_class.n / (base * math.log(4.0 / delta))))
