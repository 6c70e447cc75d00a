"""Seconds and memory of a complete run against one size. Each size has a separate program.

Along ``n`` the records have 10 numbers, along ``d`` there are 1,000 records. ``plans`` differ in
epsilon and run in one call. ``budgets`` counts plans that are only made, on the host.

    python benchmarks/growth.py METHOD AXIS SIZE ... [--repeats 5]

Times are processor seconds of one thread, the median of warm calls with different keys. Memory is
the allocation of the compiled program besides its arguments, as reported by XLA.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median

import jax
import workload
from memory import allocated
from timing import seconds

from privopt import ALGORITHMS, Budget, Plan, ProblemClass, run_many
from privopt.problems import Problem, squared_distance

BASE = {"n": 10_000, "d": 100, "T": 100, "replicates": 1, "plans": 1, "budgets": 1}
ALONG = {"n": {"d": 10}, "d": {"n": 1_000}}  # other sizes along an axis, for data that fit
LEADER = {"batch_size": 100, "order": "stored", "quantity": "population risk"}
CHOICES = {
    "dp_gd": {},
    "dp_sgd": {"batch_size": 256},
    "dp_ftrl": LEADER,
    "toeplitz": {**LEADER, "noise": "toeplitz"},
    "projection_mechanism": {},
    "objective_perturbation": {},
    "output_perturbation": {},
}
HAS_STEPS = ("dp_gd", "dp_sgd")


def planned(method: str, size: dict[str, int]) -> tuple[list[Plan], Problem]:
    """Return plans and data of these sizes. One pass of DP-FTRL has ``n/100`` steps."""
    n, dim = size["n"], size["d"]
    name = "dp_ftrl" if method == "toeplitz" else method
    steps = {"steps": size["T"]} if name in HAS_STEPS else {}
    problem = workload.problem(n=n, dim=dim)
    if name == "projection_mechanism":
        features, _ = problem.data
        facts = ProblemClass(
            n=n,
            dim=dim,
            lipschitz=2.0,
            radius=1.0,
            smoothness=1.0,
            strong_convexity=1.0,
            sparsity=10,
        )
        problem = squared_distance(features, problem_class=facts)
    choices = {**CHOICES[method], **steps}
    return made(name, problem.problem_class, size["plans"], choices), problem


def made(name: str, facts: ProblemClass, count: int, choices: dict) -> list[Plan]:
    """Return ``count`` plans with epsilon from 1 to 2."""
    epsilons = [1.0 + i / count for i in range(count)]
    budgets = [Budget(epsilon=each, delta=1e-8, relation="replace_one") for each in epsilons]
    return [ALGORITHMS[name].plan(facts, budget, **choices) for budget in budgets]


def planning(method: str, count: int) -> dict:
    """Measure ``count`` plans with different budgets."""
    problem = workload.problem()
    made(method, problem.problem_class, 1, CHOICES[method])
    elapsed = seconds(
        lambda: made(method, problem.problem_class, count + 1, CHOICES[method])[1:],
        time.process_time,
    )
    return {"budgets": count, "seconds": elapsed, "bytes": 0, "data_bytes": 0}


def measured(method: str, axis: str, at: int, repeats: int) -> dict:
    """Measure one size of the axis; the other sizes are those of ``BASE``."""
    size = {**BASE, **ALONG.get(axis, {}), axis: at}
    if (method, axis) == ("projection_mechanism", "d"):
        size["n"] = 100  # ten thousand records with a million coordinates need 40 GB
    plans, problem = planned(method, size)
    keys = jax.random.split(jax.random.key(1), (repeats + 1, size["replicates"]))
    data = sum(leaf.nbytes for leaf in jax.tree.leaves(problem.data))
    with jax.enable_x64(plans[0].algorithm.float64):
        memory = allocated(plans[0], problem, keys[0])
    jax.block_until_ready(run_many(plans, problem, keys[0]))
    times = [
        seconds(lambda keys=each: run_many(plans, problem, keys), time.process_time)
        for each in keys[1:]
    ]
    return {axis: at, "seconds": median(times), "bytes": memory, "data_bytes": data}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=CHOICES)
    parser.add_argument("axis", choices=BASE)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    curve = [
        planning(arguments.method, at)
        if arguments.axis == "budgets"
        else measured(arguments.method, arguments.axis, at, arguments.repeats)
        for at in arguments.sizes
    ]
    print(json.dumps({"curve": curve}))
