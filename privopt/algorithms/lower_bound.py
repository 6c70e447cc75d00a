"""The lower bound beside a rate, from what is proved of a mechanism's own event."""

from __future__ import annotations

import dp_accounting as dp

from privopt.privacy import renyi_divergence
from privopt.privacy.leaves import leaves
from privopt.privacy.releases.truncated import chance_of_overflow
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import RenyiAdvantage, budget_lower_bound

__all__ = ["event_advantage", "event_lower_bound"]


def event_lower_bound(problem_class: ProblemClass, budget: Budget, event: dp.DpEvent) -> float:
    """:func:`privopt.theory.budget_lower_bound` with the advantage of ``event``.

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
    advantage = event_advantage(event, budget.relation)
    return budget_lower_bound(problem_class, budget, advantage=advantage)


def event_advantage(event: dp.DpEvent, relation: Relation) -> RenyiAdvantage | None:
    """By the Renyi divergence of order 2; None where it is not known.

    A batch cut at its capacity is the whole sample but with the chance that the other records fill
    it, the same on both data sets, at which all may be told.

    Examples
    --------
    >>> step = dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(4.0))
    >>> found = event_advantage(dp.SelfComposedDpEvent(step, 100), Relation.ZERO_OUT)
    >>> round(found.divergence, 4), found.lost
    (0.0161, 0.0)
    """
    whole, lost = [], 0.0
    for leaf, count in leaves(event):
        if isinstance(leaf, dp.TruncatedSubsampledGaussianDpEvent):
            rate, capacity = leaf.sampling_probability, leaf.truncated_batch_size
            lost += count * chance_of_overflow(leaf.dataset_size - 1, rate, capacity)
            leaf = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(leaf.noise_multiplier))
        whole.append(dp.SelfComposedDpEvent(leaf, count))
    divergence = renyi_divergence(dp.ComposedDpEvent(whole), relation, [2.0])
    if divergence is None:
        return None
    return RenyiAdvantage(float(divergence[0]), relation, lost=min(lost, 1.0))
