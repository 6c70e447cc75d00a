"""Throughput of several workers on one results folder, and overhead of a cell.

    python benchmarks/workers.py [--workers 1 2 4] [--cells 96]

Cells use a fixed processor time each, in processes of ``privopt work``. A rate counts the cells
between the first and the last one, so it excludes the start of Python and JAX. The overhead of a
cell is measured in a sweep of very small runs that share one program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

CELL_SECONDS = 0.25
WORK = "from privopt.cli import main; main()"
PARTS = f"""
import time
from privopt.lab import Analysis, Claim, at_most

def part(profile):
    until = time.process_time() + {CELL_SECONDS}
    while time.process_time() < until:
        pass
    return [{{"x": 1.0}}]

parts = Analysis(name="parts", title="Parts", description="",
    parts={{f"part_{{i}}": part for i in range(COUNT)}},
    claims=(Claim("one", "part_0", at_most("x", "x")),))
"""
TINY = """
from privopt.lab import Axis, Experiment, Method, Setting

tiny = Experiment(name="tiny", title="Tiny", description="",
    algorithms=(Method("dp_gd", "dp_gd", {"steps": 8}),), families=("linear",),
    base=Setting(n=100, dim=2, epsilon=1.0),
    axes=(Axis("epsilon", tuple(0.2 + 0.01 * i for i in range(COUNT))),),
    relation="replace_one", delta=1e-5, replicates={"quick": 8, "full": 8})
"""


def rate(workers: int, count: int) -> float:
    """Return the cells per second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = filled(folder, PARTS.replace("COUNT", str(count)), workers)
    # The middle half of the cells, when all workers are running.
    quarter = count // 4
    return (count - 2 * quarter) / (written[-quarter - 1] - written[quarter - 1])


def overhead(count: int) -> float:
    """Return the median seconds between two very small cells."""
    with tempfile.TemporaryDirectory() as name:
        written = filled(Path(name), TINY.replace("COUNT", str(count)), 1)
    return median(after - before for before, after in pairwise(written))


def filled(folder: Path, experiment: str, workers: int) -> list[float]:
    """Return the time at which each cell was written by the workers."""
    (folder / "cells.py").write_text(experiment)
    command = [sys.executable, "-c", WORK, "work", "cells.py", "--results", "results"]
    quiet = {"stdout": subprocess.DEVNULL, "cwd": folder}
    started = [subprocess.Popen(command, **quiet) for _ in range(workers)]
    if sum(process.wait() for process in started):
        raise SystemExit("a worker failed, see above")
    return sorted(each.stat().st_mtime for each in folder.rglob("cells/*.parquet"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=96)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    rates = {str(workers): rate(workers, arguments.cells) for workers in arguments.workers}
    print(json.dumps({"rates": rates, "overhead": overhead(arguments.cells), "cell": CELL_SECONDS}))
