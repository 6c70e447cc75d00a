"""Logistic regression of diffprivlib on real records; several classes one-against-the-rest."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from diffprivlib.models import LogisticRegression

from peers.accuracy import answer


def fits(data: dict, request: dict) -> Iterator[np.ndarray]:
    """Yield the weights of every seed. Each of several classes has an equal share of epsilon."""
    for seed in request["seeds"]:
        model = LogisticRegression(
            epsilon=request["epsilon"],
            data_norm=1.0,
            C=request["C"],
            fit_intercept=False,
            random_state=seed,
        )
        yield model.fit(data["features"], data["labels"]).coef_


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # warnings about the version of scikit-learn
    answer(fits, ("diffprivlib", "scikit-learn", "numpy", "scipy"), softmax=False)
