"""Checks and helpers shared by all calibrations."""

from __future__ import annotations

import math
from dataclasses import replace

from privopt.arguments import described, instance, shown
from privopt.privacy import round_down
from privopt.random import end_cost
from privopt.spec import Budget, Relation


def check_calibration(query: object, budget: object, *names: str) -> None:
    """Check that ``query`` has the attributes ``names`` and that ``budget`` is a Budget."""
    for name in names:
        if isinstance(query, type) or not hasattr(query, name):
            raise ValueError(f"query must have a {name}, got {described(query)}")
    instance("budget", budget, Budget)


def require_public_size(relation: Relation, subject: str) -> None:
    """Check that ``relation`` is ``replace_one``, the only one with a proof for ``subject``."""
    if Relation(relation) is not Relation.REPLACE_ONE:
        raise ValueError(f"relation must be replace_one for {subject}, got {relation}")


def drawable(budget: Budget, numbers: float = 2.0**40) -> Budget:
    """Reduce ``budget`` by the cost of the truncated noise tails.

    With ``numbers`` sampled numbers in a run, the truncation costs ``e^epsilon`` times its
    probability (:func:`privopt.random.end_cost`), which is subtracted from ``delta``. If the cost
    exceeds a quarter of ``delta``, ``epsilon`` is lowered until the cost is a quarter. With
    ``delta = 0`` the budget is unchanged, and the guarantee fails with the probability of the
    truncation. ValueError if ``delta`` is positive and at most the cost at every ``epsilon``.

    Examples
    --------
    >>> drawable(Budget(epsilon=1.0, delta=1e-6, relation="replace_one")).delta < 1e-6
    True
    """
    if budget.delta == 0.0:
        return budget
    tails = 0.5 * end_cost(0.0, numbers)
    if not budget.delta > 8.0 * tails:
        raise ValueError(
            f"delta must exceed {8.0 * tails:.3g}, four times the cost of the tails of "
            f"{numbers:.3g} numbers, got {shown(budget.delta)}"
        )
    epsilon = min(budget.epsilon, math.log(0.25 * budget.delta / tails - 1.0))
    remaining = math.nextafter(budget.delta - end_cost(epsilon, numbers), 0.0)
    return replace(budget, epsilon=epsilon, delta=remaining)


def noise_multiplier(scale: float, record_sensitivity: float) -> float:
    """Return ``scale/record_sensitivity``, rounded down.

    The result is infinite for ``record_sensitivity = 0``, and 0 for an infinite one. ValueError if
    an argument is negative or NaN, or if ``scale`` is infinite.

    Examples
    --------
    >>> round(noise_multiplier(0.5, 0.25), 12)
    2.0
    """
    if not 0.0 <= scale < math.inf:
        raise ValueError(f"scale must be at least 0 and finite, got {shown(scale)}")
    if not record_sensitivity >= 0.0:
        raise ValueError(f"record_sensitivity must be at least 0, got {shown(record_sensitivity)}")
    if record_sensitivity == 0.0:
        return math.inf
    return math.nextafter(round_down(scale) / record_sensitivity, 0.0)
