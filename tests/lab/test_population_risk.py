"""Tests of the measured risk and the risk of the rate: they are never mixed."""

import json
import math

import jax
import numpy as np
import pytest
from builders import experiment

import privopt
from privopt import lab
from privopt.algorithms import ALGORITHMS
from privopt.lab import Axis, Setting, replicate_keys, stream, verdicts
from privopt.lab.evaluation.cells import cell_results
from privopt.problems import family

DEMO = experiment(
    algorithms={"phased_sgd": {}, "dp_gd": {"steps": 5}},
    families=("linear_population", "linear"),
    base=Setting(n=100, dim=4, epsilon=4.0),
    axes=(Axis("n", (100,)),),
    replicates={"quick": 3, "full": 3},
    delta=None,
    epsilon_over_mu=5.0,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    return lab.read(lab.run(DEMO, profile="quick", seed=0, results=results).folder)


def test_bounds_are_kept_where_they_speak_of_the_risk_cell_results(table):
    found = {(cell.method, cell.family): cell for cell in cell_results(table)}
    assert {pair: cell.quantity for pair, cell in found.items()} == {
        ("phased_sgd", "linear_population"): "population risk",
        ("phased_sgd", "linear"): "empirical risk",
        ("dp_gd", "linear_population"): "population risk",
        ("dp_gd", "linear"): "empirical risk",
    }
    for (algorithm, name), cell in found.items():
        spoken_of = (algorithm == "phased_sgd") == (name == "linear_population")
        assert math.isfinite(cell.upper) is spoken_of
        assert cell.lower == 0.0 or spoken_of


def test_a_bound_on_the_other_risk_is_no_claim_and_decides_nothing(table):
    judged = {(v.method, v.family): v for v in verdicts(table)}
    assert np.isfinite(judged["phased_sgd", "linear_population"].estimate)
    assert np.isfinite(judged["dp_gd", "linear"].estimate)
    for place, other in (
        (("phased_sgd", "linear"), "population risk, and empirical"),
        (("dp_gd", "linear_population"), "empirical risk, and population"),
    ):
        assert judged[place].outcome == "not applicable"
        assert judged[place].detail == f"its bound is one on {other} risk is measured"


def test_a_row_is_the_population_risk_of_a_run_on_its_own_records(table):
    """The population risk has the closed form ``v (1 - w_1)``."""
    rows = [
        row
        for row in table.table().to_pylist()
        if (row["algorithm"], row["family"]) == ("phased_sgd", "linear_population")
    ]
    assert len({row["value"] for row in rows}) == len(rows) == 5 * 3
    row = next(row for row in rows if (row["strength"], row["replicate"]) == (8.0, 2))
    ratio = math.sqrt(4) / (100 * row["mu"])
    with jax.enable_x64(True):
        where = family("linear_population").build(n=100, dim=4, noise_ratio=ratio, strength=8.0)
        plan = ALGORITHMS["phased_sgd"].plan(where.problem_class, DEMO.budget(4.0))
        named = {"experiment": "demo", "algorithm": "phased_sgd", "family": "linear_population"}
        sizes = {"n": 100, "dim": 4, "epsilon": 4.0, "strength": 8.0}
        key = replicate_keys(stream(0, role="noise", **named, **sizes), 3)[2]
        released = np.asarray(privopt.run(plan, where, key).released)
    assert row["value"] == pytest.approx(min(1.0, 8.0 * ratio) * (1.0 - released[0]))
    assert row["upper"] == plan.rate.upper
    assert row["quantity"] == json.loads(row["plan"])["rate"]["quantity"] == "population risk"
