"""Seconds of the import and the first epsilon in a fresh process: privopt or dp-accounting.

    python benchmarks/first_answer.py [privopt] [dp-accounting]

The argument is the library to measure; the other one is not imported.
"""

from __future__ import annotations

import time

START = time.perf_counter()

import json  # noqa: E402
import sys  # noqa: E402

NOISE, RATE, STEPS, DELTA = 1.0, 0.01, 1_000, 1e-5


def privopt() -> float:
    import dp_accounting as dp

    from privopt.privacy import epsilon

    sampled = dp.PoissonSampledDpEvent(RATE, dp.GaussianDpEvent(NOISE))
    event = dp.SelfComposedDpEvent(sampled, STEPS)
    return epsilon(event, DELTA, relation="add_or_remove_one").upper


def dp_accounting() -> float:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    sampled = dp.PoissonSampledDpEvent(RATE, dp.GaussianDpEvent(NOISE))
    event = dp.SelfComposedDpEvent(sampled, STEPS)
    return PLDAccountant().compose(event).get_epsilon(DELTA)


if __name__ == "__main__":
    {"privopt": privopt, "dp-accounting": dp_accounting}[sys.argv[1]]()
    print(json.dumps({"seconds": time.perf_counter() - START}))
