"""Noisy projected gradient descent: the upper bounds."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass
from privopt.theory.moments import ALL_RECORDS, Moments

__all__ = [
    "last_of_noisy_descent",
    "noise_limited_steps",
    "noisy_descent",
    "noisy_descent_step_size",
    "noisy_strongly_convex_descent",
]


MAX_STEPS = 10**6


def _second_moment(problem_class: ProblemClass, noise_std: float, moments: Moments) -> float:
    """``G^2 = a L^2 + d sigma^2``, a bound on the mean square of the noisy gradient."""
    return moments.second_moment * problem_class.lipschitz**2 + problem_class.dim * noise_std**2


def noisy_descent(
    problem_class: ProblemClass,
    *,
    steps: int,
    step_size: float,
    noise_std: float,
    moments: Moments = ALL_RECORDS,
) -> float:
    """Excess risk of noisy projected (sub)gradient descent: the average, and the last iterate.

    For convex, L-Lipschitz losses, a start within ``R`` of every point of the constraint set,
    ``w_{t+1} = Proj(w_t - eta_t (g_t + z_t))`` for ``t = 1..T``, with ``E g_t`` a subgradient,
    ``E |g_t|^2 <= a L^2``, ``E z_t = 0`` and ``E |z_t|^2 = d sigma^2``, all given the past::

        E F(w) - F* <= R^2 / (2 eta (T + 1)) + eta G^2 / 2,   G^2 = a L^2 + d sigma^2,

    which is ``R G / sqrt(T + 1)`` at ``eta = R / (G sqrt(T + 1))``. It holds for two methods:

    - ``eta_t = eta``, and ``w`` the mean of ``w_1..w_{T+1}``, or one of them at random;
    - ``eta_t = eta (T + 1 - t)/(T + 1)``, and ``w`` the last iterate, ``w_{T+1}``.

    ``a`` is 1 for full gradients, otherwise the second moment of :func:`batch_moments`. ``T`` is
    the number of gradients asked and paid for. Texts state it with the diameter ``D = 2R`` in
    place of the distance ``R`` from the start; starting at the centre halves it. No smoothness is
    needed.

    *The average.* ``2 eta E(F(w_t) - F*) <= E|w_t - w*|^2 - E|w_{t+1} - w*|^2 + eta^2 G^2`` for
    ``t = 1..T``, and for ``t = T + 1`` with one more step that nobody takes: ``w_{T+1}`` does not
    depend on it. The sum over ``t`` telescopes.

    *The last iterate.* Let ``N = T + 1``, ``delta_t = E F(w_t) - F*``, and compare ``w_t`` with a
    point that moves, ``u_0 = w*`` and ``u_t = w_t/(N + 1 - t) + ((N - t)/(N + 1 - t)) u_{t-1}``, a
    member of the set that the past knows. As ``w_t - u_t = ((N - t)/(N + 1 - t)) (w_t - u_{t-1})``,
    the step towards ``u_t`` gives, with ``v_t = N/(N - t)``, ``eta_t = eta/v_t`` and
    ``d_t = E|w_{t+1} - u_t|^2``::

        v_t^2 d_t <= v_{t-1}^2 d_{t-1} - 2 eta v_t E(F(w_t) - F(u_t)) + eta^2 G^2,

    where convexity gives ``v_t E(F(u_t) - F*) <= sum_{s <= t} v_s delta_s/(N + 1 - s)``. The sum
    over ``t = 1..T`` leaves ``v_s (1 - (N - s)/(N + 1 - s))`` in front of ``delta_s``::

        N^2 d_T + 2 eta N S <= R^2 + T eta^2 G^2,   S = sum_{s <= T} delta_s/((N - s)(N + 1 - s)).

    At last ``E F(w_N) - F* <= L sqrt(d_T) + E F(u_T) - F* <= L sqrt(d_T) + S``, and
    ``L sqrt(d_T) <= N d_T/(2 eta) + eta L^2/(2N)``: no more than ``R^2/(2 eta N) + eta G^2/2``.

    Source: Bassily, Smith and Thakurta 2014, Theorem 2.4 (arXiv:1405.7085), and the regret
    argument of Zinkevich 2003, Theorem 1, for averages. For the last iterate Zamani and Glineur
    2023, arXiv:2307.11134 (no noise, where it is the best constant of all), and Defazio, Cutkosky,
    Mehta and Mishchenko 2023, arXiv:2310.07831; the proof above is self-contained.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> noisy_descent(facts, steps=24, step_size=0.2, noise_std=0.0)
    0.2
    """
    if math.isinf(problem_class.radius):
        return math.inf
    start = problem_class.radius**2 / (2.0 * step_size * (steps + 1.0))
    return start + 0.5 * step_size * _second_moment(problem_class, noise_std, moments)


def noisy_descent_step_size(
    problem_class: ProblemClass, *, steps: int, noise_std: float, moments: Moments = ALL_RECORDS
) -> float:
    """``eta = R / (G sqrt(T + 1))``, the minimiser of :func:`noisy_descent` over the step size.

    Where ``L`` is not declared, the noise alone is ``G``.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> noisy_descent_step_size(facts, steps=24, noise_std=0.0)
    0.2
    """
    second_moment = problem_class.dim * noise_std**2
    if math.isfinite(problem_class.lipschitz):
        second_moment = _second_moment(problem_class, noise_std, moments)
    return problem_class.radius / math.sqrt(second_moment * (steps + 1.0))


def noisy_strongly_convex_descent(
    problem_class: ProblemClass, *, steps: int, noise_std: float, moments: Moments = ALL_RECORDS
) -> float:
    """``2 G^2 / (m (T + 2))``: steps ``2/(m (t + 1))``, iterates weighted in proportion to ``t``.

    The mean is that of ``w_1..w_{T+1}``, of which ``T`` gradients are asked. ``L`` bounds the whole
    gradient, so a regulariser's too. With ``sigma`` of ``T`` full-batch releases the noise's part,
    at most ``8 L^2 d/(m n^2 mu^2)`` under ``replace_one``, depends on ``T`` no more. From
    ``E F(w_t) - F* <= (eta_t/2) G^2 + ((1/eta_t - m)/2) E|w_t - w*|^2 - (1/(2 eta_t))
    E|w_{t+1} - w*|^2``, times ``t``, summed over ``t = 1..T + 1``, the last step being one that
    nobody takes: distances telescope, and ``t eta_t/2 <= 1/m``.

    Source: Lacoste-Julien, Schmidt and Bach 2012, "A simpler approach to obtaining an O(1/t)
    convergence rate for the projected stochastic subgradient method" (arXiv:1212.2002).

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0, strong_convexity=0.5)
    >>> noisy_strongly_convex_descent(facts, steps=98, noise_std=0.5)
    0.08
    """
    second_moment = _second_moment(problem_class, noise_std, moments)
    return 2.0 * second_moment / (problem_class.strong_convexity * (steps + 2.0))


def last_of_noisy_descent(
    problem_class: ProblemClass,
    *,
    steps: int,
    scale: float,
    noise_std: float,
    moments: Moments = ALL_RECORDS,
) -> float:
    """``(D^2/c + c G^2) (2 + ln T)/sqrt(T)`` for the last iterate at step sizes ``c/sqrt(t)``.

    ``D = 2R``; the best ``c = D/G`` gives ``2 D G (2 + ln T)/sqrt(T)``. The iterate meant is
    ``w_T``; what a run returns is ``w_{T+1}``, to which the theorem applies with ``T + 1`` steps.
    For step sizes that do not know ``T``; where it is known, linear decay is better by the
    logarithm and a factor of four (:func:`noisy_descent`).

    Source: Shamir and Zhang 2013, "Stochastic gradient descent for non-smooth optimization",
    Theorem 2.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0)
    >>> round(last_of_noisy_descent(facts, steps=99, scale=1.0, noise_std=0.5), 4)
    3.9631
    """
    second_moment = _second_moment(problem_class, noise_std, moments)
    size = problem_class.diameter**2 / scale + scale * second_moment
    return size * (2.0 + math.log(steps + 1.0)) / math.sqrt(steps + 1.0)


def noise_limited_steps(noise_ratio: float) -> int:
    """``T = ceil(1 / noise_ratio^2)``: the steps after which optimisation error equals noise.

    ``noise_ratio = sqrt(d) sigma_1 / L`` with ``sigma_1`` the noise one step alone would need;
    ``T`` steps need ``sigma = sigma_1 sqrt(T)``, so ``R G / sqrt(T + 1)`` is less than
    ``R L sqrt(1/T + ratio^2)``.
    More steps gain at most a factor ``sqrt 2``. Never above a million, where the bound is within
    ``L R / 1000`` of its limit.

    Examples
    --------
    >>> noise_limited_steps(0.1)
    100
    """
    return max(1, math.ceil(min(1.0 / noise_ratio**2, MAX_STEPS)))
