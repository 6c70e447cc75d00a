"""Output perturbation of a regularised minimiser: the upper bound and its tuning."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass

__all__ = ["perturbed_minimiser", "perturbed_minimiser_regularisation"]


def perturbed_minimiser(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    noise_norm: float,
    solver_error: float = 0.0,
    smoothing: float = 0.0,
) -> float:
    """Excess risk of ``Proj(argmin F_lambda + z)``, ``F_lambda = F + (lambda/2)|w - c|^2``.

    For convex, L-Lipschitz losses, whatever the noise ``z``::

        E F(w) - F* <= lambda R^2 / 2 + L (E|z| + tau) + L^2 h / 2,

    the four terms being the regulariser (centred at ``c``, within ``R`` of the minimiser), the
    noise, the distance ``tau`` of the computed from the exact minimiser, and the width ``h`` of
    the Moreau smoothing of a non-smooth loss. Projection does not expand distances to points of
    the set, so it is free.

    Source: the triangle inequality for Lipschitz losses, with the minimisers' distance of
    Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8; constants derived here.
    """
    if regularisation > 0.0 and math.isinf(problem_class.radius):
        return math.inf
    bias = 0.5 * regularisation * problem_class.radius**2 if regularisation > 0.0 else 0.0
    lipschitz = problem_class.lipschitz
    return bias + lipschitz * (noise_norm + solver_error) + 0.5 * lipschitz**2 * smoothing


def perturbed_minimiser_regularisation(
    problem_class: ProblemClass, *, unit_noise_norm: float
) -> float:
    """The ``lambda`` that balances regulariser and noise when ``E|z| = unit_noise_norm / lambda``.

    ``argmin_lambda lambda R^2/2 + L u / lambda = sqrt(2 L u) / R``; the bound is then
    ``R sqrt(2 L u)``, which for Gaussian noise (``u = 2 L sqrt(d) / (n mu)``) is
    ``2 L R (sqrt(d) / (n mu))^{1/2}``.
    """
    return math.sqrt(2.0 * problem_class.lipschitz * unit_noise_norm) / problem_class.radius
