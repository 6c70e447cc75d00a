"""Every algorithm under attack, and the attack under test: it finds what is there, and no more."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from typer.testing import CliRunner

import privopt
from privopt.audit import Pair, audit, least_runs, worst_pair
from privopt.audit.distinguishing import _finding
from privopt.cli.commands import app
from privopt.privacy import Guarantee

KEY = jax.random.key(0)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
PRIVATE = sorted(name for name in privopt.algorithms.BUILT_IN - {"gradient_descent"})
# What is released tells little of one record: of a late phase, or of batches of random size.
BLIND = {"phased_sgd", "bias_reduced_sgd"}


@pytest.mark.parametrize("name", PRIVATE)
def test_no_guarantee_is_refuted_and_half_of_the_noise_is_seen(name):
    """False alarm at most 1e-3 an algorithm."""
    found = audit(worst_pair(name, BUDGET), key=KEY, runs=5000)
    assert found.attack.ratio <= 1.0
    assert found.verdict == ("blind" if name in BLIND else "kept")


@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd", "output_perturbation"])
@pytest.mark.parametrize("relation", ["zero_out", "add_or_remove_one"])
def test_other_relations(name, relation):
    found = audit(worst_pair(name, replace(BUDGET, relation=relation)), key=KEY, runs=5000)
    assert found.verdict == "kept"


def test_noise_that_is_a_third_too_small_refutes():
    """The plan claims its own noise, and its run draws less."""
    pair = worst_pair("dp_gd", BUDGET)
    honest = pair.plan.algorithm

    def careless(static, params, objective, key, execution):
        quiet = replace(params.mechanism, scale=0.67 * params.mechanism.scale)
        return honest.run(static, params._replace(mechanism=quiet), objective, key, execution)

    broken = replace(pair.plan, algorithm=replace(honest, run=careless))
    found = audit(pair._replace(plan=broken), key=KEY, runs=20_000)
    assert found.verdict == "refuted"
    assert found.attack.ratio > 1.2


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_normals_are_told_apart_as_far_as_they_are(mu):
    """Attained to a tenth; and noise of 5/6 of what is claimed is above 1."""
    claimed = Guarantee(GaussianDpEvent(1.0 / mu), "zero_out")
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 100_000, 3))
    one[:, 1] += mu
    found = _finding(one, two, claimed, 1e-3)
    assert 0.9 < found.ratio <= 1.0
    one[:, 1] += 0.2 * mu
    assert _finding(one, two, claimed, 1e-3).ratio > 1.0
    assert _finding(two[:50_000], two[50_000:], claimed, 1e-3).found == 0.0


def test_what_is_no_audit_is_refused():
    pair = worst_pair("output_perturbation", BUDGET)
    least = least_runs(pair.plan.guarantee, 1e-3)
    with pytest.raises(ValueError, match=f"runs must be at least {least} .* got {least - 1}"):
        audit(pair, key=KEY, runs=least - 1)
    with pytest.raises(ValueError, match="must differ in one record, got 0"):
        audit(Pair(pair.plan, pair.one, pair.one), key=KEY)
    with pytest.raises(ValueError, match="failure must be above 0 and below 1, got 1"):
        audit(pair, key=KEY, failure=1.0)
    with pytest.raises(ValueError, match="algorithm must be"):
        worst_pair("gradient_descent", BUDGET)
    honest = pair.plan.algorithm

    def nothing(*of):
        return jax.tree.map(lambda leaf: leaf * np.nan, honest.run(*of))

    silent = replace(pair.plan, algorithm=replace(honest, run=nothing))
    with pytest.raises(ValueError, match="must release numbers, got NaN"):
        audit(pair._replace(plan=silent), key=KEY, runs=5000)


def test_the_command_tells_what_it_found(tmp_path):
    arguments = ["audit", "output_perturbation", "--runs", "5000", "--results", str(tmp_path)]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "kept" in told.output
    assert {path.name for path in tmp_path.iterdir()} == {"audits.png", "audits.json"}
    refused = CliRunner().invoke(app, ["audit", "nothing", "--results", str(tmp_path)])
    assert refused.exit_code == 2
