"""Suite of growth: seconds and memory of runs against every size, and throughput of workers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import process
from line import Line

from privopt.lab import plotting

TITLE = "Growth"
PACKAGES = ("privopt", "jax", "jaxlib", "numpy")
PEERS = ()

N, WIDTH, STEPS, RUNS, PLANS = (
    (1_000, 10_000, 100_000, 1_000_000),
    (10, 100, 1_000, 10_000, 100_000),
    (100, 300, 1_000, 3_000, 10_000),
    (10, 30, 100, 300, 1_000),
    (1, 3, 10, 30, 100),
)
MILLION = (10_000, 100_000, 1_000_000)
# Method, axis, sizes, and the exponent of the number of operations.
CURVES = (
    ("dp_gd", "n", N, 1.0),
    ("dp_gd", "d", WIDTH, 1.0),
    ("dp_gd", "T", STEPS[:4], 1.0),
    ("dp_gd", "replicates", RUNS[:4], 1.0),
    ("dp_gd", "plans", PLANS, 1.0),
    ("dp_gd", "budgets", PLANS, 1.0),
    ("dp_sgd", "n", (*N, 10**7), 0.0),
    ("dp_sgd", "d", WIDTH, 1.0),
    ("dp_sgd", "T", STEPS, 1.0),
    ("dp_sgd", "replicates", RUNS[:4], 1.0),
    ("dp_sgd", "plans", PLANS, 1.0),
    ("dp_ftrl", "n", N, 1.0),
    ("dp_ftrl", "d", WIDTH, 1.0),
    ("dp_ftrl", "replicates", RUNS[:4], 1.0),
    ("toeplitz", "n", N[:3], 2.0),
    ("projection_mechanism", "n", N, 1.0),
    ("projection_mechanism", "d", MILLION, 1.0),
    ("objective_perturbation", "n", N, 1.0),
    ("objective_perturbation", "d", (50, 100, 200, 400), 2.0),
    ("output_perturbation", "n", N, 1.0),
)
ROOM = 0.15  # tolerance of an exponent, for cache sizes and other load
WORKERS = (1, 2, 4)


def measured(repeats: int) -> tuple[dict, list[Line]]:
    core, curves = process.cores()[-1:], []
    filled = process.measured("workers.py", cores=process.cores())
    for method, axis, sizes, natural in CURVES:
        arguments = [method, axis, *map(str, sizes), f"--repeats={repeats}"]
        result = process.measured("growth.py", *arguments, cores=core)
        curves.append({"method": method, "axis": axis, "natural": natural, **result})
    result = {"curves": curves, "workers": filled}
    return result, [*map(along, curves), *workers(result["workers"])]


def described(result: dict) -> list[str]:
    return [
        "Processor seconds of a warm run, one thread, on logistic regression (squared distances",
        "for the projection mechanism) at n = 10,000, d = 100, T = 100, one plan and replicate;",
        "one of these sizes varies, along n with d = 10 and along d with n = 1,000. DP-SGD has",
        "batches of 256, DP-FTRL one pass of batches of 100, so T = n/100. Plans differ in",
        "epsilon; the line of budgets is the time to make them. The exponent is fitted to the",
        "last three sizes; dashed lines have the exponent of the number of operations. From",
        "d = 10,000 on the data do not fit the cache, which raises the exponents of d. Memory is",
        "the allocation of the program besides the data, at the largest size.",
        "",
        "![Seconds of a run of each method against n, d, T, replicates, plans and budgets]"
        "(growth.png)",
    ]


LABELS = {
    "n": "records n", "d": "dimension d", "T": "steps T", "replicates": "replicates in one call",
    "plans": "plans in one call", "budgets": "plans made, without a run",
}  # fmt: skip
COLOURS = {**plotting.METHOD_COLOURS, "toeplitz": "#7f7f7f"}
FITTED = 3  # last sizes


def draw(result: dict, folder: Path) -> None:
    """Draw seconds against each size; dashes continue the last one with the natural exponent."""
    axes = list(dict.fromkeys(each["axis"] for each in result["curves"]))
    figure, grid = plt.subplots(2, 3, figsize=(9.0, 6.2), sharey=True)
    for panel, axis in zip(grid.ravel(), axes, strict=True):
        for each in (each for each in result["curves"] if each["axis"] == axis):
            sizes = [point[axis] for point in each["curve"]]
            times = [point["seconds"] for point in each["curve"]]
            ends = sizes[-FITTED:]
            power = [times[-1] * (size / sizes[-1]) ** each["natural"] for size in ends]
            colour = COLOURS[each["method"]]
            panel.loglog(sizes, times, "o-", color=colour, ms=3, label=each["method"])
            panel.loglog(ends, power, "--", color=colour, lw=0.8)
        panel.set_xlabel(LABELS[axis])
        panel.grid(color="#e6e6e6", lw=0.6)
    fastest = min(point["seconds"] for each in result["curves"] for point in each["curve"])
    for panel in grid[:, 0]:
        panel.set_ylabel("processor seconds")
        panel.set_ylim(bottom=0.5 * fastest)
    handles = {line.get_label(): line for panel in grid.ravel() for line in panel.lines[::2]}
    figure.legend(handles.values(), handles, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0.0, 0.09, 1.0, 1.0))
    figure.savefig(folder / "growth.png", dpi=120)
    plt.close(figure)


def exponent(curve: list[dict], axis: str, what: str) -> float:
    """Return the exponent that is fitted to the last three sizes, by least squares."""
    sizes, values = (
        [math.log(max(point[name], 1.0 if name == "bytes" else 0.0)) for point in curve[-FITTED:]]
        for name in (axis, what)
    )
    return float(np.polyfit(sizes, values, 1)[0])


def along(result: dict) -> Line:
    axis, curve, natural = result["axis"], result["curve"], result["natural"]
    first, last = curve[0], curve[-1]
    power = exponent(curve, axis, "seconds")
    memory = f"{last['bytes'] / 1e6:,.0f} MB beside {last['data_bytes'] / 1e6:,.0f} of data"
    return Line(
        f"{result['method']} along {axis}",
        f"{first[axis]:,} to {last[axis]:,}: {milliseconds(first)} to {milliseconds(last)}; "
        f"{memory}, exponent {exponent(curve, axis, 'bytes'):.2f}",
        f"{power:.2f}",
        f"<= {natural:g} + {ROOM:g}",
        power <= natural + ROOM,
    )


def milliseconds(point: dict) -> str:
    return f"{1e3 * point['seconds']:,.1f} ms"


def workers(result: dict) -> Iterator[Line]:
    rates, cores = result["rates"], len(process.cores())
    for count in WORKERS[1:]:
        times, target = rates[str(count)] / rates["1"], 0.9 * min(count, cores)
        yield Line(
            f"cells a second, {count} workers of one folder beside one",
            f"cells of {result['cell']} s: {rates[str(count)]:.2f} beside {rates['1']:.2f}",
            f"{times:.2f}x",
            f">= {target:.1f}x on {cores} cores",
            times >= target,
        )
    overhead = 1e3 * result["overhead"]
    yield Line(
        "a tiny cell, from one to the next", "8 steps, 100 records", f"{overhead:.0f} ms",
        "< 50 ms", overhead < 50.0,
    )  # fmt: skip
