"""What no private algorithm can beat: explicit lower bounds for empirical risk minimisation.

Both bounds come from one fingerprinting argument, with every constant kept. Let ``k`` of the
``n`` records be vectors ``x_i`` in ``{-1, 1}^d`` with independent coordinates of mean ``p_j``,
``p_j ~ U[-1, 1]``, the others null. For any statistic ``q(X)`` and ``Z_i = <q, x_i - p>``:

1. integrating ``d/dp E f = E f sum_i (x_i - p) / (1 - p^2)`` by parts gives
   ``sum_i E Z_i = 2 E <q, p>`` (the fingerprinting lemma as an identity);
2. with ``x_i`` redrawn, ``Z_i`` has mean 0 and variance at most ``E |q|^2``, so privacy gives
   ``E Z_i <= kappa sqrt(E |q|^2) + 2 delta max |Z_i|``, where ``kappa = sqrt(exp(mu^2) - 1)``
   under mu-Gaussian DP (the chi-square divergence, monotone in the Blackwell order), and
   ``kappa = 2 sinh(epsilon/2)`` under (epsilon, delta)-DP (the chi-square of randomised
   response, which with probability ``1 - delta`` dominates).

Sources: Bun, Steinke and Ullman 2017 (the fingerprinting lemma); Bassily, Smith and Thakurta 2014,
Theorems 5.3 and 5.5 (the orders of magnitude, constants not stated). The constants are ours and
hold for every ``n``, ``d`` and privacy level. Under (epsilon, delta)-DP they forgo the factor
``sqrt(log 1/delta)`` of Steinke and Ullman 2016.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privopt.spec import Budget, ProblemClass, Relation

__all__ = [
    "approximate_dp_advantage",
    "budget_lower_bound",
    "erm_lower_bound",
    "gaussian_dp_advantage",
]


def gaussian_dp_advantage(mu: float, relation: Relation) -> float:
    """``kappa = sqrt(exp(mu^2) - 1)`` of mu-Gaussian DP, at the replace-one distance.

    Replacing a record is one step under ``replace_one`` and two under the other relations, where
    group privacy doubles ``mu``.

    Examples
    --------
    >>> round(gaussian_dp_advantage(1.0, Relation.REPLACE_ONE), 4)
    1.3108
    >>> round(gaussian_dp_advantage(1.0, Relation.ZERO_OUT), 4)
    7.3211
    """
    replaced = mu if relation is Relation.REPLACE_ONE else 2.0 * mu
    return math.sqrt(math.expm1(replaced**2)) if replaced < 26.0 else math.inf


def approximate_dp_advantage(budget: Budget) -> tuple[float, float]:
    """``(kappa, delta)`` of (epsilon, delta)-DP at the replace-one distance.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation=Relation.REPLACE_ONE)
    >>> kappa, delta = approximate_dp_advantage(budget)
    >>> round(kappa, 4), delta
    (1.0422, 1e-06)
    """
    epsilon, delta = budget.epsilon, budget.delta
    if budget.relation is not Relation.REPLACE_ONE:
        epsilon, delta = 2.0 * epsilon, delta * (1.0 + math.exp(min(epsilon, 700.0)))
    return (2.0 * math.sinh(0.5 * epsilon) if epsilon < 700.0 else math.inf), min(delta, 1.0)


def erm_lower_bound(problem_class: ProblemClass, *, advantage: float, delta: float = 0.0) -> float:
    """Excess empirical risk that some data set of the class forces on every private algorithm.

    Convex (``strong_convexity`` 0), by ``loss(w; x) = -L <w, x>`` on the ball of radius ``R``::

        max_k  (L R k / n) [ m_d - (k/2 + 1) (kappa + 4 delta sqrt d) / sqrt d ],
        m_d = E|p| / sqrt d >= sqrt(1/3) / sqrt(1 + 4/(5d)),

    about ``L R sqrt(d) / (6 n kappa)`` once ``n >= sqrt(d) / kappa``. Strongly convex, by
    ``loss(w; x) = (m/2) |w - x|^2`` with ``|x| <= rho = min(R, L/m - R)``::

        max_k  (m/2) (rho k / n)^2 [ 1/3 + 2/(3k) - ((k + 2) kappa)^2 / (4d) - 4 (k + 2) delta ],

    about ``m rho^2 d / (18 n^2 kappa^2)``.

    Parameters
    ----------
    problem_class : ProblemClass
        Replace-one neighbours; the constraint set is the Euclidean ball of its radius.
    advantage, delta : float
        From :func:`gaussian_dp_advantage` (``delta`` 0) or :func:`approximate_dp_advantage`.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=100, lipschitz=1.0, radius=1.0)
    >>> round(erm_lower_bound(facts, advantage=1.0), 5)
    0.00113
    """
    n, d, radius = problem_class.n, problem_class.dim, problem_class.radius
    if problem_class.sparsity is not None and not problem_class.strong_convexity:
        d = problem_class.sparsity  # hard records that differ in so many coordinates only
    lipschitz, modulus = problem_class.lipschitz, problem_class.strong_convexity
    if math.isinf(advantage):
        return 0.0
    k = _informative_records(n)
    if modulus > 0.0:
        reach = min(radius, lipschitz / modulus - radius) if math.isfinite(radius) else 0.0
        spread = 1.0 / 3.0 + 2.0 / (3.0 * k)
        leak = ((k + 2.0) * advantage) ** 2 / (4.0 * d) + 4.0 * (k + 2.0) * delta
        bound = 0.5 * modulus * (max(reach, 0.0) * k / n) ** 2 * (spread - leak)
        return max(0.0, float(bound.max()))
    if math.isinf(radius):
        return 0.0
    mean_norm = math.sqrt(1.0 / 3.0) / math.sqrt(1.0 + 0.8 / d)
    leak = (0.5 * k + 1.0) * (advantage / math.sqrt(d) + 4.0 * delta)
    return max(0.0, float((lipschitz * radius * k / n * (mean_norm - leak)).max()))


def budget_lower_bound(
    problem_class: ProblemClass, budget: Budget, *, mu: float | None = None
) -> float:
    """:func:`erm_lower_bound` at a budget: of ``mu``-Gaussian DP where it is given.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
    mu : float, optional
        For methods that spend the budget as Gaussian DP; else the bound is that of
        (epsilon, delta).

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=100, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation=Relation.REPLACE_ONE)
    >>> round(budget_lower_bound(facts, budget), 5)
    0.00105
    >>> round(budget_lower_bound(facts, budget, mu=1.0), 5)
    0.00074
    """
    if mu is not None:
        advantage = gaussian_dp_advantage(mu, budget.relation)
        return erm_lower_bound(problem_class, advantage=advantage)
    advantage, delta = approximate_dp_advantage(budget)
    return erm_lower_bound(problem_class, advantage=advantage, delta=delta)


def _informative_records(n: int) -> NDArray[np.float64]:
    """Candidate counts ``k`` in ``1..n``: all small ones, then a fine geometric grid."""
    small = np.arange(1, min(n, 1000) + 1, dtype=np.float64)
    large = np.floor(np.geomspace(min(n, 1000), n, 2000))
    return np.concatenate([small, large])
