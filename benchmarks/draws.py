"""Time of noise draws in a loop inside ``jit``: privopt, with wider tails, and JAX.

python benchmarks/draws.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from statistics import median

import jax
import jax.numpy as jnp
from jax import Array
from timing import interleaved, ratio

from privopt import random

LAWS: dict[str, tuple[Callable, Callable]] = {
    "normal": (random.normal, jax.random.normal),
    "laplace": (random.laplace, jax.random.laplace),
    "gumbel": (random.gumbel, partial(jax.random.gumbel, mode="high")),
}
SIZES = (20, 100, 1_000, 100_000)
NUMBERS = 1_000_000  # numbers in one call, approximately, and at most 20,000 draws


def looped(draw: Callable, size: int, dtype: str, steps: int) -> Callable[[], Array]:
    """Return the sum of ``steps`` draws, each with a different key."""

    def step(t: Array, total: Array) -> Array:
        return total + draw(jax.random.fold_in(key, t), (size,), dtype)

    key = jax.random.key(0)
    summed = jax.jit(lambda total: jax.lax.fori_loop(0, steps, step, total))
    start = jnp.zeros(size, dtype)
    return lambda: summed(start)


def case(law: str, size: int, dtype: str, repeats: int) -> dict:
    steps = min(20_000, NUMBERS // size)
    calls = {
        name: looped(draw, size, dtype, steps)
        for name, draw in zip(("privopt", "jax.random"), LAWS[law], strict=True)
    }
    times = interleaved(calls, repeats)
    return {
        "law": law,
        "size": size,
        "dtype": dtype,
        "seconds": {name: median(values) / steps for name, values in times.items()},
        "times": ratio(times["privopt"], times["jax.random"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, required=True)
    repeats = parser.parse_args().repeats
    jax.config.update("jax_enable_x64", True)
    values = [case(*each, dtype, repeats) for each in cases() for dtype in ("float32", "float64")]
    print(json.dumps({"cases": values}))


def cases() -> list[tuple[str, int]]:
    return [(law, size) for law in LAWS for size in SIZES if law == "normal" or size == 1_000]


if __name__ == "__main__":
    main()
