"""How much longer a given matrix can make the difference of two means of sparse vectors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["largest_gain"]

_BLOCK = 1024  # columns whose products are in memory at once
_UNIT = 2.0**-53


def largest_gain(matrix: NDArray[np.float64], sparsity: float) -> float:
    """``kappa >= max |A v|_2`` over ``|v|_2 <= 1``, ``|v|_1 <= sqrt(s)``, certified.

    The smaller of two bounds, with room for round-off:

    - ``kappa^2 <= max_i |a_i|^2 + (s - 1) max_{i != j} |<a_i, a_j>|``. Proof: with ``M`` and ``c``
      the two maxima, ``|A v|^2 <= M |v|_2^2 + c (|v|_1^2 - |v|_2^2)``, and ``M >= c``.
    - the operator norm, about ``1 + sqrt(d/m)`` for ``m`` rows of variance ``1/m``.

    Exact for ``s = 1``: the longest column. Both hold for records that are clipped in both norms,
    not only for sparse ones; the largest gain over *sparse* vectors would not.

    Parameters
    ----------
    matrix : array
        ``A``, shape ``(m, d)``, finite.
    sparsity : float
        ``s >= 1``.

    Returns
    -------
    float

    Examples
    --------
    >>> round(largest_gain(np.array([[3.0, 0.0], [4.0, 1.0]]), 1.0), 12)
    5.0
    """
    rows, columns = matrix.shape
    lengths, coherence = np.einsum("ij,ij->j", matrix, matrix), 0.0
    for start in range(0, columns, _BLOCK):
        products = np.abs(matrix[:, start : start + _BLOCK].T @ matrix)
        own = np.arange(products.shape[0])
        products[own, start + own] = 0.0
        coherence = max(coherence, float(products.max()))
    largest = float(lengths.max())
    room = 1.0 + 8.0 * (rows + columns) * _UNIT
    by_coherence = (
        largest + max(0.0, sparsity - 1.0) * (coherence + rows * _UNIT * largest)
    ) * room
    trace = float(lengths.sum())
    by_norm = float(np.linalg.eigvalsh(matrix @ matrix.T)[-1]) + (rows + columns) * _UNIT * trace
    return math.sqrt(min(by_coherence, by_norm * room))
