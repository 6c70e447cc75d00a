"""Signals to a real process: it ends cleanly at any moment, without loss of results."""

import os
import signal
import subprocess
import sys

from selection import few

from privopt.lab import load, read, run

# The command, telling which modules it begins to import; jobs in the background ignore SIGINT.
PRIVOPT = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Tell:
    def find_spec(self, name, path=None, target=None):
        if name in ("typer", "jax", "matplotlib.backends.backend_agg"):
            print("importing", name, flush=True)

sys.meta_path.insert(0, Tell())
from privopt.cli import main
main()
"""

MOMENTS = {
    "importing typer": signal.SIGINT,
    "importing jax": signal.SIGINT,
    "demo: ": signal.SIGTERM,
    "importing matplotlib.backends": signal.SIGINT,
}


def interrupted(folder, moment, number):
    """Return exit status and last output of a run that receives a signal at that moment."""
    command = [sys.executable, "-c", PRIVOPT, "run", "--results", "results"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, **pipes) as process:
        for line in process.stdout:
            if line.startswith(moment):
                break
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_at_any_moment_it_ends_cleanly_and_the_next_run_continues(tmp_path, demonstration):
    (tmp_path / "experiments").mkdir()
    path = tmp_path / "experiments" / "demo.py"
    path.write_text(demonstration.source)
    words = "Interrupted. Every finished cell is safe: repeat the same command to continue."
    for moment, number in few(MOMENTS.items(), [*MOMENTS.items()][2:]):
        assert interrupted(tmp_path, moment, number) == (128 + number, f"\n{words}\n"), moment
    (found,) = load(path)
    whole = run(found, profile="quick", seed=0, results=tmp_path / "alone")
    again = run(found, profile="quick", seed=0, results=tmp_path / "results")
    assert again.reused == 10  # the last of the runs was interrupted in its figures
    for name in ("cells.parquet", "runs.parquet"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert read(again.folder).runs.num_rows == 30
