"""Logistic regression of diffprivlib, fitted in an environment of its own.

The argument is an NPZ file with ``features`` and ``labels``. Every line that arrives on standard
input, ``{"C": ..., "seeds": [...]}``, is answered by one with the seconds of every fit, timed here
around ``fit`` alone, and the coefficients. Started by ``objective_perturbation.py``; without
arguments it says which versions it has.
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
    """Seconds, and the coefficients without intercept: the same model as privopt's."""
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
    warnings.simplefilter("ignore")  # of other versions of scikit-learn
    given = np.load(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        fits = [
            fitted(given["features"], given["labels"], asked["C"], seed) for seed in asked["seeds"]
        ]
        seconds, points = zip(*fits, strict=True)
        print(json.dumps({"seconds": seconds, "points": points}), flush=True)
