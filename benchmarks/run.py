"""Speed and memory of privopt compared with targets and with other libraries on the same machine.

    .venv/bin/python benchmarks/run.py [dp_gd] [dp_sgd] [networks] [draws] [accounting]
        [solver] [objective_perturbation] [streams] [sparse] [growth] [start] [accelerator]
        [--repeats 5]

Every benchmark runs in a fresh process with one thread per device on fixed cores; ``accelerator``
uses the device that JAX selects, and on a CPU small sizes. Times are warm and measured in rounds
(privopt, peer, privopt, peer, ...); a ratio is the median over rounds. Each suite writes its
record, and README.md contains all records; accounting takes about four minutes.
Exit status 1: a target was missed; 2: a peer is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import process
from line import Line
from rich.console import Console
from rich.table import Table
from suites import (
    accelerator,
    accounting,
    dp_gd,
    dp_sgd,
    draws,
    growth,
    networks,
    objective_perturbation,
    solver,
    sparse,
    start,
    streams,
)

SUITES = {
    "dp_gd": dp_gd,
    "dp_sgd": dp_sgd,
    "networks": networks,
    "draws": draws,
    "accounting": accounting,
    "solver": solver,
    "objective_perturbation": objective_perturbation,
    "streams": streams,
    "sparse": sparse,
    "growth": growth,
    "start": start,
    "accelerator": accelerator,
}
ROOT = Path(__file__).parents[1]


def machine(packages: tuple[str, ...]) -> dict:
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
        **{package: installed(package) for package in packages},
    }


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def record(suite: ModuleType, repeats: int, console: Console) -> tuple[dict, list[Line]]:
    """Run a suite, and return its record, with machine and command, and its lines."""
    load = [os.getloadavg()[0]]
    with console.status(f"{suite.TITLE} ..."):
        result, lines = suite.measured(repeats)
    load.append(os.getloadavg()[0])
    facts = {
        "command": " ".join(["python", *sys.argv]),
        "machine": machine(suite.PACKAGES),
        "load": load,
    }
    return {**facts, **result, "targets": [line._asdict() for line in lines]}, lines


def verdict(line: Line) -> str:
    """Return whether the target was met; a line without a target has no verdict."""
    return "-" if line.target == "-" else "yes" if line.met else "**no**"


def section(name: str, result: dict) -> list[str]:
    """Return a record as Markdown."""
    suite, load = SUITES[name], result["load"]
    lines = [Line(**each) for each in result["targets"]]
    return [
        f"## {suite.TITLE}",
        "",
        *suite.described(result),
        "",
        "| | | measured | target | met |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(line[:-1])} | {verdict(line)} |" for line in lines),
        "",
        *(f"- {key}: {value}" for key, value in result["machine"].items()),
        f"- load before and after: {load[0]:.1f}, {load[1]:.1f} (use an idle machine)",
        "",
        f"Written by `{result['command']}`; all times in `{name}.json`.",
        "",
    ]


def markdown(results: Path) -> str:
    """Return all records of a folder as Markdown."""
    lines = ["# Speed and memory", ""]
    for name in SUITES:
        file = results / f"{name}.json"
        if file.exists():
            lines += section(name, json.loads(file.read_text()))
    return "\n".join(lines)


def table(title: str, lines: list[Line]) -> Table:
    result = Table("", "", "measured", "target", "met", title=title)
    for line in lines:
        met = "[green]yes[/]" if line.met else "[red]no[/]"
        result.add_row(line.question, line.detail, line.measured, line.target, met)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {', '.join(SUITES)}; all")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of every timing (default 5)")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "performance")
    arguments, console = parser.parse_args(), Console()
    if arguments.repeats < 1:
        parser.error(f"--repeats must be positive, got {arguments.repeats}")
    names = list(dict.fromkeys(arguments.suites)) or list(SUITES)
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        parser.error(f"suite must be one of {', '.join(SUITES)}, got {unknown[0]!r}")
    missing = [peer for name in names for peer in SUITES[name].PEERS if find_spec(peer) is None]
    if missing:
        console.print(f"Not installed beside privopt: {', '.join(missing)}. Run make performance.")
        return 2
    met = True
    for name in names:
        result, lines = record(SUITES[name], arguments.repeats, console)
        console.print(table(SUITES[name].TITLE, lines))
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
        if hasattr(SUITES[name], "draw"):
            SUITES[name].draw(result, arguments.results)
        (arguments.results / "README.md").write_text(markdown(arguments.results))
        met = met and all(line.met for line in lines)
    console.print(f"Written to {arguments.results}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
