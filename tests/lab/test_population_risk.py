"""Which risk was measured, which one a rate speaks of, and that they are not mixed up."""

import json
import math

import jax
import numpy as np
import pytest

from privopt.algorithms import ALGORITHMS
from privopt.core import run
from privopt.lab import Axis, Experiment, Setting, replicate_keys, stream, sweep
from privopt.lab.measured import measured
from privopt.lab.records import read_table
from privopt.lab.verdict import verdicts
from privopt.problems import family

DEMO = Experiment(
    name="demo",
    title="A demonstration",
    description="Nothing in particular.",
    algorithms={"phased_sgd": {}, "dp_gd": {"steps": 5}},
    families=("linear_population", "linear"),
    base=Setting(n=100, dim=4, epsilon=4.0),
    axes=(Axis("n", (100,)),),
    replicates={"quick": 3, "full": 3},
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound",),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    return read_table(sweep(DEMO, profile="quick", seed=0, results=results).table)


def test_bounds_are_kept_where_they_speak_of_the_risk_measured(table):
    found = {(cell.algorithm, cell.family): cell for cell in measured(table)}
    assert {pair: cell.risk for pair, cell in found.items()} == {
        ("phased_sgd", "linear_population"): "population",
        ("phased_sgd", "linear"): "empirical",
        ("dp_gd", "linear_population"): "population",
        ("dp_gd", "linear"): "empirical",
    }
    for (algorithm, name), cell in found.items():
        spoken_of = (algorithm == "phased_sgd") == (name == "linear_population")
        assert math.isfinite(cell.upper) is spoken_of
        assert cell.lower == 0.0 or spoken_of


def test_a_bound_on_the_other_risk_is_no_claim_and_gets_no_verdict(table):
    (verdict,) = (v for v in verdicts(table) if v.algorithm == "phased_sgd")
    assert verdict.family == "linear_population"
    assert np.isfinite(verdict.estimate)
    assert {v.family for v in verdicts(table) if v.algorithm == "dp_gd"} == {"linear"}


def test_a_row_is_the_population_risk_of_a_run_on_its_own_records(table):
    """In closed form: ``v (1 - w_1)``."""
    rows = [
        row
        for row in table.to_pylist()
        if (row["algorithm"], row["family"]) == ("phased_sgd", "linear_population")
    ]
    assert len({row["excess_risk"] for row in rows}) == len(rows) == 5 * 3
    row = next(row for row in rows if (row["strength"], row["replicate"]) == (8.0, 2))
    ratio = math.sqrt(4) / (100 * row["mu"])
    with jax.enable_x64(True):
        where = family("linear_population").build(n=100, dim=4, noise_ratio=ratio, strength=8.0)
        plan = ALGORITHMS["phased_sgd"].plan(where.problem_class, DEMO.budget(4.0))
        named = {"experiment": "demo", "algorithm": "phased_sgd", "family": "linear_population"}
        sizes = {"n": 100, "dim": 4, "epsilon": 4.0, "strength": 8.0}
        key = replicate_keys(stream(0, role="noise", **named, **sizes), 3)[2]
        released = np.asarray(run(plan, where, key).released)
    assert row["excess_risk"] == pytest.approx(min(1.0, 8.0 * ratio) * (1.0 - released[0]))
    assert row["upper"] == plan.rate.upper
    told = json.loads(row["plan"])
    assert (told["risk"], told["rate"]["quantity"]) == ("population", "population risk")


def test_tables_that_say_nothing_measured_the_empirical_risk(synthetic):
    assert {cell.risk for cell in measured(synthetic())} == {"empirical"}
