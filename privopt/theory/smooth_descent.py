"""Noisy projected gradient descent on smooth losses: the upper bound and its numbers."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass
from privopt.theory.moments import ALL_RECORDS, Moments

__all__ = ["smooth_descent", "smooth_descent_step_size", "smooth_descent_steps"]


_ROUND_OFF = 1e-12


def smooth_descent(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float,
    noise_std: float,
    moments: Moments = ALL_RECORDS,
) -> float:
    """Excess risk of the average of the points *after* each step, for smooth convex losses.

    ``F`` convex and ``H``-smooth, a start within ``R`` of every point of the convex set ``W``,
    ``w_{t+1} = Proj(w_t - eta g_t)``, ``g_t = grad F(w_t) + z_t`` with ``E z_t = 0`` and
    ``E |z_t|^2 <= V`` given the past, and ``eta < 1/H``, or ``eta = 1/H`` where ``V = 0``::

        E F(mean of w_2..w_{T+1}) - F* <= R^2/(2 eta T) + eta V / (2 (1 - eta H)).

    ``V = v L^2 + d sigma^2``: the variance of the batch's mean gradient, ``v`` from
    :func:`batch_moments` and 0 for full batches, and the noise. No ``L^2`` stands alone: full
    gradients of smooth losses cost no variance. At the best step size, ``1/(H + sqrt(V T)/R)``::

        H R^2/(2 T) + R sqrt(V/T).

    With ``sigma = s sqrt(T)/mu`` and full batches the second term is ``R s sqrt(d)/mu`` whatever
    ``T``, ``2 L R sqrt(d)/(n mu)`` under ``replace_one``; the first falls like ``1/T``, where
    that of :func:`noisy_descent` falls like ``1/sqrt(T)``.

    *Derivation.* Let ``D = w_{t+1} - w_t`` and ``u`` in ``W``. By convexity and smoothness
    ``F(w_{t+1}) - F(u) <= <grad F(w_t), w_{t+1} - u> + (H/2)|D|^2``; by the projection
    ``<g_t, w_{t+1} - u> <= (|w_t - u|^2 - |w_{t+1} - u|^2 - |D|^2)/(2 eta)``. Together::

        F(w_{t+1}) - F(u) <= (|w_t - u|^2 - |w_{t+1} - u|^2)/(2 eta)
                             - <z_t, w_t - u> - <z_t, D> - (1/eta - H)|D|^2/2.

    The first product has mean zero. ``-<z, D> - a|D|^2/2 <= |z|^2/(2a)`` with ``a = 1/eta - H``
    bounds the rest by ``eta |z_t|^2/(2 (1 - eta H))``. The sum over ``t = 1..T`` telescopes, and
    ``F`` of the average is at most the average of ``F``.

    Parameters
    ----------
    problem_class : ProblemClass
        ``smoothness`` and ``radius`` are used, ``lipschitz`` where batches vary.
    steps, step_size : int, float
        ``T`` and the constant ``eta``.
    noise_std : float
        ``sigma``, of the noise of each coordinate of the mean gradient.
    moments : Moments
        Of the batch's gradient.

    Returns
    -------
    float
        Infinite without declared smoothness, without a bounded set, and beyond ``eta = 1/H``.

    Source: the argument is that of stochastic mirror descent, Lan 2012, "An optimal method for
    stochastic composite optimization", doi:10.1007/s10107-010-0434-y; Bubeck 2015, Theorem 6.3,
    arXiv:1405.4980. Constants derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> smooth_descent(facts, steps=10, step_size=0.4, noise_std=0.5)
    0.375
    """
    smoothness = problem_class.smoothness
    if smoothness is None or math.isinf(problem_class.radius):
        return math.inf
    variance, left = _variance(problem_class, noise_std, moments), 1.0 - step_size * smoothness
    start = problem_class.radius**2 / (2.0 * step_size * steps)
    if variance == 0.0 and left >= -_ROUND_OFF:
        return start
    return start + step_size * variance / (2.0 * left) if left > 0.0 else math.inf


def smooth_descent_step_size(
    problem_class: ProblemClass, *, steps: int, noise_std: float, moments: Moments = ALL_RECORDS
) -> float:
    """``eta = 1/(H + sqrt(V T)/R)``, the minimiser of :func:`smooth_descent` over the step size.

    Where ``L`` is not declared, the noise alone is ``V``. Infinite for linear losses (``H = 0``)
    without any variance: the longer a step along their gradient, the better.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> round(smooth_descent_step_size(facts, steps=9, noise_std=0.5), 4)
    0.2857
    """
    smoothness = problem_class.smoothness
    if smoothness is None:
        raise ValueError("smoothness must be declared for this step size, got None")
    variance = _variance(problem_class, noise_std, moments)
    if math.isinf(variance):
        variance = problem_class.dim * noise_std**2
    inverse = smoothness + math.sqrt(variance * steps) / problem_class.radius
    return 1.0 / inverse if inverse > 0.0 else math.inf


def smooth_descent_steps(
    problem_class: ProblemClass, *, one_step_noise: float, moments: Moments = ALL_RECORDS
) -> float:
    """The steps after which noise leads, where ``T`` steps need ``sigma = one_step_noise sqrt(T)``.

    ``max(5 H R/(sqrt(d) sigma_1), 5 v L^2/(d sigma_1^2))``: the curvature's term is then at most a
    tenth, the sampling variance at most a fifth of the noise's, and the bound within 1.2 of its
    limit ``R sqrt(d) sigma_1`` (1.1 for full batches). Of order ``n mu/sqrt(d)``, against the
    square of that for losses that are not smooth. Not rounded.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> smooth_descent_steps(facts, one_step_noise=0.125)
    10.0
    """
    smoothness = math.inf if problem_class.smoothness is None else problem_class.smoothness
    noise = math.sqrt(problem_class.dim) * one_step_noise
    curved = 5.0 * smoothness * problem_class.radius / noise if smoothness > 0.0 else 0.0
    varied = moments.variance * problem_class.lipschitz**2 if moments.variance > 0.0 else 0.0
    return max(1.0, curved, 5.0 * varied / noise**2)


def _variance(problem_class: ProblemClass, noise_std: float, moments: Moments) -> float:
    """``V = v L^2 + d sigma^2``."""
    sampled = moments.variance * problem_class.lipschitz**2 if moments.variance > 0.0 else 0.0
    return sampled + problem_class.dim * noise_std**2
