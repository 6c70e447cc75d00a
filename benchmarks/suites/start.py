"""Suite of starting: commands, plans, first results, and many records."""

from __future__ import annotations

import process
from line import Line

TITLE = "Start"
PACKAGES = ("privopt", "dp-accounting", "jax", "jaxlib", "numpy", "scipy")
PEERS = ()


def measured(repeats: int) -> tuple[dict, list[Line]]:
    result = process.measured("start.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    return result, lines(result)


def described(result: dict) -> list[str]:
    return [
        "Processor seconds on one core. A command and a first excess risk run in a fresh process.",
        f"The import of dp_accounting alone takes {result['import']:.2f} s.",
    ]


def lines(result: dict) -> list[Line]:
    records = result["records"]
    return [
        at_most("privopt epsilon", result["privopt_epsilon"], 1.0, "s"),
        at_most("first excess risk of a session", result["first_risk"], 4.0, "s"),
        *(
            at_most(f"a plan of DP-GD with another {name}", 1e3 * value, 1.0, "ms")
            for name, value in result["plans"].items()
        ),
        at_most(
            "memory for 10^7 records, besides those of the caller", records["copies"], 1.5, "copies"
        ),
        at_most("50 steps on 10^7 records, batch 256", 1e3 * records["seconds"], 10.0, "ms"),
    ]


def at_most(question: str, value: float, target: float, unit: str) -> Line:
    return Line(question, "", f"{value:.3g} {unit}", f"<= {target:g} {unit}", value <= target)
