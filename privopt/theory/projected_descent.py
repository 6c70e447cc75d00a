"""Full-batch descent along noisy mean gradients that are projected onto a body of sparse ones."""

from __future__ import annotations

import math

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.biased_descent import biased_descent_rate, inexact_descent_rate
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.rate import FIXED, GIVEN_STEPS, Powers, Rate, Term
from privopt.theory.sparse_means import Body, projected_error

MAX_STEPS = 10**4


@checked
def projected_gradient(
    problem_class: ProblemClass,
    *,
    noise_std: float,
    clip: float | None = None,
    steps_powers: Powers = GIVEN_STEPS,
) -> tuple[Term, Term]:
    """``e^2`` and ``nu^2`` of a projected noisy mean gradient, with their exponents.

    The body is ``{|v|_1 <= C sqrt(s), |v|_2 <= C}``, ``e^2`` the least bound of
    :func:`privopt.theory.sparse_means` and ``nu^2 = C^2``. ``noise_std`` is of each coordinate of
    the mean gradient, and moves like ``sqrt(T)/(n epsilon)``; ``clip`` is ``C``, by default ``L``.
    """
    clip = problem_class.lipschitz if clip is None else clip
    sparsity = problem_class.sparsity or problem_class.dim
    noise = NoiseVector(NoiseKind.GAUSSIAN, noise_std, problem_class.dim)
    bounds = projected_error(noise, body=Body.L1_L2, clip=clip, sparsity=sparsity)
    least = min(bounds, key=lambda term: term.value)
    moved = least.powers + -0.5 * least.powers.epsilon * steps_powers
    return Term("error", least.value, moved), Term("second moment", clip**2, FIXED)


@checked
def projected_descent_rate(
    problem_class: ProblemClass,
    *,
    steps: int,
    noise_std: float,
    clip: float | None = None,
    step_size: float | None = None,
    smooth: bool = False,
    gap: float | None = None,
    steps_powers: Powers = GIVEN_STEPS,
) -> Rate:
    """The rate of ``w_{t+1} = Proj(w_t - eta P_B(grad F(w_t) + z_t))``, ``z_t ~ N(0, sigma^2 I)``.

    By :func:`inexact_descent_rate`, of the average after each step, where ``smooth``; else by
    :func:`biased_descent_rate`, of the average. The other arguments are theirs and those of
    :func:`projected_gradient`.

    Examples
    --------
    >>> facts = ProblemClass(n=2048, dim=8192, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> rate = projected_descent_rate(facts, steps=99, noise_std=0.004)
    >>> round(rate.upper, 3), rate.leading.name, round(rate.exponents["n"], 2)
    (0.395, 'bias', -0.57)
    """
    error, square = projected_gradient(
        problem_class, noise_std=noise_std, clip=clip, steps_powers=steps_powers
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
    clip: float | None = None,
    smooth: bool = False,
) -> int:
    """``T`` at which :func:`projected_descent_rate` is least, ``sigma = one_step_noise sqrt(T)``.

    Of order ``(L/b)^(4/3)`` where ``b`` is the bias that one step alone would have. Searched over
    64 numbers up to 10,000, and over 64 between the neighbours of the best of these.
    """

    def bound(steps: int) -> float:
        noise_std = one_step_noise * math.sqrt(steps)
        rate = projected_descent_rate(
            problem_class, steps=steps, noise_std=noise_std, clip=clip, smooth=smooth
        )
        return math.fsum(term.value for term in rate.terms)

    def best(low: float, high: float) -> int:
        candidates = np.unique(np.round(np.geomspace(low, high, 64))).astype(int)
        return min(candidates.tolist(), key=bound)

    ratio = MAX_STEPS ** (1.0 / 63.0)
    near = best(1.0, MAX_STEPS)
    return best(max(1.0, near / ratio - 1.0), min(MAX_STEPS, near * ratio + 1.0))
