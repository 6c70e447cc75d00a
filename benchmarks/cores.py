"""A hundred seeds in one call, timed again for every line that arrives on standard input.

Two such processes, one with a single device and one with a device for every core, are asked in
turn; the number of devices is fixed once JAX has started. An answer is two numbers: seconds by
the clock, and how many cores were really had meanwhile, which shows a machine that is not quiet.
"""

from __future__ import annotations

import sys
import time

import jax
import workload
from timing import seconds

from privopt import run_many

if __name__ == "__main__":
    problem = workload.problem()
    plan, keys = workload.plan(problem), workload.keys()
    jax.block_until_ready(run_many([plan], problem, keys))
    for _ in sys.stdin:
        busy = time.process_time()
        elapsed = seconds(lambda: run_many([plan], problem, keys))
        print(elapsed, (time.process_time() - busy) / elapsed, flush=True)
