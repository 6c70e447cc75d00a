"""What the set itself allows: the excess risk of any point, and that of the public centre."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass

__all__ = ["centre_excess", "largest_excess"]


def largest_excess(problem_class: ProblemClass) -> float:
    """The largest ``F(w) - F*`` that a point of the set can have: ``2 L R``, or less.

    ``F(w) - F* <= L x - (m/2) x^2`` with ``x = |w - w*|``: for a subgradient ``g`` of norm at most
    ``L`` at ``w``, strong convexity gives ``F* >= F(w) - <g, w - w*> + (m/2) x^2``. The two points
    are at most ``2R`` apart, so the largest value is at ``x = min(2R, L/m)``: ``2 L R - 2 m R^2``,
    or ``L^2/(2m)``. Smoothness allows no less: linear losses attain ``2 L R``.

    No bound of an expectation need be above it, whatever the point is.

    Examples
    --------
    >>> largest_excess(ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0))
    2.0
    >>> largest_excess(ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, strong_convexity=0.8))
    0.625
    """
    return _largest(problem_class.lipschitz, problem_class.strong_convexity, problem_class.diameter)


def centre_excess(problem_class: ProblemClass) -> float:
    """The largest ``F(c) - F*`` of the centre of the set: ``L R``, or less.

    As for :func:`largest_excess`, within ``R`` of every point, and with ``L - m R`` in the place of
    ``L``: along the gradient at the centre the slope rises by ``m R`` on the way to the sphere.

    Examples
    --------
    >>> centre_excess(ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0))
    1.0
    >>> centre_excess(ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0, strong_convexity=0.5))
    0.25
    """
    modulus, radius = problem_class.strong_convexity, problem_class.radius
    fallen = modulus * radius if modulus > 0.0 else 0.0
    return _largest(max(0.0, problem_class.lipschitz - fallen), modulus, radius)


def _largest(slope: float, modulus: float, reach: float) -> float:
    """``max (s x - (m/2) x^2)`` over ``0 <= x <= reach``."""
    if modulus > 0.0:
        reach = min(reach, slope / modulus)
    if math.isinf(slope) or math.isinf(reach):
        return math.inf
    return slope * reach - 0.5 * modulus * reach**2
