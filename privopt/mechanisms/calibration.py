"""What every calibration checks, and what an event says of the scale that it found."""

from __future__ import annotations

import math
from dataclasses import replace

from privopt.arguments import described, instance, shown
from privopt.draws import end_cost
from privopt.privacy import round_down
from privopt.spec import Budget, Relation


def check_calibration(query: object, budget: object, *answers: str) -> None:
    """ValueError unless ``query`` can be asked for all ``answers`` and ``budget`` is one."""
    for answer in answers:
        if isinstance(query, type) or not hasattr(query, answer):
            raise ValueError(f"query must have a {answer}, got {described(query)}")
    instance("budget", budget, Budget)


def require_public_size(relation: Relation, what: str) -> None:
    """ValueError unless ``relation`` is ``replace_one``, the only one ``what`` is proved for."""
    if Relation(relation) is not Relation.REPLACE_ONE:
        raise ValueError(f"relation must be replace_one for {what}, got {relation}")


def drawable(budget: Budget, numbers: float = 2.0**40) -> Budget:
    """The budget of ideal noise, so that drawn noise, whose tails end, stays within ``budget``.

    In a run of so many drawn ``numbers`` the ends cost ``e^epsilon`` times their probability
    (:func:`privopt.draws.end_cost`), which is taken off ``delta``. Where that is more than a
    quarter of ``delta``, ``epsilon`` is lowered until it is a quarter: noise never falls with it.
    With ``delta = 0`` nothing is taken off, and the claim fails with the probability of the ends.
    ValueError if ``delta`` is positive and no larger than what the ends cost at any ``epsilon``.

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
            f"numbers cost, got {shown(budget.delta)}"
        )
    epsilon = min(budget.epsilon, math.log(0.25 * budget.delta / ends - 1.0))
    left = math.nextafter(budget.delta - end_cost(epsilon, numbers), 0.0)
    return replace(budget, epsilon=epsilon, delta=left)


def noise_multiplier(scale: float, contribution: float) -> float:
    """Return ``scale/contribution``, rounded down; ``contribution`` is the per-record sensitivity.

    The result is infinite for ``contribution = 0``, and 0 for an infinite one. ValueError if an
    argument is negative or NaN, or if ``scale`` is infinite.

    Examples
    --------
    >>> round(noise_multiplier(0.5, 0.25), 12)
    2.0
    """
    if not 0.0 <= scale < math.inf:
        raise ValueError(f"scale must be at least 0 and finite, got {shown(scale)}")
    if not contribution >= 0.0:
        raise ValueError(f"contribution must be at least 0, got {shown(contribution)}")
    if contribution == 0.0:
        return math.inf
    return math.nextafter(round_down(scale) / contribution, 0.0)
