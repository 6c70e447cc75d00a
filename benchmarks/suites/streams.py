"""Suite of correlated noise: its factorisations, and the time of a step."""

from __future__ import annotations

import process
from line import Line

TITLE = "Correlated noise"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "numpy", "scipy")
PEERS = ("jax_privacy",)
OVERHEADS = {"tree": 1.3, "banded inverse, 16": 1.2}  # relative to independent noise
KILOBYTE = 1024
GAP, EXCESS = 1e-6, 1.01  # gap of the optimum; error of a class, over that of the peer


def measured(repeats: int) -> tuple[dict, list[Line]]:
    core = process.cores()[-1:]
    result = {
        "factorisations": process.measured("factorisations.py", f"--repeats={repeats}", cores=core),
        "streams": process.measured("streams.py", f"--repeats={repeats}", cores=core),
    }
    return result, lines(result)


def described(result: dict) -> list[str]:
    streams = result["streams"]
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
        "Processor seconds, one thread, float32, of a step of a loop inside jit that adds noise to",
        "zeros and sums the answers. Factorisations are compared by their root mean square error",
        "at equal privacy, computed by privopt. jax-privacy has the same Toeplitz coefficients and",
        "another generator. Both noises have the same law: whitened by the same matrix, they have",
        "these mean squares and largest correlations of steps (band 16, privopt and jax-privacy;",
        f"then 64): {'; '.join(white)}.",
        f"Times of the other noises, relative to independent noise: {'; '.join(others)}.",
        "The tree stores five levels and draws the higher ones again.",
    ]


def lines(result: dict) -> list[Line]:
    matrices, streams = result["factorisations"], result["streams"]
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
        *(batched(each) for each in streams["one_plan"]),
        Line(
            "compilations, 3 bands of equal length and 3 seeds",
            "",
            str(streams["compilations"]),
            "1",
            streams["compilations"] == 1,
        ),
    ]


def optimum(result: dict) -> list[Line]:
    ours, theirs = result["privopt"], result["jax-privacy"]
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


def classed(name: str, result: dict) -> Line:
    ours, theirs = result["privopt"], result.get("jax-privacy")
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


def against(result: dict) -> Line:
    ours, theirs = (1e6 * result["seconds_of_a_step"][name] for name in ("privopt", "jax-privacy"))
    return Line(
        f"band {result['band']}, d = 10,000, against jax-privacy",
        f"a step {ours:,.0f} us beside {theirs:,.0f} us",
        f"{result['ratio']:.2f}x",
        ">= 2x",
        result["ratio"] >= 2.0,
    )


def over(result: dict, name: str, most: float) -> Line:
    ours, fresh = (1e6 * result["seconds_of_a_step"][each] for each in (name, "independent"))
    times = result["times"][name]
    return Line(
        f"{name}, beside independent noise, d = {result['dim']:,}",
        f"a step {ours:,.1f} us beside {fresh:,.1f} us",
        f"{times:.2f} times",
        f"<= {most:g} times",
        times <= most,
    )


def memory(result: dict) -> Line:
    total = max(result["memory_bytes"], result["program_bytes"])
    return Line(
        f"{result['noise']}, 1,000,000 steps at d = 100 in one call",
        f"{result['seconds']:.1f} s; noise {result['memory_bytes'] / KILOBYTE:.1f} KB",
        f"{total / KILOBYTE:.1f} KB in all",
        "<= 64 KB",
        total <= 64 * KILOBYTE,
    )


def batched(result: dict) -> Line:
    together, in_turn = (result["seconds"][name] for name in ("together", "in_turn"))
    return Line(
        f"20 keys of one plan together, beside in turn, band 64, d = {result['dim']:,}",
        f"{1e3 * together:,.0f} ms beside {1e3 * in_turn:,.0f} ms",
        f"{result['ratio']:.2f} times",
        "<= 1.5 times",
        result["ratio"] <= 1.5,
    )


def together(result: dict, name: str, most: float) -> Line:
    single, times = result["of_one_alone"][name], result["times"][name]
    return Line(
        f"{name}, 100 seeds in one call, d = 1,000",
        f"a seed takes {single:.2f} of one alone",
        f"{times:.2f} times independent noise",
        f"<= {most:g} times",
        times <= most,
    )
