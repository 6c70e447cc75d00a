"""Runs in one folder run every cell once; the lock of a killed run is released."""

import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from privopt import lab
from privopt.lab.runner.work import Finished, Note, Shared, lock

CELLS = 2 * 5

# Another run, which waits in its first cell for a line of input.
OTHER = """
import sys
from privopt import lab
from privopt.lab.runner.work import Finished, Shared
module = sys.modules[lab.run.__module__]
real = module.measure
def measure(*arguments, **options):
    print("holding", flush=True)
    assert sys.stdin.readline()
    return real(*arguments, **options)
module.measure = measure
seen = []
lab.run(experiment, profile="quick", seed=0, results=sys.argv[1], progress=seen.append)
print([sum(isinstance(event, kind) for event in seen) for kind in (Finished, Shared)])
"""

# A run that hangs in a cell.
HANGING = """
import sys
from pathlib import Path
from privopt.lab.runner.work import lock
with lock(Path(sys.argv[1])):
    print("holding", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other(code, argument):
    """Start another process, and wait until it has locked a cell."""
    command = [sys.executable, "-c", code, str(argument)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()


def events_of(experiment, results, when_waiting=lambda: None):
    seen = []

    def progress(event):
        seen.append(event)
        if isinstance(event, Note) and event.text.startswith("waiting for 1 of 10 cells"):
            when_waiting()

    result = lab.run(experiment, profile="quick", seed=0, results=results, progress=progress)
    counts = [sum(isinstance(event, kind) for event in seen) for kind in (Finished, Shared)]
    return result, counts


@pytest.fixture(scope="module")
def alone(tmp_path_factory, demonstration):
    """Return the outcome of a run without others."""
    return events_of(demonstration.experiment, tmp_path_factory.mktemp("alone"))[0]


def test_two_runs_in_one_folder_run_every_cell_once(tmp_path, demonstration, tables, alone):
    def go_on():
        assert len(list(results.glob("demo/cells/*.parquet"))) == CELLS - 1
        process.stdin.write("\n")
        process.stdin.flush()

    results = tmp_path / "both"
    with other(demonstration.source + OTHER, results) as process:
        result, counts = events_of(demonstration.experiment, results, go_on)
        printed, _ = process.communicate(timeout=60)
    assert counts == [CELLS - 1, 1]
    assert printed == f"[1, {CELLS - 1}]\n"
    assert result.reused == 1
    assert tables(result) == tables(alone)
    assert not list(results.rglob("*.lock"))


@pytest.mark.thorough  # as by workers that die, in test_engines.py
def test_the_cell_of_a_killed_run_is_run_by_another(tmp_path, demonstration, tables, alone):
    cell = sorted((alone.folder / "cells").glob("*.parquet"))[3]
    results = tmp_path / "results"
    held = results / "demo" / "cells" / cell.name
    held.parent.mkdir(parents=True)
    (results / ".privopt").write_bytes((alone.folder.parent / ".privopt").read_bytes())
    with other(HANGING, held) as process:
        result, counts = events_of(demonstration.experiment, results, process.kill)
    assert counts == [CELLS, 0]
    assert tables(result) == tables(alone)
    assert not list(results.rglob("*.lock"))


def test_one_worker_of_many_does_not_wait(tmp_path, demonstration, tables, alone):
    asked = {"profile": "quick", "seed": 0, "results": tmp_path / "results"}
    held = sorted((alone.folder / "cells").glob("*.parquet"))[3].name
    with lock(tmp_path / "results" / "demo" / "cells" / held):
        (tmp_path / "results" / ".privopt").write_bytes(b'{"format": 1}')
        assert lab.work(demonstration.experiment, **asked) == CELLS - 1
        assert lab.work(demonstration.experiment, **asked) == 0
    assert not (tmp_path / "results" / "demo" / "cells.parquet").exists()
    result, counts = events_of(demonstration.experiment, tmp_path / "results")
    assert counts == [1, 0]
    assert tables(result) == tables(alone)


def test_shares_in_separate_folders_are_merged_by_copying(tmp_path, demonstration, tables, alone):
    def work(number, share):
        asked = {"profile": "quick", "seed": 0, "results": tmp_path / str(number)}
        return lab.work(demonstration.experiment, share=share, **asked)

    assert [work(i, (i, 3)) for i in (1, 2, 3)] == [4, 3, 3]
    assert work(1, (1, 3)) == 0
    for number in (2, 3):
        shutil.copytree(tmp_path / str(number), tmp_path / "1", dirs_exist_ok=True)
    result, counts = events_of(demonstration.experiment, tmp_path / "1")
    assert counts == [0, 0]
    assert result.reused == CELLS
    assert tables(result) == tables(alone)
    with pytest.raises(ValueError, match="share must be I/K with 1 <= I <= K, got 4/3"):
        work(1, (4, 3))


def test_a_lock_ends_with_its_block(tmp_path):
    cell = tmp_path / "a.parquet"
    with lock(cell) as acquired, lock(cell) as second:
        assert (acquired, second) == (True, False)
    with pytest.raises(ZeroDivisionError), lock(cell):
        raise ZeroDivisionError
    with lock(cell) as acquired:
        assert acquired
        cell.write_bytes(b"finished")
    assert list(tmp_path.iterdir()) == [cell]


def test_a_stopped_process_keeps_its_lock_and_a_killed_one_loses_it(tmp_path):
    """A slow worker may not get the processor for minutes: its cell is not run twice."""
    cell = tmp_path / "a.parquet"
    with other(HANGING, cell) as process:
        process.send_signal(signal.SIGSTOP)
        with lock(cell) as acquired:
            assert not acquired
        process.kill()
        process.wait(timeout=60)
        with lock(cell) as acquired:
            assert acquired


def test_a_folder_that_cannot_be_locked_is_an_error_of_the_results(tmp_path):
    (tmp_path / "cells").write_text("a file")
    with (
        pytest.raises(lab.ResultsError, match=r"a\.lock cannot be written"),
        lock(tmp_path / "cells" / "a.parquet"),
    ):
        pass
