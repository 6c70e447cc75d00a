"""Suite of accounting: one epsilon, calibration and first answer, with dp-accounting and PRV."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import geometric_mean, median

import process
from line import Line

TITLE = "Accounting"
PACKAGES = ("privopt", "dp-accounting", "opacus", "prv-accountant", "numpy", "scipy")
PEERS = ("opacus",)

MILLION = 10**6


def measured(repeats: int) -> tuple[dict, list[Line]]:
    core = process.cores()[-1:]
    result = {
        "epsilon": process.measured("accounting.py", f"--repeats={repeats}", cores=core),
        "calibration": process.measured("calibration.py", f"--repeats={repeats}", cores=core),
        "first_answer": first_answers(2 * repeats),
    }
    return result, [
        *epsilon([case for case in result["epsilon"]["cases"] if case["rate"] >= 1e-3]),
        *rare([case for case in result["epsilon"]["cases"] if case["rate"] < 1e-3]),
        fixed_size(result["epsilon"]["fixed_size"]),
        *calibration(result["calibration"]),
        first_answer(result["first_answer"]),
    ]


def described(result: dict) -> list[str]:
    cases = result["epsilon"]["cases"]
    ours = 1e3 * median(median(case["seconds"]) for case in cases)
    return [
        "Subsampled Gaussian under add-or-remove-one, one thread: noise 0.6 to 20, rate 0.001 to",
        "1, 100 to 1,000,000 steps, delta 1e-5 and 1e-10, and rare samples. privopt uses the",
        f"Fourier accountant, with certified bounds; the median case takes {ours:.1f} ms. Peers",
        "with default settings: the loss distributions of dp-accounting (mesh 1e-4, which has",
        "few points and wide intervals at large noise), the PRV accountant of opacus (epsilon to",
        "0.01, one order of the neighbours only), and in small cases that of its authors.",
        *left_out(cases),
    ]


def epsilon(cases: list[dict]) -> Iterator[Line]:
    gap, widest = max(
        ((upper / lower - 1.0, case) for case, lower, upper in ends(cases)),
        key=lambda each: each[0],
    )
    wide = sum(upper / lower - 1.0 > 2e-3 for _, lower, upper in ends(cases))
    detail = f"widest at {name(widest)}" + (f"; too wide in {wide} of {len(cases)}" if wide else "")
    yield Line(
        "both sides certified, gap", detail, f"{gap:.1e}", "<= 2e-3 in every case", gap <= 2e-3
    )
    for peer, target in (("dp-accounting", 15.0), ("opacus", 10.0), ("prv-accountant", 10.0)):
        all_ratios = ratios(cases, peer)
        if all_ratios:
            yield compared(f"one epsilon, against {peer}", all_ratios, len(cases), target)
    long = ratios([case for case in cases if case["steps"] == MILLION], "dp-accounting")
    slowest, case = min(long, key=lambda each: each[0])
    yield Line(
        "a million steps, against dp-accounting",
        f"median {median(ratio for ratio, _ in long):.0f}x; the least at {name(case)}",
        f"{slowest:.2f}x",
        ">= 1x in every case",
        slowest >= 1.0,
    )
    judged = [
        (record["consistent"], peer, case)
        for case in cases
        for peer, record in case["peers"].items()
        if record.get("consistent") is not None
    ]
    wrong = [f"{peer} at {name(case)}" for fits, peer, case in judged if not fits]
    yield Line(
        "peers' numbers, within what they state",
        "; ".join(wrong[:3]) or "left out where T 2^-53, their rounding, is above delta / 100",
        f"{len(judged) - len(wrong)} of {len(judged)}",
        "all",
        not wrong,
    )


def rare(cases: list[dict]) -> Iterator[Line]:
    """Yield a line per case in which a record is in about one batch."""
    for case in cases:
        lower, upper = case["epsilon"]
        record = case["peers"].get("dp-accounting", {})
        if "rounds" in record:
            ratio = median(theirs / ours for ours, theirs in record["rounds"])
            yield Line(
                f"rare samples: {name(case)}",
                f"[{lower:.4g}, {upper:.4g}]; dp-accounting has {record['epsilon']:.4g}",
                f"{ratio:.2f}x",
                ">= 1x",
                ratio >= 1.0,
            )


def fixed_size(cases: list[dict]) -> Line:
    widest = max(cases, key=lambda case: case["epsilon"][1] / case["epsilon"][0])
    lower, upper = widest["epsilon"]
    return Line(
        "batches of one size, replace-one, gap",
        f"widest at batch {widest['batch']} of {widest['size']:,}, noise {widest['noise']:g}: "
        f"[{lower:.4g}, {upper:.4g}]; no data are known to attain the upper bound",
        f"{upper / lower - 1.0:.2f}",
        "<= 0.02",
        upper <= 1.02 * lower,
    )


def compared(question: str, all_ratios: list, count: int, target: float) -> Line:
    least, case = min(all_ratios, key=lambda each: each[0])
    middle = median(ratio for ratio, _ in all_ratios)
    mean = geometric_mean(ratio for ratio, _ in all_ratios)
    return Line(
        question,
        f"median of {len(all_ratios)} cases of {count}, whose geometric mean is {mean:.1f}x; the "
        f"least is {least:.1f}x at {name(case)}",
        f"{middle:.1f}x",
        f">= {target:.0f}x",
        middle >= target,
    )


def calibration(result: dict) -> Iterator[Line]:
    rounds, theirs = result["seconds_privopt"], result["seconds_dp_accounting"]
    ours = sum(
        median(each["seconds"] for each in rounds if each["epsilon"] == target["epsilon"])
        for target in theirs
    )
    other = sum(each["seconds"] for each in theirs)
    yield Line(
        "noise for six epsilons, against dp-accounting",
        f"{1e3 * ours:,.0f} ms beside {1e3 * other:,.0f} ms",
        f"{other / ours:.0f}x",
        ">= 60x",
        other / ours >= 60.0,
    )
    answers = result["privopt"]
    safe = all(each["epsilon"][1] <= each["target"] for each in answers)
    tight = all(each["epsilon_of_less_noise"][0] > each["target"] for each in answers)
    yield Line(
        "that noise",
        "certified at a finer accuracy; a noise smaller by 1e-4 is not enough",
        f"{'safe' if safe else 'not safe'}, {'tight' if tight else 'not tight'}",
        "safe, tight",
        safe and tight,
    )


def first_answers(rounds: int) -> dict[str, list[float]]:
    """Measure fresh processes in turn, without the first ones, which fill file caches."""
    times: dict[str, list[float]] = {"privopt": [], "dp-accounting": []}
    for number in range(rounds + 1):
        for whose, seconds in times.items():
            answer = process.measured("first_answer.py", whose, cores=process.cores()[-1:])
            if number:
                seconds.append(answer["seconds"])
    return times


def first_answer(times: dict[str, list[float]]) -> Line:
    ours, theirs = (median(times[whose]) for whose in ("privopt", "dp-accounting"))
    ratio = median(a / b for a, b in zip(times["privopt"], times["dp-accounting"], strict=True))
    return Line(
        "import and first epsilon, against dp-accounting",
        f"{1e3 * ours:,.0f} ms beside {1e3 * theirs:,.0f} ms",
        f"{ratio:.2f} times",
        "<= 1.1 times",
        ratio <= 1.1,
    )


def ends(cases: list[dict]) -> Iterator[tuple[dict, float, float]]:
    for case in cases:
        lower, upper = case["epsilon"]
        yield case, max(lower, 1e-300), upper


def ratios(cases: list[dict], peer: str) -> list[tuple[float, dict]]:
    """Return the median ratio over rounds of each case that the peer completed."""
    records = ((case, case["peers"].get(peer, {})) for case in cases)
    return [
        (median(theirs / ours for ours, theirs in record["rounds"]), case)
        for case, record in records
        if "rounds" in record
    ]


def left_out(cases: list[dict]) -> Iterator[str]:
    """Yield the peers without an answer in some cases, with the reasons."""
    for peer in sorted({peer for case in cases for peer in case["peers"]}):
        reasons = [case["peers"][peer].get("skipped") for case in cases]
        counted = {reason: reasons.count(reason) for reason in reasons if reason}
        if counted:
            text = "; ".join(f"{reason} ({count})" for reason, count in counted.items())
            yield f"Without an answer of {peer}: {text}."


def name(case: dict) -> str:
    return (
        f"noise {case['noise']:g}, rate {case['rate']:g}, {case['steps']:,} steps, "
        f"delta {case['delta']:g}"
    )
