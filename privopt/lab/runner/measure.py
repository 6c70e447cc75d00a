"""Plans, searches and measurements of cells."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np
import pyarrow as pa
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from privopt.algorithms.gradient_descent import GRADIENT_DESCENT
from privopt.convex import Update
from privopt.core import Algorithm, Execution, Plan, run, run_many
from privopt.core.running import check_problem
from privopt.lab.runner.cells import Cell, replicate_keys, stream
from privopt.lab.runner.method import Choice, size, text
from privopt.lab.runner.quantities import Quantity, law_of, quantity_of
from privopt.lab.runner.store import RUNS, Value
from privopt.problems import Family, Problem
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate

PILOT = 32
"""Pilot runs of every candidate of a search at every strength."""

_NON_PRIVATE_STEPS = 2000
_NON_PRIVATE_WORK = 2e9  # steps times numbers in the data


# --- planned cells --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedCell:
    """A cell with its problem, its plan and, if its method has one, its search."""

    cell: Cell
    problem: Problem
    data: str  # digest of the problem
    plan: Plan  # with the noise of the trial; with a search, at the default hyperparameters
    rate: Rate  # of the plan with its own noise
    noise_factor: float  # of the trial
    quantity: Quantity
    search: Search | None = None

    @property
    def shape(self) -> Hashable:
        """Shape of the problem; problems of one shape share compiled programs."""
        leaves, structure = jax.tree.flatten(self.problem.source)
        return structure, tuple(jax.typeof(leaf) for leaf in leaves)

    @property
    def execution(self) -> Execution:
        """Execution with the observer of the quantity."""
        return Execution(observer=self.quantity.observer)

    @property
    def program(self) -> Hashable:
        """Key of the compiled program; cells with equal keys compile once."""
        plan, shared = self.plan, (self.cell.block, self.cell.group)
        kind = plan.algorithm, plan.static, jax.tree.structure(plan.params)
        return *kind, self.shape, shared, self.quantity.observer

    @property
    def numbers(self) -> object:
        """JSON values of the plan, or the digest of the search."""
        return plan_numbers(self.plan) if self.search is None else self.search.digest

    @property
    def facts(self) -> dict[str, Value]:
        """Columns of the table of cells that follow from the plan."""
        rate, cell = self.rate, self.cell
        is_bounded = rate.quantity == self.quantity.name
        facts: dict[str, Value] = {
            "noise_factor": self.noise_factor,
            "quantity": self.quantity.name,
            "upper": rate.upper if is_bounded else math.inf,
            "lower": rate.lower[0].value if is_bounded and rate.lower else 0.0,
            "in_regime": rate.in_regime,
            "exponents": json.dumps(dict(rate.exponents), sort_keys=True),
            "tight_on": rate.tight_on,
            "steps": steps_of(self.plan),
            "plan": plan_description(self.plan),
        }
        if not cell.trial.is_control:
            facts["spent_epsilon_upper"] = self.plan.guarantee.epsilon(cell.budget.delta).upper
            if self.search is None:
                facts["law"] = law_of(self.plan, cell.family, cell.strength)
        return facts


class Candidate(NamedTuple):
    """One combination of searched values, with its plan at every strength."""

    choices: Mapping[str, Choice]
    plans: Mapping[float, Plan]  # by strength


@dataclass(frozen=True, eq=False)
class Search:
    """Candidates of one setting under one trial.

    The grid is absolute, so that exponents of theory do not enter. All candidates run with common
    random numbers at every strength of the family, and the candidate with the smallest worst mean
    is chosen. The measured runs are fresh: their mean is unbiased for the chosen candidate, and its
    expectation is at least the minimum over the grid. A pilot of few runs may miss the best
    candidate; the loss is about the standard error of a difference of two pilot means. Each trial
    has its own search, because the best hyperparameters depend on the noise.

    The result is *oracle-tuned*: a private method cannot see these risks.
    """

    candidates: tuple[Candidate, ...]  # without those that a plan refuses at some strength
    planned: tuple[PlannedCell, ...]  # of every strength, at the default hyperparameters

    @property
    def grid(self) -> tuple[tuple[str, tuple[Choice, ...]], ...]:
        """Values of every choice, including refused ones."""
        return self.planned[0].cell.search

    @cached_property
    def digest(self) -> str:
        """SHA-256 of data, candidates and their plans."""
        plans = {id(p): p for candidate in self.candidates for p in candidate.plans.values()}
        numbers = {name: plan_numbers(plan) for name, plan in plans.items()}
        candidates = [
            [dict(candidate.choices), [numbers[id(plan)] for plan in candidate.plans.values()]]
            for candidate in self.candidates
        ]
        contents = [each.data for each in self.planned], self.grid, candidates
        encoded = json.dumps(contents, sort_keys=True, default=text)
        return hashlib.sha256(encoded.encode()).hexdigest()


def choose(search: Search, seed: int) -> tuple[Candidate, str]:
    """Return the candidate with the smallest worst mean, and the entry of the column ``searched``.

    A mean that is not finite is infinite. A choice at an end of its grid is ``at_edge``: a better
    value may be beyond. The keys of the pilot are named by experiment, method, family, setting and
    strength: all cells of a setting obtain the same result.
    """
    candidates = search.candidates
    means = np.stack([_means(planned, candidates, seed) for planned in search.planned])
    worst = np.where(np.isfinite(means), means, np.inf).max(axis=0)
    best = candidates[int(np.argmin(worst))]
    entry = {
        "chosen": {name: size(value) for name, value in best.choices.items()},
        "at_edge": [name for name, values in search.grid if _is_edge(best.choices[name], values)],
        "candidates": len(candidates),
    }
    return best, json.dumps(entry, sort_keys=True)


def _is_edge(value: Choice, values: Sequence[Choice]) -> bool:
    numbers = [x for x in map(size, values) if isinstance(x, int | float)]
    return bool(numbers) and size(value) in (min(numbers), max(numbers))


def _means(planned: PlannedCell, candidates: Sequence[Candidate], seed: int) -> NDArray[np.float64]:
    """Return the pilot mean of every candidate at one strength."""
    cell = planned.cell
    keys = replicate_keys(stream(cell.trial.root(seed), role="pilot", **cell.identity), PILOT)
    plans = [candidate.plans[cell.strength] for candidate in candidates]
    means = np.empty(len(plans))
    groups = defaultdict(list)  # of plans with one program and equally many steps
    for i, plan in enumerate(plans):
        groups[plan.static, jax.tree.structure(plan.params), steps_of(plan)].append(i)
    for group in groups.values():
        runs = run_many(
            [plans[i] for i in group],
            planned.problem,
            keys,
            common_random_numbers=True,
            execution=planned.execution,
        )
        released = np.asarray(runs.released)
        released = released.reshape(-1, *released.shape[2:])
        values = planned.quantity.measure(planned.problem, runs._replace(released=released))
        means[group] = np.asarray(values).reshape(len(group), PILOT).mean(axis=1)
    return means


# --- cache of a sweep -----------------------------------------------------------------------------


@dataclass
class SweepCache:
    """Problems, plans, searches and facts shared by the cells of one sweep.

    One thread prepares the cells; several threads measure them.
    """

    seed: int
    _values: dict[Hashable, Any] = field(default_factory=dict)
    _locks: defaultdict[Hashable, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    def prepare(self, cell: Cell, algorithm: Algorithm, family: Family) -> PlannedCell:
        """Plan a cell; ``ValueError`` if the algorithm or the problem refuses the plan."""
        planned = self._default(cell, algorithm, family)
        if not cell.search:
            return planned
        setting = replace(cell, strength=0.0, axes=())
        search = self._once(setting, lambda: self._search(cell, algorithm, family))
        return replace(planned, search=search)

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached value of a key, or raise the cached ``ValueError``."""
        if key not in self._values:
            try:
                self._values[key] = make()
            except ValueError as error:
                self._values[key] = error
        if isinstance(value := self._values[key], ValueError):
            raise ValueError(str(value))
        return value

    def _default(self, cell: Cell, algorithm: Algorithm, family: Family) -> PlannedCell:
        """Plan a cell without a search."""
        problem, data = self._problem(cell, family)
        choices = self._choices(cell, algorithm, problem)
        rate = self._plan(cell, algorithm, problem, choices).rate
        factor = cell.trial.noise_factor(cell.bend, rate.exponents)
        plan = self._plan(cell, algorithm, problem, choices, factor)
        check_problem(plan, problem)
        return PlannedCell(cell, problem, data, plan, rate, factor, quantity_of(problem, rate))

    def _problem(self, cell: Cell, family: Family) -> tuple[Problem, str]:
        """Return the problem and the digest of its data; equal data give one problem."""
        sizes = {"n": cell.n, "dim": cell.dim, "noise_ratio": cell.noise_ratio}
        if cell.sparsity is not None:
            sizes["sparsity"] = cell.sparsity

        def build() -> tuple[Problem, str]:
            problem = family.build(**sizes, strength=cell.strength)
            data = digest(problem)
            return self._once(("data", data), lambda: problem), data

        return self._once((family.name, cell.strength, *sizes.values()), build)

    def _choices(self, cell: Cell, algorithm: Algorithm, problem: Problem) -> dict[str, Choice]:
        """Return the arguments of the plan, with steps if the default exceeds ``most_steps``."""
        choices, most = dict(cell.choices), cell.most_steps
        if most is None or "steps" in choices or "steps" not in algorithm.choices:
            return choices
        default = steps_of(self._plan(cell, algorithm, problem, choices)) or 0
        return choices if default <= most else {**choices, "steps": most}

    def _plan(
        self,
        cell: Cell,
        algorithm: Algorithm,
        problem: Problem,
        choices: Mapping[str, Choice],
        factor: float | None = None,
    ) -> Plan:
        """Return the plan; for a control with a factor, the plan with that noise."""
        facts = problem.problem_class
        key = algorithm.name, facts, cell.budget, tuple(sorted(choices.items()))

        plan: Plan = self._once(key, lambda: algorithm.plan(facts, cell.budget, **choices))
        if factor is None or not cell.trial.is_control:
            return plan
        return self._once((*key, factor), lambda: plan.with_noise(factor))

    def _search(self, cell: Cell, algorithm: Algorithm, family: Family) -> Search:
        """Plan every candidate at every strength, and omit the refused ones."""
        cells = [replace(cell, strength=strength) for strength in family.strengths]
        planned = tuple(self._default(each, algorithm, family) for each in cells)
        names = [name for name, _ in cell.search]
        candidates, refused = [], []
        for values in product(*(values for _, values in cell.search)):
            searched = dict(zip(names, values, strict=True))
            choices = {**dict(cell.choices), **searched}
            try:
                plans = {
                    each.cell.strength: self._plan(
                        each.cell, algorithm, each.problem, choices, each.noise_factor
                    )
                    for each in planned
                }
                candidates.append(Candidate(searched, plans))
            except ValueError as error:
                refused.append(f"{searched}: {error}")
        if not candidates:
            raise ValueError(f"every candidate of the search is refused, as {refused[0]}")
        return Search(tuple(candidates), planned)

    def result(self, search: Search) -> tuple[Candidate, str]:
        """Return the result of a search. The data are checked first."""
        for planned in search.planned:
            self.facts(planned)
        with self._locks[search]:
            return self._once(search, lambda: choose(search, self.seed))

    def facts(self, planned: PlannedCell) -> dict[str, float]:
        """Return the reference values of a cell; one thread measures a shape at a time."""
        steps = _non_private_steps(planned)
        quantity = planned.quantity
        key = planned.data, quantity.name, quantity.rounds(planned.plan), steps
        with self._locks[planned.shape]:
            return self._once(key, lambda: _reference_values(planned, steps))


# --- measurement ----------------------------------------------------------------------------------


def measure(planned: PlannedCell, cache: SweepCache) -> tuple[pa.Table, dict[str, Value]]:
    """Return the runs as a table, and the measured facts of the cell.

    Noise is named by experiment, method, family, setting, strength and replicate. Adding
    replicates, axes or controls, or changing delta, changes no key. The records of a population
    are sampled with the key of the noise.
    """
    cell, plan = planned.cell, planned.plan
    with jax.enable_x64(True):
        facts: dict[str, Value] = {**cache.facts(planned)}
        if planned.search is not None:
            best, facts["searched"] = cache.result(planned.search)
            plan = best.plans[cell.strength]
        key = stream(cell.trial.root(cache.seed), role="noise", **cell.identity)
        values = np.concatenate(list(_blocks(planned, plan, key)))[: cell.replicates]
    columns = {"replicate": np.arange(cell.replicates), "value": values}
    return pa.table(columns, schema=pa.schema(list(RUNS)[1:])), facts


def _blocks(planned: PlannedCell, plan: Plan, key: Array) -> Iterator[NDArray[np.float64]]:
    """Yield measured values in blocks of one size, so that one program runs all."""
    cell = planned.cell
    for first in range(0, cell.replicates, cell.block):
        keys = replicate_keys(key, cell.block, first)
        runs = run_many(
            [plan], planned.problem, keys, group=cell.group, execution=planned.execution
        )
        released = np.asarray(runs.released)[0]
        values = planned.quantity.measure(planned.problem, runs._replace(released=released))
        yield np.asarray(values, np.float64)


def _reference_values(planned: PlannedCell, steps: int) -> dict[str, float]:
    problem, quantity = planned.problem, planned.quantity
    problem.check()
    rounds, reference = quantity.rounds(planned.plan), quantity.reference(problem)
    objective = problem.objective
    start = np.asarray(objective.constraint.centre_point(planned.cell.dim, objective.dtype))
    twin = _twin(problem.problem_class, planned.cell.budget, steps)
    non_private = run(twin, problem, stream(0, role="unused")).released

    def value(point: ArrayLike) -> float:
        return rounds * float(np.squeeze(quantity.at(problem, point)))

    return {
        "reference_value": rounds * reference.value,
        "reference_gap": rounds * reference.gap,
        "start_value": value(start.reshape(problem.shape or -1)),
        "nonprivate_value": value(non_private),
    }


def _twin(facts: ProblemClass, budget: Budget, steps: int) -> Plan:
    """Return the plan of non-private gradient descent.

    On the whole space, or for a single step, the step size is ``1/H`` and the output the last
    point.
    """
    curvature = facts.smoothness or 0.0
    if curvature > 0.0 and (steps == 1 or math.isinf(facts.radius)):
        step = 1.0 / curvature
        return GRADIENT_DESCENT.plan(facts, budget, steps=steps, step_size=step, output="last")
    return GRADIENT_DESCENT.plan(facts, budget, steps=steps)


def _non_private_steps(planned: PlannedCell) -> int:
    """Return the steps of the non-private run: those of the plan, fewer on large data.

    If ``H = m`` the losses are squared distances plus a constant, and one step reaches the
    minimiser.
    """
    facts, steps = planned.problem.problem_class, steps_of(planned.plan)
    if steps is None and facts.strong_convexity == facts.smoothness:
        return 1
    numbers = sum(leaf.size for leaf in jax.tree.leaves(planned.problem.objective.data))
    most = max(1, int(_NON_PRIVATE_WORK / numbers))
    return min(steps or _NON_PRIVATE_STEPS, most)


# --- plans and problems as text -------------------------------------------------------------------


def steps_of(plan: Plan) -> int | None:
    """Return the number of steps of a plan, or None if it has no steps."""
    steps = getattr(plan.params.mechanism, "steps", None)
    return None if steps is None else int(steps)


def digest(problem: Problem) -> str:
    """Return the SHA-256 of the arrays, static values and problem class of a problem."""
    static = _static(jax.tree.structure(problem.objective))
    result = hashlib.sha256(f"{problem.name} {problem.problem_class} {static}".encode())
    for leaf in jax.tree.leaves(problem.objective):
        array = np.ascontiguousarray(leaf)
        result.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return result.hexdigest()


def _static(structure: jax.tree_util.PyTreeDef) -> list[object]:
    """Return the classes of the nodes of a pytree, each with its static numbers and texts."""
    children = map(_static, structure.children())
    node, data = structure.node_data() or (None, ())
    values = data if isinstance(data, tuple | list) else (data,)
    plain = [x for x in values if isinstance(x, str | int | float | tuple | None)]
    return [node and node.__qualname__, plain, *children]


def plan_numbers(plan: Plan) -> object:
    """Return the parameters and static arguments of a plan as JSON values."""
    return _plain([plan.params, plan.static])


def plan_description(plan: Plan) -> str:
    """Return parameters, guarantee and theorem of a plan as JSON text."""
    description = {
        "params": plan.params,
        "static": plan.static,
        "guarantee": {
            "event": str(plan.guarantee.event),
            "relation": plan.guarantee.relation.value,
            "assumptions": plan.guarantee.assumptions,
        },
        "rate": {
            "theorem": plan.rate.theorem,
            "source": plan.rate.source,
            "regime": plan.rate.regime,
            "quantity": plan.rate.quantity,
            "lower": [list(bound) for bound in plan.rate.lower],
        },
    }
    return json.dumps(_plain(description), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> object:
    """Return JSON values: records by the names of their fields, other objects as text."""
    if isinstance(value, Algorithm):
        return value.name
    # ``told`` is the key in recorded tables.
    if isinstance(value, Update) and (description := text(value)) != str(value):
        return {"kind": "Update", "told": description}
    if hasattr(value, "_asdict") and not isinstance(value, type):
        value = value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        numbers = {f.name: getattr(value, f.name) for f in fields(value)}
        value = {"kind": type(value).__name__} | numbers
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"kind": "array", "shape": value.shape, "dtype": str(value.dtype), "sha256": content}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
