"""Projected (sub)gradient descent with averaging: the non-private twin of DP-GD."""

from __future__ import annotations

import math

from privopt.algorithms.descent import IN_STEPS, Descent
from privopt.arguments import count
from privopt.convex import Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import AllRecords, ClippedGradient, PrivateGradient
from privopt.spec import Budget, ProblemClass
from privopt.theory import GIVEN_STEPS, DefaultSteps, Exponents


@planner
def gradient_descent(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | StepSizes | None = None,
    output: Output | str | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for projected gradient descent without noise.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
        Not used. It is an argument so that the non-private twin has the same signature.
    steps : int, optional
        Number of steps ``T``. Default: ``n``.
    step_size, output, record
        See ``dp_gd``. Default: step size and average of the theorem with the smaller bound.

    Formal guarantee
    ----------------
    There is no guarantee: epsilon is infinite.

    Rate
    ----
    ``R L/sqrt(T + 1)`` for convex Lipschitz losses, ``H R^2/(2 T)`` for smooth losses
    (:func:`privopt.theory.descent_rate`).

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> gradient_descent(facts, budget, steps=100).params.mechanism.steps
    100
    """
    default = DefaultSteps(problem_class.n, Exponents(n=1.0))
    if steps is not None:
        default = DefaultSteps(count("steps", steps), GIVEN_STEPS)
    query = ClippedGradient.of(problem_class, math.inf)
    mechanism = PrivateGradient(
        query=query, batches=AllRecords(), noise=None, scale=0.0, steps=default.steps
    )
    method = Descent(step_size=step_size, output=output, record=record)
    return method.plan(GRADIENT_DESCENT, problem_class, budget, mechanism, default)


GRADIENT_DESCENT = Algorithm(
    name="gradient_descent",
    summary="projected gradient descent, averaged: no noise, no privacy",
    plan=gradient_descent,
    **IN_STEPS,
    private=False,
    noise=None,
    cites=("zinkevich2003", "bubeck2015"),
)
