"""Events of releases that are known by what they cost, not by how they add noise."""

from __future__ import annotations

import math

from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent

from privopt.arguments import checked
from privopt.privacy import pure_event


@checked
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


def resolvable(epsilon: float) -> float:
    """A loss so far below ``epsilon`` that what is accounted for it, rounding included, is not."""
    return epsilon / (1.0 + 1e-11) if epsilon < math.inf else epsilon
