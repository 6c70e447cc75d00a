"""What no private algorithm can beat: explicit lower bounds for empirical risk minimisation.

The excess risk of the worst data set is at least the mean excess over hard data, of which private
answers tell little: :mod:`privopt.theory.hard_data` for every guarantee, and for pure differential
privacy :mod:`privopt.theory.packing` too. Two losses turn data into a risk, ``t v/sqrt(D)`` being
their mean:

    convex            -L <w, x>,  |x| <= 1:            L R t (|v|/sqrt(D) - <w, v>/(R sqrt(D))),
    strongly convex   (m/2) |w - rho x|^2, |x| <= 1:   (m/2) |w - rho t v/sqrt(D)|^2.

The gradients of the second are at most ``m (R + rho)`` long on the ball, so ``rho = L/m - R`` is
allowed: records may lie outside the ball, their mean must not, ``rho t <= R``. Where it does not,
``rho`` is less. Given the answers, the best ``w`` of the second is the posterior mean.

Sources: Bassily, Smith and Thakurta 2014, Theorems 5.2 to 5.5 (the orders of magnitude, constants
not stated). The constants are ours and hold for every ``n``, ``d`` and privacy level. Under
(epsilon, delta)-DP they forgo the factor ``sqrt(log 1/delta)`` of Steinke and Ullman 2016.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from privopt.spec import Budget, ProblemClass
from privopt.theory.advantage import Advantage
from privopt.theory.hard_data import (
    HardData,
    fingerprints,
    hidden_counts,
    hidden_signs,
    hidden_supports,
)
from privopt.theory.packing import directions, distances

__all__ = ["erm_lower_bound", "pure_lower_bound", "shape", "worst_risk"]


def erm_lower_bound(problem_class: ProblemClass, advantage: Advantage) -> float:
    """Excess empirical risk that some data set of the class forces on every private algorithm.

    The largest over hidden signs, fingerprints of records of one coordinate or of as many as there
    are, and hidden supports of sparse records. With ``T`` the advantage on one record (``mu/2`` for
    small ``mu`` under ``replace_one``), its limit for many coordinates and records is

        convex            max_t t (1 - t/sqrt(1 + t^2)) = 0.300 times L R sqrt(d)/(n T),
        strongly convex   (m/2) rho^2 d/(n T)^2.

    The first is the worst risk of one noisy mean of the data on linear losses, and the second that
    of output perturbation, were ``rho`` as large as ``L/m``: neither constant can be improved.

    Records of ``s`` nonzeros come in groups, until there are enough of them for all coordinates:
    of order ``L R (s ln(d/(s g)))^(1/4)/sqrt(n mu)`` for ``g`` groups, or of the square of that.
    The logarithm is that of hidden supports, which pure and Gaussian privacy hide.

    Parameters
    ----------
    problem_class : ProblemClass
        The constraint set is the Euclidean ball of its radius. Linear losses are as smooth as one
        likes, quadratic ones as their convexity demands.
    advantage : Advantage
        What the guarantee lets the answers tell.

    Returns
    -------
    float
        0 where ``lipschitz`` or ``radius`` is not declared.

    Examples
    --------
    >>> from privopt.spec import Relation
    >>> from privopt.theory import GaussianAdvantage
    >>> facts = ProblemClass(n=1000, dim=10, lipschitz=1.0, radius=1.0)
    >>> round(erm_lower_bound(facts, GaussianAdvantage(1.0, Relation.REPLACE_ONE)), 5)
    0.00173
    """
    return worst_risk(problem_class, _hard_data(problem_class.n, *shape(problem_class), advantage))


def pure_lower_bound(problem_class: ProblemClass, budget: Budget) -> float:
    """The same under epsilon-DP, by packings: of order ``L R d/(n epsilon)``, or its square.

    Distances ``L |w - x|`` where no smoothness is declared (constant ``1/e`` for many coordinates),
    else linear losses (``1/10``); squares ``(m/2) |w - x|^2`` for strongly convex classes. Sparse
    classes have one packing in every group of ``s`` coordinates.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
        Of which ``epsilon`` and ``relation`` count.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=10, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> round(pure_lower_bound(facts, budget), 5)
    0.0047
    """
    return _packed(problem_class, budget)


def shape(problem_class: ProblemClass) -> tuple[int, int]:
    """Coordinates in all, and the most in which the gradient of one linear loss may differ from 0.

    Of a strongly convex class it is the linear part that is sparse: squares of distances to sparse
    records have such gradients but for ``m w``, which is public.
    """
    dim = problem_class.dim
    return dim, problem_class.sparsity or dim


def worst_risk(problem_class: ProblemClass, families: Iterable[HardData]) -> float:
    """The largest risk over priors, of linear losses or of squares."""
    radius, lipschitz = problem_class.radius, problem_class.lipschitz
    modulus = problem_class.strong_convexity
    if modulus > 0.0:
        reach = _reach(problem_class)
        return 0.5 * modulus * max(each.quadratic(reach, radius) for each in families)
    if math.isinf(lipschitz) or math.isinf(radius):
        return 0.0
    return lipschitz * radius * max(each.linear() for each in families)


@lru_cache(maxsize=512)
def _hard_data(n: int, dim: int, width: int, advantage: Advantage) -> tuple[HardData, ...]:
    families = [make(n, dim, advantage) for make in (hidden_signs, hidden_counts, fingerprints)]
    if width > 1:
        families.append(fingerprints(n, dim, advantage, width=width))
    if width < dim:
        families.append(hidden_supports(n, dim, width, advantage))
    return tuple(families)


@lru_cache(maxsize=512)
def _packed(problem_class: ProblemClass, budget: Budget) -> float:
    n, radius, modulus = problem_class.n, problem_class.radius, problem_class.strong_convexity
    dim, width = shape(problem_class)
    if modulus > 0.0:
        reach = _reach(problem_class)
        if not reach:
            return 0.0
        packing, cap = distances(width, 2.0), radius / reach
        mean = packing.best(n, budget, groups=dim // width, cap=cap, power=2.0)
        return 0.5 * modulus * reach**2 * mean
    if math.isinf(problem_class.lipschitz) or math.isinf(radius):
        return 0.0
    families = [directions(width)]
    if problem_class.smoothness is None:
        families.append(distances(width, 1.0))
    groups = dim // width
    found = max(each.best(n, budget, groups=groups) for each in families)
    return problem_class.lipschitz * radius * found


def _reach(problem_class: ProblemClass) -> float:
    """``rho``, at most ``n R``: one record moves the mean across the ball then."""
    radius = problem_class.radius
    if math.isinf(radius):
        return 0.0
    free = problem_class.lipschitz / problem_class.strong_convexity - radius
    return max(0.0, min(free, problem_class.n * radius))
