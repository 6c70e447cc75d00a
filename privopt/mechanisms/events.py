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

    For a run of so many draws. All of the budget where ``delta`` is 0: its claim fails with the
    probability of those ends.

    Raises
    ------
    ValueError
        If ``delta`` is positive and no larger than that.

    Examples
    --------
    >>> drawable(Budget(epsilon=1.0, delta=1e-6, relation="replace_one")).delta < 1e-6
    True
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
