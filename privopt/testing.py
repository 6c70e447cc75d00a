"""Checks of a registered algorithm: its contract, its use of the data, and an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from privopt.algorithms import ALGORITHMS
from privopt.arguments import check_type, instance, member
from privopt.audit import Pair, attackable, audit, least_runs, replay, worst_pair
from privopt.audit.pairs import worst_choices
from privopt.core import Plan, run, run_many
from privopt.core.parameters import scaled
from privopt.core.replicates import run_all
from privopt.problems import Problem
from privopt.random import as_key
from privopt.spec import Budget

__all__ = ["Check", "Report", "check_algorithm"]

_SMALL = 1e-3  # radius of a second ball, over that of the first: steps leave it
_SIZES = (1e-45, 1e3, 1e12, 1e30, np.inf, np.nan)  # sizes of a record
_FAILURE = 1e-3  # probability that a correct guarantee is refuted
_FACTOR = 1.125  # factor by which a number of the mechanism is changed


class Check(NamedTuple):
    """Name of a check, its result, and the reason of a failure or the measured numbers."""

    name: str
    passed: bool
    message: str


@dataclass(frozen=True)
class Report:
    """Results of all checks of one algorithm; ``str`` returns them as a table."""

    algorithm: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True if all checks passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [
            f"{'ok  ' if check.passed else 'FAIL'} {check.name:{width}}  {check.message}".rstrip()
            for check in self.checks
        ]
        return "\n".join([f"{self.algorithm}: {'passed' if self.passed else 'failed'}", *lines])


def check_algorithm(
    algorithm: str,
    budget: Budget,
    *,
    key: Array,
    pair: Pair | None = None,
    harmless: tuple[str, ...] = (),
    **choices: object,
) -> Report:
    """Check that an algorithm of :data:`privopt.ALGORITHMS` satisfies the contract of privopt.

    - *Plan*: it is within the budget; with a tenth less noise it is refused; every number of its
      mechanism changes its event, or is listed in ``harmless``.
    - *Run*: one key gives the same bits, and two keys differ; all budgets share one program;
      ``run`` and ``run_many`` agree; the released point is in the ball of the problem class and
      finite for every record.
    - *Privacy*: the run depends on the data through noisy answers only
      (:func:`privopt.audit.replay`), and an attack with controls does not refute the guarantee
      (:func:`privopt.audit.audit`).

    A check that raises an exception has failed, and the report contains the message. No check
    proves a guarantee, which is a theorem.

    Parameters
    ----------
    algorithm : str
        Name of an algorithm. Register your algorithm with
        :func:`privopt.algorithms.register` first.
    budget : Budget
        Budget of the attacked plan. At an epsilon of 4, an attack needs few runs.
    key : Array
        Typed key of JAX.
    pair : Pair, optional
        Neighbours to attack; default :func:`privopt.audit.worst_pair`.
    harmless : tuple of str
        Numbers of the mechanism that do not affect privacy, such as the steps of a solver.
    **choices
        Arguments of the plan. Few steps are sufficient. A recorded path (``record="all"``) gives
        the attack the most information.

    Returns
    -------
    Report
        Nine checks, each with its name, its result and a message.

    Examples
    --------
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
    >>> check_algorithm("dp_gd", budget, key=jax.random.key(0)).passed
    True
    """
    member("algorithm", algorithm, attackable())
    instance("budget", budget, Budget)
    key = as_key(key)
    check_type("pair", pair, Pair | None)
    pair = pair or worst_pair(algorithm, budget, **choices)
    arguments = {**worst_choices(algorithm), **choices}
    halved = replace(budget, epsilon=0.5 * budget.epsilon)

    def other_plan() -> Plan:
        return ALGORITHMS[algorithm].plan(pair.plan.problem_class, halved, **arguments)

    def in_small_ball() -> str:
        facts = replace(pair.plan.problem_class, radius=_SMALL * pair.plan.problem_class.radius)
        plan = ALGORITHMS[algorithm].plan(facts, budget, **arguments)
        small = replace(pair.one, problem_class=facts, constraint=None)
        return _records(plan, small, key)

    checks: list[tuple[str, Callable[[], str]]] = [
        ("the plan is within the budget", lambda: _budget(pair.plan)),
        ("a plan with a tenth less noise is refused", lambda: _noise(pair.plan)),
        ("every number changes the event", lambda: _numbers(pair.plan, harmless)),
        ("one key, one result; two keys, two results", lambda: _keys(pair, key)),
        ("all budgets share one program", lambda: _programs(pair, other_plan(), key)),
        ("run and run_many agree", lambda: _many(pair, key)),
        (
            "every record leads to a point in the ball",
            lambda: _records(pair.plan, pair.one, key) or in_small_ball(),
        ),
        ("the data are used through noisy answers only", lambda: "; ".join(replay(pair, key=key))),
        ("an attack does not refute the guarantee", lambda: _attack(pair, key)),
    ]
    return Report(algorithm, tuple(_evaluate(*each) for each in checks))


def _evaluate(name: str, fault: Callable[[], str]) -> Check:
    """Evaluate a check. ``fault`` returns the reason of a failure, ``|`` and measured numbers."""
    try:
        reason, _, measured = fault().partition("|")
    except Exception as error:  # the algorithm is not part of privopt and may raise anything
        return Check(name, False, f"{type(error).__name__}: {error}")
    return Check(name, not reason, reason or measured)


def _budget(plan: Plan) -> str:
    epsilon, limit = plan.guarantee.epsilon(plan.budget.delta), plan.budget.epsilon
    over = "" if epsilon.upper <= limit * (1.0 + 1e-9) else f"more than {limit:g}"
    return f"{over}|epsilon {epsilon.upper:.4f} of {limit:g} at delta {plan.budget.delta:g}"


def _changed(plan: Plan, mechanism: Any) -> Plan:
    params: Any = plan.params
    return replace(plan, params=params._replace(mechanism=mechanism))


def _noise(plan: Plan) -> str:
    params: Any = plan.params
    try:
        _changed(plan, scaled(params.mechanism, 0.9))
    except ValueError as error:
        return "" if "within the budget" in str(error) else str(error)
    return "a plan with 0.9 times the noise is accepted"


def _numbers(plan: Plan, harmless: tuple[str, ...]) -> str:
    params: Any = plan.params
    relation, unused = plan.budget.relation, []
    leaves, structure = jax.tree.flatten(params.mechanism)
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params.mechanism)]
    for i, path in enumerate(paths):
        larger = leaves[i] + 1 if isinstance(leaves[i], int) else _FACTOR * leaves[i] + 2.0**-10
        changed = jax.tree.unflatten(structure, [*leaves[:i], larger, *leaves[i + 1 :]])
        name = jax.tree_util.keystr(path).split(".")[-1]
        try:
            same = bool(changed.event(relation) == plan.guarantee.event)
        except ValueError:
            same = False  # a refused number affects the guarantee
        if same and name not in harmless:
            unused.append(name)
    if not unused:
        return f"|{len(paths)} numbers"
    return f"no effect of {', '.join(unused)}: list in harmless the numbers that need none"


def _keys(pair: Pair, key: Array) -> str:
    first, again = (run(pair.plan, pair.one, key).released for _ in range(2))
    other = run(pair.plan, pair.one, jax.random.fold_in(key, 1)).released
    if not _equal(first, again):
        return "two runs with one key differ"
    return "runs with two keys are the same" if _equal(first, other) else ""


def _programs(pair: Pair, other: Plan, key: Array) -> str:
    run(pair.plan, pair.one, key)
    before = run_all._cache_size()  # type: ignore[attr-defined]
    run(other, pair.one, jax.random.fold_in(key, 1))
    compiled = run_all._cache_size() - before  # type: ignore[attr-defined]
    return f"another budget compiles {compiled} more: a number is static" if compiled else ""


def _many(pair: Pair, key: Array) -> str:
    keys = jax.random.split(key, 3)
    many = run_many([pair.plan], pair.one, keys).released
    for place, each in enumerate(keys):
        one = run(pair.plan, pair.one, each).released
        other = jax.tree.map(lambda leaf, place=place: leaf[0, place], many)
        for leaves in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            if not np.allclose(*leaves, rtol=1e-4, atol=1e-6):
                return "run and run_many differ"
    return ""


def _records(plan: Plan, problem: Problem, key: Array) -> str:
    radius = plan.problem_class.radius
    for size in _SIZES:
        leaves = jax.tree.leaves(run(plan, _with_record(problem, size), key).released)
        length = float(np.sqrt(sum(np.square(np.asarray(leaf)).sum() for leaf in leaves)))
        if not length <= radius * (1.0 + 1e-5):
            return f"a record of size {size:g} leads to a norm of {length:g} for {radius:g}"
    return ""


def _with_record(problem: Problem, size: float) -> Problem:
    """Return the problem with the first record of its first array replaced by ``size``."""
    leaves, structure = jax.tree.flatten(problem.data)
    changed = np.array(leaves[0])
    changed[0] = size
    return replace(problem, data=jax.tree.unflatten(structure, [changed, *leaves[1:]]))


def _attack(pair: Pair, key: Array) -> str:
    runs = max(20_000, 2 * least_runs(pair.guarantee, _FAILURE))
    result = audit(pair, key=key, runs=runs, failure=_FAILURE)
    measured = f"{result.attack.ratio:.2f} of the claim, {result.weakened.ratio:.2f} with half of "
    measured += f"the noise; {runs:,} runs per data set"
    return f"|{measured}" if result.verdict == "kept" else f"{result.verdict}: {measured}"


def _equal(one: Any, two: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(*leaves) for leaves in pairs)
