"""Calibrated noise for six epsilons, rate 0.01, 1,000 steps, delta 1e-5: privopt and dp-accounting.

    python benchmarks/calibration.py [--repeats 5]

Measured are seconds, with a relative tolerance of 1e-4 for the noise. The Fourier accountant
evaluates every noise again, at a finer accuracy than that of the calibration.
"""

from __future__ import annotations

import time

from peers import dp_accounting as pld
from timing import print_measured

from privopt import Budget
from privopt.privacy import Fourier, calibrate, epsilon

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
RATE, STEPS, DELTA = 0.01, 1_000, 1e-5
TOLERANCE = 1e-4
RELATION = "add_or_remove_one"
CHECK = Fourier(accuracy=1e-5)


def ours(target: float) -> float:
    budget = Budget(epsilon=target, delta=DELTA, relation=RELATION)
    return calibrate(lambda z: pld.event(z, RATE, STEPS), budget, tolerance=TOLERANCE)


def theirs(target: float, about: float) -> float:
    """Calibrate with dp-accounting; its absolute tolerance is set to that of privopt."""
    return pld.noise(target, RATE, STEPS, DELTA, tolerance=TOLERANCE * about)


def certified(noise: float) -> tuple[float, float]:
    return tuple(epsilon(pld.event(noise, RATE, STEPS), DELTA, relation=RELATION, accountant=CHECK))


def evaluate(target: float, noise: float) -> dict:
    """Return the noise, its epsilon, and the epsilon of a noise smaller by the tolerance."""
    return {
        "noise": noise,
        "epsilon": certified(noise),
        "epsilon_of_less_noise": certified(noise * (1.0 - TOLERANCE)),
        "target": target,
    }


def measure(repeats: int) -> dict:
    ours(3.0), pld.epsilon(1.0, RATE, 10, DELTA)
    times, answers = [], [ours(target) for target in EPSILONS]
    for number in range(repeats):
        for target in EPSILONS:
            start = time.perf_counter()
            ours(target * (1.0 + 1e-9 * (number + 1)))
            times.append({"epsilon": target, "seconds": time.perf_counter() - start})
    peer_times, peer_found = [], []
    for target, noise in zip(EPSILONS, answers, strict=True):
        start = time.perf_counter()
        peer_found.append(theirs(target, noise))
        peer_times.append({"epsilon": target, "seconds": time.perf_counter() - start})
    return {
        "privopt": [evaluate(*each) for each in zip(EPSILONS, answers, strict=True)],
        "dp-accounting": [evaluate(*each) for each in zip(EPSILONS, peer_found, strict=True)],
        "seconds_privopt": times,
        "seconds_dp_accounting": peer_times,
    }


if __name__ == "__main__":
    print_measured(measure, __doc__)
