"""Models of diffprivlib on the records of ``estimators.py``, in a separate environment.

The argument is an NPZ file with ``features``, ``answers``, ``held_out``, ``expected`` and
``bounds``, which is empty for classes. For each line
``{"epsilon": ..., "seeds": [...], "norm": ...}`` of standard input it prints the scores of all fits
on the held-out records. Without arguments it prints the versions of the packages.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression

PACKAGES = ("diffprivlib", "scikit-learn", "numpy", "scipy")


def score(data: dict, epsilon: float, norm: float, seed: int) -> float:
    """Return the accuracy, or R^2 of a regression with features between -1 and 1."""
    if data["bounds"].size:
        answers, expected = (_scaled(data[key], data["bounds"]) for key in ("answers", "expected"))
        model = LinearRegression(
            epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=seed
        )
        predictions = model.fit(data["features"], np.clip(answers, -1.0, 1.0)).predict(
            data["held_out"]
        )
        error = np.mean((expected - np.clip(predictions, -1.0, 1.0)) ** 2)
        return float(1.0 - error / np.var(expected))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
    model.fit(data["features"], data["answers"])
    return float(np.mean(model.predict(data["held_out"]) == data["expected"]))


def _scaled(answers: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Map targets between the bounds to [-1, 1], which is more accurate than the original units."""
    return 2.0 * (answers - bounds[0]) / (bounds[1] - bounds[0]) - 1.0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in PACKAGES}))
        sys.exit()
    warnings.simplefilter("ignore")  # warnings about the version of scikit-learn
    data = dict(np.load(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        scores = [
            score(data, request["epsilon"], request["norm"], seed) for seed in request["seeds"]
        ]
        print(json.dumps(scores), flush=True)
