"""Suite of a convolutional network: one epoch, compared with jax-privacy."""

from __future__ import annotations

import process
from line import Line

TITLE = "A network"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "flax", "optax", "numpy")
PEERS = ("jax_privacy", "flax")


def measured(repeats: int) -> tuple[dict, list[Line]]:
    result = process.measured("networks.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    return result, lines(result)


def described(result: dict) -> list[str]:
    streamed = result["seconds_of_an_epoch"]["run_stream"]
    return [
        "Two convolutions and two dense layers, 26,010 parameters, 60,000 images, an epoch of 234",
        f"Poisson batches of 256 by {result['steps']} of them, processor seconds of one thread.",
        "privopt: one compiled loop, microbatches of 32 without the empty ones, and convolutions",
        "as products of patches and matrices. XLA uses its fast code for convolutions outside of",
        "loops only, so jax-privacy runs in a Python loop, with the convolutions of XLA and",
        "batches padded to one size, as documented, or to multiples of 32. `run_stream`, also a",
        f"Python loop, takes {streamed:.1f} s with the convolutions of XLA and one size.",
    ]


def lines(result: dict) -> list[Line]:
    return [against(result, name) for name in ("one size", "multiples of 32")]


def against(result: dict, padding: str) -> Line:
    ours, theirs = (result["seconds_of_an_epoch"][name] for name in ("privopt", padding))
    times = result["ratios"][padding]
    return Line(
        f"an epoch, against jax-privacy, batches padded to {padding}",
        f"{ours:.1f} s beside {theirs:.1f} s",
        f"{times:.2f}x",
        ">= 1x",
        times >= 1.0,
    )
