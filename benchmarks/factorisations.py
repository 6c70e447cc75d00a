"""Optimised factorisations in CPU seconds of one thread: privopt and jax-privacy.

    python benchmarks/factorisations.py [--repeats 5]

Measured are the optimum among all matrices at T = 1,000, and banded and buffered coefficients at
T = 10^4 and T = 10^5, with the optima of jax-privacy in the same classes. At T = 10^5 it runs 20 of
its 250 steps for a band, and no buffers, which would take many minutes. privopt computes all errors
from the returned coefficients.
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
LONG = {10_000: 250, 100_000: 20}  # steps of the stream: steps of the banded optimiser of the peer


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of a call and its result. Other processes do not count."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def repeated(name: str, steps: int, repeats: int, **choices: Any) -> dict:
    """Measure privopt several times."""
    factorise(name, 16)
    rounds = [seconds(lambda: factorise(name, steps, **choices)) for _ in range(repeats)]
    result = rounds[-1][1]
    gap = {"gap": result.gap} if isinstance(result, DenseFactorisation) else {}
    times = [elapsed for elapsed, _ in rounds]
    return {"seconds": median(times), "all_seconds": times, "rmse": result.rmse(), **gap}


def once(call: Callable[[], Any], rebuilt: Callable[[Any], Factorisation]) -> dict:
    """Measure jax-privacy once. The compilation is included; it is short compared with minutes."""
    elapsed, result = seconds(call)
    return {"seconds": elapsed, "rmse": rebuilt(result).rmse()}


def banded(steps: int, coefficients: np.ndarray) -> Factorisation:
    """Return the factorisation with these coefficients, scaled so that the first one is 1."""
    return SeriesFactorisation("theirs", steps, coefficients / coefficients[0])


def measure(repeats: int) -> dict:
    result: dict[str, Any] = {
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
        result[f"banded, T = {steps:,}"] = {"privopt": ours, "jax-privacy": theirs}
    for steps in LONG:
        ours = repeated("buffered", steps, repeats, band=BUFFERS, optimise=True)
        result[f"buffered, T = {steps:,}"] = {"privopt": ours}
    short = min(LONG)
    result[f"buffered, T = {short:,}"]["jax-privacy"] = once(
        lambda: peer.buffered(short, BUFFERS), lambda pair: BufferedFactorisation(short, *pair)
    )
    return result


if __name__ == "__main__":
    print_measured(measure, __doc__)
