"""Noisy projected gradient descent: the upper bound."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass

__all__ = ["noise_limited_steps", "noisy_descent", "noisy_descent_step_size"]


_MOST_STEPS = 10**6


def _gradient_norm(problem_class: ProblemClass, noise_scale: float) -> float:
    """``G = sqrt(L^2 + d sigma^2)``, a bound on the root mean square of the noisy gradient."""
    return math.hypot(problem_class.lipschitz, math.sqrt(problem_class.dim) * noise_scale)


def noisy_descent(
    problem_class: ProblemClass, *, steps: int, step_size: float, noise_scale: float
) -> float:
    """Excess risk of the average iterate of noisy projected (sub)gradient descent.

    For convex, L-Lipschitz losses, a start within ``R`` of every point of the constraint set,
    ``w_{t+1} = Proj(w_t - eta (g_t + z_t))`` with ``E z_t = 0`` and ``E |z_t|^2 = d sigma^2``::

        E F(mean of w_1..w_T) - F* <= R^2 / (2 eta T) + eta G^2 / 2,   G^2 = L^2 + d sigma^2,

    which is ``R G / sqrt(T)`` at ``eta = R / (G sqrt T)``. Texts state it with the diameter
    ``D = 2R`` in place of the distance ``R`` from the start; starting at the centre halves it.
    No smoothness is needed.

    Source: Bassily, Smith and Thakurta 2014, Theorem 2.4; the averaged form is the standard
    regret argument (Zinkevich 2003, Theorem 1) under expectation.
    """
    if math.isinf(problem_class.radius):
        return math.inf
    start = problem_class.radius**2 / (2.0 * step_size * steps)
    return start + 0.5 * step_size * _gradient_norm(problem_class, noise_scale) ** 2


def noisy_descent_step_size(
    problem_class: ProblemClass, *, steps: int, noise_scale: float
) -> float:
    """``eta = R / (G sqrt T)``, the minimiser of :func:`noisy_descent` over the step size."""
    gradient_norm = _gradient_norm(problem_class, noise_scale)
    return problem_class.radius / (gradient_norm * math.sqrt(steps))


def noise_limited_steps(noise_ratio: float) -> int:
    """``T = ceil(1 / noise_ratio^2)``: the steps after which optimisation error equals noise.

    ``noise_ratio = sqrt(d) sigma_1 / L`` with ``sigma_1`` the noise one step alone would need;
    ``T`` steps need ``sigma = sigma_1 sqrt(T)``, so ``R G / sqrt(T) = R L sqrt(1/T + ratio^2)``.
    More steps gain at most a factor ``sqrt 2``. Never above a million, where the bound is within
    ``L R / 1000`` of its limit.
    """
    return max(1, math.ceil(min(1.0 / noise_ratio**2, _MOST_STEPS)))
