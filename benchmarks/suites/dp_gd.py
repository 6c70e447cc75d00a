"""Suite of DP-GD: speed, memory and compilations, compared with jax-privacy."""

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
    result, lines = {}, []
    for name, benchmark in benchmarks.items():
        result[name], more = benchmark()
        lines += more
    return result, lines


def described(result: dict) -> list[str]:
    return [
        "Logistic loss, n = 10,000, d = 100, 200 steps, (1, 1e-6), float32, one thread. The",
        f"peer is jax-privacy in its fastest documented form ({result['dp_gd']['fastest_form']}).",
    ]


def dp_gd(repeats: int) -> tuple[dict, list[Line]]:
    result = process.measured("dp_gd.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    seconds, noise = result["seconds"], result["noise_scale"]
    distance = result["distance_without_noise"]
    scales = result["noise_scale_privopt"], result["noise_scale_jax_privacy"]

    def line(question: str, seeds: str, ratio: float, target: float) -> Line:
        ours, theirs = (seconds[f"{side}, {seeds}"] for side in ("privopt", "jax-privacy"))
        detail = f"{1e3 * ours:,.0f} ms beside {1e3 * theirs:,.0f} ms"
        return Line(question, detail, f"{ratio:.2f}x", f">= {target}x", ratio >= target)

    return result, [
        line("100 seeds in one call, against a loop", "all seeds", result["ratio_all_seeds"], 6.0),
        line("one seed", "one seed", result["ratio_one_seed"], 2.5),
        Line(
            "100 seeds in one call, beside their matrix products alone",
            f"{1e3 * seconds['privopt, all seeds']:,.0f} ms beside "
            f"{1e3 * seconds['products, all seeds']:,.0f} ms",
            f"{result['ratio_products']:.2f}",
            ">= 0.9",
            result["ratio_products"] >= 0.9,
        ),
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
        process.query(one), process.query(two)
        rounds = [(*process.query(one), *process.query(two)) for _ in range(2 * repeats)]
    ratio = median(slow / fast for slow, _, fast, _ in rounds)
    slow, _, fast, had = (median(column) for column in zip(*rounds, strict=True))
    detail = f"{1e3 * fast:,.0f} ms, having {had:.2f} cores, beside {1e3 * slow:,.0f} ms"
    columns = ("one_seconds", "one_cores_had", "two_seconds", "two_cores_had")
    result = {"rounds": [dict(zip(columns, each, strict=True)) for each in rounds], "ratio": ratio}
    return result, [Line("two cores against one", detail, f"{ratio:.2f}x", ">= 1.7x", ratio >= 1.7)]


def compilations() -> tuple[dict, list[Line]]:
    both = process.cores()[:2]
    result = [
        process.measured("compilations.py", cores=both[:count], devices=count)
        for count in range(1, len(both) + 1)
    ]
    compiled = max(len(each["programs"]) for each in result)
    return {"runs": result}, [
        Line(
            "compilations, 3 budgets x 32 seeds x 2 data sets",
            "the most with one device and with one for each core",
            str(compiled),
            "1",
            all(len(each["programs"]) == 1 for each in result),
        )
    ]


def memory() -> tuple[dict, list[Line]]:
    result = process.measured("memory.py", cores=process.cores()[-1:])
    grown, allocated = result["process_megabytes"], result["program_megabytes"]
    return result, [
        Line(
            "memory over the data, 100 seeds",
            f"the program alone {allocated:.0f} MB; data {result['data_megabytes']:.0f} MB",
            f"{grown:.0f} MB",
            "< 100 MB",
            max(grown, allocated) < 100.0,
        )
    ]
