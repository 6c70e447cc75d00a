"""Time and excess risk of objective perturbation: privopt and diffprivlib.

    python benchmarks/objective_perturbation.py --python PYTHON_WITH_DIFFPRIVLIB [--repeats 5]

Both libraries receive the same float64 arrays, features of norm 1 (``data_norm=1``), no intercept,
and run in turn on one thread of one core. diffprivlib supports pure differential privacy only. It
runs at epsilon 1 with its default ``C = 1`` and with ``C = 1/(n lambda)`` for each lambda that the
theory of privopt sets. At d = 10 and 30 the times of pure objective and output perturbation are
compared as well, with its default only. No argument is tuned on the data. The solver of diffprivlib
stops at its default tolerance, a gradient of 1e-4; the solver of privopt stops within a distance
that is part of its privacy analysis. Excess risk is relative to the non-private optimum in the ball
of radius 10, of the logistic risk alone and with the regulariser of each lambda. Points of
diffprivlib may be outside of this ball, where the risk may be below that optimum. They are
evaluated unchanged and after a projection onto the ball, which has no privacy cost and gives both
libraries the same set.
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

from privopt import Budget, Plan, objective_perturbation, output_perturbation, run, run_many
from privopt.convex import L2Ball, minimise
from privopt.problems import Problem

jax.config.update("jax_enable_x64", True)

SEEDS = 100
DIMS = (10, 30)  # of the shorter comparison
BUDGETS = {"pure epsilon 1": (1.0, 0.0), "(1, 1e-6)": (1.0, 1e-6)}
PEER = Path(__file__).parent / "peers" / "diffprivlib_fits.py"


class Peer:
    """Process of diffprivlib with the data of a problem, on the core of this process."""

    def __init__(self, python: str, problem: Problem) -> None:
        self.folder = tempfile.TemporaryDirectory()
        file = str(Path(self.folder.name) / "data.npz")
        features, labels = (np.asarray(each) for each in problem.data)
        np.savez(file, features=features, labels=labels)
        self.process = subprocess.Popen(
            [python, "-P", str(PEER), file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()

    def fits(self, C: float, seeds: range) -> dict:
        """Return seconds and coefficients of the fits, one per seed."""
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


def times(
    problem: Problem, planned: dict[str, Plan], settings: dict[str, float], peer: Peer, repeats: int
) -> dict:
    """Return times in rounds. The peer has several fits per round, timed in its process."""
    calls: dict[str, Callable[[], object]] = {}
    for name, plan in planned.items():
        calls[f"privopt, {name}, one fit"] = lambda plan=plan: run(
            plan, problem, workload.fresh_keys(1)[0]
        )
        calls[f"privopt, {name}, 100 fits"] = lambda plan=plan: run_many(
            [plan], problem, workload.fresh_keys(SEEDS)
        )
    for call in calls.values():
        jax.block_until_ready(call())
    result: dict[str, list[float]] = {name: [] for name in (*calls, *settings)}
    for number in range(repeats):
        for name, call in calls.items():
            one = "one fit" in name
            result[name].append(median(seconds(call) for _ in range(5 if one else 1)))
        for name, C in settings.items():
            fits = peer.fits(C, range(5 * number, 5 * number + 5))
            result[name].append(median(fits["seconds"]))
    return result


def inverse_regularisations(problem: Problem, planned: dict[str, Plan]) -> dict[str, float]:
    own = {
        f"diffprivlib, lambda of {name}": 1.0 / (problem.problem_class.n * regularisation_of(plan))
        for name, plan in planned.items()
    }
    return {"diffprivlib, C = 1": 1.0, **own}


def risks(problem: Problem, planned: dict[str, Plan], peer: Peer) -> dict:
    """Return the mean excess risk over seeds, without and with the regularisers."""
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

    keys, result = workload.fresh_keys(SEEDS), {}
    for name, plan in planned.items():
        released = np.asarray(run_many([plan], problem, keys).released[0])
        result[f"privopt, {name}"] = {"regularisation": regularisation_of(plan), **excess(released)}
    for name, C in inverse_regularisations(problem, planned).items():
        points = np.asarray(peer.fits(C, range(SEEDS))["points"])
        projected = np.asarray(L2Ball(radius).project(points))
        result[name] = {
            "regularisation": 1.0 / (C * problem.problem_class.n),
            "norm": float(np.mean(np.linalg.norm(points, axis=1))),
            **excess(points),
            "projected": excess(projected),
        }
    return result


def regularised_minimum(problem: Problem, penalty: float) -> float:
    """Return the minimum in the ball, certified to 1e-9."""
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


def small(python: str, dim: int, repeats: int) -> dict:
    """Return the ratios to the default of the peer, per algorithm and number of fits."""
    problem = workload.problem(dim=dim)
    budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    planned = {
        "objective perturbation": objective_perturbation(problem.problem_class, budget),
        "output perturbation": output_perturbation(problem.problem_class, budget),
    }
    with Peer(python, problem) as peer:
        result = times(problem, planned, {"diffprivlib": 1.0}, peer, repeats)
    theirs = result.pop("diffprivlib")
    return {name: ratio(theirs, values) for name, values in result.items()}


def measure(python: str, repeats: int) -> dict:
    problem = workload.problem()
    planned = plans(problem)
    with Peer(python, problem) as peer:
        settings = inverse_regularisations(problem, planned)
        result = times(problem, planned, settings, peer, repeats)
        excess = risks(problem, planned, peer)
    ours = {name: values for name, values in result.items() if name.startswith("privopt")}
    theirs = {name: values for name, values in result.items() if name not in ours}
    return {
        "seconds": {name: median(values) for name, values in result.items()},
        "ratios": {
            name: {other: ratio(slower, values) for other, slower in theirs.items()}
            for name, values in ours.items()
        },
        "small": {dim: small(python, dim, repeats) for dim in DIMS},
        "all_seconds": result,
        "excess_risk": excess,
        "reference_gap": problem.reference.gap,
        "zero_predictor": float(problem.excess_risk(np.zeros(problem.problem_class.dim))),
        "peer": json.loads(subprocess.check_output([python, "-P", str(PEER)], text=True)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="environment with diffprivlib")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.python, arguments.repeats)))
