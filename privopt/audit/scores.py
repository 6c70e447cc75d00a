"""Statistics that distinguish two laws, learned from samples; they are large under the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

FloatArray: TypeAlias = npt.NDArray[np.float64]
Score: TypeAlias = Callable[[FloatArray], FloatArray]

_NEW = 1e-9  # share of a number's variance below which its innovation is round-off


def discriminant(one: FloatArray, two: FloatArray) -> Score:
    """Return Fisher's discriminant, the best direction for two normals with one covariance."""
    gap = one.mean(axis=0) - two.mean(axis=0)
    direction = np.asarray(np.linalg.lstsq(_spread(one, two), gap, rcond=1e-10)[0])
    return lambda released: released @ direction


def likelihood(one: FloatArray, two: FloatArray) -> Score:
    """Return the sum of the log-likelihood ratios of the innovations, each from a histogram.

    The innovation of a number is its residual after regression on the numbers before it. Noisy
    answers to samples of records have independent innovations with mixture distributions, for which
    no single direction is optimal.
    """
    weights = _innovations(_spread(one, two))
    edges, ratios = [], []
    bins = max(8, round(len(one) ** (1.0 / 3.0)))
    for first, second in zip((one @ weights).T, (two @ weights).T, strict=True):
        pooled = np.concatenate([first, second])
        inner = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        counts = (np.bincount(np.searchsorted(inner, x), minlength=bins) for x in (first, second))
        here, there = (each[: len(inner) + 1] + 0.5 for each in counts)
        edges.append(inner)
        ratios.append(np.log(here / there))

    def score(released: FloatArray) -> FloatArray:
        columns = (released @ weights).T
        parts = zip(columns, edges, ratios, strict=True)
        return sum((r[np.searchsorted(e, x)] for x, e, r in parts), np.zeros(len(released)))

    return score


SCORES: Mapping[str, Callable[[FloatArray, FloatArray], Score]] = MappingProxyType(
    {"discriminant": discriminant, "likelihood": likelihood}
)


def _spread(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the covariance within the samples."""
    each = (np.atleast_2d(np.cov(sample, rowvar=False)) for sample in (one, two))
    return np.asarray(0.5 * sum(each))


def _innovations(spread: FloatArray) -> FloatArray:
    """Return the weights of the innovations, one column for each number that has one.

    ``spread`` is the covariance ``S`` of the numbers. With the Cholesky factor ``S = L L^T`` of
    those kept, the innovations of ``x`` are ``diag(L) L^-1 x``. The factor grows row by row, so
    that a number that is determined by those before it is left out.
    """
    size = len(spread)
    places: list[int] = []
    factor = np.zeros((size, size))
    for i in range(size):
        count = len(places)
        row = solve_triangular(factor[:count, :count], spread[places, i], lower=True)
        variance = spread[i, i] - row @ row
        if variance > _NEW * spread[i, i]:
            factor[count, :count], factor[count, count] = row, np.sqrt(variance)
            places.append(i)
    factor = factor[: len(places), : len(places)]
    weights = np.zeros((size, len(places)))
    scaled = np.diag(factor)[:, None] * solve_triangular(factor, np.eye(len(places)), lower=True)
    weights[places] = scaled.T
    return weights
