"""Two neighbours on which an algorithm tells as much about one record as it can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member
from privopt.core import Plan
from privopt.problems import Problem
from privopt.spec import Budget, ProblemClass, Relation

_RECORDS = 8  # few, so that one counts for much beside rounding
_LINE: dict[str, Any] = {
    "n": _RECORDS,
    "dim": 1,
    "lipschitz": 1.0,
    "radius": 100.0,
    "smoothness": 0.0,
}
_SPARSE = {**_LINE, "dim": 8, "sparsity": 1}
_SQUARES: dict[str, Any] = {
    "n": _RECORDS,
    "dim": 1,
    "lipschitz": 2.0,
    "radius": 1.0,
    "smoothness": 1.0,
}
_MEANS = {**_SQUARES, "dim": 8, "strong_convexity": 1.0, "sparsity": 1}
_CLASSES = {
    "linf_output_perturbation": _SPARSE,
    "projection_mechanism": _MEANS,
    "l1_recovery": _MEANS,
    "sufficient_statistics": _SQUARES,
}
# Small steps: a path that no projection cuts tells all that the noisy answers tell.
_SHORT = {"steps": 10, "step_size": 0.01, "record": "all"}
_BATCHES = {**_SHORT, "batch_size": 2}
_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "dp_gd": _SHORT,
    "dp_sgd": _BATCHES,
    "noisy_adam": _BATCHES,
    "dp_svrg": _BATCHES,
    "bias_reduced_sgd": {**_SHORT, "body": "l2"},
    "dp_ftrl": {"record": "all", "epochs": 1, "regularisation": 100.0, "order": "stored"},
}


class Pair(NamedTuple):
    """A plan, and two data sets that are neighbours under its relation."""

    plan: Plan
    one: Problem
    two: Problem


def attackable() -> list[str]:
    """The names that :func:`worst_pair` takes: private algorithms, those of one's own included."""
    return [name for name, each in ALGORITHMS.items() if each.private]


def class_of(algorithm: str) -> ProblemClass:
    """The class in which one record tells most."""
    return ProblemClass(**_CLASSES.get(algorithm, _LINE))


def choices_of(algorithm: str) -> Mapping[str, Any]:
    """With which a plan tells most."""
    return _CHOICES.get(algorithm, {})


def worst_pair(algorithm: str, budget: Budget) -> Pair:
    """A plan at ``budget``, one record at its largest, and its opposite or nothing.

    All other records are 0, the losses linear (squared, where the plan asks for these): the record
    then adds to every answer as much as it may. Under ``zero_out`` and ``add_or_remove_one`` the
    second data set has a record of zeros in its place, which adds nothing.

    Examples
    --------
    >>> pair = worst_pair("dp_gd", Budget(epsilon=1.0, delta=1e-5, relation="replace_one"))
    >>> [problem.data[0][0].tolist() for problem in (pair.one, pair.two)]
    [[1.0], [-1.0]]
    """
    instance("budget", budget, Budget)
    member("algorithm", algorithm, attackable())
    plan = ALGORITHMS[algorithm].plan(class_of(algorithm), budget, **choices_of(algorithm))
    other = -1.0 if budget.relation is Relation.REPLACE_ONE else 0.0
    return Pair(plan, _problem(plan, 1.0), _problem(plan, other))


def _problem(plan: Plan, size: float) -> Problem:
    """The first record has this size along the first axis."""
    facts = plan.problem_class
    records = np.zeros((facts.n, facts.dim))
    records[0, 0] = size
    if "mean" in plan.requires:
        return problems.squared_distance(records, problem_class=facts)
    if "squares" in plan.requires:
        return problems.squared(records, np.ones(facts.n), problem_class=facts)
    return problems.linear(records, problem_class=facts)
