"""Explicit lower bounds on the risk of private algorithms, for every ``n``, ``d`` and budget.

The worst-case excess risk is at least the mean excess over a prior of hard data
(:mod:`privopt.theory.hard_data`). The constraint set is the Euclidean ball of the radius of the
class. Two losses convert the mean ``t v/sqrt(D)`` of the data into a risk:

    convex            -L <w, x>,  |x| <= 1:            L R t (|v|/sqrt(D) - <w, v>/(R sqrt(D))),
    strongly convex   (m/2) |w - rho x|^2, |x| <= 1:   (m/2) |w - rho t v/sqrt(D)|^2,

with ``rho <= L/m - R`` and ``rho t <= R``. In sparse classes the linear part of the second loss is
sparse; the other gradients are those of the public ``m w``. If no smoothness is declared, the
losses are also distances ``L |w - x|``. Proofs: :ref:`Lower bounds, Theorem 6 <theory-lower-6>`.
Sources: Bassily, Smith and Thakurta 2014 (arXiv:1405.7085), Theorems 5.2 to 5.5, and Steinke and
Ullman 2016 (arXiv:1501.06095), Theorem 1.1 (the orders); the constants are derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from privopt.arguments import checked
from privopt.spec import ProblemClass
from privopt.theory.advantage import Advantage, ApproximateAdvantage
from privopt.theory.hard_data import (
    HardData,
    distances,
    fingerprints,
    hidden_counts,
    hidden_points,
    hidden_positions,
    hidden_signs,
    hidden_supports,
)
from privopt.theory.rate import LowerBound, Quantity


def _empirical(problem_class: ProblemClass, advantage: Advantage) -> dict[str, float]:
    """Return lower bounds of the worst-case excess empirical risk, by the name of the hard data.

    With the advantage ``T`` on one record (``mu/2`` for small ``mu`` under ``replace_one``), the
    limits of hidden signs and fingerprints for many coordinates and records are ``0.300 L R
    sqrt(d)/(n T)`` and, for strongly convex classes, ``(m/2) rho^2 d/(n T)^2``. Hidden supports of
    ``s`` nonzeros give the order ``L R (s ln(d/(s g)))^(1/4)/sqrt(n mu)`` for ``g`` groups, or its
    square.

    Hidden points, distances and, for sparse records, hidden positions are for (epsilon, delta)-DP.
    For small ``epsilon`` the limits of hidden points and distances are ``0.191`` and ``0.429``
    times ``L R sqrt(d ln(1/delta))/(n epsilon)``, or ``(m/2) rho^2 d ln(1/delta)/(2 e (n
    epsilon)^2)``. Under epsilon-DP they are ``L R d/(10 n epsilon)`` and ``L R d/(e n epsilon)``.
    Distances are in classes without a smoothness, or strongly convex.

    The bounds are 0 if ``lipschitz`` or ``radius`` is not declared.
    """
    n, dim = problem_class.n, problem_class.dim
    width = problem_class.sparsity or dim
    families = _hard_data(n, dim, width, advantage)
    bounds = {name: _worst_risk(problem_class, priors) for name, priors in families.items()}
    if isinstance(advantage, ApproximateAdvantage):
        bounds["distances"] = _distances(problem_class, advantage)
    return bounds


@lru_cache(maxsize=512)
def _distances(problem_class: ProblemClass, advantage: ApproximateAdvantage) -> float:
    """Return the bound of packings with distances ``L |w - x|``, or squares if strongly convex."""
    n, dim, modulus = problem_class.n, problem_class.dim, problem_class.strong_convexity
    if modulus > 0.0:
        reach, power = _reach(problem_class), 2.0
        scale = 0.5 * modulus * reach**2
        cap = problem_class.radius / reach if reach else 0.0
    else:
        scale, power, cap = problem_class.lipschitz * problem_class.radius, 1.0, math.inf
    if (
        scale == 0.0
        or math.isinf(scale)
        or (modulus == 0.0 and problem_class.smoothness is not None)
    ):
        return 0.0
    return scale * max(
        distances(width, power).best(n, advantage, groups=dim // width, cap=cap, power=power)
        for width in (1, *_widths(problem_class.sparsity or dim))
    )


def _widths(width: int) -> list[int]:
    """Return ``width`` divided by ``2^j`` and ``3 2^j``, rounded down, from 2."""
    divisors = (first << j for first in (1, 3) for j in range(width.bit_length()))
    return sorted({width // each for each in divisors} - {0, 1})


def _worst_risk(problem_class: ProblemClass, families: Iterable[HardData]) -> float:
    """Return the largest risk over priors, for linear losses or squared distances."""
    radius, lipschitz = problem_class.radius, problem_class.lipschitz
    modulus = problem_class.strong_convexity
    if modulus > 0.0:
        reach = _reach(problem_class)
        return (
            0.5 * modulus * max((each.quadratic(reach, radius) for each in families), default=0.0)
        )
    if math.isinf(lipschitz) or math.isinf(radius):
        return 0.0
    return lipschitz * radius * max((each.linear() for each in families), default=0.0)


@lru_cache(maxsize=512)
def _hard_data(
    n: int, dim: int, width: int, advantage: Advantage
) -> dict[str, tuple[HardData, ...]]:
    families = {
        "hidden signs": (hidden_signs(n, dim, advantage),),
        "hidden counts": (hidden_counts(n, dim, advantage),),
        "fingerprints": tuple(
            fingerprints(n, dim, advantage, width=each) for each in sorted({1, width})
        ),
    }
    if width < dim:
        families["hidden supports"] = (hidden_supports(n, dim, width, advantage),)
    if isinstance(advantage, ApproximateAdvantage):
        families["hidden points"] = tuple(
            hidden_points(n, dim, each, advantage) for each in _widths(width)
        )
        if width < dim:
            families["hidden positions"] = tuple(
                hidden_positions(n, dim, width, each, advantage) for each in _widths(dim // width)
            )
    return families


def _reach(problem_class: ProblemClass) -> float:
    """Return ``rho``, at most ``n R``, at which one record changes the mean by the radius."""
    radius = problem_class.radius
    if math.isinf(radius):
        return 0.0
    reach = problem_class.lipschitz / problem_class.strong_convexity - radius
    return max(0.0, min(reach, problem_class.n * radius))


def _population(problem_class: ProblemClass, advantage: Advantage) -> dict[str, float]:
    """Return lower bounds of the worst-case excess population risk for ``n`` independent records.

    The bound by sampled fingerprints is of order ``L R sqrt(d)/(n mu)`` or its square. The sampling
    error is at least ``L R/(4 sqrt n)`` from ``n = 2``, or ``m rho^2/(2 e (n + 1))``::

        max_v L R v (1 - sqrt(1 - (1 - v^2)^n)),    max_v (m/2) (rho v)^2 (1 - v^2)^n.
    """
    n, dim = problem_class.n, problem_class.dim
    sampled = [
        fingerprints(n, dim, advantage, width=width, sampled=True)
        for width in sorted({1, problem_class.sparsity or dim})
    ]
    return {
        "sampling": _worst_risk(problem_class, [_sample(n)]),
        "fingerprints": _worst_risk(problem_class, sampled),
    }


def _sample(n: int) -> HardData:
    """Return priors with means ``+-v e_1`` of records ``+-e_1``, where the output is the data."""
    v = np.linspace(0.0, 1.0, 257)[1:] / math.sqrt(n)
    explained = 1.0 - (1.0 - v**2) ** n
    return HardData(v, np.ones_like(v), np.sqrt(explained), np.ones_like(v), explained)


def _hindsight(facts: ProblemClass) -> float:
    """Return ``L R E |S|/n``, or 0 for strongly convex classes, which have no linear losses."""
    n, largest = facts.n, facts.lipschitz * facts.radius
    if facts.strong_convexity > 0.0 or math.isinf(largest):
        return 0.0
    pairs = n // 2
    middle = math.exp(math.lgamma(pairs + 0.5) - math.lgamma(pairs + 1.0)) / math.sqrt(math.pi)
    spread = 1.0 / math.sqrt(n * (1.0 + 2.0 * (1.0 - 1.0 / n) / facts.dim))
    return (1.0 - 1e-9) * largest * max(middle, spread)


@checked
def hard_data_bounds(
    problem_class: ProblemClass,
    guarantee: Advantage,
    quantity: Quantity | str = Quantity.EMPIRICAL_RISK,
    *,
    rounds: float = 0.0,
) -> dict[str, float]:
    """Return lower bounds for every algorithm with this guarantee, by the name of the hard data.

    The arguments are those of :func:`lower_bound`, which is the largest of them. The regret in
    ``rounds = n/b`` batches, for one pass, is at least ``n/b`` times the population risk. It is
    also at least the regret of linear losses ``-L <w, x>`` with ``E x = 0`` in hindsight, ``(L R/b)
    E |x_1 + ... + x_n|``, about ``sqrt(2/pi)`` or ``sqrt(d/(d + 2))`` times ``(L R/b) sqrt(n)``.
    Proof: :ref:`Lower bounds, Theorem 7 <theory-lower-7>`.

    Examples
    --------
    >>> from privopt.spec import Budget
    >>> facts = ProblemClass(n=1000, dim=100, lipschitz=1.0, radius=1.0, smoothness=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> bounds = hard_data_bounds(facts, ApproximateAdvantage(budget))
    >>> max(bounds, key=bounds.get), round(bounds["hidden points"] / bounds["hidden signs"], 2)
    ('hidden points', 1.46)
    """
    match Quantity.named("quantity", quantity):
        case Quantity.EMPIRICAL_RISK:
            return _empirical(problem_class, guarantee)
        case Quantity.POPULATION_RISK:
            return _population(problem_class, guarantee)
        case Quantity.REGRET:
            bounds = _population(problem_class, guarantee) | {
                "hindsight": _hindsight(problem_class)
            }
            return {name: rounds * value for name, value in bounds.items()}
    return {}


@checked
def lower_bound(
    problem_class: ProblemClass,
    guarantee: Advantage,
    quantity: Quantity | str = Quantity.EMPIRICAL_RISK,
    *,
    rounds: float = 0.0,
) -> LowerBound:
    """Return the largest known lower bound for every algorithm with this guarantee.

    ``guarantee`` is the :class:`ApproximateAdvantage` of a budget (pure if its delta is 0), a
    :class:`GaussianAdvantage` or a :class:`RenyiAdvantage`. ``quantity`` is the empirical or
    population risk, or the regret in ``rounds`` batches. The value is 0 for other quantities.

    Examples
    --------
    >>> from privopt.spec import Budget
    >>> facts = ProblemClass(n=1000, dim=100, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> bound = lower_bound(facts, ApproximateAdvantage(budget))
    >>> round(bound.value, 6), bound.guarantee
    (0.014916, '(1, 1e-06)-DP')
    """
    bounds = hard_data_bounds(problem_class, guarantee, quantity, rounds=rounds)
    return LowerBound(max(bounds.values(), default=0.0), guarantee.name)
