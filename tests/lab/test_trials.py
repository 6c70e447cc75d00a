"""Trials: the same runs from a second root key, without noise, and with noise that is bent."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from builders import experiment

from privopt import core, lab
from privopt.algorithms import ALGORITHMS
from privopt.lab import Axis, Grid, Setting, Trial, cells, read, replicate_keys, stream
from privopt.lab.evaluation.cells import cell_results
from privopt.lab.runner import measure
from privopt.lab.runner.cells import BEND
from privopt.lab.runner.experiment import block_of, group_of
from privopt.lab.runner.store import RUNS
from privopt.lab.runner.work import compile_clock
from privopt.problems import family

RUN = sys.modules[lab.run.__module__]
SIZES = {"n": (500, 1000, 2000), "epsilon": (1.0, 2.0)}


@pytest.fixture(scope="module")
def sloped(demonstration):
    """Two axes through the base (1000, 1.0), and a grid; slopes are checked."""
    return replace(
        demonstration.experiment,
        axes=tuple(Axis(name, values) for name, values in SIZES.items()),
        grids=(Grid(Axis("n", (700,)), Axis("epsilon", (3.0,))),),
        replicates={"quick": 43, "full": 800},
        checks=("bound", "slope"),
    )


@pytest.fixture(scope="module")
def rows(sloped, tmp_path_factory):
    """Return trial -> (n, epsilon, factor) -> row and values of a sweep at one strength."""
    folder = run(sloped, tmp_path_factory.mktemp("results")).folder
    found = {trial: {} for trial in Trial}
    recorded = read(folder)
    values = {}
    for each in recorded.runs.to_pylist():
        values.setdefault(each["cell"], []).append(each["value"])
    for row in recorded.cells.to_pylist():
        if row["strength"] == 2.0:
            point = row["n"], row["epsilon"], row["noise_factor"]
            found[Trial(row["trial"])][point] = row, np.array(values[row["cell"]])
    return found


def run(experiment, results, seed=0):
    return lab.run(experiment, profile="quick", seed=seed, results=results)


def spelled_out(experiment, profile="quick"):
    return [cell for cell in cells(experiment, profile) if cell.strength == 2.0]


def test_cells_on_an_axis_of_a_rate_come_in_every_trial(sloped):
    found = {trial: [] for trial in Trial}
    for cell in spelled_out(sloped):
        found[cell.trial].append((cell.n, cell.budget.epsilon, cell.axes, cell.bend))
    on_axes = [
        (500, 1.0, ("n",)),
        (1000, 1.0, ("n", "epsilon")),
        (2000, 1.0, ("n",)),
        (1000, 2.0, ("epsilon",)),
    ]
    measured = [*on_axes, (700, 3.0, ("n x epsilon",))]
    assert found[Trial.MEASURED] == [(*each, 1.0) for each in measured]
    assert found[Trial.SECOND_KEY] == [(*each, 1.0) for each in on_axes]
    assert found[Trial.NOISE_OFF] == [(*each, 1.0) for each in on_axes]
    bends = [0.5, 1.0, 2.0, 2.0]
    assert found[Trial.NOISE_BENT] == [
        (*each, bend) for each, bend in zip(on_axes, bends, strict=True)
    ]


def test_a_point_off_both_bases_is_bent_along_each_axis_by_itself(sloped):
    away = replace(sloped, base=Setting(n=500, dim=4, epsilon=2.0))
    bent = {
        (cell.n, cell.budget.epsilon): (cell.axes, cell.bend)
        for cell in spelled_out(away)
        if cell.trial is Trial.NOISE_BENT
    }
    assert bent[500, 2.0] == (("n", "epsilon"), 1.0)
    assert bent[500, 1.0] == (("epsilon",), 0.5)
    assert bent[2000, 2.0] == (("n",), 4.0)


def test_the_sparsity_is_an_axis_of_a_rate(sloped):
    base = Setting(n=1000, dim=64, sparsity=4, epsilon=1.0)
    sparse = replace(sloped, base=base, axes=(Axis("sparsity", (1, 4, 16)),), grids=())
    sparse = replace(sparse, families=("sparse_copies",), algorithms={"projection_mechanism": {}})
    found = {
        cell.point["sparsity"]: cell.bend
        for cell in spelled_out(sparse)
        if cell.trial is Trial.NOISE_BENT
    }
    assert found == {1: 0.25, 4: 1.0, 16: 4.0}


def test_without_a_base_value_noise_is_bent_from_the_first_one(sloped):
    open_base = replace(sloped, base=Setting(dim=4, epsilon=1.0), axes=sloped.axes[:1], grids=())
    bent = [cell for cell in spelled_out(open_base) if cell.trial is Trial.NOISE_BENT]
    assert [cell.bend for cell in bent] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("algorithm", "choices", "family_name", "power"),
    [
        ("dp_gd", {"steps": 5}, "linear", 1.0),
        ("output_perturbation", {}, "two_kinks", 0.5),
        ("output_perturbation", {"stationary": True}, "squared_distance", 2.0),
        ("dp_ftrl", {"quantity": "regret"}, "far_distance", 0.5),
        ("exponential_mechanism", {}, "distance", 1.0),
    ],
)
def test_noise_is_bent_in_proportion_to_the_rate(algorithm, choices, family_name, power):
    """The risk moves as the noise to the ``power``, so that every slope is bent by ``BEND``."""
    pure = algorithm == "exponential_mechanism"
    given = experiment(
        algorithms={"it": (algorithm, choices)},
        families=(family_name,),
        base=Setting(n=64, dim=2, epsilon=1.0),
        axes=(Axis("n", (64, 128)),),
        checks=("bound", "slope"),
        **({"delta": 0.0} if pure else {"delta": None, "epsilon_over_mu": 5.0}),
    )
    cell = next(c for c in cells(given, "full") if c.trial is Trial.NOISE_BENT and c.n == 128)
    made = measure.SweepCache(0).prepare(cell, ALGORITHMS[algorithm], family(family_name))
    assert made.noise_factor == pytest.approx(2.0 ** (BEND / power))
    assert made.plan.noise_factor == made.noise_factor


@pytest.mark.parametrize(
    ("changes", "trials"),
    [
        ({"checks": ("bound",)}, {Trial.MEASURED}),
        ({"axes": (Axis("step_size", (0.1, 0.2)),)}, {Trial.MEASURED}),
        ({"axes": ()}, {Trial.MEASURED}),
        ({"algorithms": {"gradient_descent": {}}}, {Trial.MEASURED, Trial.SECOND_KEY}),
    ],
)
def test_what_no_slope_is_fitted_to_and_what_has_no_noise_is_not_run_again(sloped, changes, trials):
    assert {cell.trial for cell in cells(replace(sloped, **changes), "quick")} == trials


@pytest.mark.parametrize(
    ("replicates", "block"), [(1, 1), (9, 9), (10, 10), (43, 10), (44, 11), (800, 200)]
)
def test_a_quarter_of_the_replicates_at_least_ten(replicates, block):
    assert block_of(replicates) == block


def test_other_trials_have_a_quarter_of_the_replicates(sloped):
    numbers = {(cell.trial, cell.replicates, cell.block) for cell in cells(sloped, "full")}
    assert numbers == {(Trial.MEASURED, 800, 200)} | {
        (trial, 200, 200) for trial in set(Trial) - {Trial.MEASURED}
    }


def test_the_second_key_is_what_the_next_root_seed_measures(sloped, rows, tmp_path):
    alone = replace(sloped, checks=("bound",), axes=sloped.axes[1:], grids=())
    alone = replace(alone, replicates={"quick": 10, "full": 10})
    table = read(run(alone, tmp_path, seed=1).folder).table().to_pylist()
    for point, (row, values) in rows[Trial.SECOND_KEY].items():
        if point[0] != 1000:
            continue
        named = {"n": point[0], "epsilon": point[1], "strength": 2.0}
        expected = [each["value"] for each in table if named.items() <= each.items()]
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        assert row["root_seed"] == 1
        assert not set(values) & set(rows[Trial.MEASURED][point][1])


def test_controls_are_the_measured_runs_with_other_noise(rows):
    for row, values in rows[Trial.NOISE_BENT].values():
        measured = rows[Trial.MEASURED][row["n"], row["epsilon"], 1.0][1]
        assert (len(values), len(measured)) == (10, 43)
        if row["noise_factor"] == 1.0:
            np.testing.assert_array_equal(values, measured[:10])
        else:
            assert not set(values) & set(measured)


@pytest.mark.parametrize("trial", [Trial.NOISE_OFF, Trial.NOISE_BENT])
def test_a_control_is_a_single_run_of_the_plan_with_that_noise(sloped, rows, trial):
    (row, values) = next(found for found in rows[trial].values() if found[0]["n"] == 2000)
    cell = next(c for c in spelled_out(sloped) if (c.trial, c.n) == (trial, 2000))
    problem = family("linear").build(n=2000, dim=4, noise_ratio=cell.noise_ratio, strength=2.0)
    plan = ALGORITHMS["dp_gd"].plan(problem.problem_class, cell.budget, steps=5)
    named = {"experiment": "demo", "algorithm": "dp_gd", "family": "linear"}
    sizes = {"n": 2000, "dim": 4, "epsilon": 1.0, "strength": 2.0}
    key = replicate_keys(stream(0, role="noise", **named, **sizes), 10)[7]
    single = core.run(plan.with_noise(row["noise_factor"]), problem, key)
    assert values[7] == pytest.approx(problem.excess_risk(single.released), rel=2.0**-24)
    assert len(set(values)) == (1 if trial is Trial.NOISE_OFF else 10)


def test_rows_say_what_was_promised_and_where(rows):
    for trial, found in rows.items():
        for row, _ in found.values():
            measured = rows[Trial.MEASURED][row["n"], row["epsilon"], 1.0][0]
            for name in (
                "upper",
                "lower",
                "exponents",
                "tight_on",
                "in_regime",
                "nonprivate_value",
            ):
                assert row[name] == measured[name]
            assert isinstance(row["in_regime"], bool)
            assert row["searched"] is None
            assert (row["spent_epsilon_upper"] is None) is trial.is_control
            assert row["law"] is None
            told = json.loads(row["plan"])["params"]["mechanism"]["scale"]
            scale = json.loads(measured["plan"])["params"]["mechanism"]["scale"]
            assert told == pytest.approx(row["noise_factor"] * scale, rel=1e-6)


def test_a_law_is_that_of_the_plan_and_of_no_control(sloped, tmp_path, monkeypatch):
    def law(plan, family, strength):
        assert (plan.noise_factor, family) == (None, "linear")
        return None if strength > 4.0 else plan.problem_class.n + strength

    monkeypatch.setattr(measure, "law_of", law)
    few = replace(sloped, axes=sloped.axes[1:], grids=())
    for row in read(run(few, tmp_path).folder).cells.to_pylist():
        known = row["trial"] in ("measured", "second key") and row["strength"] <= 4.0
        assert row["law"] == (row["n"] + row["strength"] if known else None)


def test_all_trials_share_one_program(sloped, tmp_path):
    fresh = replace(
        sloped, base=Setting(n=1000, dim=6, epsilon=1.0), axes=sloped.axes[1:], grids=()
    )
    with compile_clock() as clock:
        result = run(fresh, tmp_path)
    assert result.cells == 2 * 4 * 5
    programs = [name for name in clock.programs if "run_all" in name]
    assert len(programs) == 2, clock.programs  # all trials, and the non-private twin
    again = run(fresh, tmp_path)
    assert again.reused == result.cells


def test_a_refused_control_is_a_row_with_its_reason(sloped, tmp_path, monkeypatch):
    def unmeasured(planned, cache):
        replicates = planned.cell.replicates
        columns = {"replicate": np.arange(replicates), "value": np.zeros(replicates)}
        return pa.table(columns, schema=pa.schema(list(RUNS)[1:])), {}

    monkeypatch.setattr(RUN, "measure", unmeasured)
    itself = replace(
        sloped,
        algorithms={"exponential_mechanism": {}},
        families=("distance",),
        base=Setting(n=1000, dim=1, epsilon=1.0),
        axes=(Axis("n", (500, 1000)),),
        grids=(),
    )
    result = run(itself, tmp_path)
    assert result.refused == 2
    for row in read(result.folder).cells.to_pylist():
        assert (row["refused"] is not None) == (row["trial"] == "noise off")
        assert row["upper"] is None or math.isfinite(row["upper"])


# Groups of replicates that share coins: run together, and resampled as one.
COINS = experiment(
    name="coins",
    algorithms={"bias_reduced_sgd": {"steps": 4, "base": 8, "body": "none"}, "dp_gd": {"steps": 4}},
    base=Setting(n=32, dim=2, epsilon=1.0),
    replicates={"quick": 48, "full": 480},
)


@pytest.mark.parametrize(("replicates", "block"), [(1000, 250), (48, 48), (600, 150), (12, 10)])
def test_a_block_holds_sixteen_groups_or_single_replicates(replicates, block):
    group = group_of(replicates, block)
    assert block % group == replicates % group == 0
    assert group == 1 or block // group >= 16


@pytest.mark.thorough  # groups of runs are tested in test_execution.py
def test_groups_are_run_recorded_and_resampled(tmp_path):
    declared = cells(COINS, "quick")
    assert {cell.method: cell.group for cell in declared} == {"bias_reduced_sgd": 3, "dp_gd": 1}
    result = lab.run(COINS, profile="quick", seed=0, results=tmp_path)
    recorded = read(result.folder)
    assert recorded.about["groups"] == {"bias_reduced_sgd": 3}
    values = recorded.runs["value"].to_numpy().reshape(-1, 48)
    by_method = {row["method"]: values[row["cell"]] for row in recorded.cells.to_pylist()}
    found = {cell.method: cell.values for cell in cell_results(recorded)}
    assert found["dp_gd"].shape == (48,)
    expected = by_method["bias_reduced_sgd"].reshape(16, 3).mean(axis=1)
    np.testing.assert_allclose(found["bias_reduced_sgd"], expected, rtol=1e-12)


def test_without_coins_nothing_is_said_of_groups():
    plain = replace(COINS, algorithms={"dp_gd": {"steps": 4}})
    assert "groups" not in plain.about("quick")
