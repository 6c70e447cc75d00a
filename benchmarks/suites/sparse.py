"""Suite of sparse optimisation: projections and basis pursuit, compared with five libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import process
from line import Line

TITLE = "Projections and basis pursuit"
PACKAGES = (
    *("privopt", "jax", "jaxlib", "optax", "jaxopt", "scipy", "cvxpy", "clarabel", "spgl1"),
    "numpy",
)
PEERS = ("jaxopt", "cvxpy", "clarabel", "spgl1")
ACCURATE = ("HiGHS", "Clarabel")
TOLERANCE = 1e-9


def measured(repeats: int) -> tuple[dict, list[Line]]:
    result = process.measured("sparse.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    return result, list(lines(result))


def described(result: dict) -> list[str]:
    return [
        "One thread, processor seconds. Points and systems are normal. Right-hand sides are",
        "normal, or those of a vector with a tenth as many entries as rows, with or without noise.",
        "For m = 500, HiGHS and Clarabel are timed once, on noise. SPGL1 stops at a residual of",
        "1e-4; the record contains the accuracy of all solvers.",
    ]


def lines(result: dict) -> Iterator[Line]:
    for dtype in ("float32", "float64"):
        cases = [case for case in result["projections"] if case["dtype"] == dtype]
        yield least(f"l1 ball, d = 1,000,000, {dtype}, against the fastest sort", cases, sort, 5.0)
    for case in result["batches"]:
        share = case["ratios"]["one at a time"]
        detail = f"{1e3 * case['seconds']['privopt']:.1f} ms, {case['ratios']['a sort']:.0f} times "
        yield Line(
            f"100 rows of 10,000 under vmap, {case['dtype']}, against one after another",
            detail + "faster than a sort of all",
            f"{share:.2f}x",
            "> 1x",
            share > 1.0,
        )
    for rows in sorted({case["rows"] for case in result["systems"]}):
        cases = [case for case in result["systems"] if case["rows"] == rows]
        shape = f"m = {rows}, d = {cases[0]['dim']:,}"
        both = [case for case in cases if set(ACCURATE) <= set(case["seconds"])]
        yield least(f"basis pursuit, {shape}, the better of HiGHS, Clarabel", both, accurate, 15.0)
        yield least(f"basis pursuit, {shape}, against SPGL1", cases, lambda _: "SPGL1", 1.0)
    worst = max(
        max(case["gap"], case["accuracy"]["privopt"]["residual"]) for case in result["systems"]
    )
    yield Line(
        "gap and residual, relative",
        "the largest of all systems",
        f"{worst:.1e}",
        "<= 1e-9",
        worst <= TOLERANCE,
    )


def sort(case: dict) -> str:
    """Return the fastest projection by a sort."""
    peers = [name for name in case["seconds"] if name != "privopt"]
    return min(peers, key=case["seconds"].__getitem__)


def accurate(case: dict) -> str:
    """Return the faster peer among those with similar accuracy."""
    return min(ACCURATE, key=case["seconds"].__getitem__)


def least(question: str, cases: list[dict], peer_of: Callable[[dict], str], target: float) -> Line:
    case = min(cases, key=lambda case: case["ratios"][peer_of(case)])
    peer = peer_of(case)
    ours, theirs = (1e3 * case["seconds"][name] for name in ("privopt", peer))
    kind = case.get("kind", f"radius {case.get('radius', 0):g}")
    detail = f"{kind}: {ours:,.1f} ms beside {theirs:,.1f} ms of {peer}"
    ratio = case["ratios"][peer]
    return Line(question, detail, f"{ratio:.1f}x", f">= {target:g}x", ratio >= target)
