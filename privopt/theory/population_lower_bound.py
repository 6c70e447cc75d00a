"""What no private algorithm can beat on a population: an explicit lower bound."""

from __future__ import annotations

import math

import numpy as np

from privopt.spec import ProblemClass
from privopt.theory.advantage import Advantage
from privopt.theory.hard_data import HardData, fingerprints
from privopt.theory.lower_bounds import shape, worst_risk

__all__ = ["population_lower_bound"]


def population_lower_bound(problem_class: ProblemClass, advantage: Advantage) -> float:
    """Excess population risk that some distribution of the class forces on every algorithm.

    The larger of two bounds for ``n`` independent records, with the losses of
    :mod:`privopt.theory.lower_bounds`.

    *Privacy*: fingerprints (:mod:`privopt.theory.hard_data`), a record being informative in a group
    with chance ``K/n``, else null. The mean is that of the distribution and not of the records. Of
    order ``L R sqrt(d)/(n mu)``, or its square.

    *Sampling*, at least ``L R/(4 sqrt n)`` from ``n = 2``, or ``m rho^2/(2 e (n + 1))``::

        max_v L R v (1 - sqrt(1 - (1 - v^2)^n)),    max_v (m/2) (rho v)^2 (1 - v^2)^n.

    Records ``+-e_1`` of mean ``v`` or ``-v``: the sign is told with the advantage ``T`` of
    ``privopt.theory.advantage``, and ``T^2 <= 1 - BC^2`` with the Bhattacharyya coefficient
    ``BC = E sqrt(1 - c^2) <= sqrt(1 - E c^2)``, ``c = (P - Q)/(P + Q)``; of ``n`` records it is
    ``(1 - v^2)^{n/2}`` (Le Cam).

    Parameters
    ----------
    problem_class : ProblemClass
        The constraint set is the Euclidean ball of its radius.
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
    >>> facts = ProblemClass(n=10_000, dim=100, lipschitz=1.0, radius=1.0)
    >>> round(population_lower_bound(facts, GaussianAdvantage(0.1, Relation.REPLACE_ONE)), 5)
    0.00576
    """
    n, (dim, width) = problem_class.n, shape(problem_class)
    families = [_sample(n), fingerprints(n, dim, advantage, sampled=True)]
    if width > 1:
        families.append(fingerprints(n, dim, advantage, width=width, sampled=True))
    return worst_risk(problem_class, families)


def _sample(n: int) -> HardData:
    """Means ``+-v e_1``, with nothing kept from the answers."""
    v = np.linspace(0.0, 1.0, 257)[1:] / math.sqrt(n)
    told = 1.0 - (1.0 - v**2) ** n
    return HardData(v, np.ones_like(v), np.sqrt(told), np.ones_like(v), told)
