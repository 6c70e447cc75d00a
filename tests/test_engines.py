"""Sweeps by many workers: real processes, some of which end, fail or are missing."""

import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from selection import few
from typer.testing import CliRunner

from privopt.cli.commands import app
from privopt.cli.engines import Order

PARTS = 6
# What befalls the first worker that comes to a part of these numbers, if it may.
SQUARES = """
import os, pathlib, resource, signal, time
from privopt.lab import Analysis, Claim, at_most

FILES = resource.RLIMIT_FSIZE
EVENTS = {
    1: ("disk is full", lambda: resource.setrlimit(FILES, (10, resource.getrlimit(FILES)[1]))),
    2: ("died", lambda: os.kill(os.getpid(), signal.SIGKILL)),
    4: ("stopped", lambda: os.kill(os.getpid(), signal.SIGSTOP)),
}

def befall(number):
    name, act = EVENTS.get(number, ("", None))
    mark = pathlib.Path(__file__).parent / name
    if name in os.environ.get("EVENTS", "").split(",") and not mark.exists():
        mark.write_text(str(os.getpid()))
        act()

def part(number):
    def rows(profile):
        befall(number)
        time.sleep(0.2)
        return [{"x": x, "square": x * x + number} for x in range(3)]
    return rows

squares = Analysis(
    name="squares",
    title="Squares",
    description="",
    parts={f"part_{number}": part(number) for number in range(6)},
    claims=(Claim("no smaller", "part_0", at_most("x", "square")),),
)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "squares.py").write_text(SQUARES)
    return tmp_path


MAIN = "from privopt.cli import main; main()"


def run(*arguments):
    """Run a separate process, because engines keep threads and pipes."""
    command = [sys.executable, "-c", MAIN, "run", "squares", "--no-report", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def tables(folder):
    return [(folder / "squares" / f"{name}.parquet").read_bytes() for name in ("cells", "runs")]


@pytest.fixture
def alone(folder):
    """Return the tables of a run without workers."""
    asked = ["run", "squares", "--no-report", "--results", "alone"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    return tables(folder / "alone")


@pytest.mark.thorough  # as two processes in lab/test_sharing.py
@pytest.mark.parametrize("engine", few(["dask", "submitit"], ["dask"]))
def test_workers_of_which_one_dies_fill_the_folder(folder, alone, monkeypatch, engine):
    monkeypatch.setenv("EVENTS", "died")
    process = run("--results", "shared", "--engine", engine, "--workers", "2")
    assert process.returncode == 0, process.stderr
    assert (folder / "experiments" / "died").exists()
    # Who asked makes the part itself, if the living worker had ended before the other one died.
    assert re.search(
        rf"{PARTS} cells, ({PARTS - 1}|{PARTS}) of them from other runs", process.stdout
    )
    assert tables(folder / "shared") == alone
    assert not list((folder / "shared").rglob("*.lock"))


@pytest.mark.thorough  # as two processes in lab/test_sharing.py
def test_workers_that_die_stop_or_lack_space_lose_nothing(folder, alone, monkeypatch):
    """Stop a worker: it keeps the lock of its part, and finishes the part when it continues."""
    monkeypatch.setenv("EVENTS", "died,stopped,disk is full")
    command = [sys.executable, "-c", MAIN, "work", "squares", "--results", "shared"]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    marks = {name: folder / "experiments" / name for name in ("died", "stopped", "disk is full")}
    wait_for(lambda: all(mark.exists() and mark.read_text() for mark in marks.values()))
    stopped = next(each for each in workers if each.pid == int(marks["stopped"].read_text()))
    try:
        errors = {
            worker.pid: worker.communicate(timeout=60)[1]
            for worker in workers
            if worker is not stopped
        }
        assert len(list((folder / "shared" / "squares" / "cells").glob("*.parquet"))) < PARTS
    finally:
        stopped.send_signal(signal.SIGCONT)
    stopped.communicate(timeout=60)
    process = run("--results", "shared")
    assert process.returncode == 0, process.stderr
    dead, full = (int(marks[name].read_text()) for name in ("died", "disk is full"))
    assert "Every finished cell is safe" in errors[full]
    ends = {dead: -signal.SIGKILL, full: 2}
    assert [each.returncode for each in workers] == [ends.get(each.pid, 0) for each in workers]
    assert tables(folder / "shared") == alone
    assert not list((folder / "shared").rglob("*.lock"))


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.thorough  # five processes; the worker that finishes a lost part is tested above
def test_where_a_scheduler_ends_who_asked_goes_on(folder, alone, free_port):
    address, quiet = f"tcp://127.0.0.1:{free_port}", {"stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    scheduler = [*dask, "scheduler", "--port", str(free_port), "--no-dashboard"]
    worker = [*dask, "worker", address, "--nthreads", "1", "--no-dashboard"]
    arguments = ["--no-report", "--results", "shared", "--engine", "dask", "--scheduler", address]
    with (
        subprocess.Popen(scheduler, **quiet) as of_all,
        subprocess.Popen(worker, **quiet) as one,
        subprocess.Popen(
            [sys.executable, "-c", MAIN, "run", "squares", *arguments], **quiet
        ) as ours,
    ):
        wait_for(lambda: list((folder / "shared").glob("squares/cells/*.parquet")))
        of_all.kill()
        one.kill()
        assert ours.wait(timeout=120) == 0
    assert tables(folder / "shared") == alone


def order(folder):
    options = {"profile": "quick", "seed": 0, "devices": None, "cache": False}
    return Order.of(["squares"], folder / "experiments", folder / "results", **options)


def test_a_worker_of_other_source_is_refused_by_name(folder):
    work = order(folder)
    (folder / "experiments" / "squares.py").write_text(SQUARES.replace("x * x", "x ** 2"))
    assert "must have source " in work()
    other = replace(order(folder), identity={**work.identity, "jax": "0.0.1"})
    assert "must have jax 0.0.1, as the calling process, got " in other()
    assert not (folder / "results").exists()
    assert order(folder)() == PARTS
    process = CliRunner().invoke(app, ["work", "squares", "--results", str(folder / "results")])
    assert process.exit_code == 0
    assert "0 cells made here" in process.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workers", "2"), "engine must be given with workers, scheduler or option, got None"),
        (("--engine", "dask"), "workers must be given with dask without a scheduler, got None"),
        (("--engine", "dask", "--workers", "1", "--option", "a=1"), "option must come with"),
        (("--engine", "submitit", "--option", "cpu"), "option must be NAME=VALUE, got 'cpu'"),
        (("--engine", "submitit", "--scheduler", "tcp://a"), "scheduler must come with the engine"),
        (("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"), "tcp://127.0.0.1:9 after"),
    ],
)
def test_what_no_engine_can_do_is_refused(folder, monkeypatch, arguments, said):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    process = CliRunner().invoke(app, ["run", "squares", *arguments])
    assert process.exit_code == 2
    assert said in process.output
