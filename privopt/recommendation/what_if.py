"""What would lower the bound: more records, more epsilon, or more that is declared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from privopt.core import Plan
from privopt.recommendation.candidates import plans
from privopt.recommendation.known_losses import problem_class_of
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import Quantity

N_RANGE = (10, 2_000_000_000)
EPSILON_RANGE = (1e-3, 100.0)
WORTH = 0.8
"""A what-if is told where it leaves at most so much of the best bound."""


class Reach(NamedTuple):
    """Where the bound of one method comes down to a target: the smallest numbers of two digits.

    Either moves alone, at the same delta. None: nowhere in ``N_RANGE``, ``EPSILON_RANGE``.
    """

    method: str
    target: float
    n: int | None
    epsilon: float | None


class WhatIf(NamedTuple):
    """The best bound under another assumption, and the method that has it."""

    assumption: str
    method: str
    bound: float


def reach(plan: Plan, target: float) -> Reach:
    """The smallest ``n``, and the smallest ``epsilon``, at which a replanned bound is a target."""
    facts, budget, rate = plan.problem_class, plan.budget, plan.rate

    @cache
    def bound(n: float, epsilon: float) -> float:
        at, spent = replace(facts, n=int(n)), replace(budget, epsilon=epsilon)
        try:
            return plan.algorithm.plan(at, spent).rate.upper
        except ValueError:
            return math.inf

    def least(
        there: Callable[[float], float], now: float, slope: float, low: float, high: float
    ) -> float | None:
        """By the slope at the plan, and once more from there, to a guess near the answer."""
        guess, value = now, rate.uncapped
        for _ in range(2):
            if slope < -0.01 and math.isfinite(value):
                guess = min(max(guess * (target / value) ** (1.0 / slope), low), high)
            guess = _two_digits(_place(guess))
            value = there(guess)
        return smallest(lambda x: there(x) <= target, guess, low, high)

    n = least(lambda n: bound(n, budget.epsilon), facts.n, rate.slope("n"), *N_RANGE)
    epsilon = least(
        lambda epsilon: bound(facts.n, epsilon),
        budget.epsilon, rate.slope("epsilon"), *EPSILON_RANGE,
    )  # fmt: skip
    return Reach(plan.algorithm.name, target, None if n is None else int(n), epsilon)


def smallest(holds: Callable[[float], bool], guess: float, low: float, high: float) -> float | None:
    """The smallest number of two digits in ``[low, high]`` for which a rising condition holds.

    It holds there, and not at the number of two digits below. None where it does not hold at
    ``high``. Steps that double lead from the guess to a bracket, halving to its end.

    Examples
    --------
    >>> smallest(lambda x: x * x >= 2.0, guess=30.0, low=0.01, high=100.0)
    1.5
    """
    first, last = _place(low), _place(high)
    true = cache(lambda place: holds(_two_digits(place)))
    no = yes = min(max(_place(guess), first), last)
    step = 1
    while true(no):
        if no == first:
            return _two_digits(first)
        yes, no, step = no, max(no - step, first), 2 * step
    while not true(yes):
        if yes == last:
            return None
        no, yes, step = yes, min(yes + step, last), 2 * step
    while yes - no > 1:
        middle = (no + yes) // 2
        no, yes = (no, middle) if true(middle) else (middle, yes)
    return _two_digits(yes)


def _two_digits(place: int) -> float:
    """``10, 11, ..., 99, 100, 110, ...`` from place 0 on; ``9.9, 9.8, ...`` before."""
    return float(f"{10 + place % 90}e{place // 90}")


def _place(value: float) -> int:
    """Of the smallest number of two digits that is at least ``value``, but for rounding."""
    power = math.floor(math.log10(value)) - 1
    return 90 * power + math.ceil(value / 10.0**power - 1e-9) - 10


def what_ifs(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    names: tuple[str, ...],
    quantity: Quantity,
    best: float,
    loss: str | None,
    provides: frozenset[str] | None,
) -> tuple[WhatIf, ...]:
    """Assumptions under which the best bound of these methods is at most ``WORTH`` of ``best``."""
    found = []
    for told, facts, spent in _assumptions(problem_class, budget, best, loss):
        has = provides
        if has is not None and "mean" not in has and facts.smoothness is not None:
            has |= {"linear_model"}
        bounded = plans(names, facts, spent, has).bounded
        bounds = [(each.rate.upper, each.algorithm.name) for each in bounded
                  if each.rate.quantity is quantity]  # fmt: skip
        if bounds and min(bounds)[0] <= WORTH * best:
            found.append(WhatIf(told, min(bounds)[1], min(bounds)[0]))
    return tuple(found)


def _assumptions(
    facts: ProblemClass, budget: Budget, best: float, loss: str | None
) -> list[tuple[str, ProblemClass, Budget]]:
    """Each in words, and the class and the budget that it makes."""
    found: list[tuple[str, ProblemClass, Budget]] = []
    if math.isfinite(half := 0.5 * facts.radius):
        sizes: dict[str, Any] = {"n": facts.n, "dim": facts.dim, "sparsity": facts.sparsity}
        smaller = problem_class_of(loss, radius=half, **sizes) if loss else None
        told = f"a public bound |w| <= {half:g}"
        found.append((told, smaller or replace(facts, radius=half), budget))
    if budget.delta == 0.0:
        delta = 1.0 / facts.n**2
        found.append((f"delta = {delta:.3g} in place of 0", facts, replace(budget, delta=delta)))
    if facts.smoothness is None and math.isfinite(facts.lipschitz):
        smooth = float(f"{facts.lipschitz**2 / best:.1g}")  # kinks rounded over h cost L^2 h/2
        told = f"smoothness {smooth:g}, kinks rounded"
        found.append((told, replace(facts, smoothness=smooth), budget))
    if budget.relation is Relation.REPLACE_ONE:
        zero_out = replace(budget, relation=Relation.ZERO_OUT)
        found.append(("zero_out in place of replace_one", facts, zero_out))
    return found
