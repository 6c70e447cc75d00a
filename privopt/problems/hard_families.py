"""Hard families: problems of every size on which the rate of a method is tight."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privopt.problems.indexed import Family
from privopt.problems.models import (
    absolute,
    distance,
    huber,
    linear,
    regularised_distance,
    squared_distance,
)
from privopt.problems.problem import Problem
from privopt.problems.two_kinks import two_kinks
from privopt.spec import ProblemClass

__all__ = ["HARD_FAMILIES"]


def _linear(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``-<w, x>`` with ``x = +-e_1`` of mean ``v = min(1, strength * noise_ratio)``.

    The minimiser ``e_1`` is a unit away from the start and the data pull towards it by ``v``
    only: a pull just above the noise is the hardest.
    """
    mean = min(1.0, strength * noise_ratio)
    positive = round(n * (1.0 + mean) / 2.0)
    return linear(
        _opposites(dim),
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0),
        counts=np.array([positive, n - positive]),
        minimiser=np.eye(dim)[0] if 2 * positive > n else None,
        name="linear",
    )


def _linear_population(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``-<w, x>`` with ``x = +-e_1`` drawn with the mean ``v`` of the linear family: ``-v w_1``."""
    mean = min(1.0, strength * noise_ratio)
    return linear(
        _opposites(dim),
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0),
        probabilities=np.array([1.0 + mean, 1.0 - mean]) / 2.0,
        minimiser=np.eye(dim)[0],
        name="linear_population",
    )


def _opposites(dim: int) -> NDArray[np.float64]:
    """``e_1`` and ``-e_1``."""
    features = np.zeros((2, dim))
    features[:, 0] = 1.0, -1.0
    return features


def _distance(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``|w - x|`` with every record at 0, where the kink keeps the minimiser whatever is added."""
    del noise_ratio, strength
    return distance(
        np.zeros((1, dim)),
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0),
        counts=np.array([n]),
        minimiser=np.zeros(dim),
        name="distance",
    )


def _regularised_distance(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``|w - x| + (m/2)|w|^2``, ``m = strength``, every record at 0: the kink is a minimiser again.

    Excess risk ``E|z| + (m/2) E|z|^2`` on the unit ball, where ``L = 1 + m``.
    """
    del noise_ratio
    return regularised_distance(
        np.zeros((1, dim)),
        modulus=strength,
        problem_class=ProblemClass(
            n=n, dim=dim, lipschitz=1.0 + strength, radius=1.0, strong_convexity=strength
        ),
        counts=np.array([n]),
        minimiser=np.zeros(dim),
        name="regularised_distance",
    )


def _squared_distance(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``|w - x|^2 / 2`` with every record at 0, where the class allows any in the unit ball.

    ``L = m D = 2``, ``H = m = 1``. Excess risk ``E|z|^2 / 2``.
    """
    del noise_ratio, strength
    return squared_distance(
        np.zeros((1, dim)),
        problem_class=ProblemClass(
            n=n, dim=dim, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
        ),
        counts=np.array([n]),
        minimiser=np.zeros(dim),
        name="squared_distance",
    )


def _medians(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Medians, one a coordinate: ``|w_j - y|``, ``y = +-1/sqrt(d)``, record ``i`` in ``i mod d``.

    The minimiser ``(1, ..., 1)/sqrt(d)`` is a unit away from the start. Of the records of a
    coordinate a surplus of ``m = min(1, strength * noise_ratio * sqrt(d))`` is positive: they pull
    by ``m/d`` towards it, and all of them push back by ``1/d`` from beyond.
    """
    surplus = min(1.0, strength * noise_ratio * math.sqrt(dim))
    records = n // dim + (np.arange(dim) < n % dim)
    positive = np.round(records * (1.0 + surplus) / 2.0)
    height = np.full(dim, 1.0 / math.sqrt(dim))
    return absolute(
        np.concatenate([np.eye(dim), np.eye(dim)]),
        np.concatenate([height, -height]),
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0),
        counts=np.concatenate([positive, records - positive]),
        minimiser=height if np.all(2 * positive >= records) else None,
        name="medians",
    )


def _far_distance(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """``|w - x|`` with every record at ``e_1``, a unit away from the start."""
    del noise_ratio, strength
    corner = np.eye(dim)[0]
    return distance(
        corner[None, :],
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0),
        counts=np.array([n]),
        minimiser=corner,
        name="far_distance",
    )


def _huber(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Rounded medians, one a coordinate: ``Huber_h(w_j - y)``, record ``i`` in ``j = i mod d``.

    ``h = 1/sqrt(d)`` and ``y = +-2h``: between ``-h`` and ``h`` every loss is linear, and the
    minimiser ``(h, ..., h)`` touches the ball. Of the records of a coordinate a surplus of ``m =
    min(1, strength * noise_ratio * sqrt(d))`` is positive: a pull of ``m n/d`` against noise of
    order ``1/mu`` in every coordinate of the sum.
    """
    width = 1.0 / math.sqrt(dim)
    surplus = min(1.0, strength * noise_ratio * math.sqrt(dim))
    records = n // dim + (np.arange(dim) < n % dim)
    positive = np.round(records * (1.0 + surplus) / 2.0)
    return huber(
        np.concatenate([np.eye(dim), np.eye(dim)]),
        np.concatenate([np.full(dim, 2.0 * width), np.full(dim, -2.0 * width)]),
        problem_class=ProblemClass(
            n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=math.sqrt(dim)
        ),
        width=width,
        counts=np.concatenate([positive, records - positive]),
        minimiser=np.full(dim, width),
        name="huber",
    )


HARD_FAMILIES = (
    Family(
        "linear",
        "linear losses of swept strength: tight for noisy gradient descent",
        _linear,
        strengths=(1.0, 2.0, 4.0, 8.0, math.inf),
    ),
    Family(
        "medians",
        "medians of swept surplus, one a coordinate: harder for noisy gradient descent",
        _medians,
        strengths=(2.0, 4.0, 8.0, 16.0, 32.0),
    ),
    Family(
        "rounded_medians",
        "rounded medians of swept surplus: harder for noisy gradient descent on smooth losses",
        _huber,
        strengths=(2.0, 4.0, 8.0, 16.0, 32.0),
    ),
    Family(
        "far_distance",
        "distances to coinciding records far from the start: tight for descent without noise",
        _far_distance,
    ),
    Family(
        "linear_population",
        "draws of linear losses of swept strength: tight for phased gradient descent",
        _linear_population,
        strengths=(4.0, 8.0, 12.0, 16.0, 24.0),
    ),
    Family(
        "distance",
        "distances to coinciding records: tight for output perturbation",
        _distance,
    ),
    Family(
        "two_kinks",
        "two kinks of swept slope: tight for output perturbation, whatever its regulariser",
        two_kinks,
        strengths=(1.0, 1.4, 2.0),
    ),
    Family(
        "regularised_distance",
        "the same, regularised with swept modulus: tight for strongly convex losses",
        _regularised_distance,
        strengths=(0.1, 1.0),
    ),
    Family(
        "squared_distance",
        "squared distances to coinciding records: tight for smooth, strongly convex losses",
        _squared_distance,
    ),
    Family(
        "huber",
        "rounded medians of swept surplus: tight for objective perturbation",
        _huber,
        strengths=(1.5, 2.1, 3.0, 4.2, 6.0),
    ),
)
