"""Comparison of algorithms on one problem, as an experiment of :mod:`privopt.lab`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
from jax import Array

from privopt.algorithms import ALGORITHMS, register
from privopt.arguments import checked, described, member, positive_integer, positive_number, shown
from privopt.comparison.plans import cost_of, private_algorithms
from privopt.comparison.result import Comparison
from privopt.convex import Update
from privopt.core.running import check_problem
from privopt.lab import Axis, Experiment, Method, Setting, cells, run
from privopt.problems import FAMILIES, KINDS, Family, Problem, synthetic
from privopt.random import as_key
from privopt.spec import Budget
from privopt.tuning import tunable, tuned

MAX_SECONDS = 0.03
"""Default cap on the forecast seconds of one run."""

AXES: Mapping[str, tuple[float, ...]] = {
    "n": (500, 1000, 2000, 4000, 8000),
    "dim": (4, 8, 20, 40, 80),
    "sparsity": (1, 2, 4, 8, 16),
    "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0),
    "steps": (10, 30, 100, 300, 1000),
}
"""Axes with their default values."""

_GRIDS = {
    "step_size": tuple(4.0**k for k in range(-3, 4)),
    "regularisation": tuple(4.0**k for k in range(-8, 2)),
}
_FEW_METHODS = 2  # of the first preview
_FEW_STEPS = 100  # for the forecast of the seconds per step


@checked
def compare(
    problem: str | Family | Problem,
    algorithms: Sequence[str | Method] | None = None,
    *,
    budget: Budget,
    key: Array,
    axis: str | None = None,
    values: Sequence[float] | None = None,
    n: int | None = None,
    dim: int | None = None,
    sparsity: int | None = None,
    replicates: int = 100,
    data_sets: int | None = None,
    tune: str | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = MAX_SECONDS,
    results: Path | str | None = None,
    progress: Callable[[Any], object] | None = None,
    preview: Callable[[Comparison], object] | None = None,
) -> Comparison:
    """Measure the excess risk of algorithms on one problem, under the same privacy guarantee.

    Methods share the data and draw their own noise. Optima are certified. A refused plan is kept
    with the reason. Risks are measured in float64.

    Parameters
    ----------
    problem : str, Family or Problem
        A kind of :func:`privopt.problems.synthetic` or the name of a family, for example
        ``"logistic"``, with sizes ``n`` and ``dim``; a family, for example
        ``synthetic("logistic", conditioning=10.0)``; or a problem, with its first ``n`` records.
    algorithms : sequence of str or Method, optional
        Names in ``ALGORITHMS``, or methods with arguments of their plans. Default: all private
        algorithms.
    budget : Budget
        The relation has no default. Along the axis ``"epsilon"`` its epsilon is not used.
    key : Array
        Typed key; the root of all randomness.
    axis, values : str and sequence of number, optional
        The swept axis, ``"n"``, ``"dim"``, ``"sparsity"``, ``"epsilon"`` or ``"steps"``. Other
        sizes stay fixed.
    replicates, data_sets : int
        Runs of each method at each value, in equal shares on ``data_sets`` data sets (default 5 for
        a synthetic kind). Data sets are numbered and do not depend on ``key``. Records of a
        population are drawn with the key of the run.
    tune : {"oracle", "private"}, optional
        Default: the default hyperparameters, which theorems determine. ``"oracle"`` adds
        ``<name>_best`` for each method: the best step size or regularisation of a grid. It uses
        the measured risk, is labelled *oracle-tuned* and never wins. ``"private"`` adds
        ``<name>_tuned``, see :func:`privopt.tuned`; its budget pays for every candidate and for
        the selection.
    max_steps : int, optional
        Largest number of steps of a plan.
    max_seconds : float or None
        Largest cost of a run of a method with default steps, as :func:`privopt.comparison.cost_of`
        forecasts it at the middle value of the axis. A method that needs more steps is planned for
        the largest number of steps within the cap. Its other hyperparameters, its guarantee and its
        bound are those of a plan with this number of steps.
    results : path, optional
        Folder of results, in which an interrupted comparison continues. Default: a temporary one.
    progress : callable, optional
        As in :func:`privopt.lab.run`.
    preview : callable, optional
        Receives comparisons of a part of the runs: first of two one-shot methods on one data set,
        which take a few seconds, then of all methods on one data set.

    Examples
    --------
    >>> import jax, privopt
    >>> comparison = compare(
    ...     "logistic", ["output_perturbation", "phased_sgd"], n=50, dim=2, replicates=4,
    ...     data_sets=2, key=jax.random.key(0), progress=lambda event: None,
    ...     budget=privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one"),
    ... )
    >>> len(comparison.points), comparison.refused
    (2, {})
    """
    key = as_key(key)
    replicates = positive_integer("replicates", replicates)
    family = _family(problem, data_sets, replicates)
    axes, methods = _axes(family, axis, values), _methods(algorithms, tune)
    if not (family.hard and family.dim is None) and dim not in (None, family.dim):
        raise ValueError(f"dim must be {family.dim} for {family.name}, got {shown(dim)}")
    kind = family.name.removeprefix("synthetic_")
    experiment = Experiment(
        name=f"compare_{kind}" + (f"_{axis}" if axis else ""),
        title=f"Comparison of methods on {family.summary or kind}",
        description="",
        algorithms=methods,
        families=(family,),
        base=Setting(epsilon=budget.epsilon, n=n, dim=dim, sparsity=sparsity),
        axes=axes,
        replicates={"full": replicates // len(family.strengths)},
        relation=budget.relation,
        delta=budget.delta,
        checks=(),
    )
    typical = _typical_problem(experiment, family)
    first = replace(family, strengths=family.strengths[:1])
    with ExitStack() as stack:
        # The solver of the optimum compiles while methods are planned. Runs report its errors.
        stack.enter_context(ThreadPoolExecutor(1)).submit(_solve, typical)
        folder = results or stack.enter_context(TemporaryDirectory(prefix="privopt-"))

        def measured(
            methods: Sequence[Method], family: Family, limits: Mapping[str, int]
        ) -> Comparison:
            part = replace(experiment, algorithms=tuple(methods), families=(family,))
            listener = {} if progress is None else {"progress": progress}
            outcome = run(part, profile="full", seed=_seed(key), results=folder, **listener)
            return Comparison.of(outcome.folder, axis, limits)

        one_shot = (method for method in methods if _is_planned_one_shot(method, typical, budget))
        quick = () if preview is None else tuple(islice(one_shot, _FEW_METHODS))
        if preview is not None and 0 < len(quick) < len(methods):
            preview(measured(quick, first, {}))
        limits = {
            method.label: limit
            for method in methods
            if (limit := _step_limit(method, typical, budget, max_steps, max_seconds)) is not None
        }
        methods = tuple(
            replace(method, most_steps=method.most_steps or limits.get(method.label))
            for method in methods
        )
        if preview is not None and len(family.strengths) > 1:
            preview(measured(methods, first, limits))
        return measured(methods, family, limits)


# --- problem and axis -----------------------------------------------------------------------------


def _family(problem: object, data_sets: int | None, replicates: int) -> Family:
    """Return the family of the problem, with one strength per data set."""
    if isinstance(problem, Problem):
        if not problem.certifiable:
            raise ValueError(
                "problem must be convex and without a start of its own to have a certified "
                f"optimum, got {problem.name}"
            )
        name = problem.name if problem.name not in FAMILIES else f"own_{problem.name}"
        problem = replace(Family.of(problem), name=name)
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
            f"data_sets must be left out for {problem.name}, whose data are fixed, got "
            f"{shown(data_sets)}"
        )
    if len(problem.strengths) > 1:
        raise ValueError(
            f"problem must have one strength, got {problem.name} with {problem.strengths}: choose "
            "one by dataclasses.replace(problems.family(name), strengths=(1.0,))"
        )
    return problem


def _axes(family: Family, axis: str | None, values: Sequence[float] | None) -> tuple[Axis, ...]:
    """Return the swept axis in a tuple, or an empty tuple."""
    if axis is None:
        if values is not None:
            raise ValueError(f"values must be left out without an axis, got {shown(values)}")
        return ()
    missing = {"dim"} if family.dim is not None else set()
    if "sparsity" not in inspect.signature(family.build).parameters:
        missing.add("sparsity")
    names = [name for name in AXES if name not in missing]
    member(f"axis of {family.name}", axis, names)
    swept = Axis(axis, AXES[axis] if values is None else tuple(values))
    if len(swept.values) < 2:
        raise ValueError(
            f"values must be two or more along an axis, got {swept.values}: leave axis out for one"
        )
    return (swept,)


def _typical_problem(experiment: Experiment, family: Family) -> Problem:
    """Return the problem at the middle value of the axis; its optimum must be certifiable."""
    with jax.enable_x64(True):
        first = [cell for cell in cells(experiment, "full") if cell.strength == family.strengths[0]]
        cell = sorted(first, key=lambda each: (each.n, each.dim))[len(first) // 2]
        sizes = {"n": cell.n, "dim": cell.dim, "noise_ratio": cell.noise_ratio}
        if cell.sparsity is not None:
            sizes["sparsity"] = cell.sparsity
        problem = family.build(**sizes, strength=cell.strength)
    if not problem.certifiable:
        raise ValueError(f"problem must have a certified optimum, which {family.name} has not")
    return problem


def _solve(problem: Problem) -> None:
    """Compile and run the solver of the optimum, and the evaluation of risks."""
    with jax.enable_x64(True):
        problem.check()
        objective = problem.objective
        centre = objective.constraint.centre_point(problem.problem_class.dim, objective.dtype)
        problem.excess_risk(np.asarray(centre).reshape(problem.shape or -1))


def _seed(key: Array) -> int:
    """Return the words of a typed key as one signed integer, the root seed of the experiment."""
    words = np.asarray(jax.random.key_data(key)).astype(np.uint32).ravel()
    seed = int.from_bytes(words.astype(">u4").tobytes()[-8:], "big", signed=True)
    return min(seed, 2**63 - 2)


# --- methods --------------------------------------------------------------------------------------


def _methods(
    algorithms: Sequence[str | Method] | None, tune: str | None = None
) -> tuple[Method, ...]:
    """Return the methods, each with its tuned variant if requested."""
    if isinstance(algorithms, str | Method):
        algorithms = [algorithms]
    if tune is not None:
        member("tune", tune, ["oracle", "private"])
    methods: list[Method] = []
    for each in private_algorithms() if algorithms is None else algorithms:
        if not isinstance(each, Method):
            member("algorithms", each, ALGORITHMS)
            each = Method(each, each)
        grid = {} if tune is None or each.search else _grid(each)
        if grid and tune == "oracle":
            methods += each.twice(**grid)
        elif grid and tunable(ALGORITHMS[each.algorithm]):
            methods += [each, _privately_tuned(each, grid)]
        else:
            methods.append(each)
    return tuple(methods)


def _is_planned_one_shot(method: Method, problem: Problem, budget: Budget) -> bool:
    """Return True for a method that calls a solver once and is not refused.

    Such methods compile and run quickly.
    """
    algorithm = ALGORITHMS[method.algorithm]
    if algorithm.step_count is not None:
        return False
    try:
        plan = algorithm.plan(problem.problem_class, budget, **method.choices)
        check_problem(plan, problem)
    except ValueError:
        return False
    return True


def _grid(method: Method) -> dict[str, tuple[float, ...]]:
    """Return the searched step sizes of a descent, else regularisations.

    An optimiser with its own step sizes is not searched.
    """
    updates = [value for value in method.choices.values() if isinstance(value, Update)]
    if any(update.has_step_sizes for update in updates):
        return {}
    for name, values in _GRIDS.items():
        if name in method.known_choices and name not in method.choices:
            return {name: values}
    return {}


def _privately_tuned(method: Method, grid: Mapping[str, tuple[float, ...]]) -> Method:
    """Return ``<label>_tuned`` on every second value of the grid, because each value costs."""
    few = {name: values[::2] for name, values in grid.items()}
    algorithm = register(tuned(method.algorithm, **few))
    return replace(method, label=f"{method.label}_tuned", algorithm=algorithm.name)


def _step_limit(
    method: Method,
    problem: Problem,
    budget: Budget,
    max_steps: int | None,
    max_seconds: float | None,
) -> int | None:
    """Return the largest number of steps within both caps, or None without a limit."""
    if "steps" in method.choices or "steps" not in method.known_choices:
        return None
    limits = [] if max_steps is None else [positive_integer("max_steps", max_steps)]
    if max_seconds is not None:
        seconds = positive_number("max_seconds", max_seconds)
        choices = {**method.choices, "steps": _FEW_STEPS}
        try:
            plan = ALGORITHMS[method.algorithm].plan(problem.problem_class, budget, **choices)
        except ValueError:  # the refusal is a row of the comparison
            return min(limits, default=None)
        cost = cost_of(plan)
        if cost.steps:
            limits.append(max(1, int(seconds * cost.steps / cost.seconds)))
    return min(limits, default=None)
