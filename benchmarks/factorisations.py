"""Factorisations of least error: privopt beside jax-privacy, in CPU seconds of one thread.

The optimum among all matrices at T = 1,000; banded and buffered coefficients at T = 10^4, beside
the optima that the peer finds in the same classes, and at T = 10^5, where it gets 20 of its 250
steps for a band and is not asked for buffers, which take it many minutes. All errors are computed
by privopt, of what each returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import numpy as np
from peers import jax_privacy_factorisations as peer
from timing import print_measured

from privopt.factorisations import (
    BufferedFactorisation,
    DenseFactorisation,
    Factorisation,
    SeriesFactorisation,
    factorise,
)

jax.config.update("jax_enable_x64", True)

STEPS, BAND, BUFFERS = 1_000, 32, 5
LONG = {10_000: 250, 100_000: 20}  # steps of the stream, and of the peer's banded optimiser


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Of the processor, which other processes do not spend."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def repeated(name: str, steps: int, repeats: int, **choices: Any) -> dict:
    """Ours, several times."""
    factorise(name, 16)
    rounds = [seconds(lambda: factorise(name, steps, **choices)) for _ in range(repeats)]
    found = rounds[-1][1]
    gap = {"gap": found.gap} if isinstance(found, DenseFactorisation) else {}
    times = [spent for spent, _ in rounds]
    return {"seconds": median(times), "all_seconds": times, "rmse": found.rmse(), **gap}


def once(call: Callable[[], Any], rebuilt: Callable[[Any], Factorisation]) -> dict:
    """Theirs, its compilation included; in minutes that is nothing."""
    spent, found = seconds(call)
    return {"seconds": spent, "rmse": rebuilt(found).rmse()}


def banded(steps: int, coefficients: np.ndarray) -> Factorisation:
    """Whose first coefficient is 1."""
    return SeriesFactorisation("theirs", steps, coefficients / coefficients[0])


def measure(repeats: int) -> dict:
    found: dict[str, Any] = {
        "optimal": {
            "privopt": repeated("optimal", STEPS, repeats),
            "jax-privacy": once(lambda: peer.optimal(STEPS), lambda c: DenseFactorisation(c)),
        }
    }
    for steps, rounds in LONG.items():
        ours = repeated("banded", steps, repeats, band=BAND, optimise=True)
        theirs = once(
            lambda steps=steps, rounds=rounds: peer.banded(steps, BAND, rounds),
            lambda c, steps=steps: banded(steps, c),
        )
        found[f"banded, T = {steps:,}"] = {"privopt": ours, "jax-privacy": theirs}
    for steps in LONG:
        ours = repeated("buffered", steps, repeats, band=BUFFERS, optimise=True)
        found[f"buffered, T = {steps:,}"] = {"privopt": ours}
    short = min(LONG)
    found[f"buffered, T = {short:,}"]["jax-privacy"] = once(
        lambda: peer.buffered(short, BUFFERS), lambda pair: BufferedFactorisation(short, *pair)
    )
    return found


if __name__ == "__main__":
    print_measured(measure, __doc__)
