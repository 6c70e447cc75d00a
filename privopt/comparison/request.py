"""What is compared: a problem by name, as a family or of one's own, and an axis it has."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np
from jax import Array

from privopt.algorithms import ALGORITHMS, register
from privopt.arguments import described, member, shown
from privopt.convex import Update
from privopt.lab.make.axes import AXES, Axis, Setting
from privopt.lab.make.cells import cells
from privopt.lab.make.experiment import Experiment
from privopt.lab.make.method import Choice, Method
from privopt.problems import FAMILIES, KINDS, Family, Problem, synthetic
from privopt.spec import Budget
from privopt.tuning import is_tuned, tunable, tuned

VALUES: Mapping[str, tuple[float, ...]] = {
    "n": (500, 1000, 2000, 4000, 8000),
    "dim": (4, 8, 20, 40, 80),
    "sparsity": (1, 2, 4, 8, 16),
    "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0),
    "steps": (10, 30, 100, 300, 1000),
}
"""What an axis sweeps where nothing is said."""

_SYMBOLS = {kind.symbol.lower(): name for name, kind in AXES.items()}
_GRIDS: Mapping[str, tuple[Choice, ...]] = {
    "step_size": tuple(4.0**k for k in range(-3, 4)),
    "regularisation": tuple(4.0**k for k in range(-8, 2)),
}


def family_of(problem: object, data_sets: int | None, replicates: int) -> Family:
    """The family that is compared on, with as many strengths as data sets."""
    if isinstance(problem, Problem):
        if not problem.certifiable:
            raise ValueError(
                "problem must be convex and without a start of its own to have a certified "
                f"optimum, got {problem.name}"
            )
        own = problem.name if problem.name not in FAMILIES else f"own_{problem.name}"
        problem = replace(Family.of(problem), name=own)
    elif isinstance(problem, str):
        member("problem", problem, [*KINDS, *FAMILIES])
        problem = synthetic(problem) if problem in KINDS else FAMILIES[problem]
    if not isinstance(problem, Family):
        raise ValueError(
            f"problem must be the name of a kind, a Family or a Problem, got {described(problem)}"
        )
    if problem.redrawn:
        count = min(5, replicates) if data_sets is None else data_sets
        if not 1 <= count <= replicates or replicates % count:
            raise ValueError(f"data_sets must divide replicates = {replicates}, got {count}")
        return replace(problem, strengths=tuple(map(float, range(count))))
    if data_sets is not None:
        raise ValueError(
            f"data_sets must be left out for {problem.name}, which has its data, got "
            f"{shown(data_sets)}"
        )
    if len(problem.strengths) > 1:
        raise ValueError(
            f"problem must have one strength, got {problem.name} with {problem.strengths}: choose "
            "one by dataclasses.replace(problems.family(name), strengths=(1.0,))"
        )
    return problem


def axis_of(family: Family, axis: str | None, values: Sequence[float] | None) -> tuple[Axis, ...]:
    """The axis, if the family has it; none where nothing is swept."""
    if axis is None:
        if values is not None:
            raise ValueError(f"values must be left out where there is no axis, got {shown(values)}")
        return ()
    free = family.dim is None
    sparse = "sparsity" in inspect.signature(family.build).parameters
    has = {"n": True, "dim": free, "sparsity": sparse, "epsilon": True, "steps": True}
    member(f"axis of {family.name}", axis, [name for name in AXES if has[name]], _SYMBOLS)
    swept = Axis(axis, VALUES[axis] if values is None else tuple(values))
    if len(swept.values) < 2:
        raise ValueError(
            f"values must be two or more along an axis, got {swept.values}: leave axis out for one"
        )
    return (swept,)


def budget_of(
    budget: object, axis: str | None, values: Sequence[float] | None
) -> tuple[Budget, str | None, Sequence[float] | None]:
    """One budget, or several that differ in epsilon alone, which is then the axis."""
    if isinstance(budget, Budget):
        return budget, axis, values
    budgets = list(budget) if isinstance(budget, list | tuple) else []
    if not budgets or not all(isinstance(each, Budget) for each in budgets):
        raise ValueError(f"budget must be a Budget or several of them, got {described(budget)}")
    for fact in ("relation", "delta"):
        found = sorted({getattr(each, fact) for each in budgets})
        if len(found) > 1:
            told = ", ".join(map(str, found))
            raise ValueError(f"budgets must have one {fact} to be compared, got {told}")
    if axis not in (None, "epsilon") or values is not None:
        raise ValueError("axis and values must be left out for several budgets: epsilon is swept")
    return budgets[0], "epsilon", [each.epsilon for each in budgets]


def methods_of(
    algorithms: Sequence[str | Method] | None, tune: str | None, max_steps: int | None
) -> tuple[Method, ...]:
    """Every private algorithm by default; beside each its twin that is tuned, if asked for.

    Tuned twins that are registered, here or by the caller, are compared where they are named.
    """
    if isinstance(algorithms, str | Method):
        algorithms = [algorithms]
    if algorithms is None:
        algorithms = [
            name for name, each in ALGORITHMS.items() if each.private and not is_tuned(each)
        ]
    if tune is not None:
        member("tune", tune, ["oracle", "private"])
    found: list[Method] = []
    for each in algorithms:
        if not isinstance(each, Method):
            member("algorithms", each, ALGORITHMS)
            each = Method(each, each)
        held = each if each.most_steps else replace(each, most_steps=max_steps)
        grid = {} if tune is None or each.search else _grid(held)
        if not grid:
            found.append(held)
        elif tune == "oracle":
            found += held.twice(**grid)
        else:
            known = tunable(ALGORITHMS[held.algorithm])
            found += [held, _privately(held, grid)] if known else [held]
    return tuple(found)


def _grid(method: Method) -> dict[str, tuple[Choice, ...]]:
    """Return the grid of a search: step sizes of a descent, else regularisations.

    An optimiser that has its own step sizes is not searched for.
    """
    updates = [value for value in method.choices.values() if isinstance(value, Update)]
    if any(update.has_step_sizes for update in updates):
        return {}
    for name, values in _GRIDS.items():
        if name in method.known_choices and name not in method.choices:
            return {name: values}
    return {}


def _privately(method: Method, grid: Mapping[str, tuple[Choice, ...]]) -> Method:
    """Its twin ``<label>_tuned``, by every second number of the grid: each must be paid for."""
    few = {name: values[::2] for name, values in grid.items()}
    algorithm = register(tuned(method.algorithm, **few))
    return replace(method, label=f"{method.label}_tuned", algorithm=algorithm.name)


def experiment_of(
    family: Family,
    methods: Sequence[Method],
    budget: Budget,
    axes: tuple[Axis, ...],
    sizes: Mapping[str, int | None],
    replicates: int,
) -> Experiment:
    """The experiment of the lab that is run; its optimum is certified."""
    kind = family.name.removeprefix("synthetic_")
    along = f"_{axes[0].name}" if axes else ""
    if not (family.hard and family.dim is None) and sizes["dim"] not in (None, family.dim):
        raise ValueError(f"dim must be {family.dim} for {family.name}, got {shown(sizes['dim'])}")
    found = Experiment(
        name=f"compare_{kind}{along}",
        title=f"Methods compared on {family.summary or kind}",
        description="",
        algorithms=methods,
        families=(family,),
        base=Setting(epsilon=budget.epsilon, **sizes),
        axes=axes,
        replicates={"full": replicates // len(family.strengths)},
        relation=budget.relation,
        delta=budget.delta,
        checks=(),
    )
    with jax.enable_x64(True):
        first = cells(found, "full")[0]
        given = {"n": first.n, "dim": first.dim, "noise_ratio": first.noise_ratio}
        if first.sparsity is not None:
            given["sparsity"] = first.sparsity
        built = family.build(**given, strength=first.strength)
    if not built.certifiable:
        raise ValueError(f"problem must have a certified optimum, which {family.name} has not")
    return found


def seed_of(key: Array) -> int:
    """The root seed of the lab: the words of a typed key as one integer, with its sign."""
    words = np.asarray(jax.random.key_data(key)).astype(np.uint32).ravel()
    seed = int.from_bytes(words.astype(">u4").tobytes()[-8:], "big", signed=True)
    return min(seed, 2**63 - 2)
