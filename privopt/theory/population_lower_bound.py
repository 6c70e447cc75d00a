"""What no private algorithm can beat on a population: an explicit lower bound."""

from __future__ import annotations

import math

import numpy as np

from privopt.spec import ProblemClass

__all__ = ["population_lower_bound"]


def population_lower_bound(
    problem_class: ProblemClass, *, advantage: float, delta: float = 0.0
) -> float:
    """Excess population risk that some distribution of the class forces on every algorithm.

    The larger of two bounds for ``n`` independent records of ``loss(w; x) = -L <w, x>`` on the ball
    of radius ``R``; for strongly convex classes, which these losses are not of, 0.

    *Privacy*, of order ``L R sqrt(d) / (6 n kappa)``::

        max_{0 < k <= n} (L R k / n) [ m_d - (k/2) (kappa + 4 delta sqrt d) / sqrt d ],
        m_d = sqrt(1/3) / sqrt(1 + 4/(5d)) <= E |p| / sqrt d.

    With probability ``k/n`` a record is ``x/sqrt(d)``, ``x`` in ``{-1, 1}^d`` of independent
    coordinates of mean ``p_j``, else null; ``p_j ~ U[-1, 1]``. Then the excess of ``w`` is
    ``(L k / (n sqrt d)) (R |p| - <w, p>)``. Whatever the set ``S`` of informative records,
    the fingerprinting identity of :mod:`privopt.theory.lower_bounds` reads
    ``sum_{i in S} E <w, x_i - p> = 2 E <w, p>``, and each term is at most
    ``R (kappa + 4 delta sqrt d)`` by privacy; ``|S|`` is ``k`` on average. The mean being that of
    the distribution and not of the records, nothing is lost from one to the other.

    *Sampling*, at least ``L R / (4 sqrt n)``, from ``n = 2``::

        max_v L R v (1 - sqrt(1 - (1 - v^2)^n)).

    Records ``+-e_1`` of mean ``v`` or ``-v``: the excesses of any ``w`` add up to at least ``2 L R
    v``, so their mean is at least ``L R v (1 - TV)``; and ``TV^2 <= 1 - BC^2`` with the
    Bhattacharyya coefficient ``BC = (1 - v^2)^{n/2}`` of the ``n`` records (Le Cam).

    Parameters
    ----------
    problem_class : ProblemClass
        The constraint set is the Euclidean ball of its radius.
    advantage, delta : float
        ``kappa`` and ``delta`` at the replace-one distance, from ``gaussian_dp_advantage``
        (``delta`` 0) or ``approximate_dp_advantage``.

    Examples
    --------
    >>> facts = ProblemClass(n=10_000, dim=100, lipschitz=1.0, radius=1.0)
    >>> round(population_lower_bound(facts, advantage=0.1), 5)
    0.0027
    """
    n, radius, lipschitz = problem_class.n, problem_class.radius, problem_class.lipschitz
    if problem_class.strong_convexity > 0.0 or math.isinf(radius):
        return 0.0
    d = problem_class.sparsity or problem_class.dim
    mean_norm = math.sqrt(1.0 / 3.0) / math.sqrt(1.0 + 0.8 / d)
    leak = 0.5 * (advantage / math.sqrt(d) + 4.0 * delta)
    k = min(float(n), 0.5 * mean_norm / leak) if leak > 0.0 else float(n)
    private = k / n * (mean_norm - k * leak) if math.isfinite(leak) else 0.0
    v = np.linspace(0.0, 1.0, 257)[1:] / math.sqrt(n)
    sampled = v * (1.0 - np.sqrt(1.0 - (1.0 - v**2) ** n))
    return lipschitz * radius * max(private, float(sampled.max()))
