"""Check that a problem belongs to the problem class of a plan."""

from __future__ import annotations

from typing import Protocol

from privopt.arguments import described
from privopt.convex import EmpiricalRisk
from privopt.core.plan import Plan
from privopt.core.runs import Source
from privopt.spec import Assumptions, ProblemClass, Relation

REMEDIES = {
    "ball": "use a Euclidean ball (convex.L2Ball), or plan for any (projection='linf', floor=0.0)",
    "linear_model": "use a loss of one linear prediction without kinks (GeneralisedLinear)",
    "mean": "use squared distances to records that are vectors (problems.squared_distance)",
    "smoothing": "declare smoothness= in its ProblemClass, or use a loss with a Moreau envelope",
    "squares": "use squared losses of linear predictions (problems.squared)",
    "unit_modulus": "declare smoothness= in its ProblemClass for a modulus above 1",
}


class RunnableProblem(Protocol):
    """Interface of a problem for ``run``; :class:`privopt.problems.Problem` implements it."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def problem_class(self) -> ProblemClass:
        """Declared constants."""

    @property
    def objective(self) -> EmpiricalRisk:
        """Empirical risk on the device."""

    @property
    def source(self) -> Source:
        """Source of the records of a run."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the parameter, or None if it is a pytree."""

    @property
    def provides(self) -> frozenset[str]:
        """Features beyond gradients and projection."""


def check_problem(plan: Plan, problem: RunnableProblem, facts: ProblemClass | None = None) -> None:
    """Check that ``problem`` is in the plan's class, with constants no larger than the plan's.

    If ``problem`` is a batch of records, ``facts`` is the problem class of all records.
    """
    if isinstance(problem, type) or not hasattr(problem, "source"):
        raise ValueError(f"problem must be a privopt.problems.Problem, got {described(problem)}")
    planned, actual = plan.problem_class, facts or problem.problem_class
    if actual.dim != planned.dim:
        raise ValueError(f"problem.dim must be the plan's {planned.dim}, got {actual.dim}")
    if plan.budget.relation is not Relation.ADD_OR_REMOVE_ONE and actual.n != planned.n:
        raise ValueError(f"problem.n must be the plan's {planned.n}, got {actual.n}")
    (plan.assumptions & Assumptions.declared(planned)).check(actual, "problem", "the plan")
    if problem.objective.public is not None and not plan.algorithm.public_terms:
        raise ValueError(
            f"problem.public must be None for {plan.algorithm.name}, which uses records only "
            f"(dp_gd adds public gradients), got {problem.name}"
        )
    if "ball" in plan.requires and actual.radius != planned.radius:
        raise ValueError(f"problem.radius must be the plan's {planned.radius}, got {actual.radius}")
    missing = plan.requires - problem.provides
    if missing:
        raise ValueError(
            f"problem must provide {', '.join(sorted(missing))} for {plan.algorithm.name}, "
            f"got {problem.name}: {'; '.join(REMEDIES[name] for name in sorted(missing))}"
        )
