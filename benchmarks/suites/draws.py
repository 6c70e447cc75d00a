"""Suite of noise draws with sufficiently wide tails, compared with the draws of JAX."""

from __future__ import annotations

import process
from line import Line

TITLE = "Draws of noise"
PACKAGES = ("privopt", "jax", "jaxlib", "numpy")
PEERS = ()
TARGET = 1.6


def measured(repeats: int) -> tuple[dict, list[Line]]:
    result = process.measured("draws.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    return result, [line(case) for case in result["cases"] if case["dtype"] == "float32"]


def described(result: dict) -> list[str]:
    wide = (case for case in result["cases"] if case["dtype"] == "float64")
    times = (f"{case['times']:.2f} for {case['size']:,} of {case['law']}" for case in wide)
    return [
        "One draw per step of a loop inside jit, one thread, float32. The largest normal of JAX is",
        "5.4 standard deviations, that of privopt 11.6. For the other laws the largest draws are",
        "about 17 scales and 67 scales.",
        f"Ratios in float64: {', '.join(times)}.",
    ]


def line(case: dict) -> Line:
    ours, theirs = (1e6 * case["seconds"][name] for name in ("privopt", "jax.random"))
    return Line(
        f"{case['size']:,} of {case['law']}, beside jax.random",
        f"{ours:,.2f} us beside {theirs:,.2f} us",
        f"{case['times']:.2f} times",
        f"<= {TARGET:g} times",
        case["times"] <= TARGET,
    )
