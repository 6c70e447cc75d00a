"""Events of releases that are known by what they cost, not by how they add noise."""

from __future__ import annotations

import math

from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent

from privopt.privacy import approximate_event, pure_event

__all__ = ["approximate_release", "pure_release", "resolvable"]


def pure_release(epsilon: float) -> DpEvent:
    """The event of any ``epsilon``-DP release; a no-op at zero, and no privacy at infinity.

    Examples
    --------
    >>> pure_release(0.0), pure_release(math.inf)
    (NoOpDpEvent(), NonPrivateDpEvent())
    """
    if epsilon == 0.0:
        return NoOpDpEvent()
    return pure_event(epsilon) if epsilon < math.inf else NonPrivateDpEvent()


def approximate_release(epsilon: float, delta: float) -> DpEvent:
    """``approximate_event``, and no privacy where one of the two numbers has no limit.

    Examples
    --------
    >>> approximate_release(math.inf, 1e-6), approximate_release(1.0, 1.0)
    (NonPrivateDpEvent(), NonPrivateDpEvent())
    """
    within = epsilon < math.inf and delta < 1.0
    return approximate_event(epsilon, delta) if within else NonPrivateDpEvent()


def resolvable(epsilon: float) -> float:
    """A loss so far below ``epsilon`` that what is accounted for it, rounding included, is not."""
    return epsilon / (1.0 + 1e-11) if epsilon < math.inf else epsilon
