"""Families of problems, indexed by size: hard ones on which a rate is tight, and real data."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import Catalogue, instance, member
from privopt.problems import datasets
from privopt.problems.models import (
    distance,
    huber,
    linear,
    logistic,
    regularised_distance,
    squared_distance,
)
from privopt.problems.problem import Problem
from privopt.problems.two_kinks import two_kinks
from privopt.spec import ProblemClass

__all__ = ["FAMILIES", "Family", "family"]

_LOGISTIC_RADIUS = 10.0
_SPHERE_RECORDS = 2**13


@dataclass(frozen=True)
class Family:
    """Problems of one kind at every size; one's own take part in an experiment as privopt's do.

    Attributes
    ----------
    name : str
        Small letters, digits and underscores.
    summary : str
    build : callable
        ``build(n=, dim=, noise_ratio=, strength=) -> Problem``; of a population where every run is
        to draw records of its own. ``noise_ratio`` is the public number ``sqrt(dim) / (n mu)``;
        ``strength`` is the family's free parameter, over which a worst case is taken.
    strengths : tuple of float
        The values worth taking.
    dim, max_n : int or None
        Fixed dimension and largest size of real data; ``None`` where free.

    Examples
    --------
    >>> FAMILIES["linear"].build(n=100, dim=2, noise_ratio=0.1, strength=2.0)
    <Problem linear: n = 100, dim = 2, loss = Linear, constraint = L2Ball, dtype = float64>
    """

    name: str
    summary: str
    build: Callable[..., Problem]
    strengths: tuple[float, ...] = (1.0,)
    dim: int | None = None
    max_n: int | None = None

    @property
    def hard(self) -> bool:
        """Whether the family is built to be hard, rather than given."""
        return self.max_n is None

    @classmethod
    def of(cls, problem: Problem, summary: str = "") -> Family:
        """The family of a problem of one's own: at size ``n``, that of its first ``n`` records.

        Their order should be public and random, as that of ``Dataset.subset``: a file sorted by
        label has other problems at its beginning.
        """
        facts = instance("problem", problem, Problem).problem_class
        return cls(problem.name, summary, partial(_first, problem), dim=facts.dim, max_n=facts.n)


def _first(problem: Problem, *, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """The first ``n`` records; the others stay, at multiplicity 0: every ``n`` has one shape."""
    del noise_ratio, strength
    if dim != problem.problem_class.dim:
        raise ValueError(f"dim must be {problem.problem_class.dim} for {problem.name}, got {dim}")
    return problem.first(n)


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


def _sphere_logistic(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Logistic regression on the sphere, labels by a planted direction; the same at every ``n``.

    ``P(y = 1 | x) = sigmoid(5 sqrt(d) <x, u>)``. Records beyond ``n`` stay, at multiplicity 0.
    """
    del noise_ratio, strength
    records = max(n, _SPHERE_RECORDS)
    features, labels = _sphere(records, dim)
    whole = logistic(
        features, labels, problem_class=_sphere_class(records, dim), name="sphere_logistic"
    )
    return whole.first(n)


def _sphere_logistic_population(
    *, n: int, dim: int, noise_ratio: float, strength: float
) -> Problem:
    """The population that consists of 2^13 records of ``sphere_logistic``, all equally likely."""
    del noise_ratio, strength
    features, labels = _sphere(_SPHERE_RECORDS, dim)
    return logistic(
        features,
        labels,
        problem_class=_sphere_class(n, dim),
        probabilities=np.full(_SPHERE_RECORDS, 1.0 / _SPHERE_RECORDS),
        name="sphere_logistic_population",
    )


def _sphere_class(n: int, dim: int) -> ProblemClass:
    return ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=_LOGISTIC_RADIUS, smoothness=0.25)


def _sphere(records: int, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(dim)
    direction = rng.normal(size=dim)
    features = rng.normal(size=(records, dim))
    features /= (1.0 + dim * 2.0**-23) * np.linalg.norm(features, axis=1, keepdims=True)
    scores = 5.0 * math.sqrt(dim) * features @ direction / np.linalg.norm(direction)
    labels = np.where(rng.random(records) * (1.0 + np.exp(-scores)) < 1.0, 1.0, -1.0)
    return features, labels


def _dataset(name: str) -> datasets.Dataset:
    """All rows in their public random order; kept for as long as the data's folder is the same."""
    return _loaded(name, os.environ.get(datasets.VARIABLE))


@lru_cache(maxsize=4)
def _loaded(name: str, folder: str | None) -> datasets.Dataset:
    del folder
    whole = datasets.load(name)
    return whole.subset(whole.features.shape[0])


def _real_logistic(
    dataset: str, *, n: int, dim: int, noise_ratio: float, strength: float
) -> Problem:
    """The first ``n`` records of the public order."""
    whole = _dataset(dataset)
    records, width = whole.features.shape
    problem = logistic(
        whole.features,
        whole.labels,
        problem_class=ProblemClass(
            n=records, dim=width, lipschitz=1.0, radius=_LOGISTIC_RADIUS, smoothness=0.25
        ),
        name=f"{dataset}_logistic",
    )
    return _first(problem, n=n, dim=dim, noise_ratio=noise_ratio, strength=strength)


def _real(dataset: str, dim: int, max_n: int) -> Family:
    return Family(
        name=f"{dataset}_logistic",
        summary=f"logistic regression on {dataset}, |x| <= 1, |w| <= {_LOGISTIC_RADIUS:g}",
        build=partial(_real_logistic, dataset),
        dim=dim,
        max_n=max_n,
    )


_MEMBERS = (
    Family(
        "linear",
        "linear losses of swept strength: tight for noisy gradient descent",
        _linear,
        strengths=(1.0, 2.0, 4.0, 8.0, math.inf),
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
    Family(
        "sphere_logistic",
        f"logistic regression, a planted direction, |x| <= 1, |w| <= {_LOGISTIC_RADIUS:g}",
        _sphere_logistic,
    ),
    Family(
        "sphere_logistic_population",
        "draws from a population of logistic losses with a planted direction",
        _sphere_logistic_population,
    ),
    _real("a9a", 123, 32_561),
    _real("breast_cancer", 30, 569),
    _real("digits", 64, 1_797),
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    Catalogue("family", ((each.name, each) for each in _MEMBERS))
)


def family(name: str) -> Family:
    """The family of this name.

    Raises
    ------
    ValueError
        If there is none.
    FileNotFoundError
        If it rests on data that cannot be found, saying where they are looked for.

    Examples
    --------
    >>> family("distance").hard, family("digits_logistic").max_n
    (True, 1797)
    """
    member("family", name, FAMILIES)
    found = FAMILIES[name]
    if not found.hard:
        _dataset(name.removesuffix("_logistic"))
    return found
