"""Lower bounds that apply to a plan, each for the guarantee for which it is proved."""

from __future__ import annotations

import math

import dp_accounting as dp

from privopt.privacy import GaussianDP, Guarantee, PureDP, renyi_divergence
from privopt.privacy.flatten import flatten
from privopt.privacy.mechanisms.sampling import chance_of_overflow
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    Advantage,
    ApproximateAdvantage,
    GaussianAdvantage,
    LowerBound,
    Rate,
    RenyiAdvantage,
    lower_bound,
)


def lower_bounds(
    problem_class: ProblemClass, budget: Budget, guarantee: Guarantee, rate: Rate
) -> tuple[LowerBound, ...]:
    """Return the lower bound for the budget and, if larger, the bound for the guarantee."""
    if not rate.whole_class:
        return ()
    advantages = [ApproximateAdvantage(budget), advantage_of(guarantee)]
    within, *own = [
        lower_bound(problem_class, each, rate.quantity, rounds=rate.rounds)
        for each in advantages
        if each is not None
    ]
    return (within, *(each for each in own if each.value > within.value))


def advantage_of(guarantee: Guarantee) -> Advantage | None:
    """Return the strongest advantage of an event for which lower bounds are proved, or None.

    The advantage is Gaussian DP, pure DP or the Renyi divergence of order 2. A truncated batch
    equals the whole sample unless the other records fill its capacity. This event has the same
    probability for both data sets, which is counted as lost.
    """
    event, relation = guarantee.event, guarantee.relation
    if GaussianDP().supports(event, relation):
        mu = GaussianDP().distance(event, relation).upper
        return GaussianAdvantage(mu, relation) if mu < math.inf else None
    if PureDP().supports(event, relation):
        epsilon = PureDP().epsilon(event, relation, 0.0).upper
        within = 0.0 < epsilon < math.inf
        pure = Budget(epsilon=epsilon, delta=0.0, relation=relation) if within else None
        return None if pure is None else ApproximateAdvantage(pure)
    whole, lost = [], 0.0
    for leaf, count in flatten(event):
        if isinstance(leaf, dp.TruncatedSubsampledGaussianDpEvent):
            rate, capacity = leaf.sampling_probability, leaf.truncated_batch_size
            lost += count * chance_of_overflow(leaf.dataset_size - 1, rate, capacity)
            leaf = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(leaf.noise_multiplier))
        whole.append(dp.SelfComposedDpEvent(leaf, count))
    divergence = renyi_divergence(dp.ComposedDpEvent(whole), relation, [2.0])
    if divergence is None or not math.isfinite(divergence[0]):
        return None
    return RenyiAdvantage(float(divergence[0]), relation, lost=min(lost, 1.0))
