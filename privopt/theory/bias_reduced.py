"""Bias and second moment of gradients that are put together from projected means."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    :func:`projected_error`, bounds its mean square error. The clean parts of an increment cancel,
    so that by Minkowski's inequality ``E |D_k|^2 <= (e_b + e_{2b})^2`` at ``b = b_0 2^k``, and ::

        |E G - grad F| <= e_b at the largest batch, 0 where nothing is projected,
        nu^2 <= 2 E |mean_{b_0}|^2 + 2 sum_k (e_b + e_{2b})^2 / p_k,

    where ``E |mean_{b_0}|^2`` is at most ``C^2`` in a ball of that radius, ``C^2 + e^2`` without a
    body and ``2 C^2 + 2 e^2`` otherwise. At ``sigma = 2 z C`` and ``e_b^2 <= A/b``, ``A = 2 sqrt(2)
    C^2 z sqrt(s ln 2d)``, the two bounds are at most ``sqrt(2 A/n)`` and ``2 C^2 + 12 A (M +
    1)/b_0``.

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
    (0.03125, 1065.9)
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
    increments = [
        2.0 * (math.sqrt(small.value) + math.sqrt(large.value)) ** 2 / p
        for small, large, p in zip(levels, levels[1:], probabilities, strict=False)
    ]
    first = {
        Body.NONE: clip**2 + levels[0].value,
        Body.L1: 2.0 * (clip**2 + levels[0].value),
    }.get(body, clip**2)
    total = 2.0 * first + math.fsum(increments)
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
