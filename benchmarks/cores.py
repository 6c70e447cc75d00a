"""Time of a hundred seeds in one call, measured again for every line of standard input.

Started by the suite ``dp_gd`` as two processes, with one device and with one device per core,
because the number of devices is fixed once JAX has started. An answer contains two numbers: the
wall-clock seconds, and the average number of cores in use, which is smaller on a busy machine.
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
    plan = workload.plan(problem)
    jax.block_until_ready(run_many([plan], problem, workload.fresh_keys()))
    for _ in sys.stdin:
        busy = time.process_time()
        elapsed = seconds(lambda: run_many([plan], problem, workload.fresh_keys()))
        print(elapsed, (time.process_time() - busy) / elapsed, flush=True)
