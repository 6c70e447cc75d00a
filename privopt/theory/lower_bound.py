"""What no algorithm with a guarantee can beat, whatever is measured."""

from __future__ import annotations

from privopt.spec import ProblemClass
from privopt.theory.advantage import Advantage, ApproximateAdvantage
from privopt.theory.lower_bounds import erm_lower_bound, pure_lower_bound
from privopt.theory.population_lower_bound import population_lower_bound
from privopt.theory.rate import LowerBound, Quantity
from privopt.theory.regret_lower_bound import regret_lower_bound

__all__ = ["lower_bound"]


def lower_bound(
    problem_class: ProblemClass,
    guarantee: Advantage,
    quantity: Quantity | str = Quantity.EMPIRICAL_RISK,
    *,
    rounds: float = 0.0,
) -> LowerBound:
    """The largest lower bound that is known for every algorithm with a guarantee.

    Parameters
    ----------
    problem_class : ProblemClass
        The constraint set is the Euclidean ball of its radius.
    guarantee : Advantage
        :class:`ApproximateAdvantage` of a budget, pure where its delta is 0;
        :class:`GaussianAdvantage`; or :class:`RenyiAdvantage`. The bound holds for algorithms with
        this guarantee, and for no others.
    quantity : Quantity or its name
        The empirical or the population risk, or the regret; of others nothing is known.
    rounds : float
        Of the regret, as for :func:`regret_lower_bound`.

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
