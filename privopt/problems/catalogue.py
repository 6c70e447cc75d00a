"""Catalogue of the problem families: hard families, synthetic logistic families and real data."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from privopt.arguments import Catalogue, member
from privopt.convex import SparseFeatures
from privopt.problems import datasets
from privopt.problems.hard_families import HARD_FAMILIES, STREAMS
from privopt.problems.models import logistic
from privopt.problems.problem import Family, Problem, first_records
from privopt.problems.sparse_families import SPARSE_FAMILIES, declared_sparsity
from privopt.spec import ProblemClass

_RADIUS = 10.0
_SPHERE_RECORDS = 2**13
_SHARPNESS = 3.0


def _sphere_logistic(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Build logistic regression on the sphere with a planted direction ``u``.

    ``P(y = 1 | x) = sigmoid(5 sqrt(d) <x, u>)``. The data are the same for every ``n``; records
    beyond ``n`` have multiplicity 0.
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
    """Build the uniform distribution on the first 2^13 records of ``sphere_logistic``."""
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
    """Build logistic regression on documents of ``s`` words sampled from a Zipf distribution.

    Word ``j`` of ``d`` has probability proportional to ``1/j`` and a planted weight ``u_j``, an
    independent standard normal number. A word that occurs ``k`` times has the entry ``k ln(1 +
    j)``: term frequency times inverse document frequency, up to a constant. Rows have norm 1.
    ``P(y = 1 | x) = sigmoid(3 <x, u>)`` and ``|w| <= 10``. A smaller ``n`` has the first documents
    of a larger one.
    """
    del noise_ratio, strength
    words = declared_sparsity(sparsity, dim)
    rng = np.random.default_rng([dim, words, 5])
    weights = rng.normal(size=dim)
    ranks = np.arange(1.0, dim + 1.0)
    cumulative = np.cumsum(1.0 / ranks)
    columns = np.searchsorted(cumulative, cumulative[-1] * rng.random((n, words)), side="right")
    columns = np.minimum(columns, dim - 1)
    rows = SparseFeatures(jnp.asarray(columns), jnp.asarray(np.log1p(ranks)[columns]), dim)
    rows = rows.scaled((1.0 - 2.0**-20) / rows.norms())
    scores = _SHARPNESS * np.asarray(rows.matvec(jnp.asarray(weights, rows.dtype)), np.float64)
    uniform = np.random.default_rng([dim, words, 6]).random(n)
    labels = np.where(uniform * (1.0 + np.exp(-scores)) < 1.0, 1.0, -1.0)
    facts = replace(_sphere_class(n, dim), sparsity=words)
    return logistic(rows, labels, problem_class=facts, name="vocabulary_logistic")


def _load(name: str) -> datasets.Dataset:
    """Load all rows in their public random order; cached for each data folder."""
    return _load_from(name, os.environ.get(datasets.VARIABLE))


@lru_cache(maxsize=8)
def _load_from(name: str, folder: str | None) -> datasets.Dataset:
    del folder
    whole = datasets.load(name)
    return whole.subset(whole.features.shape[0])


def _real_logistic(
    dataset: str, *, n: int, dim: int, noise_ratio: float, strength: float
) -> Problem:
    """Build logistic regression on the first ``n`` records of the public order."""
    whole = _load(dataset)
    records, width = whole.features.shape
    problem = logistic(
        whole.features,
        whole.labels,
        problem_class=replace(_sphere_class(records, width), sparsity=whole.sparsity),
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
        "population of logistic losses with a planted direction",
        _sphere_logistic_population,
    ),
    Family(
        "vocabulary_logistic",
        f"logistic regression on documents over a long-tailed vocabulary, |w| <= {_RADIUS:g}",
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
    """Return the family of this name; FileNotFoundError if its data are missing.

    Examples
    --------
    >>> family("distance").hard, family("digits_logistic").max_n
    (True, 1797)
    """
    member("family", name, FAMILIES)
    result = FAMILIES[name]
    if not result.hard:
        _load(name.removesuffix("_logistic"))
    return result


def missing_data(name: str) -> str | None:
    """Return the reason why a family's data cannot be loaded, or None. Files are not read."""
    return None if FAMILIES[name].hard else datasets.missing(name.removesuffix("_logistic"))
