"""Which algorithm a model takes where its user names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privopt.algorithms import ALGORITHMS
from privopt.arguments import described, member
from privopt.core import Algorithm, Plan
from privopt.spec import Budget, ProblemClass

MAX_STEPS = 300  # of a recommended method; more cost minutes and change little

_PURE = {
    **{name: name for name in ("objective_perturbation", "sufficient_statistics")},
    "dp_gd": "output_perturbation",
}
"""What stands for a preferred method where ``delta = 0``."""


def planned(
    algorithm: Algorithm | str,
    options: Mapping[str, Any] | None,
    problem_class: ProblemClass,
    budget: Budget,
    preferred: str,
) -> Plan:
    """The plan of the algorithm that is named, or of the one that the model prefers."""
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options must be a dict of a plan's choices, got {described(options)}")
    chosen = dict(options or {})
    if isinstance(algorithm, Algorithm):
        return algorithm.plan(problem_class, budget, **chosen)
    member("algorithm", algorithm, ("recommended", *ALGORITHMS))
    if algorithm != "recommended":
        return ALGORITHMS[algorithm].plan(problem_class, budget, **chosen)
    name = _PURE[preferred] if budget.delta == 0.0 else preferred
    return _held(ALGORITHMS[name], problem_class, budget, chosen)


def _held(
    algorithm: Algorithm, problem_class: ProblemClass, budget: Budget, chosen: dict[str, Any]
) -> Plan:
    """At most so many steps, unless the user says how many."""
    plan = algorithm.plan(problem_class, budget, **chosen)
    mechanism: Any = plan.params.mechanism
    steps = getattr(mechanism, "steps", 0)
    if steps > MAX_STEPS and "steps" not in chosen:
        return algorithm.plan(problem_class, budget, **{**chosen, "steps": MAX_STEPS})
    return plan
