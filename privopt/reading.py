"""Runs over records that are read batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from privopt.arguments import count, described, instance
from privopt.convex import BatchRisk, ConstraintSet, Loss, Pytree
from privopt.core import Execution, Plan, Run, RunState, Stepper
from privopt.core.parameters import plan_digest
from privopt.core.running import check_problem
from privopt.core.stepping import check_state, check_steps, count_steps, planned_rows
from privopt.problems import Problem
from privopt.random import as_key
from privopt.records import as_array

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
    """Run a plan on records that are read batch by batch.

    The result agrees with ``privopt.run`` up to rounding. A loop on the host samples the batch
    indices of a step and reads these records. The device takes a step while the host reads the next
    batch.

    Parameters
    ----------
    plan : Plan
        A plan of ``dp_sgd``, ``dp_ftrl``, ``noisy_adam`` or ``phased_sgd``, or of a method that
        uses all records (``dp_gd``), which are then one batch.
    loss : callable
        See :class:`privopt.problems.Problem`: ``loss(w, x) -> scalar``, or a loss of
        :mod:`privopt.problems` such as ``GeneralisedLinear(Logistic())``.
    read : callable
        ``rows -> records``: the records with these indices, from ``0..n-1``, in the same order, as
        a pytree of arrays such as ``(features, labels)``. The indices are secret.
    key : Array
        Typed key.
    n : int, optional
        Number of records. Default: the plan's. It may be smaller under ``add_or_remove_one`` only.
    constraint : constraint set, optional
        Default: the Euclidean ball of the plan's radius, or the whole space.
    start : pytree of arrays, optional
        First iterate without a constraint, such as the parameters of a network.
    state : RunState, optional
        State of an interrupted run of this plan with this key, from which the run continues.
    after : callable
        ``after(state)`` is called after every step, for progress or to save the state, a pytree of
        arrays, which is as secret as the key.
    execution : Execution

    Returns
    -------
    Run
        ``released`` has shape ``(dim,)``, as for :func:`privopt.run` on all records.

    Raises
    ------
    ValueError
        If ``read`` returns another number of records than rows, if ``state`` belongs to another
        plan or key or has more steps than planned, or if the algorithm does not read one batch in
        each step. No exception depends on the values of records.

    Formal guarantee
    ----------------
    ``plan.guarantee``, for one run per key.

    Examples
    --------
    >>> import privopt
    >>> from privopt.problems import GeneralisedLinear, Logistic
    >>> x, y = np.eye(2)[np.arange(50) % 2], np.ones(50)
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_sgd(facts, budget, steps=5, batch_size=10)
    >>> key, steps = jax.random.key(0), []
    >>> result = run_stream(
    ...     plan, GeneralisedLinear(Logistic()), lambda rows: (x[rows], y[rows]), key,
    ...     after=lambda state: steps.append(int(state.t)),
    ... )
    >>> whole = privopt.run(plan, privopt.problems.logistic(x, y, problem_class=facts), key)
    >>> steps, bool(np.allclose(result.released, whole.released, atol=1e-6))
    ([1, 2, 3, 4, 5], True)
    """
    instance("plan", plan, Plan)
    check_steps(plan)
    key = as_key(key)
    if after is not None and not callable(after):
        raise ValueError(f"after must be a function of the state, got {described(after)}")
    if not callable(read):
        raise ValueError(f"read must be a function of rows, got {described(read)}")
    n = plan.problem_class.n if n is None else count("n", n)
    facts = replace(plan.problem_class, n=n)
    execution = replace(instance("execution", execution, Execution), chunk=None, replicates=None)
    digest = plan_digest(plan, 0)

    def batch_of(rows: Rows, mask: np.ndarray) -> BatchRisk:
        """Read the records of a batch; places outside of the mask contain zeros."""
        records = jax.tree.map(partial(as_array, name="records"), read(rows[mask]))
        lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(records)}
        if lengths != {int(mask.sum())}:
            raise ValueError("read must return one record for each row of its argument")

        def placed(leaf: np.ndarray) -> np.ndarray:
            padded = np.zeros((len(rows), *leaf.shape[1:]), leaf.dtype)
            padded[mask] = leaf
            return padded

        problem = Problem(
            loss=loss,
            data=jax.tree.map(placed, records),
            problem_class=replace(facts, n=len(rows)),
            constraint=constraint,
            start=start,
        )
        check_problem(plan, problem, facts)
        return BatchRisk.of(problem.objective, problem.objective.data, n)

    def at(t: int) -> Stepper:
        """Return the stepper for the step after ``t``."""
        batch = batch_of(*planned_rows(plan, key, t, n))
        return Stepper(plan, facts, None, batch, 0, digest, execution)

    if state is not None:
        check_state(state, digest, count_steps(plan))
        if not np.array_equal(state.words, jax.random.key_data(key)):
            raise ValueError("state must be of a run with this key, got one of another")
    s = at(0 if state is None else int(state.t))
    if state is None:
        state = s.init(key)
    for t in range(int(state.t) + 1, s.steps + 1):
        state = s.step(state)
        s = at(t) if t < s.steps else s
        if after is not None:
            after(state)
    return s.ends(state)
