"""Events of releases that are known by what they cost, not by how they add noise."""

from __future__ import annotations

import math
from dataclasses import replace

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
)

from privopt.draws import end_cost
from privopt.privacy import pure_event
from privopt.spec import Budget, Relation

__all__ = ["approximate_release", "drawable", "pure_release", "require_public_size", "resolvable"]


def pure_release(epsilon: float) -> DpEvent:
    """The event of any ``epsilon``-DP release; a no-op at zero, and no privacy at infinity."""
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
    """
    told = PoissonSampledDpEvent(delta, NonPrivateDpEvent())
    return ComposedDpEvent([pure_release(epsilon), told])


def require_public_size(relation: Relation, what: str) -> None:
    """ValueError unless ``relation`` is ``replace_one``, the only one ``what`` is proved for."""
    if Relation(relation) is not Relation.REPLACE_ONE:
        raise ValueError(f"relation must be replace_one for {what}, got {relation}")


def resolvable(epsilon: float) -> float:
    """A loss so far below ``epsilon`` that what is accounted for it, rounding included, is not."""
    return epsilon / (1.0 + 1e-11) if epsilon < math.inf else epsilon


def drawable(budget: Budget, numbers: float = 2.0**40) -> Budget:
    """What is left for ideal noise once ``delta`` has paid for the ends of the drawn noise.

    For a run of so many draws. All of the budget where ``delta`` is 0: its claim fails with the
    probability of those ends.

    Raises
    ------
    ValueError
        If ``delta`` is positive and no larger than that.
    """
    if budget.delta == 0.0:
        return budget
    cost = end_cost(budget.epsilon, numbers)
    left = math.nextafter(budget.delta - cost, 0.0)
    if not left > 0.0:
        raise ValueError(
            f"delta must exceed {cost:.3g} at epsilon = {budget.epsilon!r}, what the ends of drawn "
            f"noise may cost, got {budget.delta!r}"
        )
    return replace(budget, delta=left)
