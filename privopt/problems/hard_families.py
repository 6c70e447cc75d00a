"""Hard families: problems of every size on which the rate of an algorithm is tight."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privopt.problems.declaration import ProblemOptions
from privopt.problems.losses import TwoKinks
from privopt.problems.models import (
    absolute,
    distance,
    huber,
    linear,
    regularised_distance,
    squared,
    squared_distance,
)
from privopt.problems.problem import Family, Problem
from privopt.spec import ProblemClass

_unit_ball = partial(ProblemClass, radius=1.0)
_ROUGH = {"lipschitz": 1.0}
_CURVED = {
    "lipschitz": 2.0,
    "smoothness": 1.0,
    "strong_convexity": 1.0,
}  # for all records in the unit ball


def _linear(
    *, n: int, dim: int, noise_ratio: float, strength: float, population: bool = False
) -> Problem:
    """Build ``-<w, x>`` with ``x = +-e_1`` of mean ``v = min(1, strength * noise_ratio)``.

    The minimiser ``e_1`` is at distance 1 from the start, and the gradient is only ``v``. A
    gradient slightly above the noise is the hardest. The risk of the population is ``-v w_1``.
    """
    mean = min(1.0, strength * noise_ratio)
    positive = round(n * (1.0 + mean) / 2.0)
    options: ProblemOptions = {"counts": np.array([positive, n - positive]), "name": "linear"}
    if population:
        shares = np.array([1.0 + mean, 1.0 - mean]) / 2.0
        options = {"probabilities": shares, "name": "linear_population"}
    if population or 2 * positive > n:
        options["minimiser"] = np.eye(dim)[0]
    features = np.zeros((2, dim))
    features[:, 0] = 1.0, -1.0
    return linear(
        features,
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=1.0, smoothness=0.0),
        **options,
    )


def _coinciding(
    loss: Callable[..., Problem],
    name: str,
    facts: Mapping[str, Any],
    *,
    n: int,
    dim: int,
    far: bool = False,
    **unused: float,
) -> Problem:
    """Build losses of coinciding records at 0, or at ``e_1`` if ``far``: the minimiser."""
    record = np.eye(dim)[0] if far else np.zeros(dim)
    return loss(
        record[None],
        problem_class=_unit_ball(n=n, dim=dim, **facts),
        counts=np.array([n]),
        minimiser=record,
        name=name,
    )


def _regularised_distance(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build ``|w - x| + (m/2)|w|^2`` with ``m = strength`` and all records at the kink 0.

    The kink is the minimiser, with excess risk ``E|z| + (m/2) E|z|^2``. On the unit ball ``L = 1 +
    m``.
    """
    facts = {"lipschitz": 1.0 + strength, "strong_convexity": strength}
    loss = partial(regularised_distance, modulus=strength)
    return _coinciding(loss, "regularised_distance", facts, n=n, dim=dim)


def _two_kinks(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build two kinks at ``e_1`` with slope ``s = min(1, strength * sqrt(noise_ratio))``.

    The regularised minimiser is ``min(1, s/lambda) e_1``. A large ``lambda`` causes bias along
    ``e_1``; a small ``lambda`` causes noise in the other coordinates. At ``s = lambda/2`` the bias
    is ``lambda/4``, the largest possible cost of a regulariser, and the noise costs nearly its
    whole norm. The best ``lambda`` and the hardest slopes are of order ``sqrt(noise_ratio)``.
    """
    loss = TwoKinks(min(1.0, strength * math.sqrt(noise_ratio)))

    def build(data: NDArray[np.float64], **options: Any) -> Problem:
        return Problem(loss=loss, data=data, **options)

    return _coinciding(build, "two_kinks", _ROUGH, n=n, dim=dim, far=True)


def _medians(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build medians ``|w_j - y|`` with ``y = +-1/sqrt(d)`` and ``j = i mod d`` for record ``i``.

    The minimiser ``(1, ..., 1)/sqrt(d)`` is at distance 1 from the start. In each coordinate the
    positive labels exceed the negative ones by a fraction ``m = min(1, strength * noise_ratio *
    sqrt(d))``. The partial derivative is ``-m/d`` between the labels and ``1/d`` above them.
    """
    height = 1.0 / math.sqrt(dim)
    counts = _surplus(n, dim, noise_ratio, strength)
    return absolute(
        *_coordinates(dim, height),
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=1.0),
        counts=counts,
        minimiser=np.full(dim, height) if np.all(counts[:dim] >= counts[dim:]) else None,
        name="medians",
    )


def _huber(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build rounded medians ``Huber_h(w_j - y)`` with ``j = i mod d`` for record ``i``.

    ``h = 1/sqrt(d)`` and ``y = +-2h``. Every loss is linear between ``-h`` and ``h``, and the
    minimiser ``(h, ..., h)`` is on the boundary of the ball. In each coordinate the positive labels
    exceed the negative ones by a fraction ``m = min(1, strength * noise_ratio * sqrt(d))``. Each
    coordinate of the gradient sum is ``m n/d``, with noise of order ``1/mu``.
    """
    width = 1.0 / math.sqrt(dim)
    return huber(
        *_coordinates(dim, 2.0 * width),
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=1.0, smoothness=math.sqrt(dim)),
        width=width,
        counts=_surplus(n, dim, noise_ratio, strength),
        minimiser=np.full(dim, width),
        name="huber",
    )


def _isotropic_squares(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build ``(<x, w> - y)^2/2`` with ``x = e_j`` for a fraction ``s`` of the records, else 0.

    ``s = min(1/d, strength * noise_ratio)``, and ``|x|, |y| <= 1``. The risk ``F(w) = s |w -
    e_1|^2/2`` on the unit ball has a curvature of the order of its noise and a minimiser on the
    boundary.
    """
    share = round(n * min(1.0 / dim, strength * noise_ratio))
    features = np.concatenate([np.eye(dim), np.zeros((1, dim))])
    return squared(
        features,
        features[:, 0],
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=2.0, smoothness=1.0),
        counts=np.append(np.full(dim, share), n - dim * share),
        minimiser=np.eye(dim)[0],
        name="isotropic_squares",
    )


def _steep_squares(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build ``(<x, w - e_1>)^2/2`` with ``x = e_1`` for a fraction ``s`` of the records.

    The other records have the other basis vectors in equal numbers, so the curvatures add up to 1,
    which is the cost of noise without projection. The curvature along the minimiser ``e_1`` is
    ``s = min(1, strength * (noise_ratio/sqrt(d))^{2/3})``. At ``s = lambda`` the bias is
    ``lambda/8``.
    """
    share = max(1, round(n * min(1.0, strength * (noise_ratio / math.sqrt(dim)) ** (2.0 / 3.0))))
    rest = n - share
    others = rest // (dim - 1) + (np.arange(dim - 1) < rest % (dim - 1))
    features = np.eye(dim)
    return squared(
        features,
        features[:, 0],
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=2.0, smoothness=1.0),
        counts=np.append(share, others),
        minimiser=np.eye(dim)[0],
        name="steep_squares",
    )


def _coordinates(dim: int, height: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the features ``e_j`` with label ``height``, then those with its negative."""
    return np.tile(np.eye(dim), (2, 1)), np.repeat([height, -height], dim)


def _surplus(n: int, dim: int, noise_ratio: float, strength: float) -> NDArray[np.float64]:
    """Return the multiplicities: of the positive label in each coordinate, then of the negative."""
    surplus = min(1.0, strength * noise_ratio * math.sqrt(dim))
    records = n // dim + (np.arange(dim) < n % dim)
    positive = np.round(records * (1.0 + surplus) / 2.0)
    return np.concatenate([positive, records - positive])


def _orthogonal_linear(*, n: int, dim: int, **unused: float) -> Problem:
    """Build ``-<w, x_t>`` with ``x_t`` orthogonal to ``x_1 + ... + x_{t-1}`` (spiral of Theodorus).

    The sum of the first ``t`` records has norm ``sqrt(t)``. Follow-the-leader gains 0 on the next
    record, and the best point in hindsight gains ``sqrt(n)``. In any other order, a leader
    with ``Lambda = sqrt(n)`` has no larger regret, and a smaller one if a partial sum is longer
    than that.
    """
    if dim < 2:
        raise ValueError(f"dim must be at least 2 for orthogonal_linear, got {dim}")
    increments = np.arctan(1.0 / np.sqrt(np.arange(1, n)))
    angles = np.concatenate([[0.0], np.cumsum(increments)])  # of the partial sums
    directions = np.concatenate([[0.0], angles[:-1] + 0.5 * math.pi])  # of the records
    features = np.zeros((n, dim))
    features[:, 0], features[:, 1] = np.cos(directions), np.sin(directions)
    best = np.zeros(dim)
    best[:2] = math.cos(angles[-1]), math.sin(angles[-1])
    return linear(
        features / np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True)),
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=1.0, smoothness=0.0),
        minimiser=best,
        name="orthogonal_linear",
    )


def _random_linear(*, n: int, dim: int, **unused: float) -> Problem:
    """Build ``-<w, x_t>`` with independent uniform ``x_t`` in ``{-1, 1}^d/sqrt(d)``.

    A smaller ``n`` has the first records of a larger one. Past records contain no information about
    the next one.
    """
    signs = np.where(np.random.default_rng([dim]).random((n, dim)) < 0.5, -1.0, 1.0)
    total = signs.sum(axis=0)
    length = float(np.linalg.norm(total))
    return linear(
        signs / (math.sqrt(dim) * (1.0 + 2.0**-50)),
        problem_class=_unit_ball(n=n, dim=dim, lipschitz=1.0, smoothness=0.0),
        minimiser=total / length if length > 0.0 else None,
        name="random_linear",
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
        "medians of swept surplus, one per coordinate: harder for noisy gradient descent",
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
        partial(_coinciding, distance, "far_distance", _ROUGH, far=True),
    ),
    Family(
        "linear_population",
        "population of linear losses of swept strength: tight for phased gradient descent",
        partial(_linear, population=True),
        strengths=(4.0, 8.0, 12.0, 16.0, 24.0),
    ),
    Family(
        "distance",
        "distances to coinciding records: tight for output perturbation",
        partial(_coinciding, distance, "distance", _ROUGH),
    ),
    Family(
        "two_kinks",
        "two kinks of swept slope: tight for output perturbation with any regulariser",
        _two_kinks,
        strengths=(1.0, 1.4, 2.0),
    ),
    Family(
        "regularised_distance",
        "distances with a regulariser of swept modulus: tight for strongly convex losses",
        _regularised_distance,
        strengths=(0.1, 1.0),
    ),
    Family(
        "squared_distance",
        "squared distances to coinciding records: tight for smooth, strongly convex losses",
        partial(_coinciding, squared_distance, "squared_distance", _CURVED),
    ),
    Family(
        "huber",
        "rounded medians of swept surplus: tight for objective perturbation",
        _huber,
        strengths=(1.5, 2.1, 3.0, 4.2, 6.0),
    ),
    Family(
        "isotropic_squares",
        "least squares of swept curvature: tight for sufficient statistics",
        _isotropic_squares,
        strengths=(1.0, 1.4, 2.0, 2.8, 4.0, 5.6),
    ),
    Family(
        "steep_squares",
        "least squares, steep beside the minimiser: tight for output perturbation, not projected",
        _steep_squares,
        strengths=(2.0, 4.0, 8.0),
    ),
)
STREAMS = (  # for regret, which depends on the order of the records
    Family(
        "orthogonal_linear",
        "linear losses, orthogonal to the sum of the past: tight for regret without noise",
        _orthogonal_linear,
    ),
    Family(
        "random_linear",
        "linear losses of random signs: hard for every online method, with or without noise",
        _random_linear,
    ),
)
