"""Toeplitz factorisations: ``C`` is a power series, and so are its inverse and ``B``."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.signal import fftconvolve, lfilter

from privopt.factorisations.factorisation import Factorisation
from privopt.factorisations.participation import Patterns, largest_total

MAX_DENSE = 512  # steps up to which patterns of a C that is not monotone are looked at one by one
MAX_PAIRED = 2**24  # steps times participations
MAX_COEFFICIENT = 1e100
MAX_RECURSION = 4096  # coefficients; the time of a recursion is their number times the steps
_ROUND_OFF = 1e-9

_Floats = NDArray[np.float64]


def square_root(steps: int) -> _Floats:
    """The coefficients of ``(1 - x)^(-1/2)``, of the square root of ``A``: ``binom(2k, k)/4^k``.

    Source: Fichtenberger, Henzinger and Upadhyay 2023 (arXiv:2202.11205).

    Examples
    --------
    >>> square_root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    k = np.arange(1, steps)
    return np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / k]))


def inverse_square_root(steps: int) -> _Floats:
    """The coefficients of ``(1 - x)^(1/2)``.

    Examples
    --------
    >>> inverse_square_root(4)
    array([ 1.    , -0.5   , -0.125 , -0.0625])
    """
    k = np.arange(1, steps)
    return np.cumprod(np.concatenate([[1.0], 1.0 - 1.5 / k]))


class ToeplitzFactorisation(Factorisation):
    """``C_ti = c_(t-i)`` and ``B = A C^-1``.

    *Sensitivity*. One participation: ``|c|``, exact. More: where ``c`` is non-negative and
    non-increasing the worst pattern starts at the first step with the least gap, which is exact
    (Kalinin and Lampert 2024, arXiv:2405.13763, Theorem 2). Of even patterns the worst starts at
    the first step for every non-negative ``c``, since a later start cuts its end off. Otherwise by
    the Gram matrix up to ``MAX_DENSE`` steps, and with ``|c|`` in the place of ``c``: of even
    patterns by the same rule, of others by the worst lag of each pair of participations, or by the
    non-increasing majorant; the least of what is known.
    """

    @abstractmethod
    def coefficients(self) -> _Floats:
        """``c``, shape ``(steps,)``."""

    @abstractmethod
    def inverse(self) -> _Floats:
        """The coefficients of ``C^-1``, shape ``(steps,)``."""

    def decoded(self) -> _Floats:
        """The coefficients of ``B``: the running sums of those of ``C^-1``."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.cumsum(self.inverse())

    def encoder(self) -> _Floats:
        return toeplitz(self.coefficients(), np.zeros(self.steps))

    def decoder(self) -> _Floats:
        return toeplitz(self.decoded(), np.zeros(self.steps))

    def variances(self) -> _Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.cumsum(self.decoded() ** 2)

    def _sensitivity(self, allowed: Patterns) -> float:
        c = self.coefficients()
        if not np.abs(c).max() < MAX_COEFFICIENT:
            return math.inf
        if allowed.times == 1:
            return float(np.linalg.norm(c))
        size = majorant = np.abs(c)
        if not allowed.even:
            majorant = np.maximum.accumulate(size[::-1])[::-1]
        bound = _evenly(majorant, allowed)
        if bool(np.all(majorant <= c + _ROUND_OFF)):
            return bound
        if not allowed.even and allowed.times * self.steps <= MAX_PAIRED:
            bound = min(bound, _in_pairs(size, allowed))
        if self.steps > MAX_DENSE:
            return bound
        matrix = self.encoder()
        return min(bound, math.sqrt(largest_total(matrix.T @ matrix, allowed)))


class SeriesFactorisation(ToeplitzFactorisation):
    """``c = p/q``, two short series: a band of ``C`` is ``p``, one of ``C^-1`` is ``q``.

    Streaming takes ``len(p) + len(q) - 2`` past vectors, since ``C^-1 z = (q/p) z``.

    Parameters
    ----------
    name : str
    steps : int
    numerator, denominator : ndarray
        ``p`` and ``q``, at most ``steps`` coefficients each, the first of them 1.

    Examples
    --------
    >>> root = SeriesFactorisation("toeplitz", 4, square_root(4))
    >>> round(root.sensitivity(), 5), round(root.rmse(), 5)
    (1.21995, 1.38142)
    """

    def __init__(
        self,
        name: str,
        steps: int,
        numerator: _Floats,
        denominator: _Floats = np.ones(1),  # noqa: B008
    ) -> None:
        super().__init__(name, steps)
        self.numerator = _series("numerator", numerator, self.steps)
        self.denominator = _series("denominator", denominator, self.steps)

    @property
    def band(self) -> int:
        if self.denominator[1:].any():
            return self.steps
        return int(np.flatnonzero(self.numerator)[-1]) + 1

    def coefficients(self) -> _Floats:
        return _quotient(self.numerator, self.denominator, self.steps)

    def inverse(self) -> _Floats:
        # q/p; of a long p by Newton's iteration, since only errors rest on it
        if len(self.numerator) <= MAX_RECURSION:
            return _quotient(self.denominator, self.numerator, self.steps)
        reciprocal = np.ones(1)
        while len(reciprocal) < self.steps:
            length = min(2 * len(reciprocal), self.steps)
            left = -fftconvolve(self.numerator[:length], reciprocal)[:length]
            left[0] += 2.0
            reciprocal = fftconvolve(reciprocal, left)[:length]
        return fftconvolve(self.denominator, reciprocal)[: self.steps]


def _quotient(numerator: _Floats, denominator: _Floats, steps: int) -> _Floats:
    """So many coefficients of ``p/q``."""
    padded = np.pad(numerator, (0, steps - len(numerator)))
    return padded if len(denominator) == 1 else lfilter(np.ones(1), denominator, padded)


def _evenly(c: _Floats, allowed: Patterns) -> float:
    """``|sum_j shift_(j gap)(c)|``, of the pattern that starts at once with the least gap."""
    steps, gap = len(c), min(allowed.gap, len(c))
    rows = np.pad(c, (0, -steps % gap)).reshape(-1, gap)
    total = np.cumsum(rows, axis=0)
    total[allowed.times :] -= total[: max(0, len(rows) - allowed.times)].copy()
    return float(np.linalg.norm(total.ravel()[:steps]))


def _in_pairs(c: _Floats, allowed: Patterns) -> float:
    """The root of a bound on ``sum_ij X_ij`` for ``c >= 0``, with the worst lag of every pair.

    The ``j``-th participation is ``j gap`` steps from the start at least, and ``(j - i) gap`` from
    the ``i``-th; their columns have at most ``sum_(m < T - j gap) c_m c_(m + lag)`` in common.
    """
    square = 0.0
    for j in range(allowed.times):
        common = correlated(c, c[: len(c) - j * allowed.gap], len(c))
        worst = np.maximum.accumulate(common[::-1])[::-1]
        square += common[0] + 2.0 * worst[allowed.gap : j * allowed.gap + 1 : allowed.gap].sum()
    return math.sqrt(square)


def _series(name: str, given: _Floats, steps: int) -> _Floats:
    series = np.array(given, dtype=np.float64)
    if series.ndim != 1 or not 1 <= len(series) <= steps:
        raise ValueError(
            f"{name} must have from 1 to {steps} coefficients, got shape {series.shape}"
        )
    if not np.isfinite(series).all() or series[0] != 1.0:
        raise ValueError(f"{name} must be finite and begin with 1, got {series[:4]}")
    series.setflags(write=False)
    return series


def correlated(first: _Floats, second: _Floats, length: int) -> _Floats:
    """``sum_k first_k second_(k-j)`` for ``j < length``."""
    return fftconvolve(first, second[::-1])[len(second) - 1 :][:length]
