"""Two runs in one folder make every cell once; one that dies leaves its cell to the rest."""

import errno
import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager

from privopt import lab
from privopt.lab.make.folder import claimed
from privopt.lab.make.resume import Finished, Note, Shared

CELLS = 2 * 5

# Another run, which holds its first cell until it is told to go on.
OTHER = """
import sys
from privopt import lab
from privopt.lab.make.resume import Finished, Shared
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

# What is left of a run that hangs in a cell: the lock that it holds.
HANGING = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(file, fcntl.LOCK_EX)
print("holding", flush=True)
sys.stdin.read()
"""


@contextmanager
def other(code, argument):
    """Another process, which holds a cell by now."""
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


def test_two_runs_in_one_folder_make_every_cell_once(tmp_path, demonstration, tables):
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
    alone, _ = events_of(demonstration.experiment, tmp_path / "alone")
    assert tables(result) == tables(alone)
    assert not list(results.rglob("*.lock"))


def test_a_killed_run_leaves_its_cell_to_the_others(tmp_path, demonstration, tables):
    whole, _ = events_of(demonstration.experiment, tmp_path / "alone")
    cell = sorted((tmp_path / "alone" / "demo" / "cells").glob("*.parquet"))[3]
    results = tmp_path / "results"
    lock = results / "demo" / "cells" / f"{cell.stem}.lock"
    lock.parent.mkdir(parents=True)
    (results / ".privopt").write_bytes((tmp_path / "alone" / ".privopt").read_bytes())
    with other(HANGING, lock) as process:
        result, counts = events_of(demonstration.experiment, results, process.kill)
    assert counts == [CELLS, 0]
    assert tables(result) == tables(whole)
    assert not lock.exists()


def test_a_lock_that_was_left_behind_is_free(tmp_path):
    with claimed(tmp_path / "a.parquet") as ours:
        assert ours
        with claimed(tmp_path / "a.parquet") as second:
            assert not second
    assert (tmp_path / "a.lock").exists()  # nothing was made
    with claimed(tmp_path / "a.parquet") as ours:
        assert ours
        (tmp_path / "a.parquet").write_bytes(b"")
    assert not (tmp_path / "a.lock").exists()


def test_without_locks_every_run_makes_every_cell(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with claimed(tmp_path / "a.parquet") as ours, claimed(tmp_path / "a.parquet") as second:
        assert ours
        assert second
