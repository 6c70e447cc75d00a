"""DP-SGD on Poisson batches, and a small network: privopt, jax-privacy and opacus.

    python benchmarks/dp_sgd.py --python PYTHON_WITH_OPACUS [--repeats 5]

Measured are seconds of one seed, at two sizes, and of its steps one by one; throughput of a hundred
seeds at five step sizes; time of a clipped gradient compared with a plain one; and the number of
compiled programs, on one thread.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import workload
from compilations import COMPILED
from jax import Array
from peers.jax_privacy_sgd import Setting, descents
from timing import interleaved, ratio, seconds

from privopt import Budget, Plan, ProblemClass, dp_sgd, run, run_many, stepper
from privopt.mechanisms import clipped_batch_sum, clipped_gradient_sum
from privopt.problems import Logistic, Problem

BATCH, STEPS, SEEDS, STEP_SIZES = 256, 2_000, 100, (0.25, 0.5, 1.0, 2.0, 4.0)
LARGE, LARGE_BATCH, LARGE_STEPS = 100_000, 1_024, 500
IMAGES, NETWORK_STEPS = 2_048, 10
PEER = Path(__file__).parent / "peers" / "opacus_fits.py"
BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")


def logistic_loss(point: Array, features: Array, labels: Array) -> Array:
    """Return the logistic loss of a record or of a batch."""
    return jnp.mean(jax.nn.softplus(-labels * (features @ point)))


def planned(problem: Problem, **choices: Any) -> Plan:
    return dp_sgd(problem.problem_class, BUDGET, **{"batch_size": BATCH, "steps": STEPS, **choices})


def setting_of(plan: Plan, problem: Problem, loss: Callable[..., Array], **other: Any) -> Setting:
    mechanism, method = plan.params.mechanism, plan.params.descent
    data = problem.data
    return Setting(
        data=data,
        start=problem.objective.start(problem.problem_class.dim),
        loss=loss,
        steps=mechanism.steps,
        batch_size=int(mechanism.batches.batch_size),
        capacity=mechanism.batches.capacity,
        step_size=float(method.step_sizes.scale),
        clip_norm=mechanism.query.clip_norm,
        noise_scale=mechanism.scale,
        **other,
    )


def beside(plan: Plan, problem: Problem, setting: Setting, repeats: int) -> dict:
    """Return the seconds of one seed, with privopt and with the faster form of jax-privacy."""
    forms = descents(setting)
    calls: dict[str, Callable[[], Any]] = {
        "privopt": lambda: run(plan, problem, workload.fresh_keys(1)[0]).released
    }
    calls |= {
        name: (lambda form=form: form(next(workload.FRESH_SEEDS))) for name, form in forms.items()
    }
    times = interleaved(calls, repeats)
    fastest = min(forms, key=lambda name: median(times[name]))
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "all_seconds": times,
        "fastest_form": fastest,
        "ratio": ratio(times[fastest], times["privopt"]),
    }


def logistic_setting(plan: Plan, problem: Problem) -> Setting:
    radius = problem.problem_class.radius
    return setting_of(
        plan,
        problem,
        logistic_loss,
        batched_loss=True,
        project=lambda point: optax.projections.projection_l2_ball(point, radius),
    )


def in_steps(plan: Plan, problem: Problem, repeats: int) -> dict:
    """Return the seconds of a Python loop over steps, with privopt and with jax-privacy."""
    steps, theirs = stepper(plan, problem), descents(logistic_setting(plan, problem))["Python loop"]

    def ours() -> Array:
        state = steps.init(workload.fresh_keys(1)[0])
        for _ in range(steps.steps):
            state = steps.step(state)
        return steps.released(state)

    times = interleaved(
        {"privopt": ours, "Python loop": lambda: theirs(next(workload.FRESH_SEEDS))}, repeats
    )
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "all_seconds": times,
    }


def large(repeats: int) -> dict:
    """Measure batches of 1,024 of 100,000 records."""
    problem = workload.problem(n=LARGE)
    plan = planned(problem, batch_size=LARGE_BATCH, steps=LARGE_STEPS)
    return {
        "one_seed": beside(plan, problem, logistic_setting(plan, problem), repeats),
        "in_steps": in_steps(plan, problem, repeats),
        "limit": limit(plan, problem, repeats),
    }


def limit(plan: Plan, problem: Problem, repeats: int) -> dict:
    """Compare a run with what no run avoids: it gathers the rows of its batches, and multiplies."""
    features = jnp.asarray(problem.data[0])

    @jax.jit
    def least(features: Array, rows: Array) -> Array:
        def step(t: Array, point: Array) -> Array:
            batch = features[rows[t]]
            return point - 1e-6 * jnp.tanh(batch @ point) @ batch

        return jax.lax.fori_loop(0, LARGE_STEPS, step, jnp.ones(features.shape[1]))

    def rows() -> Array:
        shape = LARGE_STEPS, LARGE_BATCH
        drawn = jax.random.randint(jax.random.key(next(workload.FRESH_SEEDS)), shape, 0, LARGE)
        return jnp.sort(drawn, axis=1)

    batches = iter([rows() for _ in range(repeats + 1)])
    times = interleaved(
        {
            "privopt": lambda: run(plan, problem, workload.fresh_keys(1)[0]).released,
            "least": lambda: least(features, next(batches)),
        },
        repeats,
    )
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "all_seconds": times,
        "ratio": ratio(times["least"], times["privopt"]),
    }


def one_seed(problem: Problem, repeats: int) -> dict:
    plan = planned(problem)
    setting = logistic_setting(plan, problem)
    result = beside(plan, problem, setting, repeats)
    ours = problem.excess_risk(
        run_many([plan], problem, jax.random.split(jax.random.key(5), 8)).released[0]
    )
    theirs = problem.excess_risk(
        np.stack([descents(setting)["loop in jit"](seed) for seed in range(8)])
    )
    for name, risks in (("privopt", ours), ("jax-privacy", theirs)):
        result[f"risk_{name}"] = float(np.mean(risks))
        result[f"risk_error_{name}"] = float(np.std(risks, ddof=1) / math.sqrt(len(risks)))
    return result


class Opacus:
    """Process of opacus, on the core of this process and with one thread."""

    def __init__(self, python: str, file: Path) -> None:
        self.process = subprocess.Popen(
            [python, "-P", str(PEER), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, form: str) -> float:
        """Return the seconds of one step."""
        self.process.stdin.write(form + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """Close the process."""
        self.process.stdin.close()
        self.process.wait()


def opacus(problem: Problem, repeats: int, python: str) -> dict:
    """Return the seconds of a step with privopt and with opacus, in rounds."""
    plan = planned(problem)
    mechanism, method = plan.params.mechanism, plan.params.descent
    features, labels = (np.asarray(leaf) for leaf in problem.data)
    forms = ("direct indexing", "data loader")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        np.savez(
            file, features=features, labels=labels, batch_size=BATCH,
            clip_norm=mechanism.query.clip_norm, step_size=float(method.step_sizes.scale),
            noise_multiplier=mechanism.scale * BATCH / mechanism.query.clip_norm,
        )  # fmt: skip
        peer = Opacus(python, file)

        def ours() -> float:
            return seconds(lambda: run(plan, problem, workload.fresh_keys(1)[0]).released) / STEPS

        ours(), [peer.seconds(form) for form in forms]
        rounds = [(ours(), *(peer.seconds(form) for form in forms)) for _ in range(repeats)]
        peer.close()
    columns = dict(zip(("privopt", *forms), map(list, zip(*rounds, strict=True)), strict=True))
    return {
        "peer": json.loads(subprocess.check_output([python, "-P", str(PEER)], text=True)),
        "seconds_of_a_step": {name: median(values) for name, values in columns.items()},
        "all_seconds": columns,
        "ratios": {form: ratio(columns[form], columns["privopt"]) for form in forms},
    }


def many(problem: Problem, repeats: int) -> dict:
    """Return the throughput per replicate of all seeds in one call, over that of one seed."""
    plans = [planned(problem, step_size=size) for size in STEP_SIZES]
    times = interleaved(
        {
            "one": lambda: run(plans[0], problem, workload.fresh_keys(1)[0]).released,
            "all": lambda: run_many(plans, problem, workload.fresh_keys(SEEDS)).released,
        },
        repeats,
    )
    replicates = SEEDS * len(STEP_SIZES)
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "all_seconds": times,
        "replicates": replicates,
        "throughput": replicates * ratio(times["one"], times["all"]),
    }


def clipping(problem: Problem, repeats: int) -> dict:
    """Compare clipped and plain gradients, of the whole data and of gathered batches."""
    objective = problem.objective
    features, labels = problem.data
    n, clip_norm = features.shape[0], jnp.float32(0.5)
    rows, weights = jax.random.randint(jax.random.key(2), (BATCH,), 0, n), jnp.ones(BATCH)

    def repeated(gradient: Callable[[Array, Array], Array], times: int) -> Array:
        """Repeat a gradient until the call overhead is negligible; each result enters the next."""
        start = jnp.zeros(features.shape[1])
        return jax.lax.fori_loop(0, times, lambda t, w: w - 1e-3 * gradient(t, w), start)

    def slope(point: Array, features: Array, labels: Array) -> Array:
        return Logistic().slope(features @ point, labels)

    @jax.jit
    def clipped_whole(objective: Any) -> Array:
        total = clipped_gradient_sum(objective, clip_norm)
        return repeated(lambda _, point: total(point), 200)

    @jax.jit
    def plain_whole(features: Array, labels: Array) -> Array:
        columns = features.T  # the fastest form

        def gradient(_: Array, point: Array) -> Array:
            return columns @ Logistic().slope(point @ columns, labels)

        return repeated(gradient, 200)

    @jax.jit
    def clipped_batch(objective: Any) -> Array:
        batch_sum = clipped_batch_sum(objective, clip_norm)
        return repeated(lambda t, point: batch_sum(point, (rows + t) % n, weights), 2_000)

    @jax.jit
    def plain_batch(features: Array, labels: Array) -> Array:
        def gradient(t: Array, point: Array) -> Array:
            indices = (rows + t) % n
            batch = features[indices]
            return slope(point, batch, labels[indices]) @ batch

        return repeated(gradient, 2_000)

    times = interleaved(
        {
            "clipped, all records": lambda: clipped_whole(objective),
            "plain, all records": lambda: plain_whole(features, labels),
            "clipped, batch": lambda: clipped_batch(objective),
            "plain, batch": lambda: plain_batch(features, labels),
        },
        repeats,
    )
    counts = {"all records": 200, "batch": 2_000}
    return {
        "seconds": {
            name: median(values) / counts[name.split(", ")[1]] for name, values in times.items()
        },
        "ratio_all": ratio(times["clipped, all records"], times["plain, all records"]),
        "ratio_batch": ratio(times["clipped, batch"], times["plain, batch"]),
    }


def network(repeats: int) -> dict:
    """Measure two convolutions and a dense layer on 28 x 28, with general losses."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(IMAGES, 28, 28, 1)).astype(np.float32)
    digits = rng.integers(0, 10, IMAGES)
    shapes = {
        "first": (8, 8, 1, 16), "second": (4, 4, 16, 32), "dense": (512, 10), "offset": (10,),
    }  # fmt: skip
    start = {
        name: jnp.asarray(rng.normal(size=shape) / math.sqrt(math.prod(shape[:-1])), jnp.float32)
        for name, shape in shapes.items()
    }

    def convolved(image: Array, kernel: Array, stride: int) -> Array:
        out = jax.lax.conv_general_dilated(
            image[None],
            kernel,
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return jax.nn.tanh(out[0])

    def loss(point: Any, image: Array, digit: Array) -> Array:
        hidden = convolved(convolved(image, point["first"], 2), point["second"], 4)
        logits = hidden.ravel() @ point["dense"] + point["offset"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, digit)

    problem = Problem(
        loss=lambda point, example: loss(point, *example),
        data=(images, digits.astype(np.int32)),
        problem_class=ProblemClass(
            n=IMAGES, dim=sum(leaf.size for leaf in start.values()),
            lipschitz=math.inf, radius=math.inf, convex=False,
        ),
        start=start,
    )  # fmt: skip
    plan = planned(problem, steps=NETWORK_STEPS, clip_norm=1.0, step_size=0.1)
    setting = setting_of(plan, problem, loss, batched_loss=False, project=lambda point: point)
    result = beside(plan, problem, setting, repeats)
    result["examples_per_second"] = {
        name: BATCH * NETWORK_STEPS / seconds for name, seconds in result["seconds"].items()
    }
    return result


def compilations(problem: Problem) -> int:
    """Return the number of programs for three budgets, step sizes and seeds."""
    programs: list[str] = []

    def hear(event: str, duration: float, **details: str) -> None:
        if event == COMPILED:
            programs.append(details.get("fun_name", "?"))

    keys = jax.random.split(jax.random.key(3), 3)
    plans = [
        dp_sgd(
            problem.problem_class,
            Budget(epsilon=epsilon, delta=1e-6, relation="add_or_remove_one"),
            batch_size=BATCH, steps=50, step_size=0.1 * epsilon,
        )
        for epsilon in (0.5, 1.0, 2.0)
    ]  # fmt: skip
    keys = [keys[i] for i in range(3)]
    jax.monitoring.register_event_duration_secs_listener(hear)
    for plan, key in zip(plans, keys, strict=True):
        jax.block_until_ready(run(plan, problem, key))
    return sum("run_all" in name for name in programs)  # without those that prepare the problem


def measure(repeats: int, python: str) -> dict:
    problem = workload.problem()
    return {
        "compilations": compilations(problem),
        "one_seed": one_seed(problem, repeats),
        "in_steps": in_steps(planned(problem), problem, repeats),
        "large": large(repeats),
        "opacus": opacus(problem, repeats, python),
        "clipping": clipping(problem, repeats),
        "network": network(repeats),
        "many": many(problem, max(1, min(3, repeats))),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="that has opacus and PyTorch")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.repeats, arguments.python)))
