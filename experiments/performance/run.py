"""Speed and memory of privopt against their targets, beside jax-privacy on the same machine.

    .venv/bin/python experiments/performance/run.py [--repeats 5] [--results results/performance]

Every benchmark runs in a fresh process, one thread a device, pinned to its cores. Times are warm
and taken in rounds (ours, theirs, ours, theirs, ...); a ratio is the median over rounds. Writes
``dp_gd.json`` and ``README.md``. Exit status 1: a target was missed; 2: the peer is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import process
from rich.console import Console
from rich.table import Table

PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "optax", "numpy")
ROOT = Path(__file__).parents[2]


class Line(NamedTuple):
    """One line of the table."""

    question: str
    detail: str
    measured: str
    target: str
    met: bool


def dp_gd(repeats: int) -> tuple[dict, list[Line]]:
    found = process.measured("dp_gd.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    seconds, noise = found["seconds"], found["noise_scale"]
    distance = found["distance_without_noise"]
    scales = found["noise_scale_privopt"], found["noise_scale_jax_privacy"]

    def line(question: str, seeds: str, ratio: float, target: float) -> Line:
        ours, theirs = (seconds[f"{side}, {seeds}"] for side in ("privopt", "jax-privacy"))
        detail = f"{1e3 * ours:,.0f} ms beside {1e3 * theirs:,.0f} ms"
        return Line(question, detail, f"{ratio:.2f}x", f">= {target}x", ratio >= target)

    return found, [
        line("100 seeds in one call, against a loop", "all seeds", found["ratio_all_seeds"], 6.0),
        line("one seed", "one seed", found["ratio_one_seed"], 2.5),
        Line(
            "same point with the noise off",
            "distance of the two releases",
            f"{distance:.1e}",
            "<= 1e-4",
            distance <= 1e-4,
        ),
        Line(
            "same noise",
            f"{scales[0]:.5f} and {scales[1]:.5f}, planned {noise:.5f}",
            f"{max(abs(scale / noise - 1.0) for scale in scales):.2%} off",
            "<= 1%",
            all(abs(scale / noise - 1.0) <= 0.01 for scale in scales),
        ),
    ]


def cores(repeats: int) -> tuple[dict, list[Line]]:
    both = process.cores()[:2]
    if len(both) < 2:
        skipped = Line("two cores against one", "only one core here", "-", ">= 1.7x", False)
        return {"rounds": []}, [skipped]
    one = process.start("cores.py", cores=both[-1:])
    two = process.start("cores.py", cores=both, devices=2)
    with one, two:
        process.asked(one), process.asked(two)
        rounds = [(*process.asked(one), *process.asked(two)) for _ in range(2 * repeats)]
    ratio = median(slow / fast for slow, _, fast, _ in rounds)
    slow, _, fast, had = (median(column) for column in zip(*rounds, strict=True))
    detail = f"{1e3 * fast:,.0f} ms, having {had:.2f} cores, beside {1e3 * slow:,.0f} ms"
    columns = ("one_seconds", "one_cores_had", "two_seconds", "two_cores_had")
    found = {"rounds": [dict(zip(columns, each, strict=True)) for each in rounds], "ratio": ratio}
    return found, [Line("two cores against one", detail, f"{ratio:.2f}x", ">= 1.7x", ratio >= 1.7)]


def compilations() -> tuple[dict, list[Line]]:
    both = process.cores()[:2]
    found = [
        process.measured("compilations.py", cores=both[:count], devices=count)
        for count in range(1, len(both) + 1)
    ]
    compiled = max(len(each["programs"]) for each in found)
    return {"runs": found}, [
        Line(
            "compilations, 3 budgets x 32 seeds x 2 data sets",
            "the most with one device and with one for each core",
            str(compiled),
            "1",
            all(len(each["programs"]) == 1 for each in found),
        )
    ]


def memory() -> tuple[dict, list[Line]]:
    found = process.measured("memory.py", cores=process.cores()[-1:])
    grown, allocated = found["process_megabytes"], found["program_megabytes"]
    return found, [
        Line(
            "memory over the data, 100 seeds",
            f"the program alone {allocated:.0f} MB; data {found['data_megabytes']:.0f} MB",
            f"{grown:.0f} MB",
            "< 100 MB",
            max(grown, allocated) < 100.0,
        )
    ]


def machine() -> dict:
    info = Path("/proc/cpuinfo")
    models = (
        [x for x in info.read_text().splitlines() if "model name" in x] if info.exists() else []
    )
    return {
        "processor": models[0].split(":", 1)[1].strip() if models else platform.processor(),
        "cores": len(process.cores()),
        "pinned": process.can_pin(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def markdown(lines: list[Line], facts: dict, form: str, load: list[float], command: str) -> str:
    rows = [f"| {' | '.join(line[:-1])} | {'yes' if line.met else '**no**'} |" for line in lines]
    return "\n".join(
        [
            "# Speed and memory",
            "",
            "DP-GD, logistic loss, n = 10,000, d = 100, 200 steps, (1, 1e-6), float32, one thread.",
            f"Beside it jax-privacy in its fastest documented form ({form}).",
            "",
            "| | | measured | target | met |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *(f"- {name}: {value}" for name, value in facts.items()),
            f"- load before and after: {load[0]:.1f}, {load[1]:.1f} (times want a quiet machine)",
            "",
            f"Written by `{command}`; all times in `dp_gd.json`.",
            "",
        ]
    )


def table(lines: list[Line]) -> Table:
    shown = Table("", "", "measured", "target", "met")
    for line in lines:
        met = "[green]yes[/]" if line.met else "[red]no[/]"
        shown.add_row(line.question, line.detail, line.measured, line.target, met)
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds of every timing (default 5)")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "performance")
    given, console = parser.parse_args(), Console()
    if given.repeats < 1:
        parser.error(f"--repeats must be positive, got {given.repeats}")
    if find_spec("jax_privacy") is None:
        console.print(
            "jax-privacy is not installed beside privopt. Install it with `make performance` or\n"
            f"  {sys.executable} -m pip install 'jax-privacy>=2.0'",
            markup=False,
            soft_wrap=True,
        )
        return 2
    load = [os.getloadavg()[0]]
    benchmarks = {
        "dp_gd": lambda: dp_gd(given.repeats),
        "cores": lambda: cores(given.repeats),
        "compilations": compilations,
        "memory": memory,
    }
    found, lines = {}, []
    for name, benchmark in benchmarks.items():
        with console.status(f"{name} (benchmark {len(found) + 1} of {len(benchmarks)})"):
            found[name], more = benchmark()
        lines += more
    load.append(os.getloadavg()[0])
    console.print(table(lines))
    facts, command = machine(), " ".join(["python", *sys.argv])
    record = {"command": command, "machine": facts, "load": load, **found}
    record["targets"] = [line._asdict() for line in lines]
    given.results.mkdir(parents=True, exist_ok=True)
    (given.results / "dp_gd.json").write_text(json.dumps(record, indent=2) + "\n")
    form = found["dp_gd"]["fastest_form"]
    (given.results / "README.md").write_text(markdown(lines, facts, form, load, command))
    console.print(f"Written to {given.results}")
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
