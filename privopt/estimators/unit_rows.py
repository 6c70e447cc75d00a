"""Rows of norm at most 1, by a rule of one record, and coefficients in the units of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from privopt.arguments import positive_number, shown
from privopt.records import as_array


@dataclass(frozen=True)
class UnitRows:
    """``x -> (x min(1, B/|x|)/B, 1)/sqrt(2)``, of norm at most 1; ``x min(1, B/|x|)/B`` without 1.

    A row that is not finite becomes zeros alone, the last number included: its record is null.

    Parameters
    ----------
    norm : float
        ``B``, the public bound on norms of rows; longer rows are scaled down to it.
    intercept : bool
        Whether there is a constant column.

    Examples
    --------
    >>> UnitRows(5.0, intercept=False).of(np.array([[3.0, 4.0], [0.0, 50.0]])).round(4).tolist()
    [[0.6, 0.8], [0.0, 1.0]]
    """

    norm: float
    intercept: bool

    def __post_init__(self) -> None:
        if not 1e-30 <= positive_number("data_norm", self.norm) <= 1e30:  # squares are numbers
            raise ValueError(f"data_norm must lie in [1e-30, 1e30], got {shown(self.norm)}")
        if not isinstance(self.intercept, bool):
            raise ValueError(f"fit_intercept must be True or False, got {shown(self.intercept)}")

    @property
    def divisor(self) -> float:
        """By which rows of norm ``B = 1`` are divided."""
        return math.sqrt(2.0) if self.intercept else 1.0

    def of(self, features: Any) -> Any:
        """The rows, in the dtype of ``features``."""
        found = scipy.sparse.csr_array(features) if scipy.sparse.issparse(features) else features
        with np.errstate(over="ignore", invalid="ignore"):
            wide = found.astype(np.float64)
            norms = np.sqrt((wide * wide).sum(axis=1))
            within = 1.0 / np.maximum(norms, self.norm) / self.divisor
            factors = np.where(np.isfinite(norms), within, 0.0)
            along = (
                np.repeat(factors, np.diff(found.indptr))
                if scipy.sparse.issparse(found)
                else factors[:, None]
            )
            numbers = found.data if scipy.sparse.issparse(found) else found
            scaled = np.where(along > 0.0, numbers * along, 0.0)
        rows = scaled
        if scipy.sparse.issparse(found):
            rows = scipy.sparse.csr_array((scaled, found.indices, found.indptr), found.shape)
        if self.intercept:
            constant = np.where(factors > 0.0, 1.0 / self.divisor, 0.0)[:, None]
            stack = scipy.sparse.hstack if scipy.sparse.issparse(found) else np.hstack
            rows = stack([rows, constant])
        return rows.astype(features.dtype)

    def coefficients(self, parameter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercept, in the units of the data, of a parameter for unit rows."""
        columns = parameter.shape[-1] - self.intercept
        coefficients = parameter[..., :columns] / (self.divisor * self.norm)
        if not self.intercept:
            return coefficients, np.zeros(parameter.shape[:-1], parameter.dtype)
        return coefficients, parameter[..., columns] / self.divisor


def features_of(X: Any) -> Any:
    """``X`` as an array of two axes or a matrix of ``scipy.sparse``, in float32 or float64."""
    found = X if scipy.sparse.issparse(X) else np.asarray(as_array(X, "X"))
    if len(found.shape) != 2:
        raise ValueError(f"X must have 2 axes, got shape {found.shape}. Reshape your data")
    if 0 in found.shape:
        raise ValueError(
            f"X must have a row and a column at least, got {found.shape[0]} sample(s) and "
            f"{found.shape[1]} feature(s) (shape={found.shape}) while a minimum of 1 is required."
        )
    if found.dtype.kind not in "biuf":
        raise ValueError(f"X must be numeric, got dtype {found.dtype}")
    return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)
