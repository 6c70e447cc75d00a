"""What a run costs, coarsely: counted numbers over a stated constant."""

from __future__ import annotations

from typing import Any, NamedTuple

from privopt.core import Plan

NUMBERS_A_SECOND = 1.5e9
"""Multiply-adds of one core; a step takes 20 microseconds besides."""
_STEP = 2e-5
_PASSES = 100  # of a certified solver over the records


class Cost(NamedTuple):
    """Of one run: gradient steps (None for a method that solves), seconds, bytes of records."""

    steps: int | None
    seconds: float
    memory: float


def cost_of(plan: Plan) -> Cost:
    """``T (20 us + (b s + d)/1.5e9 s)`` with ``b`` rows of ``s`` numbers a step, ``n s`` numbers.

    A one-shot method counts as 100 passes over all records. Right within a factor of about four
    on one core, after compiling; whoever reports seconds measures them.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=1500, dim=100, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> cost = cost_of(privopt.dp_gd(facts, budget, steps=1000))
    >>> cost.steps, round(cost.seconds, 3), cost.memory
    (1000, 0.12, 600000)
    """
    facts, algorithm, params = plan.problem_class, plan.algorithm, plan.params
    row = facts.sparsity or facts.dim
    steps = algorithm.step_count(plan.static, params) if algorithm.step_count else None
    turns, rows = (_PASSES, float(facts.n)) if steps is None else (steps, _rows(plan))
    seconds = turns * (_STEP + (rows * row + facts.dim) / NUMBERS_A_SECOND)
    return Cost(steps, seconds, facts.n * row * (8 if algorithm.float64 else 4))


def _rows(plan: Plan) -> float:
    """How many records a step reads, on average; every place of a batch counts."""
    params: Any = plan.params
    mechanism, n = params.mechanism, plan.problem_class.n
    batches: Any = getattr(mechanism, "batches", None)
    if hasattr(mechanism, "period"):  # differences at two points, and all records at an anchor
        return float(2.0 * batches.capacity + n / mechanism.period)
    if batches is not None:
        return float(getattr(batches, "capacity", getattr(batches, "batch_size", n)))
    if hasattr(mechanism, "law"):  # a level of probability 2^-k has 2^k times the rows
        return float(2.0 * mechanism.base * (mechanism.law.highest + 1))
    return 1.0
