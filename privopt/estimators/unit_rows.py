"""Rows of norm at most 1, and coefficients in the units of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from privopt.arguments import flag, positive_number, shown
from privopt.records import as_array


@dataclass(frozen=True)
class UnitRows:
    """Map from rows ``x`` to rows of norm at most 1: ``(x min(1, B/|x|)/B, 1)/sqrt(2)``.

    Without an intercept it is ``x min(1, B/|x|)/B``. Each row depends on one record only. A row
    that is not finite is mapped to zeros, including the constant: its record is null.

    Parameters
    ----------
    norm : float
        Public bound ``B`` on the norms of rows; longer rows are scaled down to it.
    intercept : bool
        If True, there is a constant column.

    Examples
    --------
    >>> UnitRows(5.0, intercept=False).of(np.array([[3.0, 4.0], [0.0, 50.0]])).round(4).tolist()
    [[0.6, 0.8], [0.0, 1.0]]
    """

    norm: float
    intercept: bool

    def __post_init__(self) -> None:
        # Squares of norms in this range are finite and positive.
        if not 1e-30 <= positive_number("data_norm", self.norm) <= 1e30:
            raise ValueError(f"data_norm must be in [1e-30, 1e30], got {shown(self.norm)}")
        flag("fit_intercept", self.intercept)

    @property
    def divisor(self) -> float:
        """Factor ``sqrt(2)`` that leaves room for the constant, or 1."""
        return math.sqrt(2.0) if self.intercept else 1.0

    def of(self, features: Any) -> Any:
        """Return the rows, in the dtype of ``features``."""
        sparse = scipy.sparse.issparse(features)
        table = scipy.sparse.csr_array(features) if sparse else features
        with np.errstate(over="ignore", invalid="ignore"):
            wide = table.astype(np.float64)
            norms = np.sqrt((wide * wide).sum(axis=1))
            factors = 1.0 / np.maximum(norms, self.norm) / self.divisor  # 0 or NaN if not finite
            along = np.repeat(factors, np.diff(table.indptr)) if sparse else factors[:, None]
            scaled = np.where(along > 0.0, (table.data if sparse else table) * along, 0.0)
        rows = scaled
        if sparse:
            rows = scipy.sparse.csr_array((scaled, table.indices, table.indptr), table.shape)
        if self.intercept:
            constant = np.where(factors > 0.0, 1.0 / self.divisor, 0.0)[:, None]
            stack = scipy.sparse.hstack if sparse else np.hstack
            rows = stack([rows, constant])
        return rows.astype(features.dtype)

    def coefficients(self, parameter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients and the intercept of a parameter, in the units of the data."""
        columns = parameter.shape[-1] - self.intercept
        coefficients = parameter[..., :columns] / (self.divisor * self.norm)
        if not self.intercept:
            return coefficients, np.zeros(parameter.shape[:-1], parameter.dtype)
        return coefficients, parameter[..., columns] / self.divisor


def features_of(X: Any) -> Any:
    """Return ``X`` as an array of two axes or a matrix of ``scipy.sparse``, in float32 or float64.

    Arrays and columns of a data frame must contain numbers, booleans or objects. An entry of
    objects or of nested lists that is not a number becomes NaN. Arrays in float32 keep their type.
    """
    features = (
        scipy.sparse.csr_array(X) if scipy.sparse.issparse(X) else np.asarray(as_array(X, "X"))
    )
    if len(features.shape) != 2:
        raise ValueError(f"X must have 2 axes, got shape {features.shape}. Reshape your data")
    if 0 in features.shape:
        raise ValueError(
            f"X must have at least one row and one column, got {features.shape[0]} sample(s) and "
            f"{features.shape[1]} feature(s) (shape={features.shape}) while a minimum of 1 is "
            "required."
        )
    if features.dtype.kind not in "biuf" or features.dtype.itemsize > 8:
        raise ValueError(f"X must be numeric, got dtype {features.dtype.type.__name__}")
    single = features.dtype == np.float32
    return features if single else features.astype(np.float64, copy=False)
