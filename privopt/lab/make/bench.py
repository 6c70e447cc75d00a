"""The bench: what the cells of a sweep share is made once, and every cell is measured on it."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from privopt.algorithms.gradient_descent import GRADIENT_DESCENT
from privopt.core import Algorithm, Plan, run, run_many
from privopt.core.running import check_problem
from privopt.lab.make.cells import Cell
from privopt.lab.make.job import Candidate, Job, Search, digest, steps_of
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.method import Choice
from privopt.lab.make.quantities import quantity_of
from privopt.lab.make.records import Value
from privopt.lab.make.search import Chosen, choose
from privopt.problems import Family, Problem
from privopt.spec import Budget, ProblemClass

_NON_PRIVATE_STEPS = 2000
_NON_PRIVATE_WORK = 2e9


@dataclass
class Bench:
    """What the cells of one sweep share, from one root seed, each made once.

    Cells are prepared by one thread, and measured by several.
    """

    seed: int
    _problems: dict[Hashable, tuple[Problem, str]] = field(default_factory=dict)
    _by_data: dict[str, Problem] = field(default_factory=dict)
    _plans: dict[Hashable, Plan | ValueError] = field(default_factory=dict)
    _searches: dict[Cell, Search] = field(default_factory=dict)
    _facts: dict[Hashable, dict[str, float]] = field(default_factory=dict)
    _chosen: dict[Search, Chosen] = field(default_factory=dict)
    _locks: defaultdict[Hashable, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    def prepare(self, cell: Cell, algorithm: Algorithm, family: Family) -> Job:
        """The cell's problem and plan, or a ``ValueError`` where the two do not fit."""
        job = self._at_theory(cell, algorithm, family)
        if not cell.search:
            return job
        setting = replace(cell, strength=0.0, axes=())
        if setting not in self._searches:
            self._searches[setting] = self._search(cell, algorithm, family)
        return replace(job, search=self._searches[setting])

    def _at_theory(self, cell: Cell, algorithm: Algorithm, family: Family) -> Job:
        problem, data = self._problem(cell, family)
        choices = self._choices(cell, algorithm, problem)
        own = self._plan(cell, algorithm, problem, choices)
        factor = cell.trial.noise_factor(cell.bend, own.rate.exponents)
        plan = self._plan(cell, algorithm, problem, choices, factor)
        check_problem(plan, problem)
        return Job(cell, problem, data, plan, own.rate, factor, quantity_of(problem, own.rate))

    def _problem(self, cell: Cell, family: Family) -> tuple[Problem, str]:
        """With the digest of its data; problems of the same data are one."""
        sizes = {"n": cell.n, "dim": cell.dim, "noise_ratio": cell.noise_ratio}
        if cell.sparsity is not None:
            sizes["sparsity"] = cell.sparsity
        named = family.name, cell.strength, *sizes.values()
        if named not in self._problems:
            built = family.build(**sizes, strength=cell.strength)
            data = digest(built)
            self._problems[named] = self._by_data.setdefault(data, built), data
        return self._problems[named]

    def _choices(self, cell: Cell, algorithm: Algorithm, problem: Problem) -> dict[str, Choice]:
        """What the plan is told: the most steps, too, where theory asks for more."""
        choices, most = dict(cell.choices), cell.most_steps
        if most is None or "steps" in choices or "steps" not in algorithm.choices:
            return choices
        asked = steps_of(self._plan(cell, algorithm, problem, choices)) or 0
        return choices if asked <= most else {**choices, "steps": most}

    def _plan(
        self,
        cell: Cell,
        algorithm: Algorithm,
        problem: Problem,
        choices: Mapping[str, Choice],
        factor: float | None = None,
    ) -> Plan:
        """The plan, or its refusal; of a control with ``factor`` times the noise, if given."""
        facts = problem.problem_class
        named = algorithm.name, facts, cell.budget, tuple(sorted(choices.items()))
        plan = self._made(named, lambda: algorithm.plan(facts, cell.budget, **choices))
        if factor is None or not cell.trial.is_control:
            return plan
        return self._made((*named, factor), lambda: plan.with_noise(factor))

    def _made(self, named: Hashable, plan: Callable[[], Plan]) -> Plan:
        """A plan, or its refusal, made once."""
        if named not in self._plans:
            try:
                self._plans[named] = plan()
            except ValueError as error:
                self._plans[named] = error
        found = self._plans[named]
        if isinstance(found, ValueError):
            raise ValueError(str(found))
        return found

    def _search(self, cell: Cell, algorithm: Algorithm, family: Family) -> Search:
        """Every candidate that is not refused, at every strength."""
        cells = [replace(cell, strength=strength) for strength in family.strengths]
        jobs = tuple(self._at_theory(each, algorithm, family) for each in cells)
        names = [name for name, _ in cell.search]
        candidates, refused = [], []
        for values in product(*(values for _, values in cell.search)):
            choices = dict(zip(names, values, strict=True))
            told = {**dict(cell.choices), **choices}
            try:
                plans = tuple(
                    self._plan(j.cell, algorithm, j.problem, told, j.noise_factor) for j in jobs
                )
            except ValueError as error:
                refused.append(f"{choices}: {error}")
            else:
                candidates.append(Candidate(choices, plans))
        if not candidates:
            raise ValueError(f"every candidate of the search is refused, as {refused[0]}")
        return Search(tuple(candidates), jobs)

    def chosen(self, search: Search) -> Chosen:
        """What a search finds; the data that it looks at are checked before."""
        with self._locks[search]:
            if search not in self._chosen:
                for job in search.jobs:
                    self.facts(job)
                self._chosen[search] = choose(search, self.seed)
            return self._chosen[search]

    def facts(self, job: Job) -> dict[str, float]:
        """What is measured of a cell as a whole; of one shape by one thread at a time."""
        steps = _non_private_steps(job)
        named = job.data, job.quantity.name, job.quantity.rounds(job.plan), steps
        with self._locks[job.shape]:
            if named not in self._facts:
                self._facts[named] = _facts(job, steps)
            return self._facts[named]


def _facts(job: Job, steps: int) -> dict[str, float]:
    problem, quantity = job.problem, job.quantity
    problem.check()
    rounds, reference = quantity.rounds(job.plan), quantity.reference(problem)
    objective = problem.objective
    start = objective.constraint.centre_point(job.cell.dim, objective.dtype)
    twin = _twin(problem.problem_class, job.cell.budget, steps)
    found = run(twin, problem, stream(0, role="unused")).released

    def held(point: Array) -> float:
        return rounds * float(np.squeeze(quantity.at(problem, point)))

    return {
        "reference_value": rounds * reference.value,
        "reference_gap": rounds * reference.gap,
        "start_value": held(start.reshape(problem.shape or -1)),
        "nonprivate_value": held(found),
    }


def _twin(facts: ProblemClass, budget: Budget, steps: int) -> Plan:
    """Gradient descent without noise; on the whole space, or in one step, by ``1/H`` to the end."""
    curvature = facts.smoothness or 0.0
    if curvature > 0.0 and (steps == 1 or math.isinf(facts.radius)):
        step = 1.0 / curvature
        return GRADIENT_DESCENT.plan(facts, budget, steps=steps, step_size=step, output="last")
    return GRADIENT_DESCENT.plan(facts, budget, steps=steps)


def _non_private_steps(job: Job) -> int:
    """Of gradient descent without noise: as many as the plan's.

    Of a population, on one draw of records. Fewer on large data, so that steps times numbers in
    the data stay within 2e9. Where ``H = m`` the losses are squared distances but for a constant,
    and one step lands on the minimiser.
    """
    facts, asked = job.problem.problem_class, steps_of(job.plan)
    if asked is None and facts.strong_convexity == facts.smoothness:
        return 1
    numbers = sum(leaf.size for leaf in jax.tree.leaves(job.problem.objective.data))
    most = max(1, int(_NON_PRIVATE_WORK / numbers))
    return min(asked or _NON_PRIVATE_STEPS, most)


def measure(job: Job, bench: Bench) -> tuple[dict[str, NDArray[np.generic]], dict[str, Value]]:
    """The columns of its runs, in float64, and what is measured of a cell as a whole.

    Noise is named by experiment, method, family, setting and strength, and within that by the
    replicate: more replicates, other axes, another delta or a control change no key. A
    population's records are drawn with the same key as the noise.
    """
    cell, plan = job.cell, job.plan
    with jax.enable_x64(True):
        facts: dict[str, Value] = {**bench.facts(job)}
        if job.search is not None:
            chosen = bench.chosen(job.search)
            plan, facts["searched"] = job.search.plan(chosen.candidate, job), chosen.told
        key = stream(cell.trial.root(bench.seed), role="noise", **cell.identity)
        values = np.concatenate(list(_values(job, plan, key)))[: cell.replicates]
    return {"replicate": np.arange(cell.replicates), "value": values}, facts


def _values(job: Job, plan: Plan, key: Array) -> Iterator[NDArray[np.float64]]:
    """What the runs are measured by, a block at a time; the last block is whole, too."""
    for first in range(0, job.cell.replicates, job.cell.block):
        keys = replicate_keys(key, job.cell.block, first)
        found = run_many([plan], job.problem, keys, group=job.cell.group, execution=job.execution)
        values = job.quantity.measure(job.problem, found._replace(released=found.released[0]))
        yield np.asarray(values, np.float64)
