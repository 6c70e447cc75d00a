"""Checks of registered algorithms: those of the library pass, and each defect fails its check."""

from dataclasses import replace
from functools import wraps
from typing import NamedTuple

import jax
import pytest
from dp_accounting import GaussianDpEvent
from selection import few

import privopt
from privopt import algorithms, testing
from privopt.audit import worst_pair
from privopt.mechanisms import GaussianMechanism
from privopt.testing import check_algorithm

KEY = jax.random.key(0)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
SOLVER = ("radius", "steps")


@pytest.mark.parametrize(
    ("name", "harmless"),
    few([("dp_sgd", ()), ("output_perturbation", SOLVER)], [("output_perturbation", SOLVER)]),
)
def test_ours_pass(name, harmless):
    report = check_algorithm(name, BUDGET, key=KEY, harmless=harmless)
    assert report.passed, report


def quiet(honest):
    """Return a run with half of the noise of its plan."""

    def run(static, params, objective, key, execution):
        mechanism = params.mechanism
        less = mechanism._replace(scale=0.5 * mechanism.scale)
        return honest.run(static, params._replace(mechanism=less), objective, key, execution)

    return run


def constant(honest):
    """Return a run that ignores its key."""

    def run(static, params, objective, key, execution):
        return honest.run(static, params, objective, jax.random.key(0), execution)

    return run


def peeking(honest):
    """Return a run that adds a part of a record to the released point."""

    def run(static, params, objective, key, execution):
        result = honest.run(static, params, objective, key, execution)
        return result._replace(released=result.released + 1e-3 * objective.data[0][0])

    return run


def changed(honest, function):
    """Return a run that applies ``function`` to the released point."""

    def run(*arguments):
        result = honest.run(*arguments)
        return result._replace(released=function(result.released))

    return run


@jax.custom_batching.custom_vmap
def unbatched(point):
    """Return the point; a batch of points is shifted."""
    return point


unbatched.def_vmap(lambda size, batched, point: (point + 1.0, True))


class FixedEvent(GaussianMechanism):
    """Mechanism with an event that does not depend on its noise."""

    __slots__ = ()

    def event(self, relation):
        return GaussianDpEvent(5.0)


class StaticBudget(NamedTuple):
    """Static arguments with a number that should be an argument of the program."""

    dim: int
    projected: bool
    epsilon: float


def with_fixed_event(plan):
    mechanism = FixedEvent(*plan.params.mechanism)
    return replace(plan, params=plan.params._replace(mechanism=mechanism))


def with_static_budget(plan):
    return replace(plan, static=StaticBudget(*plan.static, plan.budget.epsilon))


@pytest.mark.parametrize(
    ("break_run", "change_plan", "name"),
    [
        (quiet, None, "an attack does not refute the guarantee"),
        (
            lambda honest: changed(honest, lambda w: 0.0 * w),
            None,
            "an attack does not refute the guarantee",
        ),
        (constant, None, "one key, one result; two keys, two results"),
        (peeking, None, "the data are used through noisy answers only"),
        (lambda honest: changed(honest, unbatched), None, "run and run_many agree"),
        (
            lambda honest: changed(honest, lambda w: w + 1e3),
            None,
            "every record leads to a point in the ball",
        ),
        (  # inside the ball of the attack, and outside a small one: no projection
            lambda honest: changed(honest, lambda w: w + 1.0),
            None,
            "every record leads to a point in the ball",
        ),
        (None, with_fixed_event, "a plan with a tenth less noise is refused"),
        (None, with_static_budget, "all budgets share one program"),
    ],
)
def test_a_defect_is_found(break_run, change_plan, name, monkeypatch):
    honest = algorithms.ALGORITHMS["output_perturbation"]
    change_plan = change_plan or (lambda plan: plan)

    @wraps(honest.plan)
    def plan(*arguments, **choices):
        return change_plan(replace(honest.plan(*arguments, **choices), algorithm=mine))

    run = honest.run if break_run is None else break_run(honest)
    mine = replace(honest, name="mine", run=run, plan=plan)
    pair = worst_pair("output_perturbation", BUDGET)
    monkeypatch.setitem(algorithms._REGISTERED, "mine", mine)
    pair = pair._replace(plan=change_plan(replace(pair.plan, algorithm=mine)))
    evaluate = testing._evaluate

    def only_this(check, fault):
        return evaluate(check, fault if check == name else str)

    monkeypatch.setattr(testing, "_evaluate", only_this)
    report = check_algorithm("mine", BUDGET, key=KEY, pair=pair, harmless=SOLVER)
    assert [check.name for check in report.checks if not check.passed] == [name]
    assert "Error: " not in str(report)
    assert "mine: failed" in str(report)
    assert f"FAIL {name}" in str(report)


def test_a_number_that_moves_nothing_is_named_and_an_unknown_name_refused(monkeypatch):
    monkeypatch.setattr(testing, "_attack", lambda pair, key: "")  # takes most of the time
    report = check_algorithm("output_perturbation", BUDGET, key=KEY)
    (failed,) = (check for check in report.checks if not check.passed)
    assert failed.message.startswith("no effect of radius, steps: list in harmless")
    with pytest.raises(ValueError, match="algorithm must be"):
        check_algorithm("gradient_descent", BUDGET, key=KEY)
