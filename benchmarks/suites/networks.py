"""A convolutional network: an epoch beside jax-privacy."""

from __future__ import annotations

import process
from line import Line

TITLE = "A network"
PACKAGES = ("privopt", "jax-privacy", "jax", "jaxlib", "flax", "optax", "numpy")
PEERS = ("jax_privacy", "flax")


def measured(repeats: int) -> tuple[dict, list[Line]]:
    found = process.measured("networks.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    return found, lines(found)


def described(found: dict) -> list[str]:
    streamed = found["seconds_of_an_epoch"]["run_stream"]
    return [
        "Two convolutions and two dense layers, 26,010 parameters, 60,000 images, an epoch of 234",
        f"Poisson batches of 256 by {found['steps']} of them, processor seconds of one thread.",
        "Ours: one compiled loop, microbatches of 32, of which those that nobody is in are left",
        "out, and convolutions as patches times matrices. XLA puts convolutions into the form that",
        "its fast code wants outside of loops alone, so jax-privacy steps in a Python loop, with",
        "XLA's convolutions and batches padded to one size, as documented, or to multiples of 32.",
        f"`run_stream`, such a loop too, takes {streamed:.1f} s with XLA's convolutions, one size.",
    ]


def lines(found: dict) -> list[Line]:
    return [against(found, name) for name in ("one size", "multiples of 32")]


def against(found: dict, padding: str) -> Line:
    ours, theirs = (found["seconds_of_an_epoch"][name] for name in ("privopt", padding))
    times = found["ratios"][padding]
    return Line(
        f"an epoch, against jax-privacy, batches padded to {padding}",
        f"{ours:.1f} s beside {theirs:.1f} s",
        f"{times:.2f}x",
        ">= 1x",
        times >= 1.0,
    )
