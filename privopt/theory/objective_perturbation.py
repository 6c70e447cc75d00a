"""Minimisers of randomly tilted objectives: the upper bound and its tuning."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privopt.spec import ProblemClass

__all__ = ["tilted_minimiser", "tilted_minimiser_regularisation"]


def tilted_minimiser(
    problem_class: ProblemClass,
    *,
    regularisation: float,
    tilt_second_moment: float,
    distance: float = 0.0,
) -> float:
    """Excess risk of ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>``, moved by ``distance``.

    For convex, L-Lipschitz losses and any ``t`` of mean zero that does not depend on the data::

        E F(w) - F* <= (lambda/4) R^2 + E|t|^2 / (4 lambda) + L distance.

    With ``a = w* - c`` and ``v = w_t - c``, strong convexity of the tilted objective between its
    minimiser and ``w*`` gives ``F(w_t) - F* <= (lambda/2)(|a|^2 - |v|^2 - |v-a|^2) - <t, v-a>``,
    and the largest value over ``v`` is ``|lambda a - t|^2 / (4 lambda) + <t, a>``. Keeping one of
    the two squares only doubles the bound. Infinite where ``R`` is.

    Source: constants derived here; the order is that of Kifer, Smith and Thakurta 2012.
    """
    if math.isinf(problem_class.radius):
        return math.inf
    bias = 0.25 * regularisation * problem_class.radius**2
    return bias + 0.25 * tilt_second_moment / regularisation + problem_class.lipschitz * distance


def tilted_minimiser_regularisation(
    problem_class: ProblemClass,
    second_moment: Callable[[float], float],
    *,
    least: float = 0.0,
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
        return tilted_minimiser(
            problem_class,
            regularisation=regularisation,
            tilt_second_moment=second_moment(regularisation),
        )

    return float(min(grid, key=bound))
