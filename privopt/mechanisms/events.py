"""What a calibration asks of its relation and of its budget."""

from __future__ import annotations

import math
from dataclasses import replace

from privopt.draws import end_cost
from privopt.spec import Budget, Relation

__all__ = ["drawable", "require_public_size"]


def require_public_size(relation: Relation, what: str) -> None:
    """ValueError unless ``relation`` is ``replace_one``, the only one ``what`` is proved for."""
    if Relation(relation) is not Relation.REPLACE_ONE:
        raise ValueError(f"relation must be replace_one for {what}, got {relation}")


def drawable(budget: Budget, numbers: float = 2.0**40) -> Budget:
    """What is left for ideal noise once ``delta`` has paid for the ends of the drawn noise.

    For a run of so many draws. The ends cost ``e^epsilon`` times their probability; where that is
    more than a quarter of ``delta``, what is left is the smaller ``epsilon`` at which it is a
    quarter: it implies the budget, and noise never rises with ``epsilon``. All of the budget where
    ``delta`` is 0: its claim fails with the probability of those ends.

    Raises
    ------
    ValueError
        If ``delta`` is positive and no larger than what the ends cost at any ``epsilon``.

    Examples
    --------
    >>> drawable(Budget(epsilon=1.0, delta=1e-6, relation="replace_one")).delta < 1e-6
    True
    """
    if budget.delta == 0.0:
        return budget
    ends = 0.5 * end_cost(0.0, numbers)
    if not budget.delta > 8.0 * ends:
        raise ValueError(
            f"delta must exceed {8.0 * ends:.3g}, four times what the ends of {numbers:.3g} drawn "
            f"numbers cost, got {budget.delta!r}"
        )
    epsilon = min(budget.epsilon, math.log(0.25 * budget.delta / ends - 1.0))
    left = math.nextafter(budget.delta - end_cost(epsilon, numbers), 0.0)
    return replace(budget, epsilon=epsilon, delta=left)
