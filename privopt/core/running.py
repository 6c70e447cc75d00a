"""``run`` and ``run_many``: run plans on a problem.

The numbers of a plan are arguments of a compiled program. New numbers do not trigger a compilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral
from typing import Any, Protocol

import jax
import numpy as np
from jax import Array
from jaxtyping import Key

from privopt.arguments import count, described, instance, shown
from privopt.convex import EmpiricalRisk
from privopt.core.parameters import Parameters, device_numbers, padded_alike
from privopt.core.plan import Plan
from privopt.core.replicates import run_all, run_chunks
from privopt.core.runs import Execution, Run, Source
from privopt.random import as_key
from privopt.spec import Assumptions, ProblemClass, Relation

REMEDIES = {
    "ball": "use a Euclidean ball (convex.L2Ball), or plan for any set (output_perturbation: "
    "constraint='any'; linf_output_perturbation: projection='linf', floor=0.0)",
    "linear_model": "declare a loss phi(<x, w>, y) without kinks as GeneralisedLinear(phi)",
    "mean": "use squared distances to records that are vectors (problems.squared_distance)",
    "smoothing": "declare smoothness= in its ProblemClass, or use a loss with a Moreau envelope",
    "squares": "use squared losses of linear predictions (problems.squared)",
    "unit_modulus": "declare smoothness= in its ProblemClass for a modulus above 1",
}


class RunnableProblem(Protocol):
    """Interface of a problem for ``run``; :class:`privopt.problems.Problem` implements it."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def problem_class(self) -> ProblemClass:
        """Declared constants."""

    @property
    def objective(self) -> EmpiricalRisk:
        """Empirical risk on the device."""

    @property
    def source(self) -> Source:
        """Source of the records of a run."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the parameter, or None if it is a pytree."""

    @property
    def provides(self) -> frozenset[str]:
        """Features beyond gradients and projection."""


def check_problem(plan: Plan, problem: RunnableProblem, facts: ProblemClass | None = None) -> None:
    """Check that ``problem`` is in the plan's class, with constants no larger than the plan's.

    If ``problem`` is a batch of records, ``facts`` is the problem class of all records.
    """
    if isinstance(problem, type) or not hasattr(problem, "objective"):
        raise ValueError(f"problem must be a privopt.problems.Problem, got {described(problem)}")
    planned, actual = plan.problem_class, facts or problem.problem_class
    if actual.dim != planned.dim:
        raise ValueError(f"problem.dim must be the plan's {planned.dim}, got {actual.dim}")
    if plan.budget.relation is not Relation.ADD_OR_REMOVE_ONE and actual.n != planned.n:
        raise ValueError(f"problem.n must be the plan's {planned.n}, got {actual.n}")
    (plan.assumptions & Assumptions.declared(planned)).check(actual, "problem", "the plan")
    if problem.objective.public is not None and not plan.algorithm.public_terms:
        raise ValueError(
            f"problem.public must be None for {plan.algorithm.name}, which uses records only "
            f"(dp_gd adds public gradients), got {problem.name}"
        )
    if "ball" in plan.requires and actual.radius != planned.radius:
        raise ValueError(f"problem.radius must be the plan's {planned.radius}, got {actual.radius}")
    missing = plan.requires - problem.provides
    if missing:
        raise ValueError(
            f"problem must provide {', '.join(sorted(missing))} for {plan.algorithm.name}, "
            f"got {problem.name}: {'; '.join(REMEDIES[name] for name in sorted(missing))}"
        )


def run(
    plan: Plan,
    problem: RunnableProblem,
    key: Key[Array, ""],
    *,
    stream: int = 0,
    execution: Execution = Execution(),  # noqa: B008
) -> Run:
    """Run ``plan`` on ``problem`` once.

    Parameters
    ----------
    problem : privopt.problems.Problem
        Must have the plan's ``n`` and ``dim``, and constants no larger than the plan's. Under
        ``add_or_remove_one``, ``n`` may be any number up to ``plan.assumptions.n``.
    key : Array
        Typed key, ``jax.random.key(seed)``, see :func:`privopt.random.as_key`: the source of all
        randomness, including the records of a population. Keep it secret.
    stream : int
        Index of the noise stream, from 0 to ``2^31 - 1``. Streams of one key are independent. The
        records of a population are the same for all streams.
    execution : Execution
        Its ``chunk`` and ``replicates`` have no effect on a single run.

    Returns
    -------
    Run
        ``released`` has the problem's ``shape``, by default ``(dim,)``, and dtype. The same program
        returns the same bits for the same key and stream. Results of other programs agree up to
        rounding: :func:`run_many`, :func:`stepper`, a compiled function of the caller, another
        device.

    Raises
    ------
    ValueError
        Before compilation, if problem, key, stream or execution do not fit the plan. No error
        depends on the values of the data or, up to ``assumptions.n``, on the number of records.

    Formal guarantee
    ----------------
    ``plan.guarantee``, for one release. Two releases compose if their noise is independent, that
    is, for two keys or two streams. **Runs with one key and one stream share their noise**, even
    under different plans. The noise then cancels: two releases and their public noise scales reveal
    the minimiser or the gradient to all digits, and neither guarantee covers both together.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_gd(facts, budget, steps=3)
    >>> problem = privopt.problems.linear(np.eye(2)[np.arange(50) % 2], problem_class=facts)
    >>> run(plan, problem, jax.random.key(0)).released.shape
    (2,)
    """
    instance("plan", plan, Plan)
    check_problem(plan, problem)
    key = as_key(key)
    check_stream(stream)
    instance("execution", execution, Execution)
    single = replace(execution, chunk=None, replicates="in_turn")
    with precision(plan):
        dtype = precision_dtype(plan, problem.objective.dtype)
        numbers = device_numbers(plan.params, dtype), np.uint32(stream)
        result = run_all(plan.algorithm, plan.static, single, numbers, problem.source, key)
    return in_shape(result, problem.shape)


def run_many(
    plans: Sequence[Plan],
    problem: RunnableProblem,
    keys: Key[Array, " keys"],
    *,
    common_random_numbers: bool = False,
    group: int = 1,
    execution: Execution = Execution(),  # noqa: B008
) -> Run:
    """Run every plan with every key, as one compiled program.

    Parameters
    ----------
    plans : sequence of Plan
        Plans of one algorithm with equal ``static``; their numbers are stacked.
    keys : Array
        Typed keys, distributed over all of ``jax.devices()``.
    common_random_numbers : bool
        If True, all plans use the same noise for a key. Differences of plans then vary less, but
        the plans are no longer private together, see :func:`run`.
    group : int
        Number of consecutive keys that share public randomness
        (``Algorithm.public_randomness``), derived from the first of them. It divides
        the number of keys. Replicates of one group are not independent: confidence intervals must
        resample groups. Each guarantee holds, but they do not compose as if public randomness were
        independent.
    execution : Execution
        Its ``chunk`` must be a multiple of ``group``. With a chunk, results are NumPy arrays.

    Returns
    -------
    Run
        Leaves have leading axes ``(plans, keys)``. Entry ``(i, j)`` agrees up to rounding with
        ``run(plans[i], problem, keys[j], stream=i)``, or ``stream=0`` for common random numbers,
        given the public randomness of its group. For each key, all plans use the same records of a
        population. ``execution`` affects at most the rounding.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_gd(facts, budget, steps=3)
    >>> problem = privopt.problems.linear(np.eye(2)[np.arange(50) % 2], problem_class=facts)
    >>> keys = jax.random.split(jax.random.key(0), 6)
    >>> run_many([plan], problem, keys, execution=Execution(chunk=4)).released.shape
    (1, 6, 2)
    """
    first, params = _alike(plans, problem)
    keys = as_key(keys, "keys", ndim=1)
    if keys.shape[0] == 0:
        raise ValueError("keys must hold at least one key, got none")
    if not isinstance(common_random_numbers, bool):
        raise ValueError(
            f"common_random_numbers must be True or False, got {shown(common_random_numbers)}"
        )
    if keys.shape[0] % count("group", group):
        raise ValueError(f"keys must come in whole groups of {group}, got {keys.shape[0]} keys")
    instance("execution", execution, Execution)
    if execution.chunk is not None and execution.chunk % group:
        raise ValueError(f"chunk must be a multiple of group {group}, got {execution.chunk}")
    streams = np.arange(len(params), dtype=np.uint32)
    if common_random_numbers:
        streams = np.zeros_like(streams)
    with precision(first):
        dtype = precision_dtype(first, problem.objective.dtype)
        numbers = [device_numbers(each, dtype) for each in params]
        stacked = jax.tree.map(lambda *values: np.stack(values), *numbers), streams
        result = run_chunks(
            first.algorithm, first.static, execution, stacked, problem.source, keys, group
        )
    return in_shape(result, problem.shape)


def _alike(plans: Sequence[Plan], problem: RunnableProblem) -> tuple[Plan, list[Parameters]]:
    """Return the first plan and the parameters of all plans, which must share a program."""
    if isinstance(plans, Plan):
        raise ValueError("plans must be a sequence of Plan, got a single plan; write [plan]")
    if not isinstance(plans, Sequence):
        raise ValueError(f"plans must be a sequence of Plan, got {described(plans)}")
    plans = [instance("plans", plan, Plan) for plan in plans]
    if not plans:
        raise ValueError("plans must hold at least one plan, got none")
    first = plans[0]
    params = padded_alike([plan.params for plan in plans])
    for plan, padded in zip(plans, params, strict=True):
        if difference := _difference(first, params[0], plan, padded):
            raise ValueError(
                "plans must share algorithm, static part, kind of noise and shapes of arrays, got "
                f"{difference}"
            )
        check_problem(plan, problem)
    return first, params


def _difference(first: Plan, params: Parameters, other: Plan, others: Parameters) -> str:
    """Describe why two plans cannot share a trace; return an empty string if they can."""
    if first.algorithm != other.algorithm:
        names = first.algorithm.name, other.algorithm.name
        return " and ".join(names) if len({*names}) == 2 else f"two algorithms named {names[0]}"
    if first.static != other.static:
        return f"static {first.static} and {other.static}"
    return _difference_of_shapes("params", params, others)


def _difference_of_shapes(name: str, first: Any, other: Any) -> str:
    """Describe the smallest parts that differ in structure or shape; empty if none do."""
    parts = first, other
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(each)] for each in parts]
    structures: list[object] = [jax.tree.structure(each) for each in parts]
    if structures[0] == structures[1] and shapes[0] == shapes[1]:
        return ""
    fields = getattr(first, "_fields", getattr(first, "__dataclass_fields__", ()))
    message = " and ".join(str(getattr(each, "shape", each)) for each in parts)
    if type(first) is not type(other):
        fields, message = (), " and ".join(map(described, parts))
    inner = (
        _difference_of_shapes(f"{name}.{each}", *(getattr(part, each) for part in parts))
        for each in fields
    )
    return next(filter(None, inner), f"{name} {message}")


def in_shape(run: Run, shape: tuple[int, ...] | None) -> Run:
    """Reshape the released vector of a run to the shape of the problem's parameter."""
    if shape is None:
        return run

    def view(points: Array) -> Array:
        return points.reshape(*points.shape[:-1], *shape)

    path = run.path and run.path._replace(points=view(run.path.points))
    return run._replace(released=view(run.released), path=path)


def precision(plan: Plan) -> AbstractContextManager[None]:
    """Return a context with float64 enabled, if the algorithm needs it."""
    return jax.enable_x64(True) if plan.algorithm.float64 else nullcontext()


def precision_dtype(plan: Plan, dtype: np.dtype[np.floating]) -> np.dtype[np.floating]:
    """Return the dtype of a run on data of this dtype."""
    return np.dtype(np.float64) if plan.algorithm.float64 else dtype


def check_stream(stream: int) -> None:
    """Check that ``stream`` is the index of a stream."""
    if isinstance(stream, bool) or not isinstance(stream, Integral) or not 0 <= stream < 2**31:
        raise ValueError(f"stream must be an integer from 0 to {2**31 - 1}, got {shown(stream)}")
