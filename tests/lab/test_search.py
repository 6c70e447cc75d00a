"""Tests of the search: it agrees with a naive loop, and repeated calls agree."""

import json
import math
import os
import shutil
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refused

from privopt import core, lab
from privopt.algorithms import ALGORITHMS
from privopt.convex import StepSizes
from privopt.lab import Axis, Method, Setting, Trial, cells, ladder, read, replicate_keys, stream
from privopt.lab.runner import experiment as experiment_module
from privopt.lab.runner import measure
from privopt.lab.runner.measure import Candidate, Search
from privopt.lab.runner.run import _cell_tasks as tasks_of
from privopt.problems import family

GRID = {"steps": (2, 3), "step_size": (0.3, 0.35, 0.4)}
STRENGTHS = (1.0, 2.0, 4.0, 8.0, math.inf)
BEST = Method("best", "dp_gd", search=GRID)


@pytest.fixture(scope="module")
def searched(demonstration):
    """The best of a grid, beside the same method at theory's numbers."""
    return replace(
        demonstration.experiment,
        algorithms=(Method("theory", "dp_gd", {"steps": 4}), BEST),
        axes=(Axis("n", (500, 1000)),),
        replicates={"quick": 12, "full": 12},
        checks=("slope",),
    )


@pytest.fixture(scope="module")
def means():
    """Pilot means of the finished sweep: (n, trial, strength) -> means."""
    return {}


@pytest.fixture(scope="module")
def finished(searched, means, tmp_path_factory):
    real = measure._means

    def recorded(planned, *given):
        cell, found = planned.cell, real(planned, *given)
        means[cell.n, cell.trial, cell.strength] = found
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_means", recorded)
        return run(searched, tmp_path_factory.mktemp("results") / "r")


def run(experiment, results, seed=0):
    return lab.run(experiment, profile="quick", seed=seed, results=results)


def naive(cell, seed):
    """Yield the mean of the first and the last candidate at one strength, by single runs."""
    problem = family("linear").build(
        n=cell.n, dim=cell.dim, noise_ratio=cell.noise_ratio, strength=cell.strength
    )
    keys = replicate_keys(stream(seed, role="pilot", **cell.identity), measure.PILOT)
    for point in ((2, 0.3), (3, 0.4)):
        told = dict(zip(GRID, point, strict=True))
        plan = ALGORITHMS["dp_gd"].plan(problem.problem_class, cell.budget, **told)
        if cell.trial.is_control:
            plan = plan.with_noise(0.0)
        risks = [problem.excess_risk(core.run(plan, problem, key).released) for key in keys]
        yield np.mean(risks)


@pytest.mark.parametrize("trial", [Trial.MEASURED, Trial.SECOND_KEY, Trial.NOISE_OFF])
def test_the_pilot_measures_what_a_naive_loop_measures(searched, finished, means, trial):
    for cell in cells(searched, "quick"):
        if (cell.method, cell.n, cell.trial) == ("best", 500, trial) and cell.strength in (1, 8):
            expected = list(naive(cell, seed=int(trial is Trial.SECOND_KEY)))
            np.testing.assert_allclose(means[500, trial, cell.strength][::5], expected, rtol=1e-9)


def test_the_least_worst_of_the_pilot_is_told(finished, means):
    points = list(product(*GRID.values()))
    for row in read(finished.folder).cells.to_pylist():
        if row["method"] == "best":
            tried = [means[row["n"], Trial(row["trial"]), each] for each in STRENGTHS]
            best = dict(zip(GRID, points[np.argmin(np.max(tried, axis=0))], strict=True))
            edges = [name for name, x in best.items() if x in (min(GRID[name]), max(GRID[name]))]
            told = {"chosen": best, "at_edge": edges, "candidates": 6}
            assert json.loads(row["searched"]) == told


def test_what_is_measured_are_fresh_runs_of_what_was_chosen(searched, finished):
    rows = read(finished.folder).table().to_pylist()
    at = {"method": "best", "n": 1000, "strength": 2.0, "trial": "measured"}
    row = next(row for row in rows if at.items() <= row.items() and row["replicate"] == 11)
    cell = next(c for c in cells(searched, "quick") if c.label.startswith("best on linear, n=1000"))
    problem = family("linear").build(n=1000, dim=4, noise_ratio=cell.noise_ratio, strength=2.0)
    chosen = json.loads(row["searched"])["chosen"]
    plan = ALGORITHMS["dp_gd"].plan(problem.problem_class, cell.budget, **chosen)
    named = {"experiment": "demo", "algorithm": "best", "family": "linear", "strength": 2.0}
    key = replicate_keys(stream(0, role="noise", **named, n=1000, dim=4, epsilon=1.0), 12)[11]
    single = problem.excess_risk(core.run(plan, problem, key).released)
    assert row["value"] == pytest.approx(single, rel=2.0**-24)


def test_the_bound_is_that_of_the_plan_at_theorys_numbers(searched, finished):
    for row in read(finished.folder).cells.to_pylist():
        assert (row["searched"] is None) == (row["method"] == "theory")
        if row["method"] == "best" and row["trial"] == "measured":
            facts = family("linear").build(n=row["n"], dim=4, noise_ratio=0.1, strength=1.0)
            budget = searched.budget(1.0)
            plan = ALGORITHMS["dp_gd"].plan(facts.problem_class, budget)
            assert (row["upper"], row["steps"]) == (plan.rate.upper, plan.params.mechanism.steps)
            assert row["law"] is None


def test_one_search_serves_all_strengths_and_every_trial_has_its_own(
    searched, tmp_path, monkeypatch
):
    asked = []

    def counted(given, seed):
        asked.append((given.planned[0].cell.n, given.planned[0].cell.trial))
        return real(given, seed)

    real = measure.choose
    monkeypatch.setattr(measure, "choose", counted)
    run(replace(searched, algorithms=(BEST,)), tmp_path)
    assert sorted(asked) == sorted(product((500, 1000), Trial))


def test_what_is_left_of_a_setting_is_finished_to_the_same_bits(
    searched, finished, tmp_path, tables
):
    shutil.copytree(finished.folder.parent, tmp_path, dirs_exist_ok=True)
    kept = sorted((tmp_path / "demo" / "cells").glob("*.parquet"))
    for path in kept[::3]:
        path.unlink()
    again = run(searched, tmp_path)
    assert again.cells - again.reused == len(kept[::3])
    assert tables(again) == tables(finished)


def keys_of(experiment):
    tasks = tasks_of(experiment, "quick", 0, lambda event: None)
    return {task.label: task.key for task in tasks if task.facts["method"] == "best"}


def test_all_that_is_tried_is_in_the_key(searched):
    before = keys_of(searched)
    wider = replace(BEST, search={**GRID, "step_size": (0.3, 0.35, 0.41)})
    after = keys_of(replace(searched, algorithms=(wider,)))
    assert len(before) == len(after) == 4 * 2 * 5
    assert not set(before.values()) & set(after.values())


def test_the_data_of_every_strength_are_in_the_key(searched, monkeypatch):
    declared = family("linear")

    def from_outside(*, noise_ratio, strength, **sizes):
        factor = float(os.environ["FACTOR"]) if strength == 2.0 else 1.0  # as from a file
        return declared.build(noise_ratio=factor * noise_ratio, strength=strength, **sizes)

    changed = replace(declared, build=from_outside)
    monkeypatch.setattr(experiment_module, "family", lambda name: changed)
    found = []
    for factor in ("1", "0.9"):
        monkeypatch.setenv("FACTOR", factor)
        found.append(keys_of(searched))
    assert not set(found[0].values()) & set(found[1].values())


def chosen(monkeypatch, means, grid=(1, 2, 3), refused=()):
    """Return the entry of a search with these means of the candidates, by strength."""
    candidates = tuple(Candidate({"steps": value}, {}) for value in grid if value not in refused)
    rows = iter(np.asarray(means, float))
    monkeypatch.setattr(measure, "_means", lambda *_: next(rows))
    planned = SimpleNamespace(cell=SimpleNamespace(search=(("steps", grid),)))
    best, entry = measure.choose(Search(candidates, (planned,) * len(means)), 0)
    told = json.loads(entry)
    assert told["chosen"] == best.choices
    return told


@pytest.mark.parametrize(
    ("means", "steps", "at_edge"),
    [
        ([[5, 2, 1], [1, 2, 5]], 2, []),  # the least maximum, not the least mean
        ([[3, 2, 1]], 3, ["steps"]),
        ([[1, 2, 3]], 1, ["steps"]),
        ([[math.nan, 9, 10], [0, 9, 0]], 2, []),
        ([[-math.inf, 9, 10]], 2, []),
        ([[1, 9, 10], [math.inf, 0, 0]], 2, []),
        ([[math.nan, math.inf, math.nan]], 1, ["steps"]),
    ],
)
def test_the_least_worst_mean_is_taken(monkeypatch, means, steps, at_edge):
    told = {"chosen": {"steps": steps}, "at_edge": at_edge, "candidates": 3}
    assert chosen(monkeypatch, means) == told


def test_names_have_no_edge(monkeypatch):
    assert chosen(monkeypatch, [[3, 2, 1]], grid=("last", "average", None))["at_edge"] == []


def test_beyond_what_is_refused_there_is_nothing_better(monkeypatch):
    assert chosen(monkeypatch, [[1, 2]], refused=(1,))["at_edge"] == []
    assert chosen(monkeypatch, [[2, 1]], refused=(1,))["at_edge"] == ["steps"]


def test_refused_candidates_are_left_out_and_where_all_are_the_cell_is_refused(searched, tmp_path):
    some = Method("some", "dp_gd", search={"steps": (4, 5), "step_size": (-1.0, 0.1)})
    none = Method("none", "dp_gd", search={"step_size": (-1.0, -2.0)})
    given = replace(searched, algorithms=(some, none), axes=(), checks=("bound",))
    result = run(given, tmp_path)
    assert (result.cells, result.refused) == (5, 5)
    for row in read(result.folder).cells.to_pylist():
        if row["method"] == "some":
            assert json.loads(row["searched"])["candidates"] == 2
        else:
            assert row["refused"].startswith("every candidate of the search is refused, as {'step")
            assert "step_size must be" in row["refused"]


test_a_bad_search_is_refused = refused(
    ({"search": {"step": (1, 2)}}, "choice of best must be one of .*; did you mean steps"),
    ({"search": {"steps": (5,)}}, "two or more distinct values of steps, got .* length 1"),
    ({"search": {"steps": (5, 5)}}, "two or more distinct values of steps, got .* length 2"),
    ({"search": {"steps": 5}}, "two or more distinct values of steps, got 5"),
    ({"search": {"steps": "57"}}, "two or more distinct values of steps, got '57'"),
    ({"search": {"steps": ([1], [2])}}, "steps must be a number, .* or None, got .* type list"),
    ({"search": (5, 6)}, "search of best must be a mapping, got .* length 2"),
    (
        {"choices": {"steps": 3}, "search": {"steps": (5, 6)}},
        "search of best must leave out steps, which choices fix",
    ),
    of=lambda **told: Method("best", "dp_gd", **told),
)


@pytest.mark.parametrize(
    ("values", "gap"),
    [((0.02, 0.1), "0.02 and 0.1"), ((0.1, 0.125, 0.16), "0.125 and 0.16"), ((4, 8), "4 and 8")],
)
def test_a_grid_whose_steps_would_show_in_a_slope_is_refused(searched, values, gap):
    name = "steps" if isinstance(values[0], int) else "step_size"
    coarse = Method("best", "dp_gd", search={name: values})
    with pytest.raises(ValueError, match=rf"at most a factor of 1\.26 apart .* got {gap}"):
        replace(searched, algorithms=(coarse,))
    replace(searched, algorithms=(coarse,), checks=("bound",))
    fine = Method("best", "dp_gd", search={"steps": (1, 2, 3), "step_size": ladder(0.01, 1.0)})
    replace(searched, algorithms=(fine,))


def test_a_ladder_has_ten_rungs_a_decade():
    rungs = ladder(0.01, 1.0)
    assert (len(rungs), rungs[0], rungs[10], rungs[-1]) == (21, 0.01, 0.1, 1.0)
    with pytest.raises(ValueError, match=r"high must be at least 1\.26 times low, got 1\.0"):
        ladder(1.0, 1.0)


@pytest.mark.thorough  # as other numbers, above
def test_step_sizes_that_decay_are_searched_by_their_scale(searched, tmp_path):
    decaying = tuple(StepSizes.linear_decay(scale) for scale in (0.3, 0.35))
    best = Method("best", "dp_gd", {"output": "last", "steps": 3}, search={"step_size": decaying})
    given = replace(searched, algorithms=(best,), axes=(), checks=("bound",))
    rows = read(run(given, tmp_path).folder).cells.to_pylist()
    told = {json.loads(row["searched"])["chosen"]["step_size"] for row in rows}
    assert told <= {0.3, 0.35}
    constant = replace(best, search={"step_size": (0.3, 0.35)})
    again = run(replace(given, algorithms=(constant,)), tmp_path)
    assert again.reused == 0  # others, though told alike


def test_what_is_searched_for_is_no_axis(searched):
    with pytest.raises(ValueError, match=r"axis must be one of .*, got 'steps'"):
        replace(searched, axes=(Axis("steps", (5, 6)),))
    assert replace(searched, base=Setting(n=500, dim=4, epsilon=1.0), axes=()).labels[1] == "best"
