"""Process of a peer for ``real_accuracy.py``, in a separate environment.

The argument is an NPZ file with ``features``, ``labels``, ``held_out`` and ``answers``. For each
line ``{"epsilon": ..., "seeds": [...], "radius": ..., ...}`` of standard input it prints the
accuracy on the held-out records and the risk of every fit. Risks are evaluated after a projection
onto the ball, which has no privacy cost and keeps the order of the scores. Without arguments it
prints the versions of the packages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version

import numpy as np


def answer(
    fits: Callable[[dict, dict], Iterable[np.ndarray]], packages: tuple[str, ...], *, softmax: bool
) -> None:
    """Evaluate the weights of ``fits(data, request)``, one row per class, or one for two classes.

    Rows that are fitted one-against-the-rest are not softmax weights, and have no risk.
    """
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in packages}))
        return
    data = dict(np.load(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        result = {"accuracy": [], "risk": []}
        for weights in fits(data, request):
            result["accuracy"].append(accuracy(data, weights))
            shrunk = weights * min(1.0, request["radius"] / np.linalg.norm(weights))
            has_risk = softmax or len(weights) == 1
            result["risk"].append(risk(data, shrunk) if has_risk else None)
        print(json.dumps(result), flush=True)


def accuracy(data: dict, weights: np.ndarray) -> float:
    """Return the accuracy on the held-out records."""
    scores = data["held_out"] @ weights.T
    if len(weights) == 1:
        return float(np.mean((scores[:, 0] > 0.0) == (data["answers"] > 0.0)))
    return float(np.mean(np.argmax(scores, axis=1) == data["answers"]))


def risk(data: dict, weights: np.ndarray) -> float:
    """Return the mean logistic or softmax loss."""
    scores = data["features"] @ weights.T
    if len(weights) == 1:
        return float(np.mean(np.logaddexp(0.0, -data["labels"] * scores[:, 0])))
    own = scores[np.arange(len(scores)), data["labels"].astype(int)]
    return float(np.mean(np.logaddexp.reduce(scores, axis=1) - own))
