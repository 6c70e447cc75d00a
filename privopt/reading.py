"""A run over records that are read as they are needed, and are never in memory together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import Array

from privopt.arguments import count, described, instance
from privopt.convex import BatchRisk, ConstraintSet, Loss, Pytree
from privopt.core import Execution, Plan, Run, RunState, Stepper
from privopt.core.fitting import check_problem
from privopt.core.running import check_key
from privopt.core.stepping import check_steps, planned_rows
from privopt.problems import Problem

__all__ = ["run_stream"]

Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]


def run_stream(
    plan: Plan,
    loss: Loss,
    read: Callable[[Rows], Pytree],
    key: Array,
    *,
    n: int | None = None,
    constraint: ConstraintSet | None = None,
    start: Pytree = None,
    state: RunState | None = None,
    after: Callable[[RunState], object] | None = None,
    execution: Execution = Execution(),  # noqa: B008
) -> Run:
    """``privopt.run`` of a problem of which one batch is in memory at a time; the same bits.

    A loop on the host: it asks the plan which records take part in a step, reads them, and takes
    the step on the device, while the next batch is read.

    Parameters
    ----------
    plan : Plan
        Of ``dp_sgd``, ``dp_ftrl``, ``noisy_adam``, ``phased_sgd``, or of a method that asks all
        records (``dp_gd``), which are then one batch.
    loss : callable
        As :class:`privopt.problems.Problem` takes it: ``loss(w, x) -> scalar``, or a loss of
        :mod:`privopt.problems` such as ``GeneralisedLinear(Logistic())``.
    read : callable
        ``rows -> records``: the records of these numbers, from ``0..n-1``, in their order, as a
        pytree of arrays such as ``(features, labels)``. Which rows are asked for is secret.
    key : Array
        A typed key.
    n : int, optional
        How many records there are; default the plan's. Fewer under ``add_or_remove_one`` alone.
    constraint : constraint set, optional
        Default the Euclidean ball of the plan's radius, or the whole space.
    start : pytree of arrays, optional
        Without a constraint: where the run begins, such as the parameters of a network.
    state : RunState, optional
        Where an interrupted run goes on; by default it begins.
    after : callable
        ``after(state)`` after every step: for progress, and for saving the state, a pytree of
        arrays, which is as secret as the key.
    execution : Execution

    Returns
    -------
    Run
        ``released`` of shape ``(dim,)``, as :func:`privopt.run` on all records gives it.

    Raises
    ------
    ValueError
        If ``read`` gives another number of records than it was asked for, ``state`` is of another
        key or after the last step, or the algorithm does not read one batch a step. Nothing is
        raised for the values of records.

    Formal guarantee
    ----------------
    ``plan.guarantee``, once for one key.

    Examples
    --------
    >>> import privopt
    >>> from privopt.problems import GeneralisedLinear, Logistic
    >>> x, y = np.eye(2)[np.arange(50) % 2], np.ones(50)
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.ALGORITHMS["dp_sgd"].plan(facts, budget, steps=5, batch_size=10)
    >>> key, seen = jax.random.key(0), []
    >>> found = run_stream(
    ...     plan, GeneralisedLinear(Logistic()), lambda rows: (x[rows], y[rows]), key,
    ...     after=lambda state: seen.append(int(state.t)),
    ... )
    >>> whole = privopt.run(plan, privopt.problems.logistic(x, y, problem_class=facts), key)
    >>> seen, bool((found.released == whole.released).all())
    ([1, 2, 3, 4, 5], True)
    """
    instance("plan", plan, Plan)
    check_steps(plan)
    check_key(key, "key", ndim=0)
    if not callable(read):
        raise ValueError(f"read must be a function of rows, got {described(read)}")
    n = plan.problem_class.n if n is None else count("n", n)
    facts = replace(plan.problem_class, n=n)
    execution = replace(instance("execution", execution, Execution), chunk=None, replicates=None)

    def batch_of(rows: Rows, taken: np.ndarray) -> BatchRisk:
        """The records that take part, and zeros in places that nobody takes."""
        given = jax.tree.map(np.asarray, read(rows[taken]))
        lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(given)}
        if lengths != {int(taken.sum())}:
            raise ValueError(
                f"read must give the {int(taken.sum())} records that it is asked for, got "
                f"{', '.join(map(str, sorted(lengths))) or 'none'}"
            )

        def placed(leaf: np.ndarray) -> np.ndarray:
            whole = np.zeros((len(rows), *leaf.shape[1:]), leaf.dtype)
            whole[taken] = leaf
            return whole

        here = replace(facts, n=len(rows))
        data = jax.tree.map(placed, given)
        problem = Problem(
            loss=loss, data=data, problem_class=here, constraint=constraint, start=start
        )
        check_problem(plan, problem, facts)
        return BatchRisk.of(problem.objective, problem.objective.data, n)

    def at(t: int) -> Stepper:
        """For the step after ``t``."""
        return Stepper(plan, None, batch_of(*planned_rows(plan, key, t, n)), 0, execution)

    s = at(0 if state is None else int(state.t))
    if state is None:
        state = s.init(key)
    elif not np.array_equal(state.words, jax.random.key_data(key)):
        raise ValueError("state must be of a run with this key, got one of another")
    for t in range(int(state.t) + 1, s.steps + 1):
        state = s.step(state)
        s = at(t) if t < s.steps else s
        if after is not None:
            after(state)
    return s.ends(state)
