"""Tests of quick tables: compared at equal settings; recorded and better tables are kept."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privopt import lab, problems
from privopt.lab import Analysis, Axis, Claim, Experiment, OverwriteError, Setting, close
from privopt.lab.runner import analysis, cells, quick_tables
from privopt.lab.runner.quick_tables import quick_difference, write_quick_table
from privopt.lab.runner.store import read, write_recorded

ROOT = Path(__file__).parents[2]
MISSING = "its file is missing"
MOST_BYTES = 1_000_000  # of all committed quick tables

SWEEP = Experiment(
    name="sweep",
    title="",
    description="",
    algorithms={"dp_gd": {"steps": 5}},
    families=("distance",),
    if_present=("far_distance",),
    base=Setting(n=1000, dim=4, epsilon=1.0),
    axes=(Axis("n", (500, 1000)),),
    replicates={"quick": 4, "full": 4},
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
)


def rows(profile):
    yield {"label": "a", "x": 3.0}
    yield {"label": "b", "x": 4.0}


ANALYSIS = Analysis(
    name="analysis",
    title="",
    description="",
    parts={"rows": rows},
    claims=(Claim("positive", "rows", close("x", "x")),),
    uses=("a9a", "mnist"),
)


@pytest.fixture
def results(tmp_path):
    return lab.open_results(tmp_path / "results")


@pytest.fixture
def lose(monkeypatch):
    """A function after which a family or a data set is missing."""

    def lose(name):
        def family(asked):
            if asked == name:
                raise FileNotFoundError(MISSING)
            return problems.family(asked)

        monkeypatch.setattr(cells, "family", family)
        monkeypatch.setattr(cells, "available", tuple)
        for module in (quick_tables, analysis):
            monkeypatch.setattr(module, "missing", {name: MISSING}.get)

    return lose


@pytest.fixture
def have(monkeypatch):
    """Every data set is there."""
    monkeypatch.setattr(cells, "available", tuple)
    for module in (quick_tables, analysis):
        monkeypatch.setattr(module, "missing", lambda name: None)


def run(experiment, results, profile="quick", seed=0):
    return lab.run(experiment, profile=profile, seed=seed, results=results)


@pytest.fixture
def noisy(results):
    """``noisy(factor)``: the recorded runs of the sweep times a factor."""

    def noisy(factor):
        recorded = read(results / "sweep")
        place = recorded.runs.column_names.index("value")
        values = pa.array(factor * recorded.runs["value"].to_numpy())
        runs = recorded.runs.set_column(place, recorded.runs.schema.field("value"), values)
        about = {name: told for name, told in recorded.about.items() if name != "runs"}
        write_recorded(results / "sweep", recorded._replace(about=about, runs=runs))

    return noisy


def test_a_table_equals_itself_up_to_round_off(results, have, noisy, tmp_path):
    quick = tmp_path / "quick"
    run(SWEEP, results)
    assert quick_difference(results, SWEEP, quick) is None
    write_quick_table(results, SWEEP, quick)
    (path,) = quick.iterdir()
    table, cells = pq.read_table(path), read(results / "sweep").cells
    assert table.num_rows == cells.num_rows == 4
    runs = read(results / "sweep").runs.to_pandas().groupby("cell")["value"]
    np.testing.assert_allclose(table["mean"].to_numpy(), runs.mean(), rtol=1e-7)
    np.testing.assert_allclose(table["deviation"].to_numpy(), runs.std(ddof=0), rtol=1e-6)
    assert quick_difference(results, SWEEP, quick) == ""
    written = path.stat().st_mtime_ns
    noisy(1.0 + 2e-7)
    assert quick_difference(results, SWEEP, quick) == ""
    write_quick_table(results, SWEEP, quick)  # equal: the file is not touched
    assert path.stat().st_mtime_ns == written
    noisy(1.0 + 1e-5)
    told = quick_difference(results, SWEEP, quick)
    assert told.startswith("mean differs in 4 of 4 rows, first of method=dp_gd, family=distance")
    assert f", committed {table['mean'][0].as_py()}" in told


def test_few_cells_may_be_other_samples_of_the_same_law(synthetic, tmp_path, have):
    """Move two of 20 cells of 400 runs by two per cent of a deviation, or two far, or three."""
    sizes = tuple(range(500, 2500, 100))
    told = {"strengths": (1.0,), "profile_of_strength": (1.0,), "replicates": 400, "checks": ()}
    recorded = synthetic(**told, axes={"n": sizes}, experiment="sweep")
    results = lab.open_results(tmp_path / "results")

    def moved(cells, share):
        """The table in which the runs of these cells are moved by a share of their deviation."""
        values = recorded.runs["value"].to_numpy().reshape(len(sizes), -1).copy()
        for cell in cells:
            values[cell] += share * values[cell].std()
        place = recorded.runs.column_names.index("value")
        field = recorded.runs.schema.field("value")
        runs = recorded.runs.set_column(place, field, pa.array(values.ravel()))
        write_recorded(results / "sweep", recorded._replace(runs=runs))
        return quick_difference(results, SWEEP, tmp_path / "quick")

    moved((), 0.0)
    write_quick_table(results, SWEEP, tmp_path / "quick")
    assert moved((), 0.0) == ""
    assert moved((3, 8), 0.02) == ""
    assert moved((3, 8), 0.5).startswith("mean differs in 2 of 20 rows")
    assert moved((3, 8, 9), 0.02).startswith("mean differs in 3 of 20 rows")


@pytest.mark.parametrize(("moved", "by"), [(1, 1.0), (2, 4.9), (3, 1.0), (1, 5.1)])
def test_two_of_a_hundred_rows_of_an_analysis_may_differ(moved, by, results, have, tmp_path):
    """Test rows that differ by less and by more than a twentieth of the range, which is 99."""

    def many(profile):
        return [{"label": str(i), "x": float(i)} for i in range(100)]

    told = replace(ANALYSIS, parts={"rows": many})
    run(told, results)
    write_quick_table(results, told, tmp_path / "quick")
    recorded = read(results / "analysis")
    place = recorded.runs.column_names.index("x")
    values = recorded.runs["x"].to_numpy() + by * (np.arange(100) < moved)
    runs = recorded.runs.set_column(place, recorded.runs.schema.field("x"), pa.array(values))
    write_recorded(results / "analysis", recorded._replace(runs=runs))
    difference = quick_difference(results, told, tmp_path / "quick")
    if moved > 2 or by > 5.0:
        assert difference.startswith(f"x differs in {moved} of 100 rows")
    else:
        assert difference == ""


def test_another_seed_is_not_compared(results, have, tmp_path):
    run(SWEEP, results)
    write_quick_table(results, SWEEP, tmp_path)
    run(SWEEP, results, seed=1)
    assert quick_difference(results, SWEEP, tmp_path) is None


def test_rows_and_columns_count(results, have, tmp_path):
    run(ANALYSIS, results)
    write_quick_table(results, ANALYSIS, tmp_path)
    assert quick_difference(results, ANALYSIS, tmp_path) == ""
    for parts, told in (
        ({"rows": lambda profile: [*rows(profile), *rows(profile)]}, "4 rows, committed 2"),
        ({"rows": lambda profile: [{"label": "a"}, {"label": "b"}]}, "columns part, label, comm"),
        ({"other": rows}, "part differs in 2 of 2 rows, first of part=other, label=a: other, com"),
    ):
        shown = (Claim("positive", next(iter(parts)), close("label", "label")),)
        other = replace(ANALYSIS, parts=parts, claims=shown)
        run(other, results)
        assert quick_difference(results, other, tmp_path).startswith(told)


def test_families_without_their_data_are_not_compared(results, have, lose, tmp_path):
    run(SWEEP, results)
    write_quick_table(results, SWEEP, tmp_path / "quick")
    lose("far_distance")
    other = lab.open_results(tmp_path / "other")
    run(SWEEP, other)
    assert set(read(other / "sweep").cells["family"].to_pylist()) == {"distance"}
    assert quick_difference(other, SWEEP, tmp_path / "quick") == ""
    with pytest.raises(OverwriteError, match=f"recorded with far_distance: left.*{MISSING}"):
        write_quick_table(other, SWEEP, tmp_path / "quick")
    assert quick_difference(results, SWEEP, tmp_path / "quick") == "4 rows, committed 2"


def test_a_sweep_keeps_what_was_measured_on_data_that_are_missing(results, have, lose):
    run(SWEEP, results)
    before = read(results / "sweep")
    lose("far_distance")
    with pytest.raises(OverwriteError, match=f"sweep was recorded with far_distance.*{MISSING}"):
        run(SWEEP, results)
    assert read(results / "sweep").runs.equals(before.runs)


def test_what_was_recorded_without_data_may_be_made_again(results, have, lose):
    lose("far_distance")
    run(SWEEP, results)
    run(SWEEP, results)
    lose("a9a")
    run(ANALYSIS, results, "full")
    assert read(results / "analysis").about["data"] == ["mnist"]
    run(ANALYSIS, results, "full")
    lose("mnist")
    with pytest.raises(OverwriteError, match="analysis was recorded with mnist"):
        run(ANALYSIS, results, "full")


def test_a_study_keeps_what_it_computed_from_data_that_are_missing(results, have, lose):
    run(ANALYSIS, results, "full")
    recorded = read(results / "analysis")
    assert recorded.about["data"] == ["a9a", "mnist"]
    lose("a9a")
    with pytest.raises(OverwriteError, match=f"analysis was recorded with a9a: left.*{MISSING}"):
        run(ANALYSIS, results, "full")
    about = {name: told for name, told in recorded.about.items() if name not in ("data", "runs")}
    write_recorded(
        results / "analysis", recorded._replace(about=about)
    )  # without a note of its data
    with pytest.raises(OverwriteError, match="analysis was recorded with a9a"):
        run(ANALYSIS, results, "full")


def test_the_quick_profile_of_a_study_depends_on_no_optional_data(results, have, lose):
    run(ANALYSIS, results)
    assert "data" not in read(results / "analysis").about
    lose("a9a")
    run(ANALYSIS, results)


def test_a_full_table_is_no_quick_one(results, have):
    run(SWEEP, results)
    run(SWEEP, results, "full")  # may replace a quick table
    with pytest.raises(OverwriteError, match="holds the table of the full profile"):
        run(SWEEP, results)


def test_every_quick_experiment_has_a_committed_table_that_is_small():
    chosen, left_out = lab.choose((), ROOT / "experiments", "quick")
    without = {name for why, names in left_out.items() if "profile" not in why for name in names}
    committed = {path.stem for path in (ROOT / "results" / "quick").iterdir()}
    assert committed == {each.name for each in chosen} | without
    tracked = subprocess.run(
        ["git", "check-ignore", "results/quick/dp_gd.parquet"], cwd=ROOT, capture_output=True
    )
    assert tracked.stdout == b""
    sizes = [path.stat().st_size for path in (ROOT / "results" / "quick").iterdir()]
    assert sum(sizes) < MOST_BYTES
