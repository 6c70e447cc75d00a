"""Commands of an installed wheel, in an empty folder."""

import importlib.util
import json
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
# One process for many commands, most of whose time is that of importing JAX.
TELL = """
import json, sys
import privopt
from privopt.cli.commands import app
from typer.testing import CliRunner

results = [CliRunner().invoke(app, line.split()) for line in sys.argv[1:]]
print(json.dumps([privopt.__file__, *((each.exit_code, each.output) for each in results)]))
"""

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
def commands(wheel, tmp_path_factory):
    """Return ``commands(*lines) -> outputs``, for a folder that is empty at first.

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

    def commands(*lines):
        printed = done([python, "-c", TELL, *lines], cwd=folder, env=ours)
        package, *results = json.loads(printed)
        assert package.startswith(str(packages))
        assert [code for code, _ in results] == [0] * len(lines), results
        return [output for _, output in results]

    told = done([environment / "bin" / "privopt", "--version"], cwd=folder, env=ours)
    assert told == f"privopt {version('privopt')}\n"
    return commands


def test_it_carries_experiments_and_one_small_table(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    experiments = {str(p.relative_to(ROOT)) for p in (ROOT / "experiments").rglob("*.py")}
    assert {f"privopt/{name}" for name in experiments} <= set(names)
    assert "privopt/SKILL.md" in names
    assert [name for name in names if "/results/" in name] == ["privopt/results/measured.parquet"]
    assert wheel.stat().st_size < MOST_BYTES


@pytest.mark.thorough  # installs the wheel; those of the checkout are in test_cli.py
def test_commands_work(commands, monkeypatch):
    monkeypatch.chdir(ROOT)
    shipped, run, report, measured, epsilon, noise, new, own = commands(
        "list",
        "run hub_sensitivity",
        "report --results build/results",
        RECOMMEND,
        "epsilon --noise 2 --delta 1e-6 --relation zero_out",
        "noise --epsilon 1 --delta 1e-6 --relation zero_out",
        "new mine",  # from here on ./experiments counts
        "list",
    )
    assert "│ dp_gd " in shipped
    assert "claims hold." in run
    for each in (run, report):
        assert each.splitlines()[-1] == "Report: build/results/index.html"
    assert "[1]" in measured
    assert measured == CliRunner().invoke(app, RECOMMEND.split()).output
    assert "Certified at delta" in epsilon
    assert "noise" in noise
    assert "privopt run mine" in new
    assert "│ mine " in own


@pytest.mark.thorough  # in the wheel as in the checkout, where other tests compare and audit
def test_commands_that_measure_work(commands):
    few = "--n 200 --dim 4 --replicates 4 --data-sets 2"
    compared, audited = commands(
        f"compare logistic output_perturbation {few}", "audit output_perturbation --runs 1e4"
    )
    assert "Figure: comparisons/" in compared
    assert "Figure and numbers: audits/" in audited
