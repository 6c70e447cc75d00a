"""The checks of an algorithm of one's own: kept by ours, and each defect found by its check."""

from dataclasses import replace
from functools import wraps
from typing import NamedTuple

import jax
import pytest
from dp_accounting import GaussianDpEvent

import privopt
from privopt import algorithms, testing
from privopt.audit import worst_pair
from privopt.mechanisms import GaussianMechanism
from privopt.testing import check_algorithm

KEY = jax.random.key(0)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
SOLVER = ("radius", "steps")


@pytest.mark.parametrize(("name", "harmless"), [("dp_sgd", ()), ("output_perturbation", SOLVER)])
def test_ours_pass(name, harmless):
    report = check_algorithm(name, BUDGET, key=KEY, harmless=harmless)
    assert report.passed, report


def quiet(honest):
    """Half of the noise that its plan has."""

    def run(static, params, objective, key, execution):
        mechanism = params.mechanism
        less = mechanism._replace(scale=0.5 * mechanism.scale)
        return honest.run(static, params._replace(mechanism=less), objective, key, execution)

    return run


def constant(honest):
    """Its own key."""

    def run(static, params, objective, key, execution):
        return honest.run(static, params, objective, jax.random.key(0), execution)

    return run


def peeking(honest):
    """A little of the data beside the noisy answer."""

    def run(static, params, objective, key, execution):
        found = honest.run(static, params, objective, key, execution)
        return found._replace(released=found.released + 1e-3 * objective.data[0][0])

    return run


def moved(honest, to):
    """The released point, changed."""

    def run(*given):
        found = honest.run(*given)
        return found._replace(released=to(found.released))

    return run


@jax.custom_batching.custom_vmap
def alone(point):
    """The point, where no others run beside it."""
    return point


alone.def_vmap(lambda size, batched, point: (point + 1.0, True))


class Boasting(GaussianMechanism):
    """Says the same of any noise."""

    __slots__ = ()

    def event(self, relation):
        return GaussianDpEvent(5.0)


class Budgeted(NamedTuple):
    """A number that shapes the program."""

    dim: int
    epsilon: float


def boasting(plan):
    mechanism = Boasting(*plan.params.mechanism)
    return replace(plan, params=plan.params._replace(mechanism=mechanism))


def budgeted(plan):
    return replace(plan, static=Budgeted(plan.static.dim, plan.budget.epsilon))


@pytest.mark.parametrize(
    ("broken", "planned", "seen"),
    [
        (quiet, None, "an attack refutes nothing"),
        (lambda honest: moved(honest, lambda w: 0.0 * w), None, "an attack refutes nothing"),
        (constant, None, "a key decides all, and each key anew"),
        (peeking, None, "the data are seen through noisy answers"),
        (lambda honest: moved(honest, alone), None, "alone as among many"),
        (
            lambda honest: moved(honest, lambda w: w + 1e3),
            None,
            "inside the set, whatever a record is",
        ),
        (None, boasting, "a tenth less noise is refused"),
        (None, budgeted, "one program for all budgets"),
    ],
)
def test_a_defect_is_found(broken, planned, seen, monkeypatch):
    honest = algorithms.ALGORITHMS["output_perturbation"]
    planned = planned or (lambda plan: plan)

    @wraps(honest.plan)
    def plan(*given, **choices):
        return planned(replace(honest.plan(*given, **choices), algorithm=mine))

    run = honest.run if broken is None else broken(honest)
    mine = replace(honest, name="mine", run=run, plan=plan)
    pair = worst_pair("output_perturbation", BUDGET)
    monkeypatch.setitem(algorithms._REGISTERED, "mine", mine)
    pair = pair._replace(plan=planned(replace(pair.plan, algorithm=mine)))
    if "attack" not in seen:  # which takes most of the time
        monkeypatch.setattr(testing, "_attack", lambda pair, key: "")
    report = check_algorithm("mine", BUDGET, key=KEY, pair=pair, harmless=SOLVER)
    failed = {check.asked for check in report.checks if not check.passed}
    assert seen in failed
    assert "mine: failed" in str(report)
    assert f"FAIL {seen}" in str(report)


def test_a_number_that_moves_nothing_is_named_and_an_unknown_name_refused():
    report = check_algorithm("output_perturbation", BUDGET, key=KEY)
    (failed,) = (check for check in report.checks if not check.passed)
    assert failed.told.startswith("not radius, steps: name in harmless")
    with pytest.raises(ValueError, match="algorithm must be"):
        check_algorithm("gradient_descent", BUDGET, key=KEY)
