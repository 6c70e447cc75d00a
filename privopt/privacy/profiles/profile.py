"""The interface of a privacy profile, and the inverse of any that has none in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from privopt.privacy.boundary import boundary
from privopt.privacy.interval import Interval

__all__ = ["Profile", "inverse"]


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

    def enough(epsilon: float) -> bool:
        return curve(epsilon).upper <= delta

    def too_little(epsilon: float) -> bool:
        return curve(epsilon).lower >= delta

    if enough(0.0):
        return Interval(0.0, 0.0)
    largest = 1.0
    while not enough(largest) and not math.isinf(largest):
        largest *= 2.0
    upper = boundary(enough, largest, 0.0)
    if not too_little(0.0):
        return Interval(0.0, upper)
    smallest = upper if math.isfinite(upper) else math.ldexp(1.0, 1023)
    return Interval(boundary(too_little, 0.0, smallest), upper)
