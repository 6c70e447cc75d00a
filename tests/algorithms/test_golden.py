"""Released numbers of small runs, with the version of their algorithm.

Cached results of experiments are identified by the numbers of their plan and
``Algorithm.version``. An algorithm that releases other numbers from an equal plan needs another
version; ``python tests/algorithms/test_golden.py`` writes the table.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders import CHOICES, DIM, N
from selection import few

import privopt
from privopt import problems

TABLE = Path(__file__).with_name("golden.json")
TOLERANCE = 1e-5  # relative to the largest coordinate: other processors round differently
DIGITS = 8
DTYPES = "float64", "float32"
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
MEANS = privopt.ProblemClass(
    n=N, dim=DIM, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=2
)


def build(name, dtype):
    """Return a problem for an algorithm."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(N, DIM))
    points /= 1.001 * np.linalg.norm(points, axis=1, keepdims=True)
    labels = np.where(rng.random(N) < 0.5, -1.0, 1.0).astype(dtype)
    if name in ("projection_mechanism", "l1_recovery"):
        points[np.arange(N), rng.integers(DIM, size=N)] = 0.0
        return problems.squared_distance(points.astype(dtype), problem_class=MEANS)
    points = points.astype(dtype)
    if name == "sufficient_statistics":
        facts = replace(CLASS, lipschitz=3.0, smoothness=1.0)
        return problems.squared(points, labels, problem_class=facts)
    if name == "accelerated_dp_gd":
        return problems.hinge(points, labels, problem_class=replace(CLASS, smoothness=None))
    facts = replace(CLASS, sparsity=DIM) if name == "linf_output_perturbation" else CLASS
    return problems.logistic(points, labels, problem_class=facts)


def released(name, dtype):
    """Return the release of a run of at most four steps."""
    problem, algorithm = build(name, dtype), privopt.ALGORITHMS[name]
    steps = {"steps": 4} if "steps" in algorithm.choices else {}
    plan = algorithm.plan(problem.problem_class, BUDGET, **{**CHOICES[name], **steps})
    return np.asarray(privopt.run(plan, problem, jax.random.key(0)).released)


def check(name, dtype, numbers, golden):
    """Fail with instructions if the numbers of an algorithm differ from those of its version."""
    version, recorded = privopt.ALGORITHMS[name].version, golden.get(name, {})
    regenerate = f"regenerate the table by python {'/'.join(Path(__file__).parts[-3:])}"
    assert recorded.get("version") == version, (
        f"{name} has version {version}, the table has {recorded.get('version')}: {regenerate}"
    )
    expected = np.asarray(recorded[dtype])
    difference = np.abs(numbers - expected).max() / np.abs(expected).max()
    assert difference <= TOLERANCE, (
        f"{name} releases other numbers in {dtype} than version {version} (relative difference "
        f"{difference:.1e}). Without intention this is a bug. Otherwise raise version in its "
        f"Algorithm, so that cached results of experiments are computed again, and {regenerate}"
    )


@pytest.mark.cases(4)
@pytest.mark.parametrize("dtype", few(DTYPES, ["float64"]))  # both types run the same steps
@pytest.mark.parametrize("name", privopt.ALGORITHMS)
def test_released_numbers_belong_to_the_version_of_the_algorithm(name, dtype):
    numbers = released(name, dtype)
    assert numbers.dtype == dtype
    check(name, dtype, numbers, json.loads(TABLE.read_text()))


def test_other_numbers_and_another_version_fail_with_instructions():
    golden = {"dp_gd": {"version": 1, "float64": [1.0, -2.0]}}
    check("dp_gd", "float64", np.array([1.00001, -2.0]), golden)
    with pytest.raises(AssertionError, match=r"releases other numbers .* raise version in its"):
        check("dp_gd", "float64", np.array([1.0001, -2.0]), golden)
    with pytest.raises(AssertionError, match="has version 1, the table has 2: regenerate the"):
        check("dp_gd", "float64", np.ones(2), {"dp_gd": {"version": 2}})


def write():
    """Write the table."""
    jax.config.update("jax_enable_x64", True)
    table = {}
    for name, algorithm in privopt.ALGORITHMS.items():
        table[name] = {"version": algorithm.version}
        for dtype in DTYPES:
            numbers = released(name, dtype)
            table[name][dtype] = [float(f"{x:.{DIGITS}g}") for x in numbers.ravel()]
    lines = (f' "{name}": {json.dumps(entry)}' for name, entry in table.items())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
