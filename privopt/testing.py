"""Checks of an algorithm of one's own: its contract, an attack, and lies told to its plan."""

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
from privopt.audit.pairs import choices_of
from privopt.core import Plan, run, run_many
from privopt.core.parameters import scaled
from privopt.core.replicates import run_all
from privopt.problems import Problem
from privopt.random import as_key
from privopt.spec import Budget

__all__ = ["Check", "Report", "check_algorithm"]

_HOSTILE = (1e-45, 1e3, 1e12, 1e30, np.inf, np.nan)  # sizes of a record
_FAILURE = 1e-3  # of the attack
_MORE = 1.125  # times which a number is changed


class Check(NamedTuple):
    """What was asked, whether it is so, and what was seen."""

    asked: str
    passed: bool
    told: str


@dataclass(frozen=True)
class Report:
    """All checks of one algorithm; printed, it is a table."""

    algorithm: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether all are."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        width = max(len(check.asked) for check in self.checks)
        lines = [
            f"{'ok  ' if check.passed else 'FAIL'} {check.asked:{width}}  {check.told}".rstrip()
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
    """What an algorithm of :data:`privopt.ALGORITHMS`, one's own included, keeps of its promises.

    - *Its plan*: within the budget; refused with a tenth less noise; every number of its mechanism
      moves its event, or is named in ``harmless``.
    - *Its run*: the same bits for the same key, others for another; one program for all budgets;
      the same alone and among many; inside the constraint set, and finite, whatever a record is.
    - *Its privacy*: it sees the data through noisy answers alone (:func:`privopt.audit.replay`),
      and an attack with planted defects as controls (:func:`privopt.audit.audit`) refutes nothing.

    A check that ends in an exception has failed, and says which. A guarantee is a theorem, and no
    check proves it.

    Parameters
    ----------
    algorithm : str
        A name: :func:`privopt.algorithms.register` yours first.
    budget : Budget
        At which it is attacked. At an epsilon of 4 few runs see much.
    pair : Pair, optional
        The neighbours to attack; default those of :func:`privopt.audit.worst_pair`.
    harmless : tuple of str
        Numbers of the mechanism that privacy does not rest on, such as a solver's steps.
    **choices
        Of its plan. Few steps are enough; a recorded path (``record="all"``) tells most.

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
    given = {**choices_of(algorithm), **choices}
    halved = replace(budget, epsilon=0.5 * budget.epsilon)

    def planned() -> Plan:
        return ALGORITHMS[algorithm].plan(pair.plan.problem_class, halved, **given)

    asked: list[tuple[str, Callable[[], str]]] = [
        ("the plan is within the budget", lambda: _budget(pair.plan)),
        ("a tenth less noise is refused", lambda: _less(pair.plan)),
        ("every number moves the event", lambda: _numbers(pair.plan, harmless)),
        ("a key decides all, and each key anew", lambda: _keys(pair, key)),
        ("one program for all budgets", lambda: _programs(pair, planned(), key)),
        ("alone as among many", lambda: _many(pair, key)),
        ("inside the set, whatever a record is", lambda: _hostile(pair, key)),
        ("the data are seen through noisy answers", lambda: "; ".join(replay(pair, key=key))),
        ("an attack refutes nothing", lambda: _attack(pair, key)),
    ]
    return Report(algorithm, tuple(_checked(*each) for each in asked))


def _checked(asked: str, fault: Callable[[], str]) -> Check:
    """``fault`` says what is wrong, and nothing where nothing is; after ``|`` what was seen."""
    try:
        wrong, _, seen = fault().partition("|")
    except Exception as error:  # somebody's code may raise whatever it likes
        return Check(asked, False, f"{type(error).__name__}: {error}")
    return Check(asked, not wrong, wrong or seen)


def _budget(plan: Plan) -> str:
    spent, limit = plan.guarantee.epsilon(plan.budget.delta), plan.budget.epsilon
    over = "" if spent.upper <= limit * (1.0 + 1e-9) else f"more than {limit:g}"
    return f"{over}|epsilon {spent.upper:.4f} of {limit:g} at delta {plan.budget.delta:g}"


def _changed(plan: Plan, mechanism: Any) -> Plan:
    params: Any = plan.params
    return replace(plan, params=params._replace(mechanism=mechanism))


def _less(plan: Plan) -> str:
    params: Any = plan.params
    try:
        _changed(plan, scaled(params.mechanism, 0.9))
    except ValueError as error:
        return "" if "within the budget" in str(error) else str(error)
    return "a plan with 0.9 times the noise is made"


def _numbers(plan: Plan, harmless: tuple[str, ...]) -> str:
    params: Any = plan.params
    relation, silent = plan.budget.relation, []
    leaves, structure = jax.tree.flatten(params.mechanism)
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params.mechanism)]
    for i, path in enumerate(paths):
        more = leaves[i] + 1 if isinstance(leaves[i], int) else _MORE * leaves[i] + 2.0**-10
        changed = jax.tree.unflatten(structure, [*leaves[:i], more, *leaves[i + 1 :]])
        name = jax.tree_util.keystr(path).split(".")[-1]
        try:
            same = bool(changed.event(relation) == plan.guarantee.event)
        except ValueError:
            same = False  # refused
        if same and name not in harmless:
            silent.append(name)
    told = f"not {', '.join(silent)}: name in harmless what privacy does not rest on"
    return told if silent else f"|{len(paths)} numbers"


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
    made = run_all._cache_size() - before  # type: ignore[attr-defined]
    return f"another budget compiles {made} more: a number is static" if made else ""


def _many(pair: Pair, key: Array) -> str:
    keys = jax.random.split(key, 3)
    many = run_many([pair.plan], pair.one, keys).released
    for place, each in enumerate(keys):
        one = run(pair.plan, pair.one, each).released
        among = jax.tree.map(lambda leaf, place=place: leaf[0, place], many)
        for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(among), strict=True):
            if not np.allclose(left, right, rtol=1e-4, atol=1e-6):
                return "run and run_many differ"
    return ""


def _hostile(pair: Pair, key: Array) -> str:
    radius = pair.plan.problem_class.radius
    for size in _HOSTILE:
        leaves = jax.tree.leaves(run(pair.plan, _with_record(pair.one, size), key).released)
        length = float(np.sqrt(sum(np.square(np.asarray(leaf)).sum() for leaf in leaves)))
        if not length <= radius * (1.0 + 1e-5):
            return f"a record of size {size:g} leads to a norm of {length:g} for {radius:g}"
    return ""


def _with_record(problem: Problem, size: float) -> Problem:
    """The problem, the first record of whose first array has that size everywhere."""
    leaves, structure = jax.tree.flatten(problem.data)
    changed = np.array(leaves[0])
    changed[0] = size
    return replace(problem, data=jax.tree.unflatten(structure, [changed, *leaves[1:]]))


def _attack(pair: Pair, key: Array) -> str:
    runs = max(20_000, 2 * least_runs(pair.guarantee, _FAILURE))
    found = audit(pair, key=key, runs=runs, failure=_FAILURE)
    seen = f"found {found.attack.ratio:.2f} of what is claimed, {found.weakened.ratio:.2f} with "
    seen += f"half of the noise; {runs:,} runs a side"
    return f"|{seen}" if found.verdict == "kept" else f"{found.verdict}: {seen}"


def _equal(one: Any, two: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(left, right) for left, right in pairs)
