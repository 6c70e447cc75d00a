"""Plans at their defaults: those with a bound, those without, and those that were refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from privopt.algorithms import ALGORITHMS, gradient_descent
from privopt.core import Plan
from privopt.core.running import REMEDIES
from privopt.recommendation.cost import Cost
from privopt.recommendation.plates import Plate
from privopt.spec import Budget, ProblemClass
from privopt.theory import Quantity, Rate

_TUNED = 2.0  # a default further than this from its tuned twin is not for the problem
_NEEDS = {
    "linear_model": "losses of one linear prediction",
    "smoothing": "losses with a Moreau envelope",
    "mean": "means of records",
    "squares": "squared losses of linear predictions",
}


@dataclass(frozen=True)
class Candidate:
    """One plan, what its run costs, the nearest plate, and what is not known that it needs."""

    plan: Plan
    cost: Cost
    plate: Plate | None
    needs: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Of the algorithm."""
        return self.plan.algorithm.name

    @property
    def quantity(self) -> Quantity:
        """What the bound speaks of."""
        return self.plan.rate.quantity

    @property
    def certified(self) -> float:
        """The theorem's bound, constants included."""
        return self.plan.rate.upper

    @property
    def measured(self) -> float | None:
        """The bound times measured/bound on the nearest plate: an estimate, no guarantee.

        None without a plate, and of a vacuous bound, which moves with nothing.
        """
        return self.plate.ratio * self.certified if self.plate and not self.vacuous else None

    @property
    def vacuous(self) -> bool:
        """Whether the public centre, which looks at no data, has as small a bound."""
        facts = self.plan.problem_class
        return self.certified >= facts.lipschitz * facts.radius

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the plan asks of a problem, and what speaks against it."""
        plate = self.plate
        needs = [_NEEDS[each] for each in sorted(self.needs) if each in _NEEDS]
        found = [f"for {' and '.join(needs)} alone"] if needs else []
        if self.vacuous:
            found.append("bound no smaller than the public centre's")
        if plate and plate.start >= 1.0:
            found.append("on its plate no better than the public centre")
        if plate and plate.tuned and plate.tuned > _TUNED:
            found.append(f"on its plate {plate.tuned:.2g} times the risk of its oracle-tuned twin")
        return tuple(found)


@dataclass(frozen=True)
class Plans:
    """What became of every algorithm; the reasons are the plans' own words."""

    bounded: list[Plan] = field(default_factory=list)
    unbounded: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def plans(
    names: Iterable[str],
    problem_class: ProblemClass,
    budget: Budget,
    provides: frozenset[str] | None = None,
) -> Plans:
    """Plans of these algorithms at their defaults.

    ``provides`` says what the problem has beyond gradients and projection; None: not known, and
    then a bound that is proved for a part of the class alone does not count.
    """
    found = Plans()
    for name in names:
        try:
            plan = ALGORITHMS[name].plan(problem_class, budget)
        except ValueError as error:
            found.refused[name] = str(error)
            continue
        if reason := _does_not_fit(plan, provides):
            found.refused[name] = reason
        elif plan.rate.terms:
            found.bounded.append(plan)
        else:
            found.unbounded[name] = plan.rate.theorem.removeprefix("none: ")
    return found


def ranked(candidates: Iterable[Candidate]) -> Mapping[Quantity, tuple[Candidate, ...]]:
    """By certified bound, each quantity by itself: bounds of two are never compared."""
    listed = sorted(candidates, key=lambda x: (x.certified, x.plan.rate.uncapped, x.name))
    kinds = [kind for kind in Quantity if any(each.quantity is kind for each in listed)]
    return {kind: tuple(each for each in listed if each.quantity is kind) for kind in kinds}


def _does_not_fit(plan: Plan, provides: frozenset[str] | None) -> str:
    if provides is None:
        needs = ", ".join(sorted(plan.requires))
        return "" if plan.rate.whole_class else f"its bound is for problems that provide {needs}"
    missing = sorted(plan.requires - provides)
    return "; ".join(f"needs {each}: {REMEDIES[each]}" for each in missing)


def without_privacy(problem_class: ProblemClass, budget: Budget) -> Rate:
    """The bound of gradient descent without noise, which spends no budget."""
    return gradient_descent(problem_class, budget).rate
