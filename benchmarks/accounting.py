"""Time and accuracy of one epsilon of the subsampled Gaussian: privopt and other accountants.

    python benchmarks/accounting.py [--repeats 5]

Peers: dp-accounting, the PRV accountant of opacus, and that of its authors. Cases are a grid of
noise, rate, steps and delta. privopt uses the Fourier accountant by name, so that no closed form
replaces it; both of its bounds are certified. Every call has a new event with a noise that differs
by a relative 1e-9. A peer that is too slow for a case, or needs too much memory, is omitted there,
and the reason is recorded.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import count, product
from math import log, sqrt
from typing import Any, NamedTuple

import dp_accounting as dp
from limits import LimitError, limit_memory, within
from peers import dp_accounting as pld
from peers import opacus

from privopt.privacy import Fourier, Interval, epsilon

NOISES = (0.6, 1.0, 2.0, 5.0, 20.0)
RATES = (1e-3, 1e-2, 0.1, 1.0)
STEPS = (10**2, 10**4, 10**6)
DELTAS = (1e-5, 1e-10)
RARE = (  # noise, rate, steps, delta: a record is in about one batch
    (0.7, 1e-6, 10**6, 1e-6),
    (0.5, 1e-6, 10**6, 1e-6),
    (1.0, 1e-5, 10**6, 1e-8),
    (0.5, 1e-8, 10**8, 1e-6),
)
FIXED = ((1_000, 50, 1.0, 200), (10_000, 256, 0.7, 2_000), (60_000, 256, 1.1, 10_000))
PATIENCE = 0.5  # seconds; a slower call is not repeated
LIMIT = 20.0  # seconds
GIGABYTES = 8.0
UNIT = 2.0**-53
_NUMBERS = count(1)


class Case(NamedTuple):
    """One case of the grid."""

    noise: float
    rate: float
    steps: int
    delta: float


class Peer(NamedTuple):
    """Function, size of its grid, time limit, and its error.

    ``error`` is the largest excess of its epsilon over that of privopt, by its documentation.
    """

    epsilon: Callable[..., float]
    points: Callable[[Case, float], float]
    most: float
    error: Callable[[Case], float]


def peers() -> dict[str, Peer]:
    """Return the installed peers. That of the PRV authors is slow and has small cases only."""

    def prv_error(case: Case) -> float:
        return 2.0 * opacus.EPSILON_ERROR

    result = {
        "dp-accounting": Peer(
            pld.epsilon,
            lambda case, answer: answer / pld.MESH,
            2.5e7,
            lambda case: case.steps * pld.MESH,
        ),
        "opacus": Peer(opacus.epsilon, prv_points, 4e6, prv_error),
    }
    if find_spec("prv_accountant") is not None:
        from peers import prv_accountant

        result["prv-accountant"] = Peer(prv_accountant.epsilon, prv_points, 1e5, prv_error)
    return result


def ours(case: Case) -> Interval:
    return epsilon(
        pld.event(*case[:3]), case.delta, relation="add_or_remove_one", accountant=Fourier()
    )


def prv_points(case: Case, answer: float) -> float:
    """Return the grid size of a PRV accountant: twice epsilon plus three, over its mesh."""
    mesh = opacus.EPSILON_ERROR / sqrt(0.5 * case.steps * log(12_000.0 / case.delta))
    return 2.0 * (answer + 3.0) / mesh


def seconds(call: Callable[..., Any], case: Case) -> tuple[float, Any]:
    """Time a call with a noise of its own; answers to the same question are cached."""
    changed = case._replace(noise=case.noise * (1.0 + 1e-9 * next(_NUMBERS)))
    start = time.perf_counter()
    answer = call(changed)
    return time.perf_counter() - start, answer


def beside(peer: Peer, case: Case, answer: float, repeats: int) -> dict:
    """Return the seconds of both in rounds, privopt first; or the reason of an omission."""
    if peer.points(case, answer) > peer.most:
        return {"skipped": f"would take more than {peer.most:.2g} points"}

    def theirs(changed: Case) -> float:
        return peer.epsilon(*changed)

    rounds: list[tuple[float, float]] = []
    try:
        first, value = within(LIMIT, lambda: seconds(theirs, case))
        if first > PATIENCE:  # a long call needs no warm-up
            rounds.append((seconds(ours, case)[0], first))
        while len(rounds) < repeats and sum(theirs for _, theirs in rounds) <= PATIENCE:
            rounds.append((seconds(ours, case)[0], seconds(theirs, case)[0]))
    except (LimitError, RuntimeError, ValueError) as error:
        return {"skipped": str(error)}
    return {"epsilon": value, "rounds": rounds}


def consistent(peer: Peer, case: Case, interval: Interval, theirs: float) -> bool | None:
    """Return True if a bound of a peer is consistent with privopt, or None if rounding dominates.

    Peers compose by an untilted transform in float64. Its rounding error is of the order of
    ``T 2^-53`` for every delta.
    """
    if case.delta < 100 * case.steps * UNIT:
        return None
    slack = 1e-3 * interval.upper
    return interval.lower - slack <= theirs <= interval.upper + peer.error(case) + slack


def measure(repeats: int) -> dict:
    limit_memory(GIGABYTES)
    available = peers()
    ours(Case(1.0, 0.01, 10, 1e-5))
    cases = []
    for case in (Case(*each) for each in (*product(NOISES, RATES, STEPS, DELTAS), *RARE)):
        interval = ours(case)
        times = [seconds(ours, case)[0] for _ in range(repeats)]
        result = {
            name: beside(peer, case, interval.upper, repeats) for name, peer in available.items()
        }
        for name, record in result.items():
            if "epsilon" in record:
                record["consistent"] = consistent(
                    available[name], case, interval, record["epsilon"]
                )
        cases.append(
            {**case._asdict(), "epsilon": list(interval), "seconds": times, "peers": result}
        )
    return {"cases": cases, "fixed_size": [fixed_size(*each) for each in FIXED]}


def fixed_size(size: int, batch: int, noise: float, steps: int) -> dict:
    """Return the bounds of batches of one size, for which the worst data are not known."""
    one = dp.SampledWithoutReplacementDpEvent(size, batch, dp.GaussianDpEvent(noise))
    interval = epsilon(dp.SelfComposedDpEvent(one, steps), 1e-6, relation="replace_one")
    return {"size": size, "batch": batch, "noise": noise, "steps": steps, "epsilon": list(interval)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    warnings.simplefilter("ignore")  # warnings of the peers
    print(json.dumps(measure(parser.parse_args().repeats)))
