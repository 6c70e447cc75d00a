"""Minimisers of randomly tilted objectives: the upper bound and its tuning."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privopt.spec import ProblemClass
from privopt.theory.rate import Powers, Quantity, Rate, Term, largest_excess


def perturbed_objective_regularisation(
    problem_class: ProblemClass, second_moment: Callable[[float], float], *, least: float = 0.0
) -> float:
    """The ``lambda > least`` of the smallest bound, where ``E|t|^2 = second_moment(lambda)``.

    The tilt must not grow with ``lambda``. For a tilt that ignores ``lambda`` the answer is
    ``sqrt(E|t|^2)/R``, and the bound ``R sqrt(E|t|^2) / 2``; a tilt that pays for the losses'
    curvature asks for somewhat more. Found on a grid of steps of two per cent.
    """
    radius = problem_class.radius

    def balanced(regularisation: float) -> float:
        return max(math.sqrt(second_moment(regularisation)) / radius, least * 1.001)

    # No regularisation below that of the smallest tilt is best, nor one above its own balance.
    lowest = balanced(1e12 * (least + problem_class.lipschitz / radius))
    highest = lowest
    while balanced(highest) > highest:
        highest *= 2.0
    steps = 2 + math.ceil(math.log(highest / lowest) / 0.02)
    grid = np.geomspace(lowest, highest, steps).tolist()

    def bound(regularisation: float) -> float:
        return math.fsum(_costs(problem_class, regularisation, second_moment(regularisation)))

    return float(min(grid, key=bound))


def objective_perturbation_rate(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    noise_second_moment: float,
    distance: float,
    gaussian: bool,
    tuned: bool,
) -> Rate:
    """Excess risk of ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>``, moved by ``distance``.

    For convex, L-Lipschitz losses and any ``t`` of mean zero that does not depend on the data::

        E F(w) - F* <= (lambda/4) R^2 + E|t|^2 / (4 lambda) + L distance.

    With ``a = w* - c`` and ``v = w_t - c``, strong convexity of the tilted objective between its
    minimiser and ``w*`` gives ``F(w_t) - F* <= (lambda/2)(|a|^2 - |v|^2 - |v-a|^2) - <t, v-a>``,
    and the largest value over ``v`` is ``|lambda a - t|^2 / (4 lambda) + <t, a>``. Keeping one of
    the two squares only doubles the bound.

    ``regularisation`` is ``lambda``, ``noise_second_moment`` ``E|t|^2``, and ``distance`` how far a
    solver and a second noise move the minimiser. A tilt that is not ``gaussian`` has a norm of
    order ``d``, under pure privacy. ``tuned`` says whether ``lambda`` is that of the smallest
    bound; else it is fixed.

    Source: constants derived here; the order is that of Kifer, Smith and Thakurta 2012.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=2, lipschitz=1.0, radius=1.0)
    >>> rate = objective_perturbation_rate(facts, regularisation=0.2, noise_second_moment=0.04,
    ...                                    distance=0.0, gaussian=True, tuned=True)
    >>> round(rate.upper, 9), rate.exponents["dim"]
    (0.1, 0.5)
    """
    noise = "sigma sqrt(d)/n" if gaussian else "d/(n epsilon)"
    power = Powers(n=-1.0, dim=0.5 if gaussian else 1.0, epsilon=-1.0)
    tilted, bias = _costs(problem_class, regularisation, noise_second_moment)
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= (lambda/4) R^2 + E|t|^2/(4 lambda)",
        source="Kifer, Smith and Thakurta 2012; both squares kept",
        terms=(
            Term("noise", tilted, power if tuned else 2.0 * power),
            Term("regulariser", bias, power if tuned else Powers()),
            Term("solver", problem_class.lipschitz * distance),
        ),
        cap=largest_excess(problem_class),
        regime=(
            f"{noise} <= L, at H/(lambda n epsilon) constant"
            if tuned
            else f"lambda fixed, noise leading: {noise} >= 10 lambda R"
        ),
        tight_on="huber" if tuned else None,
    )


def _costs(facts: ProblemClass, regularisation: float, second_moment: float) -> tuple[float, float]:
    """Of the noise, and of the regulariser."""
    return 0.25 * second_moment / regularisation, 0.25 * regularisation * facts.radius**2
