"""Measuring a cell: plan, problem, replicated runs, and one number a run."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from privopt.algorithms.gradient_descent import GRADIENT_DESCENT
from privopt.core import Algorithm, Plan, Run, run, run_many
from privopt.lab.make.cells import Cell
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.quantities import Quantity, quantity_of
from privopt.lab.make.records import Value
from privopt.problems import Family, Problem

__all__ = ["Bench", "Job", "described", "measure"]

_NON_PRIVATE_STEPS = 2000
_NON_PRIVATE_WORK = 2e9


@dataclass(frozen=True)
class Job:
    """A cell made ready.

    Attributes
    ----------
    cell : Cell
    problem : Problem
    data : str
        Digest of the problem's numbers and of what is declared of it.
    plan : Plan
    quantity : Quantity
        What is measured there.
    """

    cell: Cell
    problem: Problem
    data: str
    plan: Plan
    quantity: Quantity

    @property
    def shape(self) -> Hashable:
        """Of the problem: what is compiled for one of a shape serves all."""
        leaves, structure = jax.tree.flatten(self.problem.source)
        return structure, tuple(jax.typeof(leaf) for leaf in leaves)

    @property
    def program(self) -> Hashable:
        """What shapes the compiled program: jobs of one program compile once."""
        return self.plan.algorithm, self.plan.static, self.shape

    @property
    def numbers(self) -> object:
        """Everything that the plan tells the device; JSON values."""
        return _plain([self.plan.params, self.plan.static])

    @property
    def promised(self) -> dict[str, Value]:
        """What the plan promises of the quantity measured, and what it spends; JSON values."""
        rate, budget = self.plan.rate, self.cell.budget
        spoken_of = rate.quantity == self.quantity.name
        return {
            "quantity": self.quantity.name,
            "upper": rate.upper if spoken_of else math.inf,
            "lower": rate.lower if spoken_of else 0.0,
            "exponents": json.dumps(dict(rate.exponents), sort_keys=True),
            "tight_on": rate.tight_on,
            "steps": _steps(self.plan),
            "spent_epsilon_upper": self.plan.guarantee.epsilon(budget.delta).upper,
            "plan": described(self.plan),
        }


@dataclass
class Bench:
    """The problems of a sweep: each built, checked and solved once, however many cells use it."""

    _problems: dict[str, Problem] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _non_private: dict[tuple[str, int], float] = field(default_factory=dict)
    _locks: defaultdict[Hashable, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    def prepare(self, cell: Cell, algorithm: Algorithm, family: Family) -> Job:
        """Build the cell's problem and plan its algorithm; nothing is run.

        Raises
        ------
        ValueError
            If the plan is refused.
        """
        sizes = {} if cell.sparsity is None else {"sparsity": cell.sparsity}
        built = family.build(
            n=cell.n, dim=cell.dim, noise_ratio=cell.noise_ratio, strength=cell.strength, **sizes
        )
        data = _digest(built)
        problem = self._problems.setdefault(data, built)
        plan = algorithm.plan(problem.problem_class, cell.budget, **dict(cell.choices))
        return Job(cell, problem, data, plan, quantity_of(problem, plan.rate))

    def facts(self, job: Job) -> dict[str, float]:
        """What is measured of a cell as a whole; of problems of one shape by one thread at a time.

        Raises
        ------
        ValueError
            If the data are not finite or break the declared problem class.
        """
        problem, quantity = job.problem, job.quantity
        with self._locks[job.shape]:
            if job.data not in self._checked:
                problem.check()
                self._checked.add(job.data)
            reference = quantity.reference(problem)
            objective = problem.objective
            centre = objective.constraint.centre_point(job.cell.dim, objective.dtype)
            start = Run(centre.reshape(problem.shape or -1), None)
            return {
                "reference_value": reference.value,
                "reference_gap": reference.gap,
                "start_value": float(np.squeeze(quantity.measure(problem, start))),
                "nonprivate_value": self._non_private_value(job),
            }

    def _non_private_value(self, job: Job) -> float:
        """Of gradient descent without noise, of as many steps as the plan's.

        Of a population, on one draw of records. Fewer on large data, so that steps times numbers in
        the data stay within 2e9.
        """
        numbers = sum(leaf.size for leaf in jax.tree.leaves(job.problem.objective.data))
        most = max(1, int(_NON_PRIVATE_WORK / numbers))
        steps = min(_steps(job.plan) or _NON_PRIVATE_STEPS, most)
        if (job.data, steps) not in self._non_private:
            plan = GRADIENT_DESCENT.plan(job.problem.problem_class, job.cell.budget, steps=steps)
            found = run(plan, job.problem, stream(0, role="unused"))
            value = float(np.squeeze(job.quantity.measure(job.problem, found)))
            self._non_private[job.data, steps] = value
        return self._non_private[job.data, steps]


def measure(
    job: Job, bench: Bench, *, seed: int
) -> tuple[dict[str, NDArray[np.generic]], dict[str, float]]:
    """The columns of its runs, in float64, and what is measured of a cell as a whole.

    Noise is named by experiment, method, family, setting and strength, and within that by the
    replicate: more replicates, other axes or another delta change no key. A population's records
    are drawn with the same key as the noise.

    Raises
    ------
    ValueError
        If the data are not finite or break the declared problem class.
    """
    cell = job.cell
    with jax.enable_x64(True):
        facts = bench.facts(job)
        keys = replicate_keys(stream(seed, role="noise", **cell.identity), cell.replicates)
        found = run_many([job.plan], job.problem, keys)
        values = job.quantity.measure(job.problem, found._replace(released=found.released[0]))
    columns: dict[str, NDArray[np.generic]] = {
        "replicate": np.arange(cell.replicates),
        "value": np.asarray(values, np.float64),
    }
    return columns, facts


def _steps(plan: Plan) -> int | None:
    steps = getattr(plan.params.mechanism, "steps", None)
    return None if steps is None else int(steps)


# --- what determines the numbers ------------------------------------------------------------------


def _digest(problem: Problem) -> str:
    """SHA-256 of the numbers of a problem, static ones too, and of what is declared of it."""
    static = _static(jax.tree.structure(problem.objective))
    digest = hashlib.sha256(f"{problem.name} {problem.problem_class} {static}".encode())
    for leaf in jax.tree.leaves(problem.objective):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _static(structure: jax.tree_util.PyTreeDef) -> list[object]:
    """The classes of a pytree's nodes, each with its static numbers and texts."""
    inner = map(_static, structure.children())
    node, told = structure.node_data() or (None, ())
    fields = told if isinstance(told, tuple | list) else (told,)
    own = [x for x in fields if isinstance(x, str | int | float | tuple | None)]
    return [node and node.__qualname__, own, *inner]


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
        },
    }
    return json.dumps(_plain(told), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> object:
    """NamedTuples and records by their fields' names; what JSON lacks as text."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        numbers = {f.name: getattr(value, f.name) for f in fields(value)}
        value = {"kind": type(value).__name__} | numbers
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"kind": "array", "shape": value.shape, "dtype": str(value.dtype), "sha256": digest}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
