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
    return _farthest(problem_class, problem_class.diameter)


def centre_excess(problem_class: ProblemClass) -> float:
    """The largest ``F(c) - F*`` of the centre of the set: ``L R - (m/2) R^2``.

    As for :func:`largest_excess`, every point being within ``R`` of the centre.

    Examples
    --------
    >>> centre_excess(ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0))
    1.0
    """
    return _farthest(problem_class, problem_class.radius)


def _farthest(problem_class: ProblemClass, reach: float) -> float:
    """``max (L x - (m/2) x^2)`` over ``0 <= x <= reach``."""
    lipschitz, modulus = problem_class.lipschitz, problem_class.strong_convexity
    if modulus > 0.0:
        reach = min(reach, lipschitz / modulus)
    if math.isinf(lipschitz) or math.isinf(reach):
        return math.inf
    return lipschitz * reach - 0.5 * modulus * reach**2
