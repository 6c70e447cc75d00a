"""Worst pairs of algorithms: the two neighbours with the most different releases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member
from privopt.audit.distinguishing import FloatArray
from privopt.core import Execution, Plan, run_many
from privopt.core.parameters import device_numbers
from privopt.core.replicates import run_arguments
from privopt.core.running import precision, precision_dtype
from privopt.privacy import Guarantee
from privopt.problems import Problem
from privopt.release import Tape
from privopt.spec import Budget, ProblemClass, Relation

_BATCH = 5_000  # runs in one call: bounds the memory
_RECORDS = 8  # few, so that rounding is small compared with one record
_LINE = ProblemClass(n=_RECORDS, dim=1, lipschitz=1.0, radius=100.0, smoothness=0.0)
_SQUARES = ProblemClass(n=_RECORDS, dim=2, lipschitz=2.0, radius=1.0, smoothness=1.0)
_MEANS = replace(_SQUARES, dim=8, strong_convexity=1.0, sparsity=1)
_CLASSES = {
    "linf_output_perturbation": replace(_LINE, dim=8, sparsity=1),
    "projection_mechanism": _MEANS,
    "l1_recovery": _MEANS,
    "sufficient_statistics": _SQUARES,
    # With two records every batch of two contains all records, so there is no amplification.
    "bias_reduced_sgd": replace(_LINE, n=2),
    # One record changes the average of a phase of m records by m/(m + 1) of the sensitivity.
    "phased_sgd": replace(_LINE, n=32),
}
# Small steps: no point is projected, so the path contains all information of the noisy answers.
_SHORT = {"steps": 10, "step_size": 0.01, "record": "all"}
_BATCHES = {**_SHORT, "batch_size": 2}
_HEAVY = {"regularisation": 10.0}
_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "dp_gd": _SHORT,
    "dp_sgd": _BATCHES,
    "noisy_adam": _BATCHES,
    "accelerated_dp_gd": {**_SHORT, "step_size": 0.002},
    "dp_svrg": {**_BATCHES, "anchor_every": 2},
    "bias_reduced_sgd": {"steps": 3, "step_size": 0.01, "body": "none"},
    "phased_sgd": {"step_size": 0.01},
    "objective_perturbation": _HEAVY,
    "approximate_minima_perturbation": _HEAVY,
    "dp_ftrl": {"record": "all", "epochs": 1, "regularisation": 100.0, "order": "stored"},
}
# The released point combines the noisy answers; the attack uses the answers themselves.
_ANSWERS = {"bias_reduced_sgd", "sufficient_statistics"}


class Pair(NamedTuple):
    """Plan and two data sets that are neighbours under its relation.

    An attack uses the released point and the path of each run. If ``answers`` is True it uses all
    noisy answers, which the guarantee covers as well. It may choose public randomness, such as the
    order of records: if ``first`` is True it uses only runs that read the first record in their
    first step.
    """

    plan: Plan
    one: Problem
    two: Problem
    answers: bool = False
    first: bool = False

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        return self.plan.algorithm.name

    @property
    def control(self) -> float:
        """Factor of the noise that an attack must detect."""
        return 0.5

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the plan."""
        return self.plan.guarantee

    def check(self) -> None:
        """Raise ``ValueError`` unless the data sets have one class and differ in one record."""
        instance("plan", self.plan, Plan)
        instance("one", self.one, Problem)
        instance("two", self.two, Problem)
        if self.one.problem_class != self.two.problem_class:
            raise ValueError("one and two must have one problem_class, got two")
        both = (jax.tree.leaves(each.data) for each in (self.one, self.two))
        differs = np.zeros(self.one.problem_class.n, bool)
        for first, second in zip(*both, strict=True):
            unequal = np.asarray(first) != np.asarray(second)
            differs |= unequal.reshape(len(differs), -1).any(axis=1)
        if differs.sum() != 1:
            raise ValueError(f"one and two must differ in one record, got {differs.sum()}")

    def sample(self, second: bool, noise: float, key: Array, runs: int) -> FloatArray:
        """Return releases on ``one``, or on ``two``, with scaled noise: ``(runs, numbers)``."""
        plan = self.plan if noise == 1.0 else self.plan.with_noise(noise)
        problem, rows = self.two if second else self.one, []
        keys = self._keys(key, runs) if self.first else jax.random.split(key, runs)
        released = _answers if self.answers else _points
        width = runs if self.answers else _BATCH
        for start in range(0, runs, width):
            parts = released(plan, problem, keys[start : start + width])
            rows.append(np.hstack([np.reshape(np.asarray(x), (len(x), -1)) for x in parts]))
        return np.concatenate(rows).astype(np.float64)

    def _keys(self, key: Array, runs: int) -> Array:
        """Return keys of runs that read the first record in their first step."""
        plan, batches, count, i = self.plan, [], 0, 0
        assert plan.algorithm.rows is not None
        n, rows = plan.problem_class.n, plan.algorithm.rows

        @jax.jit
        @jax.vmap
        def reads_first(key: Array) -> Array:
            return rows(plan.static, plan.params, key, 0, n)[0][0] == 0

        while count < runs:
            keys = jax.random.split(jax.random.fold_in(key, i), n * _BATCH)
            with precision(plan):
                batches.append(keys[np.flatnonzero(reads_first(keys))])
            count, i = count + len(batches[-1]), i + 1
        return jax.numpy.concatenate(batches)[:runs]


def _points(plan: Plan, problem: Problem, keys: Array) -> list[Array]:
    """Return the released points and, if they are recorded, the paths."""
    result = run_many([plan], problem, keys)
    parts = [result.released] if result.path is None else [result.released, result.path.points]
    return [each[0] for each in parts]


def _answers(plan: Plan, problem: Problem, keys: Array) -> list[Array]:
    """Return all noisy answers and selections, in order."""
    algorithm = plan.algorithm

    def answers(key: Array) -> list[Array]:
        params = device_numbers(plan.params, precision_dtype(plan, problem.objective.dtype))
        numbers = params, np.uint32(0)
        arguments = run_arguments(algorithm, plan.static, Execution(), numbers, problem.source, key)
        with Tape(traced=True) as tape:
            algorithm.run(*arguments)
        return jax.tree.leaves((tape["answer"], tape["selection"]))

    vectorised, loops = jax.vmap(answers), algorithm.steps is not None
    with precision(plan), jax.disable_jit(loops):  # a tape records nothing in a compiled loop
        result: list[Array] = (vectorised if loops else jax.jit(vectorised))(keys)
    return result


def attackable() -> list[str]:
    """Return the names of all private algorithms, which :func:`worst_pair` accepts."""
    return [name for name, each in ALGORITHMS.items() if each.private]


def worst_class(algorithm: str) -> ProblemClass:
    """Return the problem class of the worst pair of an algorithm."""
    return _CLASSES.get(algorithm, _LINE)


def worst_choices(algorithm: str) -> Mapping[str, Any]:
    """Return the arguments of the plan of the worst pair of an algorithm."""
    return _CHOICES.get(algorithm, {})


def worst_pair(algorithm: str, budget: Budget, **choices: object) -> Pair:
    """Return a plan at ``budget`` and two neighbouring data sets with very different releases.

    Losses are linear, or squared if the plan requires it. The first record has the largest norm in
    the first data set. In the second one it has the opposite sign under ``replace_one``, and is
    zero under ``zero_out`` and ``add_or_remove_one``. All other records are zero, so the first one
    changes every answer by its full sensitivity.

    Parameters
    ----------
    algorithm : str
        One of :func:`attackable`.
    budget : Budget
        Privacy budget of the plan.
    **choices
        Arguments of the plan, which replace the default ones of the attack.

    Examples
    --------
    >>> pair = worst_pair("dp_gd", Budget(epsilon=1.0, delta=1e-5, relation="replace_one"))
    >>> [problem.data[0][0].tolist() for problem in (pair.one, pair.two)]
    [[1.0], [-1.0]]
    """
    instance("budget", budget, Budget)
    member("algorithm", algorithm, attackable())
    arguments = {**worst_choices(algorithm), **choices}
    plan = ALGORITHMS[algorithm].plan(worst_class(algorithm), budget, **arguments)
    replaced = budget.relation is Relation.REPLACE_ONE
    both = (_problem(plan, 1.0), _problem(plan, -1.0 if replaced else 0.0))
    return Pair(plan, *both, algorithm in _ANSWERS, algorithm == "phased_sgd")


def _problem(plan: Plan, size: float) -> Problem:
    """Return the problem with first record ``size`` times the first basis vector."""
    facts = plan.problem_class
    records = np.zeros((facts.n, facts.dim))
    records[0, 0] = size
    if "mean" in plan.requires:
        return problems.squared_distance(records, problem_class=facts)
    if "squares" in plan.requires:
        return _squares(plan, records)
    return problems.linear(records, problem_class=facts)


def _squares(plan: Plan, records: FloatArray) -> Problem:
    """Return the squared problem. If the first coordinate is negative, its label is -1.

    The second record of the pair is rotated to the angle at which the clipped moments differ most.
    """
    query: Any = plan.params.mechanism.query  # type: ignore[attr-defined]
    size, labels = records[0, 0], np.ones(len(records))
    if size < 0.0:
        cosine = min(1.0, 0.5 * (query.weight * query.label_clip / query.feature_clip) ** 2)
        records[0] = cosine, math.sqrt(1.0 - cosine**2)
        labels[0] = -1.0
    return problems.squared(records, labels, problem_class=plan.problem_class)
