"""What no private algorithm can beat online: an explicit lower bound of the regret."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass
from privopt.theory.advantage import Advantage
from privopt.theory.population_lower_bound import population_lower_bound

__all__ = ["regret_lower_bound"]

_ROUND_OFF = 1e-9


def regret_lower_bound(
    problem_class: ProblemClass, advantage: Advantage, *, rounds: float
) -> float:
    """Regret that some stream of ``n`` records forces on every algorithm, in ``n/b`` batches.

    The larger of two bounds, for records that are independent draws. Point ``w_t`` knows nothing of
    batch ``t``, and no fixed point does better than the best for the records in hindsight.

    *Privacy*. The average of the points is a function of the answers, so its excess population risk
    is at least :func:`population_lower_bound`, and the regret ``n/b`` times that: of order ``(L
    R/b) sqrt(d)/mu``, or ``(L R/b) sqrt(n)``.

    *Hindsight*, whatever is known of the past. Linear losses ``-L <w, x>`` with ``E x = 0`` cost
    nothing in the mean, and ``-(L R/b) |S|`` in hindsight, ``S = x_1 + ... + x_n``::

        (L R/b) E |S| = (L R/b) k binom(2m, m)/4^m,          x = +-e_1, n = k = 2m or 2m + 1,
        (L R/b) E |S| >= (L R/b) sqrt(n/(1 + 2 (1 - 1/n)/d)),   x = +-e_j, every j as likely,

    about ``sqrt(2/pi)`` and ``sqrt(d/(d + 2))`` times ``(L R/b) sqrt(n)``; without noise follow the
    leader has ``L R sqrt(n)`` at ``b = 1``. The second by ``E |S| >= (E |S|^2)^{3/2}/(E
    |S|^4)^{1/2}`` (Hoelder), ``E |S|^2 = n`` and ``E |S|^4 = n^2 + 2 n (n - 1)/d``.

    Parameters
    ----------
    problem_class : ProblemClass
        The constraint set is the Euclidean ball of its radius.
    advantage : Advantage
        What the guarantee lets the answers tell.
    rounds : float
        ``n/b``, ``b`` the divisor of a batch, in one pass over the records. From the second on an
        algorithm may know what comes, and nothing is known.

    Examples
    --------
    >>> from privopt.spec import Relation
    >>> from privopt.theory import GaussianAdvantage
    >>> facts = ProblemClass(n=100, dim=4, lipschitz=1.0, radius=1.0)
    >>> advantage = GaussianAdvantage(0.1, Relation.REPLACE_ONE)
    >>> round(regret_lower_bound(facts, advantage, rounds=100), 3)
    8.179
    """
    return rounds * max(population_lower_bound(problem_class, advantage), _hindsight(problem_class))


def _hindsight(facts: ProblemClass) -> float:
    """``L R E |S|/n``; strongly convex classes have no linear members."""
    n, largest = facts.n, facts.lipschitz * facts.radius
    if facts.strong_convexity > 0.0 or math.isinf(largest):
        return 0.0
    pairs = n // 2
    middle = math.exp(math.lgamma(pairs + 0.5) - math.lgamma(pairs + 1.0)) / math.sqrt(math.pi)
    spread = 1.0 / math.sqrt(n * (1.0 + 2.0 * (1.0 - 1.0 / n) / facts.dim))
    return (1.0 - _ROUND_OFF) * largest * max(middle, spread)
