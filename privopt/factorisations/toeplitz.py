"""Toeplitz factorisations: ``C``, its inverse and ``B`` are power series; banded series."""

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
from privopt.factorisations.factorisation import Factorisation, Patterns

MAX_PAIRED = 2**24  # steps times participations
MAX_COEFFICIENT = 1e100
MAX_RECURSION = 4096  # coefficients; a recursion takes their number times the steps
_ROUND_OFF = 1e-9

_Floats = NDArray[np.float64]


@checked
def square_root(steps: int) -> _Floats:
    """Return ``binom(2k, k)/4^k``, the coefficients of ``(1 - x)^(-1/2) = A^(1/2)``.

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
    """Return the coefficients of ``(1 - x)^(1/2)``."""
    k = np.arange(1, steps)
    return np.cumprod(np.concatenate([[1.0], 1.0 - 1.5 / k]))


class ToeplitzFactorisation(Factorisation):
    """Toeplitz factorisation, ``C_ti = c_(t-i)`` and ``B = A C^-1``.

    *Sensitivity* (:ref:`Mechanisms, Theorem 2 <theory-mechanisms-2>`). One participation: ``|c|``,
    exact. More participations:

    - ``c`` non-negative and non-increasing: the worst pattern starts at the first step with the
      smallest gaps, exact (Kalinin and Lampert 2024, arXiv:2405.13763, Theorem 2).
    - Even patterns: the same for every non-negative ``c``.
    - Otherwise the smallest of several bounds: the Gram matrix up to ``MAX_DENSE`` steps; the same
      rule with ``|c|`` for even patterns; the worst lag of each pair of participations; the
      non-increasing majorant of ``|c|``.
    """

    @abstractmethod
    def coefficients(self) -> _Floats:
        """Return ``c``, shape ``(steps,)``."""

    @abstractmethod
    def inverse(self) -> _Floats:
        """Return the coefficients of ``C^-1``, shape ``(steps,)``."""

    def decoded(self) -> _Floats:
        """Return the coefficients of ``B``, the running sums of those of ``C^-1``."""
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
        return self._with_gram(bound**2, allowed)


class SeriesFactorisation(ToeplitzFactorisation):
    """Toeplitz factorisation ``c = p/q`` with two short series, the bands of ``C`` and ``C^-1``.

    Streaming needs ``len(p) + len(q) - 2`` past vectors, because ``C^-1 z = (q/p) z``. ``p``, the
    ``numerator``, and ``q``, the ``denominator``, have at most ``steps`` coefficients and start
    with 1.

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
        # q/p; for a long p by Newton's iteration, which only affects computed errors
        if len(self.numerator) <= MAX_RECURSION:
            return _quotient(self.denominator, self.numerator, self.steps)
        reciprocal = np.ones(1)
        while len(reciprocal) < self.steps:
            length = min(2 * len(reciprocal), self.steps)
            correction = -fftconvolve(self.numerator[:length], reciprocal)[:length]
            correction[0] += 2.0
            reciprocal = fftconvolve(reciprocal, correction)[:length]
        return fftconvolve(self.denominator, reciprocal)[: self.steps]


def _quotient(numerator: _Floats, denominator: _Floats, steps: int) -> _Floats:
    """Return the first ``steps`` coefficients of ``p/q``."""
    padded = np.pad(numerator, (0, steps - len(numerator)))
    return padded if len(denominator) == 1 else lfilter(np.ones(1), denominator, padded)


def _evenly(c: _Floats, allowed: Patterns) -> float:
    """Return ``|sum_j shift_(j gap)(c)|``, for the pattern of smallest gaps from the start."""
    steps, gap = len(c), min(allowed.gap, len(c))
    rows = np.pad(c, (0, -steps % gap)).reshape(-1, gap)
    total = np.cumsum(rows, axis=0)
    total[allowed.times :] -= total[: max(0, len(rows) - allowed.times)].copy()
    return float(np.linalg.norm(total.ravel()[:steps]))


def _in_pairs(c: _Floats, allowed: Patterns) -> float:
    """Return the root of a bound on ``sum_ij X_ij`` for ``c >= 0``, by the worst lag per pair.

    Participation ``j`` is at least ``j gap`` steps from the start and ``(j - i) gap`` from
    participation ``i``; their inner product is at most ``sum_(m < T - j gap) c_m c_(m + lag)``.
    """
    square = 0.0
    for j in range(allowed.times):
        common = correlated(c, c[: len(c) - j * allowed.gap], len(c))
        worst = np.maximum.accumulate(common[::-1])[::-1]
        square += common[0] + 2.0 * worst[allowed.gap : j * allowed.gap + 1 : allowed.gap].sum()
    return math.sqrt(square)


def _series(name: str, value: _Floats, steps: int) -> _Floats:
    values = np.asarray(value)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got {shown(value)}")
    series = np.array(values, dtype=np.float64)
    if series.ndim != 1 or not 1 <= len(series) <= steps:
        raise ValueError(
            f"{name} must have from 1 to {steps} coefficients, got shape {series.shape}"
        )
    if not np.isfinite(series).all() or series[0] != 1.0:
        raise ValueError(f"{name} must be finite and begin with 1, got {shown(value)}")
    series.setflags(write=False)
    return series


def correlated(first: _Floats, second: _Floats, length: int) -> _Floats:
    """Return ``sum_k first_k second_(k-j)`` for ``j < length``."""
    return fftconvolve(first, second[::-1])[len(second) - 1 :][:length]


_OVERFLOW = 1e6  # log error of a series that overflows


def banded(steps: int, band: int, *, optimise: bool = False) -> SeriesFactorisation:
    """Return a banded ``C``: the first coefficients of the square root, or optimised ones.

    Participations with gaps of ``band`` or more affect disjoint rows, so the sensitivity for ``k``
    participations has the factor ``sqrt(k)``. With ``optimise``, ``C`` minimises the mean squared
    error at one participation.

    Source: Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu 2023 (arXiv:2306.08153);
    McKenna 2024 (arXiv:2405.15913) for the optimisation of Toeplitz ``C``.

    Examples
    --------
    >>> round(banded(100, 16).rmse(), 5)
    2.70577
    """
    start = square_root(band)
    tail = minimise_error(_banded_error, start[1:], steps) if optimise else start[1:]
    return SeriesFactorisation("banded", steps, np.concatenate([[1.0], tail]))


def banded_inverse(steps: int, band: int, *, optimise: bool = False) -> SeriesFactorisation:
    """Return a ``C`` with banded inverse: streaming needs ``band - 1`` past vectors and no solve.

    ``optimise`` as for :func:`banded`.

    Source: Kalinin, McKenna, Upadhyay and Lampert 2025 (arXiv:2505.12128).
    """
    denominator = inverse_square_root(band)
    if optimise:
        start = np.log(np.cumsum(denominator)[1:])
        sums = np.exp(minimise_error(_banded_inverse_error, start, steps))
        denominator = np.diff(np.concatenate([[0.0, 1.0], sums]))
    return SeriesFactorisation("banded_inverse", steps, np.ones(1), denominator)


def log_mean_square(c: _Floats, b: _Floats) -> tuple[float, float, float]:
    """Return ``log(|c|^2 sum_k (T - k) b_k^2 / T)``, ``|c|^2`` and the remaining factor."""
    weights = np.arange(len(b), 0, -1.0) / len(b)
    sensitivity, error = float(c @ c), float(weights @ b**2)
    return float(np.log(sensitivity) + np.log(error)), sensitivity, error


def _banded_error(tail: _Floats, steps: int) -> tuple[float, _Floats]:
    """Return the log mean squared error and its gradient in ``c_1, ...``.

    ``B = 1/((1 - x) C)``, so ``dB = -(B/C) dC``.
    """
    c = np.concatenate([[1.0], tail])
    b = lfilter([1.0], c, np.ones(steps))
    value, sensitivity, error = log_mean_square(c, b)
    weighted = np.arange(steps, 0, -1.0) / steps * b
    by_c = correlated(weighted, lfilter([1.0], c, b), len(c))
    return value, (2.0 * c / sensitivity - 2.0 * by_c / error)[1:]


def _banded_inverse_error(log_b: _Floats, steps: int) -> tuple[float, _Floats]:
    """Return the log mean squared error and its gradient in ``log b_1, ...``.

    ``b`` are the running sums of the coefficients ``r`` of ``C^-1``, constant after the band, and
    ``dC = -C^2 dr``. Running sums are used because the last one dominates the error of long
    streams.
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


def minimise_error(
    objective: Callable[[_Floats, int], tuple[float, _Floats]], start: _Floats, steps: int
) -> _Floats:
    """Return the minimiser of ``objective(parameters, steps)`` by L-BFGS from ``start``."""

    def guarded(parameters: _Floats) -> tuple[float, _Floats]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            try:
                value, slope = objective(parameters, steps)
            except np.linalg.LinAlgError:
                return _OVERFLOW, np.zeros_like(parameters)
        if math.isfinite(value) and np.isfinite(slope).all():
            return value, slope
        return _OVERFLOW, np.zeros_like(parameters)

    if not len(start):
        return start
    options = {"maxiter": 3000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
    result = minimize(guarded, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x, dtype=np.float64)
