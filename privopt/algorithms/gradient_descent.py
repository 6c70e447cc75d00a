"""Projected (sub)gradient descent with averaging: the non-private twin of DP-GD."""

from __future__ import annotations

import math

from privopt.algorithms.first_order import Params, Static, descent, descent_bound, run
from privopt.arguments import count
from privopt.convex import Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import ClippedGradient, ExactGradient
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate

__all__ = ["GRADIENT_DESCENT"]


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | StepSizes | None = None,
    output: Output | None = None,
    record: int = 0,
) -> Plan:
    """Plan averaged projected gradient descent without noise.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
        Ignored, taken so that twins are planned alike.
    steps : int, optional
        ``T``; default ``n``.
    step_size, output, record
        As in ``dp_gd``; default ``R / (L sqrt T)`` and the average.

    Formal guarantee
    ----------------
    None: epsilon is infinite.

    Rate
    ----
    ``R L / sqrt T`` for convex Lipschitz losses (:func:`privopt.theory.noisy_descent`).
    """
    steps = problem_class.n if steps is None else count("steps", steps)
    method = descent(
        problem_class, steps=steps, noise_scale=0.0, step_size=step_size, output=output,
        record=record,
    )  # fmt: skip
    upper, theorem, source = descent_bound(problem_class, method, noise_scale=0.0, clipped=False)
    return Plan(
        algorithm=GRADIENT_DESCENT,
        problem_class=problem_class,
        budget=budget,
        params=Params(ExactGradient(ClippedGradient.of(problem_class, math.inf)), method),
        static=Static(problem_class.dim),
        rate=Rate(
            theorem=theorem,
            source=source,
            upper=upper,
            lower=0.0,
            exponents={"n": 0.0, "dim": 0.0, "epsilon": 0.0},
            regime="fixed T",
        ),
    )


GRADIENT_DESCENT = Algorithm(
    name="gradient_descent",
    summary="projected gradient descent, averaged: no noise, no privacy",
    plan=plan,
    run=run,
    private=False,
    noise=None,
)
