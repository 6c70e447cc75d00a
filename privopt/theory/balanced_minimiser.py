"""The regulariser and the width of smoothing at which a perturbed minimiser is bounded best."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import brentq

from privopt.spec import ProblemClass
from privopt.theory.perturbation_cost import perturbation_cost

__all__ = [
    "BalancedMinimiser",
    "balanced_minimiser",
    "ball_balanced_minimiser",
    "pure_balanced_minimiser",
    "smoothed_pure_balanced_minimiser",
    "smoothing_width",
]

_SMOOTHING_SHARE = 0.01


class BalancedMinimiser(NamedTuple):
    """The ``lambda`` of least bound, the width ``h`` of smoothing, and how the bound moves.

    Attributes
    ----------
    regularisation, smoothing : float
    power : float
        ``d log bound / d log noise``: the share of the noise in the bound, since at the minimum
        ``lambda`` and ``h`` add nothing to the first order.
    """

    regularisation: float
    smoothing: float
    power: float


def balanced_minimiser(
    *, linear: float, curved: float = 0.0, order: float = 1.5, distance: float, share: float = 0.25
) -> BalancedMinimiser:
    """``argmin_lambda  A/lambda + B/lambda^p + c lambda D^2``, by a root in ``log lambda``.

    Parameters
    ----------
    linear, curved, order : float
        ``A``, ``B`` and ``p``: what the noise costs.
    distance : float
        ``D``, from the centre to the optimum.
    share : float
        ``c``: 1/4, or 1/2 as published.

    Examples
    --------
    >>> balanced_minimiser(linear=0.01, distance=1.0).regularisation
    0.2
    >>> mixed = balanced_minimiser(linear=0.02, curved=0.02, distance=1.0, share=0.5)
    >>> round(mixed.regularisation, 4), round(mixed.power, 4)
    (0.372, 0.4328)
    """
    stiff = share * distance**2
    ends = math.sqrt(linear / stiff), (order * curved / stiff) ** (1.0 / (1.0 + order))
    low = max(ends)

    def slope(log: float) -> float:
        regularisation = math.exp(log)
        drop = linear / regularisation + order * curved / regularisation**order
        return stiff * regularisation - drop

    best = low
    if curved > 0.0:  # at twice the lower end both parts are below half of the regulariser's
        best = math.exp(brentq(slope, math.log(low), math.log(2.0 * low), xtol=1e-14))
    noise = linear / best + curved / best**order
    return BalancedMinimiser(best, 0.0, noise / (noise + stiff * best))


def ball_balanced_minimiser(
    problem_class: ProblemClass, *, unit: float, glm: bool, distance: float
) -> BalancedMinimiser:
    """``argmin_lambda  C(u/lambda) + lambda D^2/4``, ``C`` the cost of Gaussian noise on a ball.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity`` and a finite radius.
    unit : float
        ``u``: noise of scale ``u/lambda`` is added.
    glm : bool
    distance : float
        ``D``.

    Examples
    --------
    >>> facts = ProblemClass(n=9, dim=4096, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> best = ball_balanced_minimiser(facts, unit=0.01, glm=False, distance=1.0)
    >>> round(best.regularisation, 3), round(best.power, 2)
    (0.708, 0.49)
    """

    def noise(regularisation: float) -> tuple[float, float]:
        scale = unit / regularisation
        cost = perturbation_cost(
            problem_class, gaussian=True, projection="ball", glm=glm, scale=scale
        )
        return cost.power, cost.factor * scale

    def slope(log: float) -> float:
        power, cost = noise(math.exp(log))
        return log - math.log(power * cost) + math.log(0.25 * distance**2)

    middle = 0.5 * math.log(unit)
    best = math.exp(brentq(slope, middle - 40.0, middle + 40.0, xtol=1e-9))
    power, _ = noise(best)
    return BalancedMinimiser(best, 0.0, 1.0 / (1.0 + power))


def pure_balanced_minimiser(
    problem_class: ProblemClass,
    *,
    unit: float,
    cost: float,
    glm: bool,
    distance: float,
    published: bool = False,
) -> BalancedMinimiser:
    """The same for Laplace noise of scale ``u/lambda`` times a spread of the l1 sensitivity.

    The spread is ``min{sqrt(d), sqrt(s) + (1/2) sqrt(k H/lambda)}``, ``k = s`` for generalised
    linear losses and ``2s`` for others; as published ``sqrt(2s) (1 + 2H/lambda)``, and the
    regulariser then counts twice.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity`` and ``smoothness``.
    unit, cost : float
        ``u = lambda Delta_2/epsilon``, and what noise of scale 1 costs.
    glm : bool
    distance : float
        ``D``.
    published : bool

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=100, dim=50_000, lipschitz=1.0, radius=math.inf, smoothness=1.0, sparsity=4)
    >>> best = pure_balanced_minimiser(facts, unit=1e-6, cost=9.0, glm=False, distance=1.0)
    >>> round(best.power, 2)
    0.41
    """
    smoothness, sparsity = problem_class.smoothness, problem_class.sparsity
    assert smoothness is not None
    assert sparsity is not None
    noise = cost * unit
    if published:
        linear = noise * math.sqrt(2.0 * sparsity)
        return balanced_minimiser(
            linear=linear,
            curved=2.0 * smoothness * linear,
            order=2.0,
            distance=distance,
            share=0.5,
        )
    width = sparsity if glm else 2.0 * sparsity
    sparse = balanced_minimiser(
        linear=noise * math.sqrt(sparsity),
        curved=0.5 * noise * math.sqrt(width * smoothness),
        distance=distance,
    )
    dense = balanced_minimiser(linear=noise * math.sqrt(problem_class.dim), distance=distance)
    # either bound is its regulariser's part over 1 - power
    return min(sparse, dense, key=lambda each: each.regularisation / (1.0 - each.power))


def smoothed_pure_balanced_minimiser(
    problem_class: ProblemClass, *, unit: float, cost: float, distance: float
) -> BalancedMinimiser:
    """The same for generalised linear losses with kinks, smoothed over a width ``h`` to be chosen.

    ``g u (sqrt(s) + (1/2) sqrt(s/(lambda h)))/lambda + L^2 h/2 + lambda D^2/4``. At ``lambda`` the
    best width has ``L^2 h = (g u sqrt(s) L/2)^{2/3}/lambda``. What is left is a sum of ``1/lambda``
    and ``lambda``, of order ``(s ln d/(n epsilon))^{1/3}``. Where ``sqrt(d)`` spreads less, widths
    cost a hundredth of the noise.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=50_000, lipschitz=1.0, radius=math.inf, sparsity=4)
    >>> best = smoothed_pure_balanced_minimiser(facts, unit=1e-6, cost=9.0, distance=1.0)
    >>> round(best.power, 2)
    0.34
    """
    parts = _smoothed(problem_class, unit, cost)
    best = balanced_minimiser(linear=parts.noise + parts.blur, distance=distance)
    width = smoothing_width(problem_class, best.regularisation, unit=unit, cost=cost)
    return BalancedMinimiser(best.regularisation, width, best.power * parts.power)


def smoothing_width(
    problem_class: ProblemClass, regularisation: float, *, unit: float, cost: float
) -> float:
    """The best width ``h`` at a given ``lambda``, at most ``4/L^2``.

    The cap keeps the logistic loss, which is its own envelope and ``L^2/4``-smooth, within ``1/h``.

    Examples
    --------
    >>> facts = ProblemClass(n=100, dim=50_000, lipschitz=1.0, radius=math.inf, sparsity=4)
    >>> round(smoothing_width(facts, 0.1, unit=1e-3, cost=9.0), 4)
    0.4327
    """
    blur = _smoothed(problem_class, unit, cost).blur
    return min(2.0 * blur / regularisation, 4.0) / problem_class.lipschitz**2


class _Smoothed(NamedTuple):
    """Noise and smoothing, both times ``lambda``, and how their sum moves with the noise."""

    noise: float
    blur: float
    power: float


def _smoothed(problem_class: ProblemClass, unit: float, cost: float) -> _Smoothed:
    noise, sparsity = cost * unit, problem_class.sparsity or problem_class.dim
    rooted = noise * math.sqrt(sparsity)
    curved = (0.5 * rooted * problem_class.lipschitz) ** (2.0 / 3.0)
    full = noise * math.sqrt(problem_class.dim)
    sparse = _Smoothed(rooted + curved, 0.5 * curved, (rooted + curved) / (rooted + 1.5 * curved))
    dense = _Smoothed(full, _SMOOTHING_SHARE * full, 1.0)
    return min(sparse, dense, key=lambda each: each.noise + each.blur)
