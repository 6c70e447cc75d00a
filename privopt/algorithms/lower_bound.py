"""The lower bound beside a rate, from what is proved of a mechanism's own event."""

from __future__ import annotations

import dp_accounting as dp

from privopt.privacy import renyi_divergence
from privopt.spec import Budget, ProblemClass
from privopt.theory import budget_lower_bound

__all__ = ["event_lower_bound"]


def event_lower_bound(problem_class: ProblemClass, budget: Budget, event: dp.DpEvent) -> float:
    """:func:`privopt.theory.budget_lower_bound` with the Renyi divergence of order 2 of ``event``.

    For methods whose noise is no plain Gaussian: at their (epsilon, delta) less is known.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
    event : dp_accounting.DpEvent
        All that the method releases.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=100, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
    >>> step = dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(4.0))
    >>> round(event_lower_bound(facts, budget, dp.SelfComposedDpEvent(step, 100)), 5)
    0.01964
    """
    divergence = renyi_divergence(event, budget.relation, [2.0])
    known = None if divergence is None else float(divergence[0])
    return budget_lower_bound(problem_class, budget, divergence=known)
