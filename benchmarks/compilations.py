"""Number of programs that are compiled for 3 budgets x 32 seeds on two data sets of equal shape.

python benchmarks/compilations.py
"""

from __future__ import annotations

import json

import jax
import workload

from privopt import run_many

COMPILED = "/jax/core/compile/backend_compile_duration"


def measure() -> dict:
    problems = [workload.problem(seed) for seed in (0, 1)]
    plans = [workload.plan(problems[0], epsilon) for epsilon in (0.5, 1.0, 2.0)]
    keys = workload.fresh_keys(32)
    programs: list[str] = []

    def hear(event: str, duration: float, **details: str) -> None:
        if event == COMPILED:
            programs.append(details.get("fun_name", "?"))

    jax.monitoring.register_event_duration_secs_listener(hear)
    for problem in problems:
        jax.block_until_ready(run_many(plans, problem, keys))
    runs = [name for name in programs if "run_all" in name]  # the others prepare a problem
    return {"programs": runs, "devices": jax.device_count()}


if __name__ == "__main__":
    print(json.dumps(measure()))
