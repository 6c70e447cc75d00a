"""Other libraries on the records of the experiment real_accuracy, at the same guarantee.

    PRIVOPT_DATA=... .venv/bin/python benchmarks/real_accuracy.py [breast_cancer] [a9a] ...
        [--peer diffprivlib] [--peer jax-privacy]

diffprivlib's objective perturbation is pure epsilon-DP where one record is replaced: the noise has
norm ``Gamma(d, 2/epsilon')`` and ``2 log(1 + 1/(4 n lambda))`` is kept for the curvature, both of
which Chaudhuri, Monteleoni and Sarwate (2011) prove for two sets that differ in one entry. The
bound on norms is public (``data_norm=1``) and there is no intercept, the same model as privopt's.
It is run at its default ``C = 1`` and at ``C = 1/(n lambda)`` with the lambda that privopt's theory
sets at that guarantee; nothing is tuned.

jax-privacy's DP-SGD runs at the numbers of privopt's oracle-tuned plan, its noise included: it is
the same mechanism, so privopt's accountant speaks for both, under replace-one.

``make performance`` installs diffprivlib in an environment of its own, ``.venv/diffprivlib``, and
jax-privacy beside privopt; one of its own is taken where there is one. What is named is measured
again; the rest stays as it was recorded.
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
    """Of diffprivlib: its default, and for two classes that of privopt's plan."""
    yield "peer", {"C": 1.0}
    if EXPERIMENT["SETS"][name].classes == 2:
        plan = EXPERIMENT["plan_of"](name, "pure", epsilon)
        regularisation = plan.params.mechanism.tilt.query.regularisation
        yield "peer_twin", {"C": 1.0 / (plan.problem_class.n * regularisation)}


def tuned_numbers(name: str, epsilon: float) -> Iterator[tuple[str, dict]]:
    """Of jax-privacy: those of privopt's oracle-tuned plan."""
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
    """What the peer's process answers."""
    module = peer.replace("-", "_")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    own = HERE.parent / ".venv" / module / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    return subprocess.run(
        [python, "-m", f"peers.{module}_accuracy", *arguments],
        cwd=HERE, env=environment, stdout=subprocess.PIPE, check=True, text=True, **options,
    ).stdout  # fmt: skip


def fits(peer: str, name: str) -> Iterator[dict]:
    """One record an epsilon and method."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        data = EXPERIMENT["split"](name)._asdict()
        np.savez(file, **{key: np.asarray(value, np.float64) for key, value in data.items()})
        of = EXPERIMENT["SETS"][name]
        asked = [
            {"method": method, "epsilon": epsilon, **numbers}
            for epsilon in EXPERIMENT["EPSILONS"]
            for method, numbers in PEERS[peer](name, epsilon)
        ]
        common = {"radius": of.radius, "seeds": list(range(of.runs))}
        lines = "".join(json.dumps(each | common) + "\n" for each in asked)
        answers = started(peer, file, input=lines).splitlines()
        for each, answer in zip(asked, answers, strict=True):
            yield each | rounded(answer)


def rounded(answer: str) -> dict:
    """To six places, which is more than the seeds settle."""
    return {
        key: [None if value is None else round(value, 6) for value in values]
        for key, values in json.loads(answer).items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="data sets; all that are there")
    parser.add_argument("--peer", action="append", choices=PEERS, help="both")
    given = parser.parse_args()
    file = EXPERIMENT["PEERS"]
    record = json.loads(file.read_text()) if file.exists() else {"sets": {}, "peers": {}}
    record["command"] = "python benchmarks/real_accuracy.py"
    for peer in given.peer or PEERS:
        record["peers"][peer] = json.loads(started(peer))
        for name in given.names or EXPERIMENT["THERE"]:
            found = list(fits(peer, name))
            again = {each["method"] for each in found}
            kept = [each for each in record["sets"].get(name, []) if each["method"] not in again]
            record["sets"][name] = kept + found
            file.write_text(json.dumps(record) + "\n")
            print(peer, name, flush=True)
