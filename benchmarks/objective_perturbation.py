"""Objective perturbation beside diffprivlib: time of a fit, and what it is worth.

Both are given the same float64 arrays, features of norm 1 (``data_norm=1``), no intercept, and
run on the same core, one thread, in turn. diffprivlib, which knows pure differential privacy
only, is asked for epsilon 1 at its default ``C = 1`` and at ``C = 1/(n lambda)`` with each of
privopt's own lambda, which its theory sets. Nothing is tuned on the data. Its solver stops at its
default tolerance, a gradient of 1e-4; privopt's ends within a distance that it charges for.
Excess risk is against the non-private optimum in the ball of radius 10, of the logistic risk
alone and with the regulariser of each lambda. What diffprivlib returns may lie outside of that
ball, where the risk may be below that optimum; it is judged both as it is and projected on the
ball, which costs no privacy and makes both choose from the same set.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import jax
import numpy as np
import workload
from timing import ratio, seconds

from privopt import Budget, Plan, objective_perturbation, run, run_many
from privopt.convex import L2Ball, minimise
from privopt.problems import Problem

jax.config.update("jax_enable_x64", True)

SEEDS = 100
BUDGETS = {"pure epsilon 1": (1.0, 0.0), "(1, 1e-6)": (1.0, 1e-6)}
PEER = Path(__file__).parent / "peers" / "diffprivlib_fits.py"


class Peer:
    """diffprivlib in its own process, on the core and with the one thread of this one."""

    def __init__(self, python: str, file: str) -> None:
        self.process = subprocess.Popen(
            [python, "-P", str(PEER), file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )

    def fits(self, C: float, seeds: range) -> dict:
        """Seconds and coefficients, one for every seed."""
        self.process.stdin.write(json.dumps({"C": C, "seeds": list(seeds)}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def plans(problem: Problem) -> dict[str, Plan]:
    return {
        name: objective_perturbation(
            problem.problem_class,
            Budget(epsilon=epsilon, delta=delta, relation="replace_one"),
        )
        for name, (epsilon, delta) in BUDGETS.items()
    }


def regularisation_of(plan: Plan) -> float:
    return plan.params.mechanism.tilt.query.regularisation


def times(problem: Problem, planned: dict[str, Plan], peer: Peer, repeats: int) -> dict:
    """In rounds; of the peer a round has as many fits as settle it, timed in its process."""
    keys = workload.keys(SEEDS)
    calls: dict[str, Callable[[], object]] = {}
    for name, plan in planned.items():
        calls[f"privopt, {name}, one fit"] = lambda plan=plan: run(plan, problem, keys[0])
        calls[f"privopt, {name}, 100 fits"] = lambda plan=plan: run_many([plan], problem, keys)
    settings = inverse_regularisations(problem, planned)
    for call in calls.values():
        jax.block_until_ready(call())
    found: dict[str, list[float]] = {name: [] for name in (*calls, *settings)}
    for number in range(repeats):
        for name, call in calls.items():
            one = "one fit" in name
            found[name].append(median(seconds(call) for _ in range(5 if one else 1)))
        for name, C in settings.items():
            fits = peer.fits(C, range(5 * number, 5 * number + 5))
            found[name].append(median(fits["seconds"]))
    return found


def inverse_regularisations(problem: Problem, planned: dict[str, Plan]) -> dict[str, float]:
    own = {
        f"diffprivlib, lambda of {name}": 1.0 / (problem.problem_class.n * regularisation_of(plan))
        for name, plan in planned.items()
    }
    return {"diffprivlib, C = 1": 1.0, **own}


def risks(problem: Problem, planned: dict[str, Plan], peer: Peer) -> dict:
    """Mean excess risk over seeds, and with the regularisers."""
    radius = problem.problem_class.radius
    penalties = {name: regularisation_of(plan) for name, plan in planned.items()}
    least = {name: regularised_minimum(problem, penalty) for name, penalty in penalties.items()}

    def excess(points: np.ndarray) -> dict[str, float]:
        risk = problem.risk(points)
        squares = 0.5 * np.sum(points**2, axis=-1)
        regularised = {
            f"with the regulariser of {name}": float(
                np.mean(risk + penalty * squares) - least[name]
            )
            for name, penalty in penalties.items()
        }
        return {"risk": float(np.mean(risk) - problem.reference.value), **regularised}

    keys, found = workload.keys(SEEDS), {}
    for name, plan in planned.items():
        released = np.asarray(run_many([plan], problem, keys).released[0])
        found[f"privopt, {name}"] = {"regularisation": regularisation_of(plan), **excess(released)}
    for name, C in inverse_regularisations(problem, planned).items():
        points = np.asarray(peer.fits(C, range(SEEDS))["points"])
        projected = np.asarray(L2Ball(radius).project(points))
        found[name] = {
            "regularisation": 1.0 / (C * problem.problem_class.n),
            "norm": float(np.mean(np.linalg.norm(points, axis=1))),
            **excess(points),
            "projected": excess(projected),
        }
    return found


def regularised_minimum(problem: Problem, penalty: float) -> float:
    """In the ball, certified to 1e-9."""
    solution = minimise(
        regularised_value_and_gradient,
        problem.constraint,
        np.zeros(problem.problem_class.dim),
        arguments=(problem.objective, np.float64(penalty)),
        tolerance=1e-9,
        strong_convexity=penalty,
    )
    return solution.value


def regularised_value_and_gradient(point, risk, penalty):
    value, gradient = risk.value_and_gradient(point)
    return value + 0.5 * penalty * (point @ point), gradient + penalty * point


def measure(python: str, repeats: int) -> dict:
    problem = workload.problem()
    planned = plans(problem)
    features, labels = (np.asarray(each) for each in problem.data)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        np.savez(file, features=features, labels=labels)
        peer = Peer(python, file)
        found = times(problem, planned, peer, repeats)
        excess = risks(problem, planned, peer)
        peer.process.stdin.close()
        peer.process.wait()
    ours = {name: taken for name, taken in found.items() if name.startswith("privopt")}
    theirs = {name: taken for name, taken in found.items() if name not in ours}
    return {
        "seconds": {name: median(taken) for name, taken in found.items()},
        "ratios": {
            name: {other: ratio(slower, taken) for other, slower in theirs.items()}
            for name, taken in ours.items()
        },
        "all_seconds": found,
        "excess_risk": excess,
        "reference_gap": problem.reference.gap,
        "zero_predictor": float(problem.excess_risk(np.zeros(problem.problem_class.dim))),
        "peer": json.loads(subprocess.check_output([python, "-P", str(PEER)], text=True)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="that has diffprivlib")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print(json.dumps(measure(given.python, given.repeats)))
