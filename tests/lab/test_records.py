"""Records: refused where they are not ours, whole or absent, and bit-identical."""

import errno
import json
import os
import platform

import numpy as np
import pyarrow as pa
import pytest

from privopt.lab import ResultsError, existing_results
from privopt.lab.runner import store
from privopt.lab.runner.store import FORMAT, MARKER, clear_partial, open_results, write_file

KEY = "0" * 64
FACTS = {"reference_value": 0.25, "start_value": float("inf")}


def kept(replicates: int = 4, seconds: float = 1.5) -> store.CachedResult:
    columns = {"replicate": range(replicates), "value": np.linspace(0.1, 0.7, replicates)}
    return store.CachedResult(pa.table(columns), FACTS, seconds, 0.25)


@pytest.fixture
def cell(tmp_path):
    path = store.cell_path(tmp_path, KEY)
    store.write_cell(path, kept())
    return path


def test_a_new_folder_is_made_marked_and_found_again(tmp_path):
    path = tmp_path / "deep" / "results"
    assert open_results(path) == path
    assert json.loads((path / MARKER).read_text()) == {"format": FORMAT}
    (path / "anything").write_text("ours by now")
    assert open_results(path) == existing_results(path) == path


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ResultsError, match=r"holds other files and no \.privopt\. Nothing was"):
        open_results(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_its_place_is_refused(tmp_path):
    path = tmp_path / "results"
    path.write_text("not a folder")
    with pytest.raises(ResultsError, match="results must be a folder, got the file"):
        open_results(path)
    with pytest.raises(ResultsError, match="cannot be"):
        open_results(path / "below")
    assert path.read_text() == "not a folder"


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('{"format": 99}', "must be of results format 1, got 99"),
        ("{}", "is damaged"),
        ("[]", "is damaged"),
        ("\0", "is damaged"),
    ],
)
def test_a_marker_of_another_format_is_refused(tmp_path, marker, message):
    (tmp_path / MARKER).write_text(marker)
    with pytest.raises(ResultsError, match=message):
        open_results(tmp_path)
    assert (tmp_path / MARKER).read_text() == marker


def test_reading_does_not_make_a_folder(tmp_path):
    with pytest.raises(ResultsError, match=r"is no results folder of privopt: no \.privopt in it"):
        existing_results(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_killed_before_the_marker_was_written(tmp_path):
    (tmp_path / f"{MARKER}.123.tmp").write_bytes(b"")
    assert open_results(tmp_path) == tmp_path


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "No space left"), (errno.EACCES, "Permission denied")]
)
def test_a_refusing_disk_leaves_what_was_there(tmp_path, monkeypatch, call, number, words):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"old")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ResultsError, match=rf"table\.parquet cannot be written: {words}.*safe.*"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["table.parquet"]


def test_what_is_there_already_is_not_written_again(tmp_path, monkeypatch):
    """Finished results on a read-only disk can be evaluated again."""
    path = tmp_path / "table.parquet"
    write_file(path, b"same")
    monkeypatch.setattr(os, "replace", None)
    write_file(path, b"same")
    with pytest.raises(TypeError):
        write_file(path, b"other")


def test_two_writers_of_one_number_on_two_machines_share_no_file(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "replace", lambda partial, path: seen.append(partial.name))
    for data in (b"one", b"other"):
        write_file(tmp_path / "table.parquet", data)
    assert len(set(seen)) == 2
    assert all(name.endswith(".tmp") and platform.node() in name for name in seen)


def test_what_a_killed_process_has_left_half_written_is_removed(tmp_path):
    old, new = tmp_path / "deep" / "a.parquet.1.tmp", tmp_path / "b.parquet.2.tmp"
    old.parent.mkdir()
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0.0, 0.0))
    clear_partial(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)  # the new one may be another process's


def test_a_cell_comes_back_with_its_facts_and_its_timing(cell):
    found = store.read_cell(cell)
    assert found.values.equals(kept().values)
    assert found[1:] == (FACTS, 1.5, 0.25)


def test_an_unfinished_cell_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        store.read_cell(tmp_path / "absent.parquet")


def test_no_damage_goes_unseen(cell):
    """Values, facts and timing are those that were written, or the cell is damaged."""
    sound = cell.read_bytes()
    seen, wrong = 0, []
    for place in range(len(sound)):
        damaged = bytearray(sound)
        damaged[place] ^= 0x01
        cell.write_bytes(damaged)
        try:
            found = store.read_cell(cell)
        except store.DamagedCellError:
            seen += 1
        else:
            same = found.values.equals(kept().values) and found[1:] == (FACTS, 1.5, 0.25)
            wrong += [] if same else [place]
    assert wrong == []
    assert seen > len(sound) / 4


def test_another_cells_file_is_damaged(cell):
    other = cell.with_name("1" * 64 + ".parquet")
    cell.rename(other)
    with pytest.raises(store.DamagedCellError, match="not the cell that its name says"):
        store.read_cell(other)


def test_a_damaged_cell_is_moved_and_not_lost(cell):
    content = cell.read_bytes()
    assert store.set_aside(cell).read_bytes() == content
    assert not cell.exists()


def test_tables_come_back_and_are_the_same_bytes(tmp_path, synthetic):
    recorded = synthetic(axes={"n": (500, 1000)}, replicates=2)
    files = []
    for name in ("one", "other"):
        assert store.write_recorded(tmp_path / name, recorded) is None  # nothing is committed
        files.append([path.read_bytes() for path in sorted((tmp_path / name).glob("*.parquet"))])
    assert files[0] == files[1]
    assert len(files[0]) == 2
    found = store.read(tmp_path / "one")
    assert found.about["title"] == recorded.about["title"]
    assert found.cells.schema.equals(store.CELLS)
    assert (found.cells.to_pylist(), found.runs.to_pylist()) == (
        recorded.cells.to_pylist(),
        store.rounded(recorded.runs).to_pylist(),
    )
    assert store.recorded_names(tmp_path) == ["one", "other"]


def test_recorded_numbers_are_kept_to_24_bits():
    values = [1.0, -0.1, 1e-300, 5e-324, 1.7e308, float("inf"), -float("inf"), float("nan"), None]
    table = pa.table({"cell": range(9), "value": pa.array(values, pa.float64())})
    found = store.rounded(table)
    assert found.schema.equals(table.schema)
    assert found["value"].to_pylist()[-1] is None
    before, after = (each["value"].to_numpy()[:8] for each in (table, found))
    np.testing.assert_allclose(after, before, rtol=2.0**-24, atol=1e-315)
    usual = np.random.default_rng(0).normal(size=1000)
    kept = store.rounded(pa.table({"value": usual}))["value"].to_numpy()
    np.testing.assert_array_equal(kept, usual.astype(np.float32))


def test_the_table_of_all_runs_repeats_what_their_cell_is(synthetic):
    recorded = synthetic(axes={"n": (500, 1000)}, replicates=2)
    cells, rows = recorded.cells.to_pylist(), recorded.table().to_pylist()
    assert len(rows) == 2 * len(cells) == recorded.runs.num_rows
    for row, run in zip(rows, recorded.runs.to_pylist(), strict=True):
        assert row == {**cells[run["cell"]], **run}


def test_tables_that_do_not_belong_together_are_refused(tmp_path, synthetic):
    for seed, name in enumerate(("one", "other")):
        store.write_recorded(tmp_path / name, synthetic(replicates=2, seed=seed))
    runs = (tmp_path / "other" / "runs.parquet").read_bytes()
    (tmp_path / "one" / "runs.parquet").write_bytes(runs)
    with pytest.raises(ResultsError, match="are of two runs: run its experiment again"):
        store.read(tmp_path / "one")


def test_unusable_tables_say_what_to_do(tmp_path, synthetic):
    with pytest.raises(ResultsError, match="holds no tables: run its experiment first"):
        store.read(tmp_path)
    recorded = synthetic(replicates=2)
    store.write_recorded(tmp_path, recorded._replace(runs=pa.table({"x": [1]})))
    with pytest.raises(ResultsError, match="has tables of other columns"):
        store.read(tmp_path)
    (tmp_path / "runs.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(ResultsError, match="run its experiment again"):
        store.read(tmp_path)


def test_provenance_is_read_where_it_is(tmp_path):
    assert store.read_provenance(tmp_path) == {}
    store.write_provenance(tmp_path, {"run_seconds": 1.0})
    assert store.read_provenance(tmp_path) == {"run_seconds": 1.0}
    (tmp_path / "provenance.json").write_text("[")
    assert store.read_provenance(tmp_path) == {}
