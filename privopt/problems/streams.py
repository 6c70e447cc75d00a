"""Streams of linear losses: hard families for regret, where the order of the records counts."""

from __future__ import annotations

import math

import numpy as np

from privopt.problems.indexed import Family
from privopt.problems.models import linear
from privopt.problems.problem import Problem
from privopt.spec import ProblemClass

__all__ = ["STREAMS"]


def _orthogonal_linear(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``-<w, x_t>`` with ``x_t`` orthogonal to ``x_1 + ... + x_{t-1}``: the spiral of Theodorus.

    The sum of the first ``t`` is ``sqrt(t)`` long. A leader that follows it gains nothing from the
    next record, and the best point in hindsight gains ``sqrt(n)``. In another order a leader of
    ``Lambda = sqrt(n)`` regrets no more, and less where a sum of some records is longer than that.
    """
    del noise_ratio, strength
    if dim < 2:
        raise ValueError(f"dim must be at least 2 for orthogonal_linear, got {dim}")
    turns = np.cumsum(np.arctan(1.0 / np.sqrt(np.arange(1, n))))
    angles = np.concatenate([[0.0], turns])  # of the sums
    ahead = np.concatenate([[0.0], angles[:-1] + 0.5 * math.pi])
    features = np.zeros((n, dim))
    features[:, 0], features[:, 1] = np.cos(ahead), np.sin(ahead)
    best = np.zeros(dim)
    best[:2] = math.cos(angles[-1]), math.sin(angles[-1])
    return linear(
        features / np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True)),
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0),
        minimiser=best,
        name="orthogonal_linear",
    )


def _random_linear(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``-<w, x_t>`` with independent random signs, ``x_t`` in ``{-1, 1}^d/sqrt(d)``.

    The same at every ``n``, cut off there: what comes is independent of what has been.
    """
    del noise_ratio, strength
    signs = np.where(np.random.default_rng([dim]).random((n, dim)) < 0.5, -1.0, 1.0)
    total = signs.sum(axis=0)
    length = float(np.linalg.norm(total))
    return linear(
        signs / (math.sqrt(dim) * (1.0 + 2.0**-50)),
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0),
        minimiser=total / length if length > 0.0 else None,
        name="random_linear",
    )


STREAMS = (
    Family(
        "orthogonal_linear",
        "linear losses, each orthogonal to the sum of those before: tight for regret without noise",
        _orthogonal_linear,
    ),
    Family(
        "random_linear",
        "linear losses of random signs: hard for every online method, with noise or without",
        _random_linear,
    ),
)
