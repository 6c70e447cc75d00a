"""What no private algorithm can beat: explicit lower bounds, whatever is measured.

The excess risk of the worst data set is at least the mean excess over hard data, of which private
answers tell little (:mod:`privopt.theory.hard_data`), for pure differential privacy packings too.
The constraint set is the Euclidean ball of the radius of the class. Two losses turn data into a
risk, ``t v/sqrt(D)`` being their mean:

    convex            -L <w, x>,  |x| <= 1:            L R t (|v|/sqrt(D) - <w, v>/(R sqrt(D))),
    strongly convex   (m/2) |w - rho x|^2, |x| <= 1:   (m/2) |w - rho t v/sqrt(D)|^2.

The gradients of the second are at most ``m (R + rho)`` long on the ball, so ``rho = L/m - R`` is
allowed: records may lie outside the ball, their mean must not, ``rho t <= R``. Where it does not,
``rho`` is less. Given the answers, the best ``w`` of the second is the posterior mean. Of sparse
classes the linear part is sparse: all other gradients are those of the public ``m w``.

Sources: Bassily, Smith and Thakurta 2014, Theorems 5.2 to 5.5 (the orders of magnitude). The
constants are ours and hold for every ``n``, ``d`` and privacy level. Under (epsilon, delta)-DP they
forgo the factor ``sqrt(log 1/delta)`` of Steinke and Ullman 2016.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from privopt.arguments import checked
from privopt.spec import Budget, ProblemClass
from privopt.theory.advantage import Advantage, ApproximateAdvantage
from privopt.theory.hard_data import (
    HardData,
    directions,
    distances,
    fingerprints,
    hidden_counts,
    hidden_signs,
    hidden_supports,
)
from privopt.theory.rate import LowerBound, Quantity


def erm_lower_bound(problem_class: ProblemClass, advantage: Advantage) -> float:
    """Excess empirical risk that some data set of the class forces on every private algorithm.

    The largest over hidden signs, fingerprints of records of one coordinate or of as many as there
    are, and hidden supports of sparse records. With ``T`` the advantage on one record (``mu/2`` for
    small ``mu`` under ``replace_one``), its limit for many coordinates and records is

        convex            max_t t (1 - t/sqrt(1 + t^2)) = 0.300 times L R sqrt(d)/(n T),
        strongly convex   (m/2) rho^2 d/(n T)^2.

    One noisy mean attains the first on linear losses, output perturbation the second where ``rho``
    is near ``L/m``. Groups of records of ``s`` nonzeros give the order ``L R (s ln(d/(s
    g)))^(1/4)/sqrt(n mu)`` for ``g`` groups, or its square, under pure and Gaussian privacy.

    0 where ``lipschitz`` or ``radius`` is not declared.
    """
    dim, width = _shape(problem_class)
    return _worst_risk(problem_class, _hard_data(problem_class.n, dim, width, advantage))


@lru_cache(maxsize=512)
def pure_lower_bound(problem_class: ProblemClass, budget: Budget) -> float:
    """The same under epsilon-DP, by packings: of order ``L R d/(n epsilon)``, or its square.

    Distances ``L |w - x|`` where no smoothness is declared (constant ``1/e`` for many coordinates),
    else linear losses (``1/10``); squares for strongly convex classes. Sparse classes have one
    packing in every group of ``s`` coordinates.
    """
    n, radius, modulus = problem_class.n, problem_class.radius, problem_class.strong_convexity
    dim, width = _shape(problem_class)
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


def _shape(problem_class: ProblemClass) -> tuple[int, int]:
    """Coordinates in all, and the most in which the gradient of one linear loss may differ from 0.

    Of a strongly convex class it is the linear part that is sparse: squares of distances to sparse
    records have such gradients but for ``m w``, which is public.
    """
    dim = problem_class.dim
    return dim, problem_class.sparsity or dim


def _worst_risk(problem_class: ProblemClass, families: Iterable[HardData]) -> float:
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


def _reach(problem_class: ProblemClass) -> float:
    """``rho``, at most ``n R``: one record moves the mean across the ball then."""
    radius = problem_class.radius
    if math.isinf(radius):
        return 0.0
    free = problem_class.lipschitz / problem_class.strong_convexity - radius
    return max(0.0, min(free, problem_class.n * radius))


def population_lower_bound(problem_class: ProblemClass, advantage: Advantage) -> float:
    """Excess population risk that some distribution of the class forces on every algorithm.

    The larger of two bounds for ``n`` independent records.

    *Privacy*: fingerprints (:mod:`privopt.theory.hard_data`), a record being informative in a group
    with chance ``K/n``, else null. The mean is that of the distribution. Of order ``L R sqrt(d)/(n
    mu)``, or its square.

    *Sampling*, at least ``L R/(4 sqrt n)`` from ``n = 2``, or ``m rho^2/(2 e (n + 1))``::

        max_v L R v (1 - sqrt(1 - (1 - v^2)^n)),    max_v (m/2) (rho v)^2 (1 - v^2)^n.
    """
    n, (dim, width) = problem_class.n, _shape(problem_class)
    families = [_sample(n), fingerprints(n, dim, advantage, sampled=True)]
    if width > 1:
        families.append(fingerprints(n, dim, advantage, width=width, sampled=True))
    return _worst_risk(problem_class, families)


def _sample(n: int) -> HardData:
    """Means ``+-v e_1`` of records ``+-e_1``, with nothing kept from the answers.

    The sign is told with ``T^2 <= 1 - BC^2``, the Bhattacharyya coefficient ``BC`` of ``n`` records
    being ``(1 - v^2)^{n/2}`` (Le Cam).
    """
    v = np.linspace(0.0, 1.0, 257)[1:] / math.sqrt(n)
    told = 1.0 - (1.0 - v**2) ** n
    return HardData(v, np.ones_like(v), np.sqrt(told), np.ones_like(v), told)


def regret_lower_bound(
    problem_class: ProblemClass, advantage: Advantage, *, rounds: float
) -> float:
    """Regret that some stream of ``n`` records forces on every algorithm in ``rounds = n/b``.

    The larger of two bounds, for records that are independent draws and one pass over them.

    *Privacy*. Point ``w_t`` knows nothing of batch ``t``, so the average of the points has the
    excess population risk of a private algorithm, and the regret is ``n/b`` times that: of order
    ``(L R/b) sqrt(d)/mu``, or ``(L R/b) sqrt(n)``.

    *Hindsight*. Linear losses ``-L <w, x>`` with ``E x = 0`` cost nothing in the mean, and ``-(L
    R/b) |S|`` in hindsight, ``S = x_1 + ... + x_n``::

        (L R/b) E |S| = (L R/b) k binom(2m, m)/4^m,             x = +-e_1, n = k = 2m or 2m + 1,
        (L R/b) E |S| >= (L R/b) sqrt(n/(1 + 2 (1 - 1/n)/d)),   x = +-e_j, every j as likely,

    about ``sqrt(2/pi)`` and ``sqrt(d/(d + 2))`` times ``(L R/b) sqrt(n)``. The second by ``E |S| >=
    (E |S|^2)^{3/2}/(E |S|^4)^{1/2}`` (Hoelder).
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
    return (1.0 - 1e-9) * largest * max(middle, spread)


@checked
def lower_bound(
    problem_class: ProblemClass,
    guarantee: Advantage,
    quantity: Quantity | str = Quantity.EMPIRICAL_RISK,
    *,
    rounds: float = 0.0,
) -> LowerBound:
    """The largest lower bound that is known for every algorithm with this guarantee.

    ``guarantee`` is :class:`ApproximateAdvantage` of a budget, pure where its delta is 0;
    :class:`GaussianAdvantage`; or :class:`RenyiAdvantage`. ``quantity`` is the empirical or the
    population risk, or the regret in ``rounds`` batches; of others nothing is known.

    Examples
    --------
    >>> from privopt.spec import Budget, Relation
    >>> from privopt.theory import GaussianAdvantage
    >>> facts = ProblemClass(n=1000, dim=100, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> known = ApproximateAdvantage(budget), GaussianAdvantage(0.25, Relation.REPLACE_ONE)
    >>> [(round(value, 6), name) for value, name in (lower_bound(facts, each) for each in known)]
    [(0.005379, '(1, 1e-06)-DP'), (0.023011, '0.25-Gaussian DP')]
    """
    value = 0.0
    match Quantity.named("quantity", quantity):
        case Quantity.EMPIRICAL_RISK:
            value = erm_lower_bound(problem_class, guarantee)
            if isinstance(guarantee, ApproximateAdvantage) and guarantee.budget.delta == 0.0:
                value = max(value, pure_lower_bound(problem_class, guarantee.budget))
        case Quantity.POPULATION_RISK:
            value = population_lower_bound(problem_class, guarantee)
        case Quantity.REGRET:
            value = regret_lower_bound(problem_class, guarantee, rounds=rounds)
    return LowerBound(value, guarantee.name)
