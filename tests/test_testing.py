"""The checks of an algorithm of one's own: kept by ours, and each defect found by its check."""

from dataclasses import replace

import jax
import pytest

import privopt
from privopt import algorithms
from privopt.audit import worst_pair
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


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        (quiet, "an attack refutes nothing"),
        (constant, "a key decides all, and each key anew"),
        (peeking, "the data are seen through noisy answers"),
    ],
)
def test_a_defect_is_found(broken, seen, monkeypatch):
    honest = algorithms.ALGORITHMS["output_perturbation"]
    mine = replace(honest, name="mine", run=broken(honest))
    pair = worst_pair("output_perturbation", BUDGET)
    monkeypatch.setitem(algorithms._REGISTERED, "mine", mine)
    pair = pair._replace(plan=replace(pair.plan, algorithm=mine))
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
