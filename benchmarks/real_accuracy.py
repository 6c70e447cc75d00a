"""Accuracy of diffprivlib and jax-privacy on the data of the experiment ``real_accuracy``.

    PRIVOPT_DATA=... .venv/bin/python benchmarks/real_accuracy.py [breast_cancer] [a9a] ...
        [--peer diffprivlib] [--peer jax-privacy]

All methods have the same guarantee. The objective perturbation of diffprivlib is pure epsilon-DP
under ``replace_one``: the noise has norm ``Gamma(d, 2/epsilon')``, and
``2 log(1 + 1/(4 n lambda))`` is reserved for the curvature. Chaudhuri, Monteleoni and Sarwate
(2011) prove both for two sets that differ in one entry. The bound on norms is public
(``data_norm=1``) and there is no intercept, as in privopt. It runs with its default ``C = 1``, with
``C = 1/(n lambda)`` for the lambda that the theory of privopt sets at that guarantee, and with the
value of ``C`` on a grid that is best in the same runs.

The DP-SGD of jax-privacy has the parameters and the noise of the oracle-tuned plan of privopt. It
is the same mechanism, so the accountant of privopt applies to both, under replace-one.

``make performance`` installs diffprivlib in the environment ``.venv/diffprivlib``, and jax-privacy
in that of privopt; ``.venv/jax_privacy`` is used if it exists. Data sets and peers in the command
are measured again; the recorded results of the others are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
EXPERIMENT = runpy.run_path(str(HERE.parent / "experiments" / "compared" / "real_accuracy.py"))


def inverse_regularisations(name: str, epsilon: float) -> Iterator[tuple[str, dict]]:
    """Yield values of ``C``: the default, a grid, and for two classes that of privopt."""
    yield "peer", {"C": 1.0}
    yield from (("peer_best", {"C": 10.0**k}) for k in range(-3, 2))
    if EXPERIMENT["SETS"][name].classes == 2:
        plan = EXPERIMENT["plan_of"](name, "pure", epsilon)
        regularisation = plan.params.mechanism.tilt.query.regularisation
        yield "peer_twin", {"C": 1.0 / (plan.problem_class.n * regularisation)}


def tuned_numbers(name: str, epsilon: float) -> Iterator[tuple[str, dict]]:
    """Yield the parameters for jax-privacy: those of the oracle-tuned plan of privopt."""
    params = EXPERIMENT["plan_of"](name, "tuned", epsilon).params
    mechanism = params.mechanism
    numbers = {
        "steps": mechanism.steps,
        "batch_size": min(EXPERIMENT["BATCH"], EXPERIMENT["problem"](name).problem_class.n // 4),
        "capacity": mechanism.batches.capacity,
        "step_size": float(params.descent.step_sizes.scale),
        "clip_norm": float(mechanism.query.clip_norm),
        "noise_scale": float(mechanism.scale),
    }
    yield "peer_sgd", {"numbers": numbers}


PEERS = {"diffprivlib": inverse_regularisations, "jax-privacy": tuned_numbers}


def started(peer: str, *arguments: str, **options: object) -> str:
    """Return the output of the process of a peer."""
    module = peer.replace("-", "_")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    own = HERE.parent / ".venv" / module / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    return subprocess.run(
        [python, "-m", f"peers.{module}_accuracy", *arguments],
        cwd=HERE, env=environment, stdout=subprocess.PIPE, check=True, text=True, **options,
    ).stdout  # fmt: skip


def fits(peer: str, name: str) -> list[dict]:
    """Return one record per epsilon and method: of several, the best of its runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        data = EXPERIMENT["split"](name)._asdict()
        np.savez(file, **{key: np.asarray(value, np.float64) for key, value in data.items()})
        of = EXPERIMENT["SETS"][name]
        requests = [
            {"method": method, "epsilon": epsilon, **numbers}
            for epsilon in EXPERIMENT["EPSILONS"]
            for method, numbers in PEERS[peer](name, epsilon)
        ]
        common = {"radius": of.radius, "seeds": list(range(of.runs))}
        lines = "".join(json.dumps(each | common) + "\n" for each in requests)
        answers = started(peer, file, input=lines).splitlines()
    results = {}
    for each, answer in zip(requests, answers, strict=True):
        result = each | rounded(answer)
        key = each["method"], each["epsilon"]
        results[key] = min(results.get(key, result), result, key=mean_risk)
    return list(results.values())


def mean_risk(result: dict) -> float:
    """Return the mean risk of runs, or the mean error of models without a risk."""
    return -np.mean(result["accuracy"]) if None in result["risk"] else np.mean(result["risk"])


def rounded(answer: str) -> dict:
    """Round an answer to six places, which is finer than its standard error."""
    return {
        key: [None if value is None else round(value, 6) for value in values]
        for key, values in json.loads(answer).items()
    }


def available() -> list[str]:
    """Return the data sets of the experiment that are installed."""
    from privopt import problems  # not in the environments of the peers

    installed = {*problems.available(), ""}
    return [
        name for name, each in EXPERIMENT["SETS"].items() if {each.data, each.test} <= installed
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="data sets; default all that are installed")
    parser.add_argument("--peer", action="append", choices=PEERS, help="default both")
    arguments = parser.parse_args()
    file = EXPERIMENT["PEERS"]
    record = json.loads(file.read_text()) if file.exists() else {"sets": {}, "peers": {}}
    record["command"] = "python benchmarks/real_accuracy.py"
    for peer in arguments.peer or PEERS:
        record["peers"][peer] = json.loads(started(peer))
        for name in arguments.names or available():
            result = fits(peer, name)
            again = {each["method"] for each in result}
            previous = [
                each for each in record["sets"].get(name, []) if each["method"] not in again
            ]
            record["sets"][name] = previous + result
            file.write_text(json.dumps(record) + "\n")
            print(peer, name, flush=True)
