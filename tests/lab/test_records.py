"""Records: refused where they are not ours, whole or absent, and bit-identical."""

import errno
import json
import os

import numpy as np
import pyarrow as pa
import pytest

from privopt.lab import ResultsError, existing_results
from privopt.lab.make import records
from privopt.lab.make.folder import FORMAT, MARKER, open_results, write_file

TEXT = {"experiment": "e", "algorithm": "a", "family": "f", "relation": "replace_one"}
NUMBERS = {"n": 10, "dim": 2, "epsilon": 1.0, "delta": 1e-6, "mu": None, "strength": np.inf}
KEY = "0" * 64


def rows(replicates: int = 4, **changes) -> pa.Table:
    fixed = {**TEXT, **NUMBERS, "steps": None, "tight_on": None, "exponents": "{}"}
    fixed |= {"root_seed": 0, "plan": '{"a": 1}', **changes}
    columns = {
        column.name: [fixed.get(column.name, 0.5)] * replicates for column in records.CELL_COLUMNS
    }
    columns |= {"replicate": range(replicates), "excess_risk": np.linspace(0.1, 0.7, replicates)}
    return pa.table(columns, schema=records.CELL_COLUMNS)


@pytest.fixture
def cell(tmp_path):
    path = records.cell_path(tmp_path, "e", KEY)
    records.write_cell(path, rows(), run_seconds=1.5, compile_seconds=0.25)
    return path


# --- the folder -----------------------------------------------------------------------------------


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


# --- writing --------------------------------------------------------------------------------------


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


# --- cells ----------------------------------------------------------------------------------------


def test_a_cell_comes_back_with_its_timing(cell):
    found = records.read_cell(cell, replicates=4)
    assert found.equals(rows())
    assert records.timing(found) == (1.5, 0.25)


def test_an_unfinished_cell_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        records.read_cell(tmp_path / "absent.parquet", replicates=4)


def test_no_damage_goes_unseen(cell):
    sound = cell.read_bytes()
    seen = 0
    for place in range(0, len(sound), 19):
        damaged = bytearray(sound)
        damaged[place] ^= 0x24
        cell.write_bytes(damaged)
        try:
            assert records.read_cell(cell, replicates=4).equals(rows()), place
        except records.DamagedCellError:
            seen += 1
    assert seen > len(sound) / 19 / 4


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_cut_cell_is_damaged(cell, share):
    cell.write_bytes(cell.read_bytes()[: int(share * cell.stat().st_size)])
    with pytest.raises(records.DamagedCellError, match=KEY):
        records.read_cell(cell, replicates=4)


def test_another_cells_file_is_damaged(cell):
    other = cell.with_name("1" * 64 + ".parquet")
    cell.rename(other)
    with pytest.raises(records.DamagedCellError, match="not the cell that its name says"):
        records.read_cell(other, replicates=4)
    with pytest.raises(records.DamagedCellError, match="not the cell"):
        records.read_cell(other, replicates=5)


def test_a_damaged_cell_is_moved_and_not_lost(cell):
    content = cell.read_bytes()
    assert records.set_aside(cell).read_bytes() == content
    assert not cell.exists()


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_holds_its_cells_and_no_timing(tmp_path):
    files = []
    for seconds in (1.0, 2.0):
        folder = tmp_path / str(seconds)
        parts = []
        for name, axes in (("a", ("n", "dim")), ("b", ())):
            path = records.cell_path(folder, "e", name)
            content = rows(algorithm=name, plan=name)
            records.write_cell(path, content, run_seconds=seconds, compile_seconds=0.0)
            parts.append((records.read_cell(path, 4), axes))
        path = records.table_path(folder, "e")
        records.write_table(path, records.assemble(parts, "quick"), {"title": "é", "checks": ["x"]})
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert records.table_paths(folder) == [path]
    table = records.read_table(path)
    assert table.schema.equals(records.COLUMNS)
    assert table["axes"].to_pylist() == ["n,dim"] * 4 + [""] * 4
    assert table["plan"].to_pylist() == ["a"] * 4 + ["b"] * 4
    assert table["replicate"].to_pylist() == [0, 1, 2, 3] * 2
    assert set(table["profile"].to_pylist()) == {"quick"}
    assert records.about(table) == {"title": "é", "checks": ["x"]}


def test_an_unusable_table_says_what_to_do(tmp_path):
    path = tmp_path / "table.parquet"
    with pytest.raises(ResultsError, match="is not there: run its experiment first"):
        records.read_table(path)
    path.write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(ResultsError, match="run its experiment again"):
        records.read_table(path)
    write_file(path, records.encode(pa.table({"x": [1]}), {}))
    with pytest.raises(ResultsError, match="has other columns"):
        records.read_table(path)


def test_provenance_is_read_where_it_is(tmp_path):
    assert records.read_provenance(tmp_path) == {}
    records.write_provenance(tmp_path, {"run_seconds": 1.0})
    assert records.read_provenance(tmp_path) == {"run_seconds": 1.0}
    (tmp_path / "provenance.json").write_text("[")
    assert records.read_provenance(tmp_path) == {}
