"""Runs on the default device of JAX, compared with jax-privacy and with bare matrix products.

    python benchmarks/accelerator.py [--repeats 3] [--small]

Times are wall clock seconds of warm calls; every call has other keys. Compilation is measured
separately, as the duration of the first call. Results are printed as soon as they are measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import workload
from dp_sgd import logistic_setting
from peers.jax_privacy_sgd import prepared
from timing import seconds

from privopt import ALGORITHMS, Budget, Plan, ProblemClass, run, run_many, stepper
from privopt.problems import Problem, logistic

REPLACE = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
ADD = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
POISSON_STEPS = 2_000


class Size(NamedTuple):
    """Sizes of the measurements: records, replicates, and the large problem."""

    n: int
    descents: tuple[int, ...]
    sampled: tuple[int, ...]
    others: int
    large: tuple[int, int, int]


FULL = Size(10_000, (1, 100, 1_000, 10_000), (1, 32, 500, 4_000), 500, (1_000_000, 1_000, 50))
SMALL = Size(1_000, (1, 4), (1, 4), 4, (10_000, 100, 10))


def timed(call: Callable[[int], Any], repeats: int) -> dict[str, Any]:
    """Return the seconds of ``call(0)``, which compiles, and the median of the next calls."""
    first = seconds(lambda: call(0))
    times = [seconds(lambda i=i: call(i + 1)) for i in range(repeats)]
    return {"first": first, "seconds": median(times), "all_seconds": times}


def runs(plan: Plan, problem: Problem, count: int, repeats: int) -> dict[str, Any]:
    """Measure ``count`` replicates in one call; one replicate is a call of ``run``."""
    keys = [jax.random.split(jax.random.key(i), count) for i in range(repeats + 1)]

    def call(i: int) -> Any:
        if count == 1:
            return run(plan, problem, keys[i][0]).released
        return run_many([plan], problem, keys[i]).released

    return {"replicates": count, **timed(call, repeats)}


def descents(problem: Problem, size: Size, repeats: int) -> Iterator[dict[str, Any]]:
    """Measure DP-GD, and the two products of each of its steps in full precision."""
    plan = workload.plan(problem)
    n, dim = problem.data[0].shape
    steps = plan.params.mechanism.steps
    products = workload.products(problem, steps)
    for count in size.descents:
        operations = 4.0 * n * dim * steps * count
        yield {"name": "dp_gd", "operations": operations, **runs(plan, problem, count, repeats)}
        points = [jax.random.normal(jax.random.key(i), (count, dim)) for i in range(repeats + 1)]
        bare = timed(lambda i: products(points[i]), repeats)  # noqa: B023 (called at once)
        yield {"name": "products", "operations": operations, "replicates": count, **bare}


def sampled(problem: Problem, size: Size, repeats: int) -> Iterator[dict[str, Any]]:
    """Measure DP-SGD, whole runs and single steps, and jax-privacy with batches drawn before."""
    batch = min(256, size.n // 10)
    plan = ALGORITHMS["dp_sgd"].plan(
        problem.problem_class, ADD, steps=POISSON_STEPS, batch_size=batch
    )
    for count in size.sampled:
        yield {"name": "dp_sgd", "steps": POISSON_STEPS, **runs(plan, problem, count, repeats)}
    for count in size.sampled[:2]:
        call = prepared(logistic_setting(plan, problem), repeats + 1, count)
        peer = {"replicates": count, **timed(call, repeats)}
        yield {"name": "jax-privacy", "steps": POISSON_STEPS, **peer}
    few, steps = 200, stepper(plan, problem)
    starts = [steps.init(jax.random.key(i)) for i in range(repeats + 1)]

    def step_by_step(i: int) -> Any:
        state = starts[i]
        for _ in range(few):
            state = steps.step(state)
        return state

    yield {"name": "stepper", "steps": few, "replicates": 1, **timed(step_by_step, repeats)}


def others(problem: Problem, size: Size, repeats: int) -> Iterator[dict[str, Any]]:
    """Measure correlated noise and perturbation, many replicates in one call."""
    facts, batch = problem.problem_class, max(1, size.n // 1_000)
    choices: dict[str, tuple[str, dict]] = {
        "dp_ftrl, tree": ("dp_ftrl", {"noise": "tree", "batch_size": batch}),
        "dp_ftrl, banded_inverse": ("dp_ftrl", {"noise": "banded_inverse", "batch_size": batch}),
        "objective_perturbation": ("objective_perturbation", {}),
        "output_perturbation": ("output_perturbation", {}),
    }
    for name, (algorithm, arguments) in choices.items():
        plan = ALGORITHMS[algorithm].plan(facts, REPLACE, **arguments)
        steps = {"steps": plan.params.mechanism.steps} if algorithm == "dp_ftrl" else {}
        yield {"name": name, **steps, **runs(plan, problem, size.others, repeats)}


def large(size: Size, repeats: int) -> dict[str, Any]:
    """Measure DP-GD on data that fill gigabytes, and a copy of the data."""
    n, dim, steps = size.large
    features = jax.random.normal(jax.random.key(0), (n, dim)) / (1.3 * dim**0.5)
    facts = ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=10.0, smoothness=0.25)
    problem = logistic(features, jnp.sign(features[:, 0]), problem_class=facts)
    plan = ALGORITHMS["dp_gd"].plan(facts, REPLACE, steps=steps)
    copy = jax.jit(lambda x, i: x + i)
    copied = timed(lambda i: copy(features, np.float32(i)), repeats)
    result = runs(plan, problem, 1, repeats)
    return {
        "name": "dp_gd, large", "n": n, "d": dim, "steps": steps, **result,
        "terabytes_per_second": 2e-12 * features.nbytes * steps / result["seconds"],
        "copied_per_second": 2e-12 * features.nbytes / copied["seconds"],
    }  # fmt: skip


def measure(repeats: int, size: Size) -> dict[str, Any]:
    device = jax.devices()[0]
    problem = workload.problem(n=size.n)
    rows, began = [], time.time()
    kinds = (
        descents(problem, size, repeats),
        sampled(problem, size, repeats),
        others(problem, size, repeats),
        (large(size, repeats) for _ in range(1)),
    )
    for row in (row for kind in kinds for row in kind):
        rows.append(row)
        shown = {key: value for key, value in row.items() if key != "all_seconds"}
        print(f"[{time.time() - began:5.0f} s] {json.dumps(shown)}", file=sys.stderr, flush=True)
    return {"device": device.device_kind, "platform": device.platform, "n": size.n, "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.repeats, SMALL if arguments.small else FULL)))
