"""DP-GD: speed, memory and compilations, beside jax-privacy."""

from __future__ import annotations

from statistics import median

import process
from line import Line

TITLE = "DP-GD"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "optax", "numpy")
PEERS = ("jax_privacy",)


def measured(repeats: int) -> tuple[dict, list[Line]]:
    benchmarks = {
        "dp_gd": lambda: dp_gd(repeats),
        "cores": lambda: cores(repeats),
        "compilations": compilations,
        "memory": memory,
    }
    found, lines = {}, []
    for name, benchmark in benchmarks.items():
        found[name], more = benchmark()
        lines += more
    return found, lines


def described(found: dict) -> list[str]:
    return [
        "Logistic loss, n = 10,000, d = 100, 200 steps, (1, 1e-6), float32, one thread. Beside it",
        f"jax-privacy in its fastest documented form ({found['dp_gd']['fastest_form']}).",
    ]


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
