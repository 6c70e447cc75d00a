"""Models of diffprivlib on the records of ``estimators.py``, in an environment of its own.

The argument is an NPZ file with ``features``, ``answers``, ``held_out``, ``expected`` and
``bounds``, empty for classes. A line on standard input, ``{"epsilon": ..., "seeds": [...], "norm":
...}``, is answered by one with the scores of all fits on the held out records. Without arguments it
says which versions it has.
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
    """Accuracy, or R^2 of a regression, whose features lie within -1 and 1."""
    if data["bounds"].size:
        answers, expected = (_scaled(data[key], data["bounds"]) for key in ("answers", "expected"))
        model = LinearRegression(
            epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=seed
        )
        found = model.fit(data["features"], np.clip(answers, -1.0, 1.0)).predict(data["held_out"])
        left = np.mean((expected - np.clip(found, -1.0, 1.0)) ** 2)
        return float(1.0 - left / np.var(expected))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
    model.fit(data["features"], data["answers"])
    return float(np.mean(model.predict(data["held_out"]) == data["expected"]))


def _scaled(answers: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """From -1 to 1 between the bounds: it fares worse in the units of the answers."""
    return 2.0 * (answers - bounds[0]) / (bounds[1] - bounds[0]) - 1.0


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in PACKAGES}))
        sys.exit()
    warnings.simplefilter("ignore")  # of other versions of scikit-learn
    data = dict(np.load(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        scores = [score(data, asked["epsilon"], asked["norm"], seed) for seed in asked["seeds"]]
        print(json.dumps(scores), flush=True)
