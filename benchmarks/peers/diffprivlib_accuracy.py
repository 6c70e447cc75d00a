"""Logistic regression of diffprivlib on real records, fitted in an environment of its own.

The argument is an NPZ file with ``features``, ``labels``, ``held_out`` and ``answers``. Every line
that arrives on standard input, ``{"epsilon": ..., "C": ..., "seeds": [...], "radius": ...}``, is
answered by one with the accuracy on the held out records and the risk of every fit, the latter
projected on the ball, which costs no privacy and leaves signs of scores as they are. Several
classes are fitted one against the rest, each at its share of epsilon, and have no risk. Started by
``real_accuracy.py``; without arguments it says which versions it has.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version

import numpy as np
from diffprivlib.models import LogisticRegression

PACKAGES = ("diffprivlib", "scikit-learn", "numpy", "scipy")


def fitted(data: dict, epsilon: float, C: float, seed: int, radius: float) -> tuple:
    """Accuracy, and risk without regulariser, or None."""
    model = LogisticRegression(
        epsilon=epsilon, data_norm=1.0, C=C, fit_intercept=False, random_state=seed
    )
    model.fit(data["features"], data["labels"])
    accuracy = float(np.mean(model.predict(data["held_out"]) == data["answers"]))
    if len(model.coef_) > 1:
        return accuracy, None
    point = model.coef_[0] * min(1.0, radius / np.linalg.norm(model.coef_))
    margins = data["labels"] * (data["features"] @ point)
    return accuracy, float(np.mean(np.logaddexp(0.0, -margins)))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in PACKAGES}))
        sys.exit()
    warnings.simplefilter("ignore")  # of other versions of scikit-learn
    data = dict(np.load(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        fits = [
            fitted(data, asked["epsilon"], asked["C"], seed, asked["radius"])
            for seed in asked["seeds"]
        ]
        accuracies, risks = zip(*fits, strict=True)
        print(json.dumps({"accuracy": accuracies, "risk": risks}), flush=True)
