"""The command line: helpful, exact, and honest in its exit status."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from privopt import cli, lab
from privopt.problems.datasets import VARIABLE

EXPERIMENT = """
from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="{name}",
    title="A [small] demonstration",
    description="Nothing in particular.",
    algorithms={{"dp_gd": {{"steps": 5}}}},
    families=("linear",),
    base=Setting(n=1000, dim=4, epsilon=1.0),
    axes=(Axis("n", (500, 1000)),),
    replicates={{"quick": 3, "full": 5}},
    delta={delta},
)
"""
CELLS = 2 * 5


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with one experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "demo.py").write_text(EXPERIMENT.format(name="demo", delta=1e-6))
    return tmp_path


@pytest.fixture
def judged(monkeypatch):
    """What the verdicts will say, and where the report would go."""
    outcomes = ["holds", "holds"]

    def verdicts(table):
        facts = {"experiment": "demo", "algorithm": "dp_gd", "family": "linear", "check": "slope"}
        facts |= {"axis": "n", "estimate": -1.01, "lower": -1.1, "upper": -0.9, "target": -1.0}
        return [SimpleNamespace(outcome=each, detail="[why]", **facts) for each in outcomes]

    monkeypatch.setattr(lab, "verdicts", verdicts, raising=False)
    monkeypatch.setattr(lab, "write_report", lambda path: path / "index.html", raising=False)
    return outcomes


def privopt(*arguments, code=0):
    """The output of ``privopt <arguments>``, which must end with that exit status."""
    result = CliRunner().invoke(cli.app, [str(each) for each in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), "Example: privopt run --profile quick"),
        (("list",), "Example: privopt list"),
        (("run",), "Exit status: 0 if every verdict holds"),
        (("report",), "Example: privopt report --results results"),
        (("epsilon",), "Example: privopt epsilon --noise 2"),
    ],
)
def test_help_helps(command, words):
    assert words in re.sub(r"\s+", " ", privopt(*command, "--help"))


# --- epsilon --------------------------------------------------------------------------------------


def delta_of(mu, epsilon):
    """Of a ``mu``-GDP release, as Balle and Wang (2018, Theorem 8) write it."""
    tail = np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2.0))
    return norm.cdf(mu / 2.0 - epsilon / mu) - tail


@pytest.mark.parametrize(("relation", "moves"), [("zero_out", 1), ("replace_one", 2)])
def test_epsilon_is_the_accountants_rounded_outwards(relation, moves):
    arguments = ("--noise", 2, "--steps", 16, "--delta", 1e-6, "--relation", relation)
    (row,) = (line for line in privopt("epsilon", *arguments).splitlines() if "Gaussian DP" in line)
    lower, upper = (float(cell) for cell in row.split("│")[3:5])
    mu = moves * 4.0 / 2.0
    assert delta_of(mu, lower) > 1e-6 > delta_of(mu, upper)
    assert upper - lower < 1e-6
    assert "epsilon at delta = 1e-06" in row
    assert "yes" in row


def test_delta_may_be_asked_as_well():
    arguments = ("--noise", 2, "--delta", 1e-6, "--epsilon", 1, "--relation", "zero_out")
    printed = privopt("epsilon", *arguments)
    assert "epsilon at delta = 1e-06" in printed
    assert "delta at epsilon = 1" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--noise 2 --delta 1e-6", "--relation"),
        ("--relation zero_out --delta 1e-6", "--noise"),
        ("--noise 2 --relation swap --delta 1e-6", "'swap'"),
        (
            "--noise 2 --relation zero_out",
            "one of --delta and --epsilon must be given, got neither",
        ),
        ("--noise 0 --relation zero_out --delta 0.1", "noise must be positive and finite, got 0.0"),
        (
            "--noise nan --relation zero_out --delta 0.1",
            "noise must be positive and finite, got nan",
        ),
        ("--noise 1 --relation zero_out --delta 1", "delta must lie in [0, 1), got 1.0"),
        ("--noise 1 --relation zero_out --epsilon -1", "epsilon must be non-negative and finite"),
        ("--noise 1 --relation zero_out --delta 0.1 --steps 0", "--steps"),
    ],
)
def test_a_bad_question_is_refused(arguments, words):
    printed = privopt("epsilon", *arguments.split(), code=2)
    assert words in re.sub(r"[\s│]+", " ", printed)
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [
        (1 / 3, "0.333333333", "0.333333334"),
        (1e-20 / 7, "1.42857142e-21", "1.42857143e-21"),
        (2.0, "2", "2"),
        (float("inf"), "inf", "inf"),
    ],
)
def test_digits_round_outwards(value, lower, upper):
    assert cli._digits(value, cli.ROUND_FLOOR) == lower
    assert cli._digits(value, cli.ROUND_CEILING) == upper


def test_epsilon_needs_no_jax():
    code = """
import sys
from privopt.cli import app
arguments = "epsilon --noise 2 --delta 1e-6 --relation zero_out".split()
app(arguments, standalone_mode=False)
print({"jax", "matplotlib", "pyarrow"} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


# --- list -----------------------------------------------------------------------------------------


def test_list_shows_what_there_is_and_what_is_missing(folder, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (folder / "experiments" / "broken.py").write_text("x = ")
    printed = re.sub(r"\s+", " ", privopt("list"))
    for words in ("dp_gd", "linear", "A [small] demonstration", "broken.py, line 1: SyntaxError"):
        assert words in printed
    assert f"a9a needs the environment variable {VARIABLE}" in printed


def test_list_without_experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "No experiments in ./experiments" in privopt("list")


# --- run and report -------------------------------------------------------------------------------


def test_run_ends_with_verdicts_report_and_status(folder, judged):
    printed = privopt("run")
    assert f"demo: {CELLS}/{CELLS} cells" in printed
    assert f"{CELLS} cells, 0 of them from earlier runs" in printed
    assert "slope in n" in printed
    assert "-1.1 to -0.9" in printed
    assert "[why]" in printed
    assert printed.rstrip().endswith("Report: results/index.html")
    assert (folder / "results" / "demo" / "table.parquet").exists()
    judged[0] = "refuted"
    again = privopt("run", folder / "experiments" / "demo.py", "--no-report", code=1)
    assert f"{CELLS} cells, {CELLS} of them from earlier runs" in again
    assert "Report" not in again
    judged[0] = "undecided"
    privopt("run", "demo", code=1)


def test_profile_seed_and_results_are_used(folder, judged):
    privopt("run", "--profile", "full", "--seed", 5, "--results", "elsewhere")
    table = lab.read_table(folder / "elsewhere" / "demo" / "table.parquet")
    assert table.num_rows == CELLS * 5
    assert set(table["root_seed"].to_pylist()) == {5}
    assert not (folder / "results").exists()


def test_interrupted_run_says_how_to_continue(folder, judged, monkeypatch):
    real = os.replace

    def interrupt(source, target):
        real(source, target)
        if len(list((folder / "results").rglob("cells/*.parquet"))) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        printed = privopt("run", code=130)
    assert "Every finished cell is safe: repeat the same command to continue" in printed
    assert "3 of them there already" in privopt("run")


def foreign(folder):
    (folder / "results").mkdir()
    (folder / "results" / "thesis.tex").write_text("")


def taken(folder):
    (folder / "results").write_text("")


def refused(folder):
    (folder / "experiments" / "demo.py").write_text(EXPERIMENT.format(name="demo", delta=0.0))


def misnamed(folder):
    (folder / "experiments" / "demo.py").write_text(EXPERIMENT.format(name="other", delta=1e-6))


def empty(folder):
    (folder / "experiments" / "demo.py").unlink()


def twice(folder):
    (folder / "demo.py").write_text(EXPERIMENT.format(name="demo", delta=1e-6))


@pytest.mark.parametrize(
    ("spoil", "arguments", "words"),
    [
        (foreign, (), "holds other files and no .privopt. Nothing was touched"),
        (taken, (), "results must be a folder, got the file results"),
        (refused, (), "delta must be positive for the Gaussian noise of dp_gd, got 0.0"),
        (misnamed, (), "name must be the file's, 'demo', got 'other'"),
        (empty, (), "no experiments in experiments/: name a file, or change folder"),
        (None, ("dmeo",), "no experiment experiments/dmeo.py; in experiments/ there are: demo"),
        (None, ("x.py",), "no experiment x.py"),
        (twice, ("demo", "demo.py"), "experiments must have distinct names, got demo, demo"),
        (None, ("--profile", "slow"), "'slow'"),
        (None, ("--devices", "0"), "--devices"),
        (None, ("--seed", 2**63), "seed must be an integer of 64 bits"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_status_two(folder, judged, spoil, arguments, words):
    if spoil is not None:
        spoil(folder)
    printed = privopt("run", *arguments, code=2)
    assert words in re.sub(r"[\s│]+", " ", printed)
    assert "Traceback" not in printed


def test_traceback_on_demand(folder, judged):
    foreign(folder)
    result = CliRunner().invoke(cli.app, ["--traceback", "run"])
    assert isinstance(result.exception, lab.ResultsError)


def test_report_needs_results(folder, judged):
    assert "is no results folder of privopt" in privopt("report", code=2)
    privopt("run")
    assert privopt("report") == "Report: results/index.html\n"


# --- devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "devices", "expected"),
    [
        (None, None, "--xla_force_host_platform_device_count=3"),
        ("--other", None, "--other --xla_force_host_platform_device_count=3"),
        ("--xla_force_host_platform_device_count=7", None, None),
        (
            "--xla_force_host_platform_device_count=7 --other",
            2,
            "--other --xla_force_host_platform_device_count=2",
        ),
    ],
)
def test_host_devices_are_the_cores_unless_the_user_says(monkeypatch, flags, devices, expected):
    monkeypatch.setattr(cli, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(cli, "_cores", lambda: 3)
    if flags is None:
        monkeypatch.delenv("XLA_FLAGS")
    else:
        monkeypatch.setenv("XLA_FLAGS", flags)
    cli._set_host_devices(devices)
    assert os.environ["XLA_FLAGS"].split() == (expected or flags).split()


def test_cores_are_counted():
    assert 1 <= cli._cores() <= os.cpu_count()
