"""Whether a problem is one of those that a plan was made for."""

from __future__ import annotations

from typing import Protocol

from privopt.arguments import described
from privopt.convex import EmpiricalRisk
from privopt.core.plan import Plan
from privopt.core.runs import Source
from privopt.spec import Premises, ProblemClass, Relation

REMEDIES = {
    "ball": "use a Euclidean ball (convex.L2Ball), or plan for any (projection='linf', floor=0.0)",
    "linear_model": "use a loss of one linear prediction without kinks (GeneralisedLinear)",
    "mean": "use squared distances to records that are vectors (problems.squared_distance)",
    "smoothing": "declare smoothness= in its ProblemClass, or use a loss with a Moreau envelope",
    "squares": "use squared losses of linear predictions (problems.squared)",
    "unit_modulus": "declare smoothness= in its ProblemClass for a modulus above 1",
}


class Problem(Protocol):
    """What ``run`` needs of a problem; :class:`privopt.problems.Problem` is one."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def problem_class(self) -> ProblemClass:
        """Its declared constants."""

    @property
    def objective(self) -> EmpiricalRisk:
        """The losses on the device."""

    @property
    def source(self) -> Source:
        """Where the records of a run come from."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the parameter, where it is one array."""

    @property
    def provides(self) -> frozenset[str]:
        """What it has beyond gradients and projection."""


def check_problem(plan: Plan, problem: Problem, facts: ProblemClass | None = None) -> None:
    """ValueError unless ``problem`` is of the plan's class, with no larger constants.

    ``facts`` are those of all records, where the problem is a batch of them.
    """
    if isinstance(problem, type) or not hasattr(problem, "source"):
        raise ValueError(f"problem must be a privopt.problems.Problem, got {described(problem)}")
    planned, actual = plan.problem_class, facts or problem.problem_class
    if actual.dim != planned.dim:
        raise ValueError(f"problem.dim must be the plan's {planned.dim}, got {actual.dim}")
    if plan.budget.relation is not Relation.ADD_OR_REMOVE_ONE and actual.n != planned.n:
        raise ValueError(f"problem.n must be the plan's {planned.n}, got {actual.n}")
    (plan.premises & Premises.declared(planned)).check(actual, "problem", "the plan")
    if problem.objective.public is not None and not plan.algorithm.public_terms:
        raise ValueError(
            f"problem.public must be None for {plan.algorithm.name}, which hears of records alone "
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
