"""Noise with memory: its factorisations, and what a step of it costs."""

from __future__ import annotations

import process
from line import Line

TITLE = "Noise with memory"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "numpy", "scipy")
PEERS = ("jax_privacy",)
OVERHEADS = {"tree": 1.3, "banded inverse, 16": 1.2}  # times a step of independent noise
KILOBYTE = 1024
GAP, EXCESS = 1e-6, 1.01  # of the optimum; of a class, over the peer's


def measured(repeats: int) -> tuple[dict, list[Line]]:
    core = process.cores()[-1:]
    found = {
        "factorisations": process.measured("factorisations.py", f"--repeats={repeats}", cores=core),
        "streams": process.measured("streams.py", f"--repeats={repeats}", cores=core),
    }
    return found, lines(found)


def described(found: dict) -> list[str]:
    streams = found["streams"]
    white = (
        f"{laws[name]['mean_square']:.4f} and {laws[name]['largest_correlation']:.3f}"
        for laws in (each["whitened"] for each in streams["beside"])
        for name in ("privopt", "jax-privacy")
    )
    others = (
        f"{times:.2f} for {name} at d = {each['dim']:,}"
        for each in streams["against_fresh"]
        for name, times in each["times"].items()
        if name not in OVERHEADS and name != "independent"
    )
    return [
        "Seconds of the processor, one thread, float32; a step of a loop inside jit that adds",
        "noise to zeros and sums the answers. Factorisations are compared by their root mean",
        "square error at equal privacy, computed by privopt. jax-privacy has the same Toeplitz",
        "coefficients and its own generator. Same law: its noise and ours, whitened by the same",
        "matrix, have mean squares and largest correlations of steps (band 16, ours and theirs;",
        f"then 64): {'; '.join(white)}.",
        f"Of the other noises, beside independent noise: {'; '.join(others)}.",
        "The tree keeps five levels and draws the higher ones again.",
    ]


def lines(found: dict) -> list[Line]:
    matrices, streams = found["factorisations"], found["streams"]
    rest = [classed(name, each) for name, each in matrices.items() if name != "optimal"]
    return [
        *optimum(matrices["optimal"]),
        *rest,
        *(against(each) for each in streams["beside"]),
        *(
            over(each, name, most)
            for name, most in OVERHEADS.items()
            for each in streams["against_fresh"]
        ),
        *(memory(each) for each in streams["long"] if each["noise"] in OVERHEADS),
        *(together(streams["seeds"], name, most) for name, most in OVERHEADS.items()),
        Line(
            "compilations, 3 bands of equal length and 3 seeds",
            "",
            str(streams["compilations"]),
            "1",
            streams["compilations"] == 1,
        ),
    ]


def optimum(found: dict) -> list[Line]:
    ours, theirs = found["privopt"], found["jax-privacy"]
    times = theirs["seconds"] / ours["seconds"]
    return [
        Line(
            "optimal factorisation, T = 1,000",
            f"{ours['seconds']:.1f} s beside {theirs['seconds']:.1f} s",
            f"{times:.1f}x",
            ">= 8x",
            times >= 8.0,
        ),
        Line(
            "its error, no worse, and its duality gap",
            f"{ours['rmse']:.6f} beside {theirs['rmse']:.6f}",
            f"{ours['gap']:.1e}",
            f"<= {GAP:g}",
            ours["rmse"] <= theirs["rmse"] and ours["gap"] <= GAP,
        ),
    ]


def classed(name: str, found: dict) -> Line:
    ours, theirs = found["privopt"], found.get("jax-privacy")
    detail = f"{ours['seconds']:.2f} s"
    if theirs is None:
        return Line(
            f"{name}, optimised", detail, f"error {ours['rmse']:.5f}", "in seconds",
            ours["seconds"] < 60.0,
        )  # fmt: skip
    excess = ours["rmse"] / theirs["rmse"]
    return Line(
        f"{name}, optimised",
        f"{detail} beside {theirs['seconds']:.0f} s",
        f"{excess:.7f} of the peer's error",
        f"<= {EXCESS:g}, in seconds",
        excess <= EXCESS and ours["seconds"] < 60.0,
    )


def against(found: dict) -> Line:
    ours, theirs = (1e6 * found["seconds_of_a_step"][name] for name in ("privopt", "jax-privacy"))
    return Line(
        f"band {found['band']}, d = 10,000, against jax-privacy",
        f"a step {ours:,.0f} us beside {theirs:,.0f} us",
        f"{found['ratio']:.2f}x",
        ">= 2x",
        found["ratio"] >= 2.0,
    )


def over(found: dict, name: str, most: float) -> Line:
    ours, fresh = (1e6 * found["seconds_of_a_step"][each] for each in (name, "independent"))
    times = found["times"][name]
    return Line(
        f"{name}, beside independent noise, d = {found['dim']:,}",
        f"a step {ours:,.1f} us beside {fresh:,.1f} us",
        f"{times:.2f} times",
        f"<= {most:g} times",
        times <= most,
    )


def memory(found: dict) -> Line:
    held = max(found["memory_bytes"], found["program_bytes"])
    return Line(
        f"{found['noise']}, 1,000,000 steps at d = 100 in one call",
        f"{found['seconds']:.1f} s; memory of the noise {found['memory_bytes'] / KILOBYTE:.1f} KB",
        f"{held / KILOBYTE:.1f} KB in all",
        "<= 64 KB",
        held <= 64 * KILOBYTE,
    )


def together(found: dict, name: str, most: float) -> Line:
    alone, times = found["of_one_alone"][name], found["times"][name]
    return Line(
        f"{name}, 100 seeds in one call, d = 1,000",
        f"a seed takes {alone:.2f} of one alone",
        f"{times:.2f} times independent noise",
        f"<= {most:g} times",
        times <= most,
    )
