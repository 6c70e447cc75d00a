"""Attacks on all algorithms and mechanisms, and on planted defects."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from scipy.stats import binomtest
from selection import few
from typer.testing import CliRunner

import privopt
from privopt import statistics
from privopt.audit import (
    MECHANISMS,
    Audit,
    Finding,
    Pair,
    audit,
    finding,
    least_runs,
    mechanism_pair,
    worst_pair,
)
from privopt.audit.distinguishing import SCORES
from privopt.cli.commands import app
from privopt.privacy import Guarantee

KEY = jax.random.key(0)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
# Algorithms that differ in kind, as in the contract; an attack on bias_reduced_sgd takes 17 s.
KINDS = (
    *("dp_sgd", "dp_ftrl", "objective_perturbation", "output_perturbation"),
    *("projection_mechanism", "exponential_mechanism"),
)
PRIVATE = sorted(name for name in privopt.algorithms.BUILT_IN - {"gradient_descent"})


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(PRIVATE, KINDS))
def test_no_guarantee_is_refuted_and_both_defects_are_seen(name):
    """Attack every algorithm; the probability of a false alarm is at most 1e-3 each."""
    choices = {"pure": False} if name == "exponential_mechanism" else {}  # pure: ratio 0.45
    result = audit(worst_pair(name, BUDGET, **choices), key=KEY, runs=5000)
    assert 0.6 < result.attack.ratio <= 1.0
    assert result.verdict == "kept"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "name", few(MECHANISMS, ["gaussian_mean", "selection", "smooth_median", "sparse_vector"])
)
def test_mechanisms(name):
    """Attack every mechanism; the probability of a false alarm is at most 1e-3 each."""
    result = audit(mechanism_pair(name, replace(BUDGET, epsilon=1.0)), key=KEY, runs=20_000)
    assert 0.4 < result.attack.ratio <= 1.0
    assert result.verdict == "kept"


def test_every_statistic_is_attacked():
    """Check that every class of ``statistics`` with ``calibrated`` has a pair."""
    calibrated = {
        name for name in statistics.__all__ if hasattr(getattr(statistics, name), "calibrated")
    }
    mechanisms = (
        mechanism_pair(name, replace(BUDGET, epsilon=1.0)).mechanism for name in MECHANISMS
    )
    assert calibrated <= {type(each).__name__ for each in mechanisms}


@pytest.mark.parametrize(
    "name", few(["dp_gd", "dp_sgd", "output_perturbation"], ["output_perturbation"])
)
@pytest.mark.parametrize("relation", ["zero_out", "add_or_remove_one"])
def test_other_relations(name, relation):
    result = audit(worst_pair(name, replace(BUDGET, relation=relation)), key=KEY, runs=5000)
    assert result.verdict == "kept"


@pytest.mark.thorough  # as half of the noise in test_testing.py, and 5/6 of it below
def test_noise_that_is_a_third_too_small_refutes():
    """Attack a run with less noise than its plan claims."""
    pair = worst_pair("dp_gd", BUDGET)
    honest = pair.plan.algorithm

    def careless(static, params, objective, key, execution):
        quiet = replace(params.mechanism, scale=0.67 * params.mechanism.scale)
        return honest.run(static, params._replace(mechanism=quiet), objective, key, execution)

    broken = replace(pair.plan, algorithm=replace(honest, run=careless))
    result = audit(pair._replace(plan=broken), key=KEY, runs=20_000)
    assert result.verdict == "refuted"
    assert result.attack.ratio > 1.2


def test_a_mixture_is_told_apart_better_than_by_a_direction():
    """Test mixtures, for which a sum of likelihood ratios is better than any direction."""
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 40_000, 20))
    one += np.where(rng.random(one.shape) < 0.1, 3.0, 0.0)
    two -= np.where(rng.random(two.shape) < 0.1, 3.0, 0.0)
    result = finding(one, two, Guarantee(GaussianDpEvent(0.1), "zero_out"), 1e-3)
    assert result.score == "likelihood"
    line = (one.sum(axis=1).mean() - two.sum(axis=1).mean()) / one.sum(axis=1).std()
    assert result.separation > 1.2 * line


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_normals_are_told_apart_as_far_as_they_are(mu):
    """Test that 0.9 of the separation is detected, and that 5/6 of the claimed noise is refuted."""
    claimed = Guarantee(GaussianDpEvent(1.0 / mu), "zero_out")
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 200_000, 3))
    one[:, 1] += mu
    result = finding(one, two, claimed, 1e-3)
    assert 0.9 < result.ratio <= 1.0
    conservative, generous = ((a, b - 1.0 + claimed.trade_off(a)) for a, b in result.band)
    assert (conservative[1] < 0.0).all()
    assert (generous[1] > 0.0).all()
    assert (conservative[0] > generous[0]).all()
    one[:, 1] += 0.2 * mu
    assert finding(one, two, claimed, 1e-3).ratio > 1.0
    assert finding(two[:100_000], two[100_000:], claimed, 1e-3).separation == 0.0


def test_what_is_found_was_chosen_on_other_runs_and_has_the_exact_confidence():
    """Check that score and threshold depend on the first halves only, and compare the bounds."""
    claimed, rng = Guarantee(GaussianDpEvent(1.0), "zero_out"), np.random.default_rng(0)
    one, two, *fresh = rng.normal(size=(4, 4000, 2))
    one += 0.5
    fresh[0][2000:] -= 0.5  # against what the first halves say
    others = [np.vstack([one[:2000], fresh[0][2000:]]), np.vstack([two[:2000], fresh[1][2000:]])]
    first, again = (finding(*pair, claimed, 0.02) for pair in ((one, two), others))
    assert (first.score, first.threshold) == (again.score, again.threshold)
    assert again.separation == 0.0 < first.separation
    score = SCORES[first.score](one[:1000], two[:1000])
    hits = (int((score(each[2000:]) > first.threshold).sum()) for each in (one, two))
    power, alpha = (binomtest(each, 2000).proportion_ci(0.98) for each in hits)
    np.testing.assert_allclose(first[:2], [alpha.high, power.low], rtol=1e-10)


@pytest.mark.parametrize(
    ("separations", "verdict"),
    [
        ((0.9, 0.0, 1.5, 1.5), "kept"),
        ((1.1, 0.0, 1.5, 1.5), "refuted"),
        ((0.9, 0.1, 1.5, 1.5), "blind"),
        ((1.1, 0.0, 0.9, 1.5), "blind"),
        ((0.9, 0.0, 1.5, 0.9), "blind"),
    ],
)
def test_a_verdict_rests_on_all_controls(separations, verdict):
    """Check the verdict for each combination of the attack and its three controls."""
    four = (
        Finding(0.1, 0.5, each, 1.0, "discriminant", 0.0, np.empty((2, 2, 0)))
        for each in separations
    )
    claimed = Guarantee(GaussianDpEvent(1.0), "zero_out")
    assert Audit("any", claimed, *four, 0.5, 1000, 1e-3).verdict == verdict


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
    output = CliRunner().invoke(app, arguments)
    assert output.exit_code == 0, output.output
    assert "kept" in output.output
    assert {path.name for path in tmp_path.iterdir()} == {"audits.png", "audits.json"}
    (row,) = json.loads((tmp_path / "audits.json").read_text())
    assert {"seed", "relation", "runs", "failure"} < set(row)
    assert {"score", "threshold"} < set(row["attack"])
    refused = CliRunner().invoke(app, ["audit", "nothing", "--results", str(tmp_path)])
    assert refused.exit_code == 2
