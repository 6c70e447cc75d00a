"""Sweeps by many workers: real processes, of which some die, are refused, or are not there."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from privopt.cli.commands import app
from privopt.cli.engines import Order

PARTS = 6
# One worker is killed in the middle of a part, the first that comes to it.
SQUARES = """
import os, pathlib, signal, time
from privopt.lab import Claim, Study

MARK = pathlib.Path(__file__).parent / "died"

def part(number):
    def rows(profile):
        if number == 2 and "A_WORKER_DIES" in os.environ and not MARK.exists():
            MARK.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)
        return [{"x": x, "square": x * x + number} for x in range(3)]
    return rows

squares = Study(
    name="squares",
    title="Squares",
    description="",
    parts={f"part_{number}": part(number) for number in range(6)},
    claims=(Claim("no smaller", "part_0", "x <= square"),),
)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "squares.py").write_text(SQUARES)
    return tmp_path


def run(*arguments):
    """A process of its own: engines keep threads, and pipes, for as long as one lives."""
    command = [sys.executable, "-c", "from privopt.cli import main; main()", "run", "squares"]
    return subprocess.run([*command, "--no-report", *arguments], capture_output=True, text=True)


def tables(folder):
    return [(folder / "squares" / f"{name}.parquet").read_bytes() for name in ("cells", "runs")]


@pytest.mark.parametrize("engine", ["dask", "submitit"])
def test_workers_of_which_one_dies_fill_the_folder(folder, monkeypatch, engine):
    assert run("--results", "alone").returncode == 0
    monkeypatch.setenv("A_WORKER_DIES", "1")
    told = run("--results", "shared", "--engine", engine, "--workers", "2")
    assert told.returncode == 0, told.stderr
    assert (folder / "experiments" / "died").exists()
    # Who asked makes the part itself, if the living worker had ended before the other one died.
    assert re.search(
        rf"{PARTS} cells, ({PARTS - 1}|{PARTS}) of them from earlier runs", told.stdout
    )
    assert tables(folder / "shared") == tables(folder / "alone")
    assert not list((folder / "shared").rglob("*.lease"))


def order(folder):
    options = {"profile": "quick", "seed": 0, "devices": None, "cache": False}
    return Order.of(["squares"], folder / "experiments", folder / "results", **options)


def test_a_worker_of_other_source_is_refused_by_name(folder):
    asked = order(folder)
    (folder / "experiments" / "squares.py").write_text(SQUARES.replace("x * x", "x ** 2"))
    assert "must have source " in asked()
    other = replace(order(folder), identity={**asked.identity, "jax": "0.0.1"})
    assert "must have jax 0.0.1, as who asks has, got " in other()
    assert not (folder / "results").exists()
    assert order(folder)() == PARTS
    told = CliRunner().invoke(app, ["work", "squares", "--results", str(folder / "results")])
    assert told.exit_code == 0
    assert "0 cells made here" in told.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workers", "2"), "engine must be given with workers, scheduler or option, got None"),
        (("--engine", "dask"), "workers must be given with dask where no scheduler is, got None"),
        (("--engine", "dask", "--workers", "1", "--option", "a=1"), "option must come with"),
        (("--engine", "submitit", "--option", "cpu"), "option must be NAME=VALUE, got 'cpu'"),
        (("--engine", "submitit", "--scheduler", "tcp://a"), "scheduler must come with the engine"),
        (("--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"), "tcp://127.0.0.1:9 after"),
    ],
)
def test_what_no_engine_can_do_is_refused(folder, monkeypatch, arguments, said):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    told = CliRunner().invoke(app, ["run", "squares", *arguments])
    assert told.exit_code == 2
    assert said in told.output
