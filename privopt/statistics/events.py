"""Events of releases with a known epsilon."""

from __future__ import annotations

import math

from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent

from privopt.arguments import checked
from privopt.privacy import pure_event


@checked
def pure_release(epsilon: float) -> DpEvent:
    """Return the event of an ``epsilon``-DP release; a no-op at 0, non-private at infinity.

    Examples
    --------
    >>> pure_release(0.0), pure_release(math.inf)
    (NoOpDpEvent(), NonPrivateDpEvent())
    """
    if epsilon == 0.0:
        return NoOpDpEvent()
    return pure_event(epsilon) if epsilon < math.inf else NonPrivateDpEvent()


def resolvable(epsilon: float) -> float:
    """Return a loss with an accounted epsilon, rounding included, of at most ``epsilon``."""
    return epsilon / (1.0 + 1e-11) if epsilon < math.inf else epsilon
