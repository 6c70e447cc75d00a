"""Tests of reproduced tables: equal to the committed table, or reported as different."""

import json
import math
import subprocess

import numpy as np
import pyarrow as pa
import pytest

from privopt.lab import Analysis, Claim, below, read, run
from privopt.lab.runner.store import equal

SMALL = {
    "axes": {"n": (500, 1000)},
    "replicates": 2,
    "strengths": (1.0,),
    "profile_of_strength": (1.0,),
}
SETTINGS = {"factor": 1.0}


def numbers(profile):
    yield {"label": "a", "x": 3.0 * SETTINGS["factor"], "one": 4.0}


ANALYSIS = Analysis(
    name="demo",
    title="",
    description="",
    parts={"numbers": numbers},
    claims=(Claim("small", "numbers", below("x", "one")),),
)


def git(folder, *arguments):
    who = ("-c", "user.name=n", "-c", "user.email=e")
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def changed(table, column, change):
    values = [change(value) for value in table[column].to_pylist()]
    place = table.column_names.index(column)
    return table.set_column(place, table.field(column), pa.array(values, table.field(column).type))


@pytest.mark.parametrize(
    ("column", "change", "same"),
    [
        ("value", lambda x: x * (1.0 + 1e-9), True),
        ("value", lambda x: x * (1.0 + 1e-5), False),
        ("nonprivate_value", lambda x: x + 1e-13, True),
        ("value", lambda x: math.nan, False),
        ("mu", lambda x: None, False),
        ("strength", lambda x: math.inf, False),
        ("n", lambda x: x + 1, False),
        ("algorithm", lambda x: x + "x", False),
        ("tight_on", lambda x: None, False),
        ("choices", lambda x: x.replace("100.0", "100.00000001"), True),
        ("choices", lambda x: x.replace("100.0", "100.1"), False),
        ("plan", lambda x: x.replace("Theorem", "Lemma"), False),
        ("plan", lambda x: "not JSON", False),
    ],
)
def test_equal_is_to_the_last_digits_of_real_numbers_alone(synthetic, column, change, same):
    table = synthetic(**SMALL).table()
    table = changed(table, "choices", lambda text: text.replace("100", "100.0"))
    assert equal(table, table)
    assert equal(changed(table, column, change), table) is same
    assert equal(table, changed(table, column, change)) is same


def test_equal_infinities_and_nan_are_equal(synthetic):
    table = synthetic(**SMALL).table()
    for value in (math.inf, math.nan):
        odd = changed(table, "upper", lambda _, value=value: value)
        assert equal(odd, changed(odd, "value", lambda x: x * (1.0 + 1e-9)))
    assert not equal(table.slice(1), table)
    about = {"title": "t", "description": "d", "root_seed": 0}
    table = table.replace_schema_metadata({b"privopt": json.dumps(about)})
    for name, is_equal in (("title", True), ("description", True), ("root_seed", False)):
        changed_about = json.dumps({**about, name: "other"}).encode()
        other = table.replace_schema_metadata({b"privopt": changed_about})
        assert equal(other, table) is is_equal


def test_an_equal_table_leaves_the_work_tree_clean(tmp_path, monkeypatch):
    results = tmp_path / "results"

    def made(factor):
        monkeypatch.setitem(SETTINGS, "factor", factor)
        result = run(ANALYSIS, profile="quick", seed=0, results=results)
        return result.as_committed, read(result.folder).runs["x"].to_pylist()

    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("cells/\nprovenance.json\n")
    assert made(1.0) == (None, [3.0])
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Results")
    assert made(1.0) == (True, [3.0])
    assert made(1.0 + 1e-9) == (True, [3.0])
    assert git(tmp_path, "status", "--short") == ""
    assert made(1.1) == (False, [3.0 * 1.1])
    status = git(tmp_path, "status", "--short")
    assert "results/demo/runs.parquet" in status
    assert "results/demo/cells.parquet" in status  # it names the runs that it belongs to
    assert made(1.0) == (True, [3.0])
    assert git(tmp_path, "status", "--short") == ""


def test_a_committed_table_of_another_version_is_not_equal(tmp_path):
    git(tmp_path, "init")
    folder = tmp_path / "results" / "demo"
    folder.mkdir(parents=True)
    for name in ("cells", "runs"):
        (folder / f"{name}.parquet").write_bytes(np.zeros(3).tobytes())
    (tmp_path / "results" / ".privopt").write_text('{"format": 1}')
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Results")
    result = run(ANALYSIS, profile="quick", seed=0, results=tmp_path / "results")
    assert result.as_committed is False
