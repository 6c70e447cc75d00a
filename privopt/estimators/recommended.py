"""Default algorithms of the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privopt.algorithms import ALGORITHMS
from privopt.arguments import described, member
from privopt.core import Algorithm, Plan
from privopt.spec import Budget, ProblemClass

MAX_STEPS = 300  # of a recommended method; more steps take minutes and change little

_PURE = {
    **{name: name for name in ("objective_perturbation", "sufficient_statistics")},
    "dp_gd": "output_perturbation",
}
"""Replacement of a preferred method if ``delta = 0``."""


def planned(
    algorithm: Algorithm | str,
    options: Mapping[str, Any] | None,
    problem_class: ProblemClass,
    budget: Budget,
    preferred: str,
) -> Plan:
    """Return the plan of ``algorithm``, or of ``preferred`` if it is ``"recommended"``."""
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"options must be a dict of a plan's choices, got {described(options)}")
    choices = dict(options or {})
    if isinstance(algorithm, Algorithm):
        return algorithm.plan(problem_class, budget, **choices)
    member("algorithm", algorithm, ("recommended", *ALGORITHMS))
    if algorithm != "recommended":
        return ALGORITHMS[algorithm].plan(problem_class, budget, **choices)
    name = _PURE[preferred] if budget.delta == 0.0 else preferred
    return _limited(ALGORITHMS[name], problem_class, budget, choices)


def _limited(
    algorithm: Algorithm, problem_class: ProblemClass, budget: Budget, choices: dict[str, Any]
) -> Plan:
    """Return a plan with at most ``MAX_STEPS`` steps, unless ``choices`` contain their number."""
    plan = algorithm.plan(problem_class, budget, **choices)
    mechanism: Any = plan.params.mechanism
    steps = getattr(mechanism, "steps", 0)
    if steps > MAX_STEPS and "steps" not in choices:
        return algorithm.plan(problem_class, budget, **{**choices, "steps": MAX_STEPS})
    return plan
