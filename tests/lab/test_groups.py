"""Groups of replicates that share coins: run together, and resampled as one."""

from dataclasses import replace

import numpy as np
import pytest
from builders import experiment

from privopt import lab
from privopt.lab import Setting, cells, read
from privopt.lab.judge.results import cell_results
from privopt.lab.make.trials import group_of

EXPERIMENT = experiment(
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


def test_groups_are_run_recorded_and_resampled(tmp_path):
    declared = cells(EXPERIMENT, "quick")
    assert {cell.method: cell.group for cell in declared} == {"bias_reduced_sgd": 3, "dp_gd": 1}
    result = lab.run(EXPERIMENT, profile="quick", seed=0, results=tmp_path)
    recorded = read(result.folder)
    assert recorded.about["groups"] == {"bias_reduced_sgd": 3}
    values = recorded.runs["value"].to_numpy().reshape(-1, 48)
    by_method = {row["method"]: values[row["cell"]] for row in recorded.cells.to_pylist()}
    found = {cell.method: cell.values for cell in cell_results(recorded)}
    assert found["dp_gd"].shape == (48,)
    expected = by_method["bias_reduced_sgd"].reshape(16, 3).mean(axis=1)
    np.testing.assert_allclose(found["bias_reduced_sgd"], expected, rtol=1e-12)


def test_without_coins_nothing_is_said_of_groups():
    plain = replace(EXPERIMENT, algorithms={"dp_gd": {"steps": 4}})
    assert "groups" not in plain.about("quick")
