"""Events of releases that are known by what they cost, not by how they add noise."""

from __future__ import annotations

import math

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
)

from privopt.privacy import pure_event

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
    """The event of any ``(epsilon, delta)``-DP release under ``replace_one``, and no other.

    With probability ``delta`` one record is published; all else is a pure release. A replaced
    record shows in both data sets, so both orders of neighbours have outcomes that the other
    lacks. Under the other relations only one data set holds the record, and the event would
    claim too much.

    Formal guarantee
    ----------------
    Dominates every ``(epsilon, delta)``-DP release under ``replace_one``. Source: Kairouz, Oh and
    Viswanath, "The composition theorem for differential privacy", IEEE Trans. Inf. Theory 2017
    (arXiv:1311.0776), proof of Theorem 3.3.

    Examples
    --------
    >>> len(approximate_release(1.0, 1e-6).events)
    2
    """
    told = PoissonSampledDpEvent(delta, NonPrivateDpEvent())
    return ComposedDpEvent([pure_release(epsilon), told])


def resolvable(epsilon: float) -> float:
    """A loss so far below ``epsilon`` that what is accounted for it, rounding included, is not."""
    return epsilon / (1.0 + 1e-11) if epsilon < math.inf else epsilon
