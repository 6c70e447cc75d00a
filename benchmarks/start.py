"""Processor seconds and memory of starting: commands, plans, a first risk, and ten million records.

    python benchmarks/start.py [--repeats 5]

The command ``privopt epsilon`` is compared with ``import dp_accounting``. Plans of DP-GD differ in
their step size or in their epsilon. Memory is the growth of the peak by a problem and a run,
besides the arrays of the caller and relative to them, without the memory of the compiler.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import jax
import numpy as np
import workload
from memory import peak, resident
from timing import print_measured, seconds

from privopt import Budget, Plan, ProblemClass, dp_gd, dp_sgd, run, run_many
from privopt.problems import Problem, logistic

HERE = Path(__file__).parent
PLANS, RECORDS, DIM, CALLS = 100, 10_000_000, 10, 5
EPSILON = ("epsilon", "--noise=1.1", "--rate=256/60000", "--steps=14062", "--delta=1e-5")
COMMAND = f"import sys; sys.argv = {['privopt', *EPSILON]}; from privopt.cli import main; main()"
FIRST = "import start; start.first_risk()"


def fresh(code: str, repeats: int) -> float:
    """Return the processor seconds of a fresh process, the median of several."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def one() -> float:
        before = used()
        subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, cwd=HERE
        )
        return used() - before

    return median(one() for _ in range(repeats))


def first_risk() -> None:
    """Compute the first excess risks of a session, of one run and of ten, on arrays of NumPy."""
    problem = problem_of(*records(10_000, 20))
    plan = workload.plan(problem)
    problem.excess_risk(run(plan, problem, jax.random.key(0)).released)
    problem.excess_risk(run_many([plan], problem, workload.fresh_keys(10)).released)


def planning(make: Callable[[float], Plan]) -> float:
    """Return the processor seconds of a plan."""
    make(1.0)
    start = time.process_time()
    for number in np.linspace(0.5, 2.0, PLANS):
        make(float(number))
    return (time.process_time() - start) / PLANS


def plans() -> dict[str, float]:
    """Return the processor seconds of plans that differ in one number."""
    facts = workload.problem().problem_class

    def budget(epsilon: float) -> Budget:
        return Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")

    return {
        "step size": planning(lambda size: dp_gd(facts, budget(1.0), steps=200, step_size=size)),
        "epsilon": planning(lambda epsilon: dp_gd(facts, budget(epsilon), steps=200)),
    }


def many_records() -> dict:
    """Measure DP-SGD on ten million records, after a small run that loads the compiler."""
    steps_of(*records(10_000, DIM))
    features, labels = records(RECORDS, DIM)
    before, data = resident(), features.nbytes + labels.nbytes
    times = steps_of(features, labels)
    return {"copies": (peak() - before) / data, "seconds": median(times)}


def records(count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random records, made without copies in float64, which would be the peak."""
    rng = np.random.default_rng(0)
    features = rng.random((count, dim), np.float32)
    features -= np.float32(0.5)
    features *= np.float32(1.8 / dim**0.5)  # norms up to 0.9
    return features, np.copysign(np.float32(1.0), rng.random(count, np.float32) - np.float32(0.5))


def problem_of(features: np.ndarray, labels: np.ndarray) -> Problem:
    count, dim = features.shape
    facts = ProblemClass(n=count, dim=dim, lipschitz=1.0, radius=10.0, smoothness=0.25)
    return logistic(features, labels, problem_class=facts)


def steps_of(features: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return the processor seconds of calls of 50 steps of DP-SGD with batch 256."""
    problem = problem_of(features, labels)
    budget = Budget(epsilon=1.0, delta=1e-9, relation="add_or_remove_one")
    plan = dp_sgd(problem.problem_class, budget, batch_size=256, steps=50)
    keys = workload.fresh_keys(CALLS)
    jax.block_until_ready(run(plan, problem, keys[0]).released)
    return [
        seconds(lambda key=key: run(plan, problem, key).released, time.process_time) for key in keys
    ]


def measure(repeats: int) -> dict:
    return {
        "records": many_records(),
        "plans": plans(),
        "privopt_epsilon": fresh(COMMAND, repeats),
        "import": fresh("import dp_accounting", repeats),
        "first_risk": fresh(FIRST, repeats),
    }


if __name__ == "__main__":
    print_measured(measure, __doc__)
