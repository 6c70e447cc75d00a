"""Statistics that tell two laws apart, learned from samples: large where the first is likely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Score: TypeAlias = Callable[[FloatArray], FloatArray]

_NEW = 1e-9  # of a number's variance: less than that is round-off of the numbers before it


def discriminant(one: FloatArray, two: FloatArray) -> Score:
    """Fisher's: the best direction of two normals with one covariance."""
    gap = one.mean(axis=0) - two.mean(axis=0)
    direction = np.asarray(np.linalg.lstsq(_spread(one, two), gap, rcond=1e-10)[0])
    return lambda released: released @ direction


def likelihood(one: FloatArray, two: FloatArray) -> Score:
    """The sum of the log-likelihood ratios of the innovations, each by a histogram.

    An innovation is what is new in a number beside those before it. Those of noisy answers to
    samples of records are independent, and each a mixture, of which no direction is the best.
    """
    weights = _innovations(_spread(one, two))
    edges, ratios = [], []
    bins = max(8, round(len(one) ** (1.0 / 3.0)))
    for left, right in zip((one @ weights).T, (two @ weights).T, strict=True):
        pooled = np.concatenate([left, right])
        inner = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        counts = (np.bincount(np.searchsorted(inner, x), minlength=bins) for x in (left, right))
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
    """The covariance within the samples."""
    each = (np.atleast_2d(np.cov(sample, rowvar=False)) for sample in (one, two))
    return np.asarray(0.5 * sum(each))


def _innovations(spread: FloatArray) -> FloatArray:
    """Columns, one for each number that is new: it minus its regression on those before it."""
    kept: list[int] = []
    columns = []
    for i in range(len(spread)):
        before = spread[np.ix_(kept, kept)]
        weights = np.linalg.solve(before, spread[kept, i])
        left = spread[i, i] - weights @ spread[kept, i]
        if left > _NEW * spread[i, i]:
            column = np.zeros(len(spread))
            column[i], column[kept] = 1.0, -weights
            columns.append(column)
            kept.append(i)
    return np.array(columns).reshape(-1, len(spread)).T
