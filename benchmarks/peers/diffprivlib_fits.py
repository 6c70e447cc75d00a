"""Logistic regression of diffprivlib, fitted in a separate environment.

The argument is an NPZ file with ``features`` and ``labels``. For each line
``{"C": ..., "seeds": [...]}`` of standard input it prints the seconds of every call of ``fit`` and
the coefficients. Started by ``objective_perturbation.py``. Without arguments it prints the versions
of the packages.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np
from diffprivlib.models import LogisticRegression

PACKAGES = ("diffprivlib", "scikit-learn", "numpy", "scipy")


def fitted(features: np.ndarray, labels: np.ndarray, C: float, seed: int) -> tuple:
    """Return seconds and coefficients without intercept, for the model of privopt."""
    model = LogisticRegression(
        epsilon=1.0, data_norm=1.0, C=C, fit_intercept=False, random_state=seed
    )
    start = time.perf_counter()
    model.fit(features, labels)
    return time.perf_counter() - start, model.coef_[0].tolist()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in PACKAGES}))
        sys.exit()
    warnings.simplefilter("ignore")  # warnings about the version of scikit-learn
    data = np.load(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        fits = [
            fitted(data["features"], data["labels"], request["C"], seed)
            for seed in request["seeds"]
        ]
        seconds, points = zip(*fits, strict=True)
        print(json.dumps({"seconds": seconds, "points": points}), flush=True)
