"""diffprivlib on the records of the experiment real_accuracy, at the same guarantee.

    PRIVOPT_DATA=... .venv/bin/python benchmarks/real_accuracy.py [breast_cancer] [a9a] ...

Its objective perturbation is pure epsilon-DP where one record is replaced: the noise has norm
``Gamma(d, 2/epsilon')`` and ``2 log(1 + 1/(4 n lambda))`` is kept for the curvature, both of which
Chaudhuri, Monteleoni and Sarwate (2011) prove for two sets that differ in one entry. The bound on
norms is public (``data_norm=1``) and there is no intercept, the same model as privopt's. It is run
at its default ``C = 1`` and at ``C = 1/(n lambda)`` with the lambda that privopt's theory sets at
that guarantee; nothing is tuned. ``make performance`` installs it. Data sets that are named are
measured again; the others stay as they were recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PEER = Path(__file__).parent / "peers" / "diffprivlib_accuracy.py"
PYTHON = ROOT / ".venv" / "diffprivlib" / "bin" / "python"
EXPERIMENT = runpy.run_path(str(ROOT / "experiments" / "compared" / "real_accuracy.py"))


def inverse_regularisations(name: str, epsilon: float) -> dict[str, float]:
    """Its default, and for two classes that of privopt's plan."""
    found = {"C = 1": 1.0}
    if name in EXPERIMENT["BINARY"]:
        plan = EXPERIMENT["plan_of"](name, "pure", "objective_perturbation", epsilon)
        regularisation = plan.params.mechanism.tilt.query.regularisation
        found["C of privopt"] = 1.0 / (plan.problem_class.n * regularisation)
    return found


def fits(python: str, name: str, seeds: int) -> list[dict]:
    """One record an epsilon and setting."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        data = EXPERIMENT["split"](name)._asdict()
        np.savez(file, **{key: np.asarray(value, np.float64) for key, value in data.items()})
        for epsilon in EXPERIMENT["EPSILONS"]:
            radius = EXPERIMENT["problem"](name).problem_class.radius
            for setting, C in inverse_regularisations(name, epsilon).items():
                asked = {"epsilon": epsilon, "C": C, "radius": radius}
                answer = subprocess.run(
                    [python, "-P", str(PEER), file],
                    input=json.dumps({**asked, "seeds": list(range(seeds))}),
                    capture_output=True, check=True, text=True, env=environment,
                )  # fmt: skip
                found.append({"setting": setting, **asked, **rounded(answer.stdout)})
    return found


def rounded(answer: str) -> dict:
    """To six places, which is more than the seeds settle."""
    return {
        key: [None if value is None else round(value, 6) for value in values]
        for key, values in json.loads(answer).items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="data sets; all that are there")
    parser.add_argument("--python", default=str(PYTHON), help="that has diffprivlib")
    given = parser.parse_args()
    file = EXPERIMENT["PEERS"]
    record = json.loads(file.read_text()) if file.exists() else {"sets": {}}
    versions = subprocess.check_output([given.python, "-P", str(PEER)], text=True)
    record["command"], record["peer"] = "python benchmarks/real_accuracy.py", json.loads(versions)
    for name in given.names or EXPERIMENT["NAMES"]:
        record["sets"][name] = fits(given.python, name, EXPERIMENT["RUNS"].get(name, 10))
        file.write_text(json.dumps(record) + "\n")
        print(name)
