"""A job: a cell made ready, with its problem and its plan, or with those that are searched.

And what its numbers follow from, as text: the data of its problem, and its plan.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from privopt.convex import Update
from privopt.core import Algorithm, Execution, Plan
from privopt.lab.make.cells import Cell
from privopt.lab.make.laws import law_of
from privopt.lab.make.method import Choice, text
from privopt.lab.make.quantities import Quantity
from privopt.lab.make.records import Value
from privopt.problems import Problem
from privopt.theory import Rate


@dataclass(frozen=True)
class Job:
    """A cell made ready."""

    cell: Cell
    problem: Problem
    data: str  # digest of the problem's numbers and of what is declared of it
    plan: Plan  # with the noise of the trial; at theory's numbers where there is a search
    rate: Rate  # of the plan with its own noise
    noise_factor: float  # by which the trial multiplies the noise
    quantity: Quantity  # what is measured
    search: Search | None = None

    @property
    def shape(self) -> Hashable:
        """Of the problem: what is compiled for one of a shape serves all."""
        leaves, structure = jax.tree.flatten(self.problem.source)
        return structure, tuple(jax.typeof(leaf) for leaf in leaves)

    @property
    def execution(self) -> Execution:
        """With an observer where what is measured asks for one."""
        return Execution(observer=self.quantity.observer)

    @property
    def program(self) -> Hashable:
        """Return the key of the compiled program. Jobs of one program compile once."""
        plan, shared = self.plan, (self.cell.block, self.cell.group)
        kind = plan.algorithm, plan.static, jax.tree.structure(plan.params)
        return *kind, self.shape, shared, self.quantity.observer

    @property
    def numbers(self) -> object:
        """Everything that the plan tells the device, or a digest for a search; JSON values."""
        return numbers(self.plan) if self.search is None else self.search.digest

    @property
    def promised(self) -> dict[str, Value]:
        """What the plan promises of the quantity measured, and what it spends; JSON values."""
        rate, cell = self.rate, self.cell
        spoken_of = rate.quantity == self.quantity.name
        found: dict[str, Value] = {
            "noise_factor": self.noise_factor,
            "quantity": self.quantity.name,
            "upper": rate.upper if spoken_of else math.inf,
            "lower": rate.lower[0].value if spoken_of and rate.lower else 0.0,
            "in_regime": rate.in_regime,
            "exponents": json.dumps(dict(rate.exponents), sort_keys=True),
            "tight_on": rate.tight_on,
            "steps": steps_of(self.plan),
            "plan": described(self.plan),
        }
        if not cell.trial.is_control:
            found["spent_epsilon_upper"] = self.plan.guarantee.epsilon(cell.budget.delta).upper
            if self.search is None:
                found["law"] = law_of(self.plan, cell.family, cell.strength)
        return found


@dataclass(frozen=True)
class Candidate:
    """One combination of the values that are tried, and its plan at every strength."""

    choices: Mapping[str, Choice]
    plans: tuple[Plan, ...]


@dataclass(frozen=True, eq=False)
class Search:
    """What is tried at one setting under one trial."""

    candidates: tuple[Candidate, ...]  # those that no strength refuses
    jobs: tuple[Job, ...]  # at theory's numbers, of every strength

    @property
    def grid(self) -> tuple[tuple[str, tuple[Choice, ...]], ...]:
        """All values of every choice, those included that plans refuse."""
        return self.jobs[0].cell.search

    def plan(self, candidate: Candidate, job: Job) -> Plan:
        """The candidate's at the strength of that job."""
        strengths = [each.cell.strength for each in self.jobs]
        return candidate.plans[strengths.index(job.cell.strength)]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides what is found: data, candidates and their plans."""
        told: dict[int, object] = {}
        for plan in (plan for candidate in self.candidates for plan in candidate.plans):
            if id(plan) not in told:
                told[id(plan)] = numbers(plan)
        tried = [
            [dict(candidate.choices), [told[id(plan)] for plan in candidate.plans]]
            for candidate in self.candidates
        ]
        given = [job.data for job in self.jobs], self.grid, tried
        decisive = json.dumps(given, sort_keys=True, default=text)
        return hashlib.sha256(decisive.encode()).hexdigest()


def steps_of(plan: Plan) -> int | None:
    """The steps that a plan takes, if it takes any."""
    steps = getattr(plan.params.mechanism, "steps", None)
    return None if steps is None else int(steps)


def digest(problem: Problem) -> str:
    """SHA-256 of the numbers of a problem, static ones too, and of what is declared of it."""
    static = _static(jax.tree.structure(problem.objective))
    found = hashlib.sha256(f"{problem.name} {problem.problem_class} {static}".encode())
    for leaf in jax.tree.leaves(problem.objective):
        array = np.ascontiguousarray(leaf)
        found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def _static(structure: jax.tree_util.PyTreeDef) -> list[object]:
    """The classes of a pytree's nodes, each with its static numbers and texts."""
    inner = map(_static, structure.children())
    node, told = structure.node_data() or (None, ())
    fields = told if isinstance(told, tuple | list) else (told,)
    own = [x for x in fields if isinstance(x, str | int | float | tuple | None)]
    return [node and node.__qualname__, own, *inner]


def numbers(plan: Plan) -> object:
    """Everything that a plan tells the device; JSON values."""
    return _plain([plan.params, plan.static])


def described(plan: Plan) -> str:
    """All numbers of a plan, what it guarantees and the theorem that it follows, as JSON."""
    told = {
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
    return json.dumps(_plain(told), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> object:
    """Return JSON values: records by the names of their fields, other objects as text."""
    if isinstance(value, Algorithm):
        return value.name
    if isinstance(value, Update) and (told := text(value)) != str(value):
        return {"kind": "Update", "told": told}
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
