"""Banded factorisations: ``C``, or its inverse, has ``band`` coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.signal import lfilter

from privopt.factorisations.toeplitz import (
    SeriesFactorisation,
    correlated,
    inverse_square_root,
    square_root,
)

_OVERFLOW = 1e6  # of a log

_Floats = NDArray[np.float64]


def banded(steps: int, band: int, *, optimise: bool = False) -> SeriesFactorisation:
    """``C`` banded: the first coefficients of the square root, or those of least error.

    A record that takes part with gaps of ``band`` or more moves disjoint rows, so that ``k``
    participations cost ``sqrt(k)``.

    Parameters
    ----------
    steps, band : int
    optimise : bool
        Whether to minimise the mean square error at one participation over all such ``C``.

    Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu 2023
    (arXiv:2306.08153); McKenna 2024 (arXiv:2405.15913) for the optimisation of Toeplitz ``C``.

    Examples
    --------
    >>> round(banded(100, 16).rmse(), 5)
    2.70577
    """
    start = square_root(band)
    tail = least(_of_banded, start[1:], steps) if optimise else start[1:]
    return SeriesFactorisation("banded", steps, np.concatenate([[1.0], tail]))


def banded_inverse(steps: int, band: int, *, optimise: bool = False) -> SeriesFactorisation:
    """``C^-1`` banded: streaming takes ``band - 1`` past vectors and no solve.

    Parameters
    ----------
    steps, band : int
    optimise : bool
        Whether to minimise the mean square error at one participation over all such ``C``.

    Source: Kalinin, McKenna, Upadhyay and Lampert 2025 (arXiv:2505.12128).

    Examples
    --------
    >>> round(banded_inverse(100, 16).rmse(), 5)
    2.36274
    """
    denominator = inverse_square_root(band)
    if optimise:
        start = np.log(np.cumsum(denominator)[1:])
        sums = np.exp(least(_of_banded_inverse, start, steps))
        denominator = np.diff(np.concatenate([[0.0, 1.0], sums]))
    return SeriesFactorisation("banded_inverse", steps, np.ones(1), denominator)


def log_mean_square(c: _Floats, b: _Floats) -> tuple[float, float, float]:
    """``log(|c|^2 sum_k (T - k) b_k^2 / T)``, and the two factors of it that a gradient needs."""
    weights = np.arange(len(b), 0, -1.0) / len(b)
    sensitivity, error = float(c @ c), float(weights @ b**2)
    return float(np.log(sensitivity) + np.log(error)), sensitivity, error


def _of_banded(tail: _Floats, steps: int) -> tuple[float, _Floats]:
    """The log of the mean square error and its gradient in ``c_1, ...``.

    ``B = 1/((1 - x) C)``, so ``dB = -(B/C) dC``.
    """
    c = np.concatenate([[1.0], tail])
    b = lfilter([1.0], c, np.ones(steps))
    value, sensitivity, error = log_mean_square(c, b)
    weighted = np.arange(steps, 0, -1.0) / steps * b
    moved = correlated(weighted, lfilter([1.0], c, b), len(c))
    return value, (2.0 * c / sensitivity - 2.0 * moved / error)[1:]


def _of_banded_inverse(log_b: _Floats, steps: int) -> tuple[float, _Floats]:
    """The same in the logs of ``b_1, ...``, the running sums of ``C^-1``, constant after the band.

    ``r_k = b_k - b_(k-1)`` and ``dC = -C^2 dr``. Running sums, and not ``r``, since the error of
    long streams is that of the last one.
    """
    short = np.concatenate([[1.0], np.exp(log_b)])
    r = np.diff(short, prepend=0.0)
    c = lfilter([1.0], r, np.eye(1, steps)[0])
    b = np.pad(short, (0, steps - len(short)), mode="edge")
    value, sensitivity, error = log_mean_square(c, b)
    weighted = np.arange(steps, 0, -1.0) / steps * b
    by_b = np.concatenate([weighted[: len(r) - 1], [weighted[len(r) - 1 :].sum()]])
    by_r = correlated(c, lfilter([1.0], r, c), len(r))
    slope = 2.0 * by_b / error - 2.0 * -np.diff(by_r, append=0.0) / sensitivity
    return value, (slope * short)[1:]


def least(
    objective: Callable[[_Floats, int], tuple[float, _Floats]], start: _Floats, steps: int
) -> _Floats:
    """The numbers of least ``objective``, by L-BFGS from ``start``."""

    def guarded(numbers: _Floats) -> tuple[float, _Floats]:
        """Series that overflow are worse than all that do not."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                value, slope = objective(numbers, steps)
            except np.linalg.LinAlgError:
                return _OVERFLOW, np.zeros_like(numbers)
        if math.isfinite(value) and np.isfinite(slope).all():
            return value, slope
        return _OVERFLOW, np.zeros_like(numbers)

    if not len(start):
        return start
    options = {"maxiter": 3000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(guarded, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)
