"""Families of problems, indexed by size: hard ones on which a rate is tight, and real data."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from privopt.arguments import Catalogue, member
from privopt.convex import SparseFeatures
from privopt.problems import datasets
from privopt.problems.dataset import Dataset
from privopt.problems.families import Family, first_records
from privopt.problems.hard_families import HARD_FAMILIES, STREAMS
from privopt.problems.models import logistic
from privopt.problems.problem import Problem
from privopt.problems.sparse_families import SPARSE_FAMILIES, declared_sparsity
from privopt.spec import ProblemClass

_RADIUS = 10.0
_SPHERE_RECORDS = 2**13
_SHARPNESS = 3.0


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
    return ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=_RADIUS, smoothness=0.25)


def _sphere(records: int, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(dim)
    direction = rng.normal(size=dim)
    features = rng.normal(size=(records, dim))
    features /= (1.0 + dim * 2.0**-23) * np.linalg.norm(features, axis=1, keepdims=True)
    scores = 5.0 * math.sqrt(dim) * features @ direction / np.linalg.norm(direction)
    labels = np.where(rng.random(records) * (1.0 + np.exp(-scores)) < 1.0, 1.0, -1.0)
    return features, labels


def _vocabulary_logistic(
    *, n: int, dim: int, noise_ratio: float, strength: float, sparsity: int = 64
) -> Problem:
    """Logistic regression on documents of ``s`` draws from ``d`` words of Zipf's frequencies.

    Word ``j`` has probability proportional to ``1/j`` and a planted weight ``u_j``, an independent
    normal number. A word drawn ``k`` times has the entry ``k ln(1 + j)``, the logarithm of its
    inverse frequency up to a constant, as usual for texts; rows have norm 1. ``P(y = 1 | x) =
    sigmoid(3 <x, u>)`` and ``|w| <= 10``. A smaller ``n`` has the first documents of a larger one.
    """
    del noise_ratio, strength
    words = declared_sparsity(sparsity, dim)
    rng = np.random.default_rng([dim, words, 5])
    weights = rng.normal(size=dim)
    ranks = np.arange(1.0, dim + 1.0)
    below = np.cumsum(1.0 / ranks)
    drawn = np.searchsorted(below, below[-1] * rng.random((n, words)), side="right")
    drawn = np.minimum(drawn, dim - 1)
    rows = SparseFeatures(jnp.asarray(drawn), jnp.asarray(np.log1p(ranks)[drawn]), dim)
    rows = rows.scaled((1.0 - 2.0**-20) / rows.norms())
    scores = _SHARPNESS * np.asarray(rows.matvec(jnp.asarray(weights, rows.dtype)), np.float64)
    uniform = np.random.default_rng([dim, words, 6]).random(n)
    labels = np.where(uniform * (1.0 + np.exp(-scores)) < 1.0, 1.0, -1.0)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=_RADIUS, smoothness=0.25, sparsity=words
    )
    return logistic(rows, labels, problem_class=facts, name="vocabulary_logistic")


def _dataset(name: str) -> Dataset:
    """All rows in their public random order; kept for as long as the data's folder is the same."""
    return _loaded(name, os.environ.get(datasets.VARIABLE))


@lru_cache(maxsize=8)
def _loaded(name: str, folder: str | None) -> Dataset:
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
            n=records,
            dim=width,
            lipschitz=1.0,
            radius=_RADIUS,
            smoothness=0.25,
            sparsity=whole.sparsity,
        ),
        name=f"{dataset}_logistic",
    )
    return first_records(problem, n=n, dim=dim, noise_ratio=noise_ratio, strength=strength)


def _real(dataset: str, dim: int, max_n: int) -> Family:
    return Family(
        name=f"{dataset}_logistic",
        summary=f"logistic regression on {dataset}, |x| <= 1, |w| <= {_RADIUS:g}",
        build=partial(_real_logistic, dataset),
        dim=dim,
        max_n=max_n,
    )


_MEMBERS = (
    *HARD_FAMILIES,
    *SPARSE_FAMILIES,
    *STREAMS,
    Family(
        "sphere_logistic",
        f"logistic regression, a planted direction, |x| <= 1, |w| <= {_RADIUS:g}",
        _sphere_logistic,
    ),
    Family(
        "sphere_logistic_population",
        "draws from a population of logistic losses with a planted direction",
        _sphere_logistic_population,
    ),
    Family(
        "vocabulary_logistic",
        f"logistic regression on drawn documents over a long-tailed vocabulary, |w| <= {_RADIUS:g}",
        _vocabulary_logistic,
    ),
    _real("a9a", 123, 32_561),
    _real("breast_cancer", 30, 569),
    _real("digits", 64, 1_797),
    _real("rcv1", 47_236, 1_500),
    _real("sector", 55_197, 9_619),
)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    Catalogue("family", ((each.name, each) for each in _MEMBERS))
)


def family(name: str) -> Family:
    """The family of this name; FileNotFoundError where its data are missing.

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


def missing_data(name: str) -> str | None:
    """What keeps a family's data from being loaded, or None; files are looked for, not read."""
    return None if FAMILIES[name].hard else datasets.missing(name.removesuffix("_logistic"))
