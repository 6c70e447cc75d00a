"""Sweeps: finished cells are reused, keys separate cells, and equal shapes compile once."""

import io
import json
import math
import os
import re
import shutil
import sys
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

from privopt import core, lab
from privopt.algorithms import ALGORITHMS
from privopt.lab import Axis, Display, Grid, Setting, read, replicate_keys, stream
from privopt.lab.runner import cache_key
from privopt.lab.runner import experiment as experiment_module
from privopt.lab.runner.run import _cell_tasks as tasks_of
from privopt.lab.runner.store import read_provenance
from privopt.lab.runner.work import Drawing, Finished, Note, Shared, Started, compile_clock
from privopt.problems import family, linear
from privopt.problems.datasets import VARIABLE
from privopt.spec import ProblemClass

RUN = sys.modules[lab.run.__module__]
ROOT = Path(__file__).parents[2]
CELLS = 2 * 5


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def demo(demonstration):
    return demonstration.experiment


@pytest.fixture(scope="module")
def events_of(demo):
    """Return ``events_of(results, ...)``: the outcome of a run, and its progress messages."""

    def run(results, experiment=demo, *, seed=0, profile="quick"):
        said = []
        given = {"profile": profile, "seed": seed, "results": results}
        return lab.run(experiment, **given, progress=said.append), said

    return run


def notes(events):
    return [event.text for event in events if isinstance(event, Note)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory, events_of):
    """Return the outcome of a sweep without interruption."""
    return events_of(tmp_path_factory.mktemp("whole") / "r")[0]


@pytest.fixture(scope="module")
def whole(alone, tables):
    """Return the tables of a sweep without interruption."""
    return tables(alone)


@pytest.fixture
def results(alone, tmp_path):
    """Return a copy of the folder of that sweep."""
    return shutil.copytree(alone.folder.parent, tmp_path / "results")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("call", "files"),
    [("fsync", 0), ("replace", 1), ("fsync", 2), ("replace", CELLS), ("fsync", CELLS + 1),
     ("replace", CELLS + 3)],
)  # fmt: skip
def test_killed_in_any_write_it_continues_to_the_same_bits(
    tmp_path, monkeypatch, whole, call, files, events_of, tables
):
    real, calls = getattr(os, call), []

    def fatal(*arguments):
        calls.append(arguments)
        if len(calls) > files:
            raise Killed
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fatal)
        with pytest.raises(Killed):
            events_of(tmp_path)
    result, _ = events_of(tmp_path)
    assert result.reused == min(max(files - 1, 0), CELLS)  # the first file is the folder's marker
    assert tables(result) == whole


def test_a_finished_sweep_runs_nothing(results, monkeypatch, alone, whole, events_of, tables):
    monkeypatch.setattr(RUN, "measure", pytest.fail)
    again, events = events_of(results)
    assert events == [Started("demo", total=CELLS, reused=CELLS)]
    assert replace(again, reused=0, folder=alone.folder) == alone
    assert tables(again) == whole


def test_a_damaged_cell_is_said_set_aside_and_run_again(results, whole, events_of, tables):
    cell = sorted((results / "demo" / "cells").glob("*.parquet"))[0]
    cell.write_bytes(cell.read_bytes()[:100])
    result, events = events_of(results)
    (text,) = notes(events)
    assert text.startswith(f"damaged cell moved to {cell.name}.corrupt, and run again")
    assert result.reused == CELLS - 1
    assert tables(result) == whole


@pytest.mark.thorough  # of speed
def test_two_programs_are_worked_on_at_once_and_an_error_in_either_loses_nothing(
    tmp_path, monkeypatch, events_of, demo, tables
):
    two = {"one": ("dp_gd", {"steps": 5}), "other": ("output_perturbation", {})}
    given = replace(demo, algorithms=two)
    alone, events = events_of(tmp_path / "alone", given)
    assert events[0] == Started("demo", total=2 * CELLS, reused=0)
    real, seen = RUN.measure, set()

    def fatal(planned, cache):
        seen.add(planned.cell.method)
        if planned.cell.method == "other" and planned.cell.strength == 4.0:
            raise Killed
        return real(planned, cache)

    with monkeypatch.context() as patch:
        patch.setattr(RUN, "measure", fatal)
        with pytest.raises(Killed):
            events_of(tmp_path / "both", given)
    assert seen == {"one", "other"}
    result, _ = events_of(tmp_path / "both", given)
    assert 2 <= result.reused < 2 * CELLS
    assert tables(result) == tables(alone)


def test_cells_of_other_code_seed_or_jax_are_left_alone(results, monkeypatch, events_of):
    before = {path: path.read_bytes() for path in (results / "demo" / "cells").iterdir()}
    result, events = events_of(results, seed=1)
    assert result.reused == 0
    assert notes(events) == [
        f"{CELLS} cells in {results / 'demo' / 'cells'} come from other code or settings: "
        "left alone, not used"
    ]
    code = read_provenance(result.folder)["code"]
    monkeypatch.setattr(RUN, "user_code", lambda *functions: "other code")
    result, events = events_of(results)
    assert result.reused == 0
    assert notes(events)[0].startswith(f"{2 * CELLS} cells")
    assert read_provenance(result.folder)["code"] != code
    assert set(read(result.folder).cells["root_seed"].to_pylist()) == {0}
    monkeypatch.setattr(jax, "__version__", "another")
    assert events_of(results)[0].reused == 0
    assert all(path.read_bytes() == content for path, content in before.items())


def test_changed_data_are_another_cell(tmp_path, monkeypatch, events_of):
    declared = family("linear")

    def from_outside(**size):
        factor = float(os.environ["FACTOR"])  # as from a file that is replaced
        return declared.build(**{**size, "noise_ratio": factor * size["noise_ratio"]})

    changed = replace(declared, build=from_outside)
    monkeypatch.setattr(experiment_module, "family", lambda name: changed)
    monkeypatch.setenv("FACTOR", "1")
    events_of(tmp_path)
    monkeypatch.setenv("FACTOR", "1.5")
    result, _ = events_of(tmp_path)
    assert result.reused == 2  # the strength inf, whose data are the same


def test_a_wider_axis_adds_cells_and_changes_none(results, alone, events_of, demo):
    def runs(result):
        rows = read(result.folder).table().drop_columns("cell").to_pylist()
        return [row for row in rows if (row["n"], row["epsilon"]) in ((500, 1.0), (1000, 1.0))]

    wider = replace(demo, axes=(Axis("n", (500, 1000, 2000)), Axis("epsilon", (0.5,))))
    result, _ = events_of(results, wider)
    assert (result.cells, result.reused) == (4 * 5, CELLS)
    assert runs(result) == runs(alone)


def test_a_row_is_what_a_single_run_gives(alone, demo):
    table = read(alone.folder).table()
    row = next(
        row
        for row in table.to_pylist()
        if (row["n"], row["strength"], row["replicate"]) == (500, 2.0, 1)
    )
    cell = next(c for c in lab.cells(demo, "quick") if (c.n, c.strength) == (500, 2.0))
    problem = family("linear").build(n=500, dim=4, noise_ratio=cell.noise_ratio, strength=2.0)
    plan = ALGORITHMS["dp_gd"].plan(problem.problem_class, cell.budget, steps=5)
    named = {"experiment": "demo", "algorithm": "dp_gd", "family": "linear"}
    sizes = {"n": 500, "dim": 4, "epsilon": 1.0, "strength": 2.0}
    key = replicate_keys(stream(0, role="noise", **named, **sizes), 3)[1]
    risk = problem.excess_risk(core.run(plan, problem, key).released)
    assert row["value"] == pytest.approx(risk, rel=2.0**-24)
    assert row["start_value"] == pytest.approx(problem.excess_risk(np.zeros(4)))
    assert 0.0 <= row["nonprivate_value"] < row["start_value"]
    assert (row["upper"], row["lower"]) == (plan.rate.upper, plan.rate.lower[0].value)
    told = json.loads(row["plan"])["rate"]["lower"]
    assert [guarantee for _, guarantee in told] == ["(1, 1.755e-08)-DP", "0.2-Gaussian DP"]
    assert row["spent_epsilon_upper"] <= row["epsilon"] == 1.0
    assert row["mu"] == pytest.approx(0.2, rel=1e-6)
    assert (row["steps"], row["tight_on"], row["axes"]) == (5, "linear", "n")
    assert json.loads(row["exponents"]) == dict(plan.rate.exponents)
    assert json.loads(row["plan"])["params"]["mechanism"]["scale"] == plan.params.mechanism.scale


def test_the_tables_say_what_they_are_about(tmp_path, events_of, demo):
    said = read(events_of(tmp_path, seed=7)[0].folder).about
    assert said["title"] == demo.title
    assert said["checks"] == ["bound"]
    assert said["swept"] == ["n"]
    assert (said["profile"], said["root_seed"], said["replicates"]) == ("quick", 7, 3)


def test_equal_shapes_compile_once(tmp_path, events_of, demo):
    fresh = replace(demo, base=Setting(n=1000, dim=7, epsilon=1.0))  # a dimension of its own
    with compile_clock() as clock:
        result, events = events_of(tmp_path, fresh)
    runs = [name for name in clock.programs if "run_all" in name]
    assert len(runs) == 2, clock.programs  # the measured runs, and the non-private twin
    assert len(clock.programs) <= 36, clock.programs  # eager operations compile one each
    first, *others = [event for event in events if isinstance(event, Finished)]
    assert first.compile_seconds > 0.0
    assert {event.compile_seconds for event in others} == {0.0}  # not even traced
    timings = read_provenance(result.folder)
    whole = math.fsum(event.compile_seconds for event in (first, *others))
    assert timings["compile_seconds"] == result.compile_seconds == pytest.approx(whole)
    assert timings["run_seconds"] == pytest.approx(sum(c.run_seconds for c in (first, *others)))
    assert len(timings["per_cell"]) == timings["cells"] == CELLS


def test_a_cell_that_fails_is_a_row_with_its_error_and_stops_nothing(
    tmp_path, monkeypatch, events_of, demo
):
    def broken(*, n, dim, noise_ratio, strength):
        features = np.full((1, dim), np.nan if strength > 4.0 else 0.1)
        facts = ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0)
        return linear(features, problem_class=facts, counts=np.array([n]), name="linear")

    monkeypatch.setattr(
        experiment_module, "family", lambda name: replace(family(name), build=broken)
    )
    result, events = events_of(tmp_path)
    assert (result.cells, result.refused) == (6, 4)
    (note,) = notes(events)
    assert re.match("4 of 10 cells failed: ValueError: .*finite", note)
    assert len(list((tmp_path / "demo" / "cells").glob("*.parquet"))) == 6
    for row in read(result.folder).cells.to_pylist():
        failed = row["strength"] > 4.0
        assert (row["refused"] is not None) == (row["plan"] is None) == failed
        assert row["refused"] is None or f"4 of 10 cells {row['refused']}" == note


def test_a_refused_plan_is_a_row_with_its_reason_and_stops_nothing(tmp_path, events_of, demo):
    chosen = {"dp_gd": {"steps": 5}, "few": ("dp_gd", {"steps": 1}), "output_perturbation": {}}
    given = replace(demo, algorithms=chosen, axes=(Axis("steps", (5, 6)),))
    result, events = events_of(tmp_path, given)
    assert (result.cells, result.refused) == (20, 10)
    reason = "choice must be one of .*, got 'steps'"
    assert re.match(f"10 of 30 plans are refused: {reason}", notes(events)[0])
    recorded = read(result.folder)
    for row in recorded.cells.to_pylist():
        assert (row["method"] == "output_perturbation") == (row["refused"] is not None)
        assert row["refused"] is None or re.match(reason, row["refused"])
        assert (row["plan"] is None) == (row["upper"] is None) == (row["refused"] is not None)
    assert recorded.runs.num_rows == 20 * 3
    judged = {verdict.method: verdict for verdict in lab.verdicts(recorded)}
    assert judged.keys() == set(chosen)
    assert judged["output_perturbation"].detail.startswith("every plan is refused: choice must be")
    page = lab.write_report(tmp_path).read_text(encoding="utf-8")
    assert "Refused plans" in page
    assert "got &#39;steps&#39;" in page


def test_where_every_plan_is_refused_the_tables_say_so(tmp_path, events_of, demo):
    pure = replace(demo, epsilon_over_mu=None, delta=0.0)
    result, events = events_of(tmp_path, pure)
    assert (result.cells, result.refused) == (0, CELLS)
    recorded = read(result.folder)
    assert recorded.runs.num_rows == 0
    assert all("delta must be positive" in why for why in recorded.cells["refused"].to_pylist())
    (verdict,) = lab.verdicts(recorded)
    assert verdict.outcome == "undecided"
    assert "every plan is refused: delta must be positive" in verdict.detail
    assert notes(events)[0].startswith(f"all {CELLS} plans are refused: delta must be positive")
    page = lab.write_report(tmp_path).read_text(encoding="utf-8")
    assert "delta must be positive" in page
    assert "Nothing was measured" in page


def test_one_algorithm_stands_twice_with_noise_of_its_own(tmp_path, events_of, demo):
    twice = {"one": ("dp_gd", {"steps": 5}), "other": ("dp_gd", {"steps": 5})}
    recorded = read(events_of(tmp_path, replace(demo, algorithms=twice))[0].folder)
    values = {name: [] for name in twice}
    for row in recorded.table().to_pylist():
        assert row["algorithm"] == "dp_gd"
        values[row["method"]].append(row["value"])
    assert len(values["one"]) == len(values["other"]) == CELLS * 3
    assert not set(values["one"]) & set(values["other"])


def test_a_grid_runs_every_combination_and_an_axis_of_choices_changes_the_plan(
    tmp_path, events_of, demo
):
    given = replace(
        demo,
        axes=(Axis("steps", (5, 7)),),
        grids=(Grid(Axis("n", (500, 1000)), Axis("steps", (5, 9))),),
    )
    rows = read(events_of(tmp_path, given)[0].folder).cells.to_pylist()
    found = {(r["n"], r["steps"]): r["axes"] for r in rows if r["strength"] == 1.0}
    assert found == {
        (1000, 5): "steps,n x steps",
        (1000, 7): "steps",
        (500, 5): "n x steps",
        (500, 9): "n x steps",
        (1000, 9): "n x steps",
    }
    for row in rows:
        assert json.loads(row["choices"]) == {"steps": row["steps"]}


def test_sizes_beyond_the_data_are_said(demo):
    real = replace(
        demo,
        families=("breast_cancer_logistic",),
        base=Setting(epsilon=1.0),
        axes=(Axis("n", (500, 1000)),),
    )
    events = []
    list(tasks_of(real, "quick", 0, events.append))
    assert notes(events) == [
        "n = 1000 is left out of breast_cancer_logistic, which has 569 records"
    ]


def test_the_packages_of_the_extra_lab_are_enough(tmp_path, monkeypatch, events_of):
    """Metadata of another package, as of flax, are not there."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*declared["dependencies"], *declared["optional-dependencies"]["lab"]]
    there = {"privopt", *(re.split(r"[<>=\[]", each)[0] for each in wanted)}
    real = metadata.version

    def version(name):
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    for module in (RUN, cache_key):
        monkeypatch.setattr(module, "version", version)
    assert events_of(tmp_path)[0].cells == CELLS


def test_families_left_out_are_said(monkeypatch, demo):
    monkeypatch.delenv(VARIABLE, raising=False)
    events = []
    list(tasks_of(replace(demo, if_present=("a9a_logistic",)), "quick", 0, events.append))
    assert notes(events)[0].startswith("a9a_logistic is left out: a9a needs the environment var")


def shown(terminal, events, names=()):
    where = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    with Display(where, names) as display:
        for event in events:
            display(event)
    return where.file.getvalue()


def test_progress_is_plain_lines_or_bars(demo):
    events = [
        Note("demo", "[b]left[/b] out"),
        Started("demo", 30, 10),
        *[Finished("demo", "a cell", 1, 2)] * 20,
    ]
    lines = shown(False, events).splitlines()
    assert lines[:2] == ["demo: [b]left[/b] out", "demo: 30 cells, 10 of them there already"]
    assert lines[2] == "demo: 12/30 cells, 2.0 s running and 4.0 s compiling, about 0:00:00 left"
    assert lines[-1] == "demo: 30/30 cells, 20.0 s running and 40.0 s compiling"
    assert len(lines) == 2 + 7
    bars = shown(True, events)
    assert "30/30" in bars
    assert "40.0 s compiling" in bars


def test_of_several_experiments_it_is_told_which():
    events = [
        Started("demo", 2, 0),
        Finished("demo", "a", 9, 20),
        Shared("demo", "b"),
        Drawing("demo", 1, 2),
    ]
    lines = shown(False, events, ("other", "demo", "last")).splitlines()
    assert lines == [
        "experiment 2 of 3, demo: 2 cells",
        "experiment 2 of 3, demo: 1/2 cells, 9.0 s running and 20.0 s compiling, "
        "about 0:00:00 left",
        "experiment 2 of 3, demo: 2/2 cells, 9.0 s running and 20.0 s compiling",
        "figures and report: demo",
    ]
