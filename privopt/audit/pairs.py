"""Two neighbours on which an algorithm tells as much about one record as it can."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member
from privopt.audit.scores import FloatArray
from privopt.core import Execution, Plan, run_many
from privopt.core.parameters import device_numbers
from privopt.core.replicates import run_arguments
from privopt.core.running import precision, precision_dtype
from privopt.privacy import Guarantee
from privopt.problems import Problem
from privopt.release import Tape
from privopt.spec import Budget, ProblemClass, Relation

_TOGETHER = 5_000  # runs in one call: one program, memory bounded
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
    "dim": 2,
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
    # Of two records every batch of two is the whole: no sampling hides the record.
    "bias_reduced_sgd": {**_LINE, "n": 2},
    # The average of a phase of m records moves by m/(m + 1) of the most that one record can move.
    "phased_sgd": {**_LINE, "n": 32},
}
# Small steps: no projection cuts a path or a minimiser, so it tells all that noisy answers tell.
_SHORT = {"steps": 10, "step_size": 0.01, "record": "all"}
_BATCHES = {**_SHORT, "batch_size": 2}
_HEAVY = {"regularisation": 10.0}
_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "dp_gd": _SHORT,
    "dp_sgd": _BATCHES,
    "noisy_adam": _BATCHES,
    "dp_svrg": {**_BATCHES, "anchor_every": 2},
    "bias_reduced_sgd": {"steps": 3, "step_size": 0.01, "body": "none"},
    "phased_sgd": {"step_size": 0.01},
    "objective_perturbation": _HEAVY,
    "approximate_minima_perturbation": _HEAVY,
    "dp_ftrl": {"record": "all", "epochs": 1, "regularisation": 100.0, "order": "stored"},
}
# Whose released point mixes the noisy answers: the attack reads these, which are private too.
_ANSWERS = {"bias_reduced_sgd", "sufficient_statistics"}


class Pair(NamedTuple):
    """A plan, and two data sets that are neighbours under its relation.

    An attack reads each run's released point and path, or with ``answers`` all noisy answers, which
    the guarantee covers as well. Coins that are public, such as an order of records, it may choose:
    with ``first`` it takes runs alone that read the first record in their first step.
    """

    plan: Plan
    one: Problem
    two: Problem
    answers: bool = False
    first: bool = False

    @property
    def name(self) -> str:
        """That of the algorithm."""
        return self.plan.algorithm.name

    @property
    def control(self) -> float:
        """Half of the noise must be seen."""
        return 0.5

    @property
    def guarantee(self) -> Guarantee:
        """That of the plan."""
        return self.plan.guarantee

    def check(self) -> None:
        """Refuse data sets that differ in more than one record, or in their class."""
        instance("plan", self.plan, Plan)
        instance("one", self.one, Problem)
        instance("two", self.two, Problem)
        if self.one.problem_class != self.two.problem_class:
            raise ValueError("one and two must have one problem_class, got two")
        both = (jax.tree.leaves(each.data) for each in (self.one, self.two))
        moved = np.zeros(self.one.problem_class.n, bool)
        for left, right in zip(*both, strict=True):
            differs = np.asarray(left) != np.asarray(right)
            moved |= differs.reshape(len(moved), -1).any(axis=1)
        if moved.sum() != 1:
            raise ValueError(f"one and two must differ in one record, got {moved.sum()}")

    def sample(self, second: bool, noise: float, key: Array, runs: int) -> FloatArray:
        """What so many runs release on ``one``, or the second, with so many times the noise."""
        plan = self.plan if noise == 1.0 else self.plan.with_noise(noise)
        where, rows = self.two if second else self.one, []
        keys = self._first_in(key, runs) if self.first else jax.random.split(key, runs)
        width = runs if self.answers else _TOGETHER
        for start in range(0, runs, width):
            some = keys[start : start + width]
            parts = _answers(plan, where, some) if self.answers else _points(plan, where, some)
            rows.append(np.hstack([np.reshape(np.asarray(x), (len(x), -1)) for x in parts]))
        return np.concatenate(rows).astype(np.float64)

    def _first_in(self, key: Array, runs: int) -> Array:
        """Keys of runs whose first step reads the first record."""
        plan, found, count, turn = self.plan, [], 0, 0
        assert plan.algorithm.rows is not None
        n, choose = plan.problem_class.n, plan.algorithm.rows

        @jax.jit
        @jax.vmap
        def reads(key: Array) -> Array:
            return choose(plan.static, plan.params, key, 0, n)[0][0] == 0

        while count < runs:
            keys = jax.random.split(jax.random.fold_in(key, turn), n * _TOGETHER)
            with precision(plan):
                found.append(keys[np.flatnonzero(reads(keys))])
            count, turn = count + len(found[-1]), turn + 1
        return jax.numpy.concatenate(found)[:runs]


def _points(plan: Plan, where: Problem, keys: Array) -> list[Array]:
    """Released points, and paths."""
    found = run_many([plan], where, keys)
    parts = [found.released] if found.path is None else [found.released, found.path.points]
    return [each[0] for each in parts]


def _answers(plan: Plan, where: Problem, keys: Array) -> list[Array]:
    """All noisy answers and selections, in their order."""
    algorithm = plan.algorithm

    def told(key: Array) -> list[Array]:
        params = device_numbers(plan.params, precision_dtype(plan, where.objective.dtype))
        numbers = params, np.uint32(0)
        arguments = run_arguments(algorithm, plan.static, Execution(), numbers, where.source, key)
        with Tape(traced=True) as tape:
            algorithm.run(*arguments)
        return jax.tree.leaves((tape["answer"], tape["selection"]))

    every, loops = jax.vmap(told), algorithm.steps is not None
    with precision(plan), jax.disable_jit(loops):  # a loop that is compiled tells nothing
        found: list[Array] = (every if loops else jax.jit(every))(keys)
    return found


def attackable() -> list[str]:
    """The names that :func:`worst_pair` takes: private algorithms, those of one's own included."""
    return [name for name, each in ALGORITHMS.items() if each.private]


def class_of(algorithm: str) -> ProblemClass:
    """The class in which one record tells most."""
    return ProblemClass(**_CLASSES.get(algorithm, _LINE))


def choices_of(algorithm: str) -> Mapping[str, Any]:
    """With which a plan tells most."""
    return _CHOICES.get(algorithm, {})


def worst_pair(algorithm: str, budget: Budget, **choices: object) -> Pair:
    """A plan at ``budget``, one record at its largest, and its opposite or nothing.

    ``choices`` are of the plan, beside those with which it tells most.

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
    asked = {**choices_of(algorithm), **choices}
    plan = ALGORITHMS[algorithm].plan(class_of(algorithm), budget, **asked)
    replaced = budget.relation is Relation.REPLACE_ONE
    both = (_problem(plan, 1.0), _problem(plan, -1.0 if replaced else 0.0))
    return Pair(plan, *both, algorithm in _ANSWERS, algorithm == "phased_sgd")


def _problem(plan: Plan, size: float) -> Problem:
    """The first record has this size along the first axis."""
    facts = plan.problem_class
    records = np.zeros((facts.n, facts.dim))
    records[0, 0] = size
    if "mean" in plan.requires:
        return problems.squared_distance(records, problem_class=facts)
    if "squares" in plan.requires:
        return _squares(plan, records)
    return problems.linear(records, problem_class=facts)


def _squares(plan: Plan, records: FloatArray) -> Problem:
    """The opposite of a record has the opposite label, at the angle of the furthest moments."""
    query: Any = plan.params.mechanism.query  # type: ignore[attr-defined]
    size, labels = records[0, 0], np.ones(len(records))
    if size < 0.0:
        cosine = min(1.0, 0.5 * (query.weight * query.label_clip / query.feature_clip) ** 2)
        records[0] = cosine, math.sqrt(1.0 - cosine**2)
        labels[0] = -1.0
    return problems.squared(records, labels, problem_class=plan.problem_class)
