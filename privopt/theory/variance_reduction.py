"""Noisy descent along gradients whose noise is shared by all steps of a period."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass

__all__ = ["gradient_difference", "variance_reduced_descent", "variance_reduced_step_size"]


def gradient_difference(problem_class: ProblemClass) -> float:
    """``min(2 L, 2 H R)``: no two gradients of one record's loss on the set are farther apart."""
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
