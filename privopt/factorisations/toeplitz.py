"""Toeplitz factorisations: ``C`` is a power series, and so are its inverse and ``B``; bands."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.signal import fftconvolve, lfilter

from privopt.arguments import checked, shown
from privopt.factorisations.factorisation import Factorisation, Patterns, largest_total

MAX_DENSE = 512  # steps up to which patterns of a C that is not monotone are looked at one by one
MAX_PAIRED = 2**24  # steps times participations
MAX_COEFFICIENT = 1e100
MAX_RECURSION = 4096  # coefficients; the time of a recursion is their number times the steps
_ROUND_OFF = 1e-9

_Floats = NDArray[np.float64]


@checked
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


@checked
def inverse_square_root(steps: int) -> _Floats:
    """The coefficients of ``(1 - x)^(1/2)``."""
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

    Streaming takes ``len(p) + len(q) - 2`` past vectors, since ``C^-1 z = (q/p) z``. ``p``, the
    ``numerator``, and ``q`` have at most ``steps`` coefficients each, the first of them 1.

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
    values = np.asarray(given)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {shown(given)}")
    series = np.array(values, dtype=np.float64)
    if series.ndim != 1 or not 1 <= len(series) <= steps:
        raise ValueError(
            f"{name} must have from 1 to {steps} coefficients, got shape {series.shape}"
        )
    if not np.isfinite(series).all() or series[0] != 1.0:
        raise ValueError(f"{name} must be finite and begin with 1, got {shown(given)}")
    series.setflags(write=False)
    return series


def correlated(first: _Floats, second: _Floats, length: int) -> _Floats:
    """``sum_k first_k second_(k-j)`` for ``j < length``."""
    return fftconvolve(first, second[::-1])[len(second) - 1 :][:length]


_OVERFLOW = 1e6  # of a log


def banded(steps: int, band: int, *, optimise: bool = False) -> SeriesFactorisation:
    """``C`` banded: the first coefficients of the square root, or those of least error.

    A record that takes part with gaps of ``band`` or more moves disjoint rows, so that ``k``
    participations cost ``sqrt(k)``. With ``optimise`` the mean square error at one participation is
    least among all such ``C``.

    Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu 2023 (arXiv:2306.08153);
    McKenna 2024 (arXiv:2405.15913) for the optimisation of Toeplitz ``C``.

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

    ``optimise`` as for :func:`banded`.

    Source: Kalinin, McKenna, Upadhyay and Lampert 2025 (arXiv:2505.12128).
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
