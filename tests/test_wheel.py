"""Commands of an installed wheel, in an empty folder."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privopt.cli.commands import app

ROOT = Path(__file__).parents[1]
RECOMMEND = "recommend --n 1e5 --dim 100 --epsilon 1 --loss logistic"
MOST_BYTES = 2_000_000

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="no hatchling, which builds the wheel"
)


def done(command, **options):
    """Return the output of a command that must succeed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the wheel built from a source distribution, as in an index."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t"]
    done([*build, "sdist"], cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    done(["tar", "-xzf", archive, "-C", folder])
    done([*build, "wheel"], cwd=folder / archive.name.removesuffix(".tar.gz"))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel, tmp_path_factory):
    """Return ``command(arguments) -> output``, for a folder that is empty at first.

    The wheel is installed in a separate environment that uses the installed dependencies.
    """
    folder, environment = tmp_path_factory.mktemp("empty"), tmp_path_factory.mktemp("environment")
    done([sys.executable, "-m", "venv", "--without-pip", environment])
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    done([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel])
    ours = {name: x for name, x in os.environ.items() if name not in ("PYTHONPATH", "PRIVOPT_DATA")}

    def command(arguments):
        return done([environment / "bin" / "privopt", *arguments.split()], cwd=folder, env=ours)

    where = "import privopt; print(privopt.__file__)"
    found = done([python, "-c", where], cwd=folder, env=ours)
    assert found.startswith(str(packages))
    return command


def test_it_carries_experiments_and_one_small_table(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    experiments = {str(p.relative_to(ROOT)) for p in (ROOT / "experiments").rglob("*.py")}
    assert {f"privopt/{name}" for name in experiments} <= set(names)
    assert "privopt/SKILL.md" in names
    assert [name for name in names if "/results/" in name] == ["privopt/results/measured.parquet"]
    assert wheel.stat().st_size < MOST_BYTES


def test_the_version_is_told(command):
    assert command("--version") == f"privopt {version('privopt')}\n"


def test_experiments_are_listed_and_run(command):
    assert "│ dp_gd " in command("list")
    printed = command("run hub_sensitivity")
    assert "claims hold." in printed
    assert printed.splitlines()[-1] == "Report: build/results/index.html"
    report = command("report --results build/results")
    assert report.splitlines()[-1] == "Report: build/results/index.html"


def test_what_was_measured_is_told(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    told = command(RECOMMEND)
    assert "[1]" in told
    assert told == CliRunner().invoke(app, RECOMMEND.split()).output


def test_the_other_commands_work(command):
    assert "Certified at delta" in command("epsilon --noise 2 --delta 1e-6 --relation zero_out")
    assert "noise" in command("noise --epsilon 1 --delta 1e-6 --relation zero_out")
    few = "--n 200 --dim 4 --replicates 4 --data-sets 2"
    compared = command(f"compare logistic output_perturbation {few}")
    assert "Figure: comparisons/" in compared
    assert "Figure and numbers: audits/" in command("audit output_perturbation --runs 1e4")
    assert "privopt run mine" in command("new mine")  # from here on ./experiments counts
    assert "│ mine " in command("list")
