"""How a peer answers ``real_accuracy.py``, from an environment of its own.

The argument is an NPZ file with ``features``, ``labels``, ``held_out`` and ``answers``. Each line
of standard input, ``{"epsilon": ..., "seeds": [...], "radius": ..., ...}``, is answered by the
accuracy on the held out records and the risk of every fit, the latter projected on the ball, which
costs no privacy and leaves the order of scores as it is. Without arguments it says which versions
there are.
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
    """Answer with the weights of ``fits(data, asked)``, one row a class, or one for two classes.

    Rows that are fitted one against the rest are no ``softmax``, and have no risk.
    """
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in packages}))
        return
    data = dict(np.load(sys.argv[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        found = {"accuracy": [], "risk": []}
        for weights in fits(data, asked):
            found["accuracy"].append(accuracy(data, weights))
            shrunk = weights * min(1.0, asked["radius"] / np.linalg.norm(weights))
            known = softmax or len(weights) == 1
            found["risk"].append(risk(data, shrunk) if known else None)
        print(json.dumps(found), flush=True)


def accuracy(data: dict, weights: np.ndarray) -> float:
    """Share of the held out records."""
    scores = data["held_out"] @ weights.T
    if len(weights) == 1:
        return float(np.mean((scores[:, 0] > 0.0) == (data["answers"] > 0.0)))
    return float(np.mean(np.argmax(scores, axis=1) == data["answers"]))


def risk(data: dict, weights: np.ndarray) -> float:
    """Mean logistic or softmax loss."""
    scores = data["features"] @ weights.T
    if len(weights) == 1:
        return float(np.mean(np.logaddexp(0.0, -data["labels"] * scores[:, 0])))
    own = scores[np.arange(len(scores)), data["labels"].astype(int)]
    return float(np.mean(np.logaddexp.reduce(scores, axis=1) - own))
