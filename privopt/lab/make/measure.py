"""Measuring one cell: plan, problem, replicated runs, excess risks, one row a replicate."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import jax
import numpy as np
import pyarrow as pa

from privopt.algorithms import ALGORITHMS
from privopt.core import Plan, run, run_many
from privopt.lab.make.cells import Cell
from privopt.lab.make.keys import replicate_keys, stream
from privopt.lab.make.records import CELL_COLUMNS
from privopt.lab.make.user_code import user_code
from privopt.problems import Family, Problem, family

__all__ = ["Bench", "Job", "measure"]

_NON_PRIVATE_STEPS = 2000
_NON_PRIVATE_WORK = 2e9


@dataclass(frozen=True)
class Job:
    """A cell made ready: its problem, its plan, and the digests of its data and its user's code."""

    cell: Cell
    problem: Problem
    data: str
    plan: Plan
    user_code: str


@dataclass
class Bench:
    """The problems of a sweep: each built, checked and solved once, however many cells use it.

    Attributes
    ----------
    family : callable
        From a name to its family: the experiment's own ones among them.
    """

    family: Callable[[str], Family] = family
    _problems: dict[str, Problem] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _non_private: dict[tuple[str, int], float] = field(default_factory=dict)
    _user_code: dict[tuple[str, str], str] = field(default_factory=dict)

    def prepare(self, cell: Cell) -> Job:
        """Build the cell's problem and plan its algorithm; nothing is run."""
        algorithm, kind = ALGORITHMS[cell.algorithm], self.family(cell.family)
        built = kind.build(
            n=cell.n, dim=cell.dim, noise_ratio=cell.noise_ratio, strength=cell.strength
        )
        data = _digest(built)
        problem = self._problems.setdefault(data, built)
        plan = algorithm.plan(problem.problem_class, cell.budget, **dict(cell.choices))
        named = cell.algorithm, cell.family
        if named not in self._user_code:
            self._user_code[named] = user_code(algorithm, kind)
        return Job(cell, problem, data, plan, self._user_code[named])

    def check(self, job: Job) -> None:
        """Compare the problem's data with its declared class, once."""
        if job.data not in self._checked:
            job.problem.check()
            self._checked.add(job.data)

    def non_private_risk(self, job: Job) -> float:
        """Excess risk of gradient descent without noise, of as many steps as the plan's.

        Of a population, on one draw of records. Fewer on large data, so that steps times numbers in
        the data stay within 2e9.
        """
        numbers = sum(leaf.size for leaf in jax.tree.leaves(job.problem.objective.data))
        most = max(1, int(_NON_PRIVATE_WORK / numbers))
        steps = min(_steps(job.plan) or _NON_PRIVATE_STEPS, most)
        if (job.data, steps) not in self._non_private:
            plan = ALGORITHMS["gradient_descent"].plan(
                job.problem.problem_class, job.cell.budget, steps=steps
            )
            released = run(plan, job.problem, stream(0, role="unused")).released
            self._non_private[job.data, steps] = float(job.problem.excess_risk(released))
        return self._non_private[job.data, steps]


def measure(job: Job, bench: Bench, *, seed: int) -> pa.Table:
    """The rows of a cell, one a replicate, without the columns that belong to the sweep.

    Excess risk is the records', or the population's where the problem is one; of a rate that speaks
    of the other no bounds are kept. Noise is named by experiment, algorithm, family, setting and
    strength, and within that by the replicate: more replicates, other axes or another delta change
    no key. A population's records are drawn with the same key as the noise.

    Raises
    ------
    ValueError
        If the data are not finite or break the declared problem class.
    """
    cell, plan, problem = job.cell, job.plan, job.problem
    bench.check(job)
    key = stream(
        seed,
        role="noise",
        experiment=cell.experiment,
        algorithm=cell.algorithm,
        family=cell.family,
        n=cell.n,
        dim=cell.dim,
        epsilon=cell.budget.epsilon,
        strength=cell.strength,
    )
    released = run_many([plan], problem, replicate_keys(key, cell.replicates)).released[0]
    risks = np.asarray(problem.excess_risk(released), np.float64)
    centre = problem.constraint.centre_point(cell.dim, problem.objective.dtype)
    spoken_of = plan.rate.quantity == f"{problem.measures} risk"
    constants = {
        "experiment": cell.experiment,
        "algorithm": cell.algorithm,
        "family": cell.family,
        "n": cell.n,
        "dim": cell.dim,
        "epsilon": cell.budget.epsilon,
        "delta": cell.budget.delta,
        "relation": cell.budget.relation.value,
        "mu": cell.mu,
        "strength": cell.strength,
        "reference_gap": float(problem.reference.gap),
        "reference_value": float(problem.reference.value),
        "upper": plan.rate.upper if spoken_of else math.inf,
        "lower": plan.rate.lower if spoken_of else 0.0,
        "start_risk": float(problem.excess_risk(centre.reshape(problem.shape or -1))),
        "nonprivate_risk": bench.non_private_risk(job),
        "spent_epsilon_upper": plan.guarantee.epsilon(cell.budget.delta).upper,
        "steps": _steps(plan),
        "tight_on": plan.rate.tight_on,
        "exponents": _json(dict(plan.rate.exponents)),
        "root_seed": seed,
        "plan": _json(_described(plan, job)),
    }
    columns = {name: [value] * cell.replicates for name, value in constants.items()}
    columns["replicate"] = list(range(cell.replicates))
    columns["excess_risk"] = risks.tolist()
    return pa.table({name: columns[name] for name in CELL_COLUMNS.names}, schema=CELL_COLUMNS)


def _digest(problem: Problem) -> str:
    """SHA-256 of the numbers of a problem, static ones too, and of what is declared of it."""
    static = _static(jax.tree.structure(problem.objective))
    digest = hashlib.sha256(f"{problem.name} {problem.problem_class} {static}".encode())
    for leaf in jax.tree.leaves(problem.objective):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _static(structure: Any) -> list[Any]:
    """The classes of a pytree's nodes, each with its static numbers and texts."""
    inner = map(_static, structure.children())
    node, told = structure.node_data() or (None, ())
    fields = told if isinstance(told, tuple | list) else (told,)
    own = [x for x in fields if isinstance(x, str | int | float | tuple | None)]
    return [node and node.__qualname__, own, *inner]


def _steps(plan: Plan) -> int | None:
    method = getattr(plan.params, "descent", plan.params)
    steps = getattr(method, "steps", None)
    return None if steps is None else int(steps)


def _described(plan: Plan, job: Job) -> dict[str, Any]:
    return {
        "risk": job.problem.measures,
        "choices": dict(job.cell.choices),
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


def _json(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> Any:
    """NamedTuples and records by their fields' names; what JSON lacks as text."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        numbers = {f.name: getattr(value, f.name) for f in fields(value)}
        value = {"kind": type(value).__name__} | numbers
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
