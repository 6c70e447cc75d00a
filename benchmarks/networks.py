"""Time of an epoch of the network of ``experiments/compared/networks.py``: privopt and jax-privacy.

    python benchmarks/networks.py [--repeats 5]

Poisson batches have 256 of 60,000 random images; the time does not depend on their content. For the
peer and ``run_stream`` the network uses the convolutions of XLA, which are faster than patches
outside of loops. The batches of the peer are padded to one size or to multiples of a microbatch,
those of ``run_stream``, a host loop, to one size. Times are processor seconds of one thread.
"""

from __future__ import annotations

import itertools
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen
from jax import Array
from peers.jax_privacy_sgd import Setting, descents
from timing import interleaved, print_measured, ratio

from privopt import Execution, run, run_stream

STUDY = runpy.run_path(str(Path(__file__).parents[1] / "experiments" / "compared" / "networks.py"))
RECORDS, BATCH, EPOCH, STEPS, MICROBATCH, WARM = 60_000, 256, 234, 12, 32, 6


class Convolutions(linen.Module):
    """The network with the convolutions and pools of flax."""

    @linen.compact
    def __call__(self, pixels: Array) -> Array:  # noqa: D102
        x = pixels.reshape(28, 28, 1)
        for filters, side, padding in ((16, 8, "SAME"), (32, 4, "VALID")):
            x = linen.relu(linen.Conv(filters, (side, side), (2, 2), padding)(x))
            x = linen.max_pool(x, (2, 2), (1, 1))
        x = linen.relu(linen.Dense(32)(x.ravel()))
        return linen.Dense(10)(x)


def measure(repeats: int) -> dict:
    """Return the seconds of the steps, and of an epoch computed from them."""
    rng = np.random.default_rng(0)
    data = rng.random((RECORDS, 784), np.float32), rng.integers(0, 10, RECORDS).astype(np.int32)
    row = STUDY["LARGE"][0]._replace(task=lambda: task, epochs=STEPS * BATCH / RECORDS)
    task = STUDY["Task"].of(STUDY["Convolutional"](), data, data)
    problem, plan = task.problem, row.planned(row.noise)
    mechanism = plan.params.mechanism
    network = Convolutions()
    start = network.init(jax.random.key(0), jnp.zeros(784))
    seeds = itertools.count()  # every call has different batches and noise

    def loss(point: Any, pixels: Array, digit: Array) -> Array:
        scores = network.apply(point, pixels)
        return optax.softmax_cross_entropy_with_integer_labels(scores, digit)

    def peer(multiple: int | None) -> Callable[[], Any]:
        setting = Setting(
            data=problem.data, start=start, loss=loss,
            steps=mechanism.steps, batch_size=BATCH, capacity=mechanism.batches.capacity,
            step_size=row.step_size, clip_norm=mechanism.query.clip_norm,
            noise_scale=mechanism.scale, project=lambda point: point, batched_loss=False,
            multiple=multiple,
        )  # fmt: skip
        descent = descents(setting)["Python loop"]
        return lambda: descent(next(seeds))

    def of_record(point: Any, record: tuple[Array, Array]) -> Array:
        return loss(point, *record)

    def whole() -> Any:
        key, execution = jax.random.key(next(seeds)), Execution(microbatch=MICROBATCH)
        return run(plan, problem, key, execution=execution).released

    def streamed() -> Any:
        return run_stream(
            plan, of_record, lambda rows: (data[0][rows], data[1][rows]),
            jax.random.key(next(seeds)), start=start,
        ).released  # fmt: skip

    multiples = peer(MICROBATCH)
    for _ in range(WARM):  # it compiles a program for every batch size
        jax.block_until_ready(multiples())
    calls = {"privopt": whole, "run_stream": streamed, "one size": peer(None)}
    calls[f"multiples of {MICROBATCH}"] = multiples
    times = interleaved(calls, repeats, time.process_time)
    medians = {name: median(values) for name, values in times.items()}
    return {
        "steps": STEPS,
        "seconds_of_an_epoch": {name: s * EPOCH / STEPS for name, s in medians.items()},
        "all_seconds": times,
        "ratios": {name: ratio(times[name], times["privopt"]) for name in medians},
    }


if __name__ == "__main__":
    print_measured(measure, __doc__)
