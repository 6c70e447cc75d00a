"""The interface of a privacy profile, and the inverse of any that has none in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from privopt.privacy.bracketing import false_position
from privopt.privacy.interval import Interval

__all__ = ["Profile", "inverse"]

_MIN_FLOAT = math.ulp(0.0)


class Profile(Protocol):
    """``delta(epsilon)`` of one release: the larger of the two orders of neighbours.

    Formal guarantee
    ----------------
    The release is ``(epsilon, p.delta(epsilon).upper)``- and
    ``(p.epsilon(delta).upper, delta)``-differentially private under the relation the profile was
    made for, rounding included. Some mechanism that the event describes has, between some two
    neighbours, a profile not below the lower ends.

    Profiles are frozen and hashable: equal ones may be counted.
    """

    def delta(self, epsilon: float) -> Interval:
        """The smallest ``delta`` at ``epsilon`` in ``[0, inf]``."""
        ...

    def epsilon(self, delta: float) -> Interval:
        """The smallest ``epsilon`` at ``delta`` in ``[0, 1)``."""
        ...


def inverse(curve: Callable[[float], Interval], delta: float) -> Interval:
    """The smallest ``epsilon >= 0`` with ``curve(epsilon) <= delta``.

    ``curve`` must decrease strictly while it is positive. Both ends are points at which it was
    evaluated; the upper one is infinite if ``delta`` is below all that can be certified.
    """

    target = math.log(delta) if delta > 0.0 else -math.inf

    def gap(epsilon: float) -> float:
        upper = curve(epsilon).upper
        if upper <= delta:
            return min(math.log(upper) - target, 0.0) if upper > 0.0 else -math.inf
        return max(math.log(upper) - target, _MIN_FLOAT)

    def too_little(epsilon: float) -> bool:
        return curve(epsilon).lower >= delta

    if curve(0.0).upper <= delta:
        return Interval(0.0, 0.0)
    outside, inside = 0.0, 1.0
    while gap(inside) > 0.0 and not math.isinf(inside):
        outside, inside = inside, 2.0 * inside
    if math.isfinite(inside):
        inside, outside = false_position(gap, inside, outside, relative=2.0**-50)
    lower, step = outside, 2.0**-50
    while not too_little(lower) and lower > 0.0:
        lower, step = max(0.0, outside * (1.0 - step)), 2.0 * step
    return Interval(lower, inside)
