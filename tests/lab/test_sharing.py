"""Two runs in one folder make every cell once; one that dies leaves its cell to the rest."""

import errno
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from privopt import lab
from privopt.lab.make import lease
from privopt.lab.make.work import Finished, Note, Shared, leased

CELLS = 2 * 5

# Another run, which holds its first cell until it is told to go on.
OTHER = """
import sys
from privopt import lab
from privopt.lab.make.work import Finished, Shared
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
from privopt.lab.make.work import leased
with leased(Path(sys.argv[1])):
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
    assert not list(results.rglob("*.lease"))


def test_a_killed_run_leaves_its_cell_to_the_others(tmp_path, demonstration, tables):
    whole, _ = events_of(demonstration.experiment, tmp_path / "alone")
    cell = sorted((tmp_path / "alone" / "demo" / "cells").glob("*.parquet"))[3]
    results = tmp_path / "results"
    held = results / "demo" / "cells" / cell.name
    held.parent.mkdir(parents=True)
    (results / ".privopt").write_bytes((tmp_path / "alone" / ".privopt").read_bytes())
    with other(HANGING, held) as process:
        result, counts = events_of(demonstration.experiment, results, process.kill)
    assert counts == [CELLS, 0]
    assert tables(result) == tables(whole)
    assert not list(results.rglob("*.lease"))


def test_one_worker_of_many_does_not_wait(tmp_path, demonstration, tables):
    asked = {"profile": "quick", "seed": 0, "results": tmp_path / "results"}
    whole, _ = events_of(demonstration.experiment, tmp_path / "alone")
    held = sorted((tmp_path / "alone" / "demo" / "cells").glob("*.parquet"))[3].name
    with leased(tmp_path / "results" / "demo" / "cells" / held):
        (tmp_path / "results" / ".privopt").write_bytes(b'{"format": 1}')
        assert lab.work(demonstration.experiment, **asked) == CELLS - 1
        assert lab.work(demonstration.experiment, **asked) == 0
    assert not (tmp_path / "results" / "demo" / "cells.parquet").exists()
    result, counts = events_of(demonstration.experiment, tmp_path / "results")
    assert counts == [1, 0]
    assert tables(result) == tables(whole)


def test_shares_of_machines_that_share_no_folder_are_merged_by_copying(
    tmp_path, demonstration, tables
):
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
    alone, _ = events_of(demonstration.experiment, tmp_path / "alone")
    assert tables(result) == tables(alone)
    with pytest.raises(ValueError, match="share must be I/K with 1 <= I <= K, got 4/3"):
        work(1, (4, 3))


def test_a_lease_ends_with_its_block(tmp_path):
    piece = tmp_path / "a.parquet"
    with leased(piece) as ours, leased(piece) as second:
        assert (ours, second) == (True, False)
    with pytest.raises(ZeroDivisionError), leased(piece):
        raise ZeroDivisionError
    with leased(piece) as ours:
        assert ours
    assert not list(tmp_path.iterdir())


def test_a_lease_of_another_machine_lapses_when_it_shows_no_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "LAPSE", 0.4)
    piece, path = tmp_path / "a.parquet", tmp_path / "a.lease"
    path.write_text("another machine")

    def free():
        with leased(piece) as ours:
            return ours

    for sign in range(4):  # each is a sign of life, whatever that machine's clock says
        os.utime(path, ns=(0, sign))
        assert not free()
        time.sleep(0.2)
    assert not free()
    time.sleep(0.5)
    assert free()


def test_who_holds_a_lease_shows_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "BEAT", 0.01)
    with leased(tmp_path / "a.parquet"):
        os.utime(tmp_path / "a.lease", (0, 0))
        time.sleep(0.2)
        assert (tmp_path / "a.lease").stat().st_mtime > 0


def test_a_holder_that_was_thought_dead_leaves_the_next_one_alone(tmp_path):
    piece, path = tmp_path / "a.parquet", tmp_path / "a.lease"
    with leased(piece):
        path.unlink()  # by another, for whom the lease had lapsed
        path.write_text("another machine")
    assert path.read_text() == "another machine"


@pytest.mark.parametrize("locks", [None, OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))])
def test_without_locks_one_process_holds_a_piece(tmp_path, monkeypatch, locks):
    if locks is None:
        monkeypatch.setattr(lease, "fcntl", None)
    else:
        monkeypatch.setattr(lease.fcntl, "flock", Mock(side_effect=locks))
    with leased(tmp_path / "a.parquet") as ours, leased(tmp_path / "a.parquet") as second:
        assert (ours, second) == (True, False)
