"""Suite of an accelerator: times on the default device of JAX, beside peers and bare products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import process
from line import Line

TITLE = "On an accelerator"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "numpy")
PEERS = ("jax_privacy",)


def measured(repeats: int) -> tuple[dict, list[Line]]:
    size = ["--small"] if jax.default_backend() == "cpu" else []
    result = process.measured(
        "accelerator.py", f"--repeats={repeats}", *size, cores=process.cores(), platform=None
    )
    return result, list(lines(result["rows"]))


def described(result: dict) -> list[str]:
    return [
        f"Device: {result['device']}. Logistic loss, n = {result['n']:,}, d = 100, float32.",
        "DP-GD has 200 steps and is compared with its two matrix products in full precision.",
        "DP-SGD has Poisson batches of 256 and 2,000 steps, and samples its batches on the device.",
        "The loop of jax-privacy is inside jit, and its batches are drawn before the clock starts.",
        "A first call also compiles.",
    ]


def lines(rows: list[dict[str, Any]]) -> Iterator[Line]:
    of = {(row["name"], row["replicates"]): row for row in rows}
    for row in rows:
        name, count = row["name"], row["replicates"]
        runs = f"{count:,} runs" if count > 1 else "one run"
        shown = f"{1e3 * row['seconds']:,.2f} ms; first call {row['first']:.1f} s"
        if name == "dp_gd":
            bare = of["products", count]
            part = bare["seconds"] / row["seconds"]
            yield Line(
                f"DP-GD, {runs}, beside bare products",
                f"{shown}; products {1e3 * bare['seconds']:,.2f} ms, first call "
                f"{bare['first']:.1f} s; {1e-12 * row['operations'] / row['seconds']:.1f} TFLOP/s",
                f"{part:.2f} of the products", ">= 0.9" if count > 1 else "-",
                count == 1 or part >= 0.9,
            )  # fmt: skip
        elif name == "dp_sgd":
            step = 1e6 * row["seconds"] / row["steps"]
            peer = of.get(("jax-privacy", count))
            beside = (
                f"; jax-privacy {1e6 * peer['seconds'] / peer['steps']:,.1f} us" if peer else ""
            )
            yield Line(
                f"DP-SGD, {runs}, a step",
                f"{step:,.1f} us{beside}; first call {row['first']:.1f} s",
                f"{step / count:.3f} us a step and run",
                ">= 1x jax-privacy" if peer else "-",
                peer is None or row["seconds"] <= peer["seconds"],
            )
        elif name == "stepper":
            whole = of["dp_sgd", 1]
            ours, theirs = (each["seconds"] / each["steps"] for each in (row, whole))
            yield Line(
                "DP-SGD step by step, beside a whole run",
                f"{1e6 * ours:,.1f} us beside {1e6 * theirs:,.1f} us",
                f"{ours / theirs:.1f} times", "<= 1.5 times", ours <= 1.5 * theirs,
            )  # fmt: skip
        elif name == "dp_gd, large":
            yield Line(
                f"DP-GD, n = {row['n']:,}, d = {row['d']:,}, {row['steps']} steps",
                f"{shown}; a copy moves {row['copied_per_second']:.2f} TB/s",
                f"{row['terabytes_per_second']:.2f} TB/s", "-", True,
            )  # fmt: skip
        elif name not in ("products", "jax-privacy"):
            run = 1e6 * row["seconds"] / count
            stepwise = "steps" in row
            each = f"{run / row['steps']:.3f} us a step" if stepwise else f"{run:,.1f} us"
            label = f"{name}, {row['steps']:,} steps" if stepwise else name
            yield Line(f"{label}, {runs}", shown, f"{each} and run", "-", True)
