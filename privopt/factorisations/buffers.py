"""Buffered Toeplitz factorisations: ``c_k`` is a sum of few geometric sequences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from privopt.arguments import shown
from privopt.factorisations.toeplitz import (
    ToeplitzFactorisation,
    correlated,
    least,
    log_mean_square,
)

_REACHES = (0.25, 2.0, 16.0)  # of the slowest buffer, in units of 1/T: minima are local
MAX_BUFFERS = 32  # more change the error by less than their round-off
COARSE = 4096  # steps above which a shorter stream is optimised before
_SHORTER = 4
_TABLE = 512

_Floats = NDArray[np.float64]


def buffered(steps: int, buffers: int, *, optimise: bool = False) -> BufferedFactorisation:
    """``c_0 = 1, c_k = sum_i omega_i theta_i^(k-1)``, with ``buffers`` terms: as many past vectors.

    In closed form ``omega`` and ``theta`` are a quadrature of the square root's coefficients,
    ``binom(2k, k)/4^k = (1/pi) int_0^1 theta^(k-1) sqrt(theta/(1 - theta)) d theta``, with nodes at
    equal distances in ``log((1 - theta)/theta)``, from ``1/(4T)`` on. With ``optimise`` the mean
    square error at one participation is least, all ``omega`` and ``theta`` being positive.

    Source: McMahan, Xu and Zhang 2024 (arXiv:2408.08868); Dvijotham, McMahan, Pillutla, Steinke and
    Thakurta 2024 (arXiv:2404.16706).

    Examples
    --------
    >>> round(buffered(100, 3, optimise=True).rmse(), 5)
    2.32004
    """
    if buffers > MAX_BUFFERS:
        raise ValueError(f"band must be at most {MAX_BUFFERS} buffers, got {buffers}")
    numbers = _optimum(steps, buffers) if optimise else _quadrature(steps, buffers)
    return BufferedFactorisation(steps, *_buffers(numbers))


def _optimum(steps: int, buffers: int) -> _Floats:
    """The best of what several starts lead to; of long streams, of what shorter ones do."""
    if steps > COARSE and buffers > 1:
        shorter = steps // _SHORTER
        starts = [_stretched(_optimum(shorter, buffers), steps / shorter)]
    else:
        starts = [_quadrature(steps, buffers, reach) for reach in _REACHES]
    found = [least(_error, start, steps) for start in starts]
    return min(found, key=lambda numbers: _error(numbers, steps)[0])


def _stretched(numbers: _Floats, factor: float) -> _Floats:
    """For a stream ``factor`` times as long: the slowest buffer so much slower, the fastest as is.

    The others keep their places between these two on the scale of the log-odds, and ``omega`` its
    proportion to that of a quadrature.
    """
    log_omega, log_odds = np.split(numbers, 2)
    fastest, slowest = log_odds.max(), log_odds.min()
    stretch = 1.0 + math.log(factor) / (fastest - slowest)
    moved = fastest - stretch * (fastest - log_odds)
    change = _log_density(moved) - _log_density(log_odds) + math.log(stretch)
    return np.concatenate([log_omega + change, moved])


def _log_density(log_odds: _Floats) -> _Floats:
    """``log(theta sqrt(theta (1 - theta))/pi)``: of the square root, by the log-odds."""
    return 0.5 * log_odds - 2.0 * np.logaddexp(0.0, log_odds) - math.log(math.pi)


def _quadrature(steps: int, buffers: int, reach: float = _REACHES[0]) -> _Floats:
    """``log omega`` and the log-odds of ``1 - theta``, from ``reach/T`` on."""
    log_odds = np.linspace(math.log(reach / steps), math.log(4.0), buffers)
    width = abs(log_odds[1] - log_odds[0]) if buffers > 1 else 2.0
    return np.concatenate([math.log(width) + _log_density(log_odds), log_odds])


def _buffers(numbers: _Floats) -> tuple[_Floats, _Floats]:
    """``omega`` and ``theta``."""
    log_omega, log_odds = np.split(numbers, 2)
    return np.exp(log_omega), 1.0 / (1.0 + np.exp(log_odds))


class BufferedFactorisation(ToeplitzFactorisation):
    """``c = 1 + x sum_i omega_i/(1 - theta_i x)``, ``omega >= 0`` and ``0 <= theta <= 1``.

    So is its inverse, with a minus: its poles are the eigenvalues of ``diag(theta) - v v^T``, ``v =
    sqrt(omega)``, and its residues the squares of ``v`` in their eigenvectors. Polynomials would
    cancel: poles are within ``1/T`` of each other.
    """

    def __init__(self, steps: int, omega: _Floats, theta: _Floats) -> None:
        super().__init__("buffered", steps)
        for name, values in (("omega", omega), ("theta", theta)):
            if np.asarray(values).dtype.kind not in "fiu":
                raise ValueError(f"{name} must be real numbers, got {shown(values)}")
        self.omega, self.theta = np.array(omega, np.float64), np.array(theta, np.float64)
        if self.omega.shape != self.theta.shape or self.omega.ndim != 1:
            raise ValueError(
                f"omega must have one weight for each theta, got shapes {self.omega.shape} and "
                f"{self.theta.shape}"
            )
        if not (np.isfinite(self.omega) & (self.omega >= 0.0)).all():
            raise ValueError(f"omega must be finite and >= 0, got {omega}")
        if not ((self.theta >= 0.0) & (self.theta <= 1.0)).all():
            raise ValueError(f"theta must lie in [0, 1], got {theta}")

    def coefficients(self) -> _Floats:
        return _geometric(self.omega, self.theta, self.steps)

    def inverse(self) -> _Floats:
        return _geometric(*_reciprocal(self.omega, self.theta), self.steps)


def _geometric(omega: _Floats, theta: _Floats, steps: int) -> _Floats:
    """``1, sum_i omega_i, sum_i omega_i theta_i, ...``."""
    return np.concatenate([[1.0], omega @ _powers(theta, steps - 1)])


def _powers(theta: _Floats, count: int) -> _Floats:
    """``theta^k`` for ``k < count``, as products of two short tables."""
    near = np.power.outer(theta, np.arange(min(count, _TABLE)))
    far = np.power.outer(theta, np.arange(0, count, _TABLE))
    return (far[:, :, None] * near[:, None, :]).reshape(len(theta), -1)[:, :count]


def _reciprocal(omega: _Floats, theta: _Floats) -> tuple[_Floats, _Floats]:
    """``omega`` and ``theta`` of the inverse series."""
    v = np.sqrt(omega)
    poles, vectors = np.linalg.eigh(np.diag(theta) - np.outer(v, v))
    return -((v @ vectors) ** 2), poles


def _error(numbers: _Floats, steps: int) -> tuple[float, _Floats]:
    """The log of the mean square error and its gradient in ``log omega`` and the log-odds."""
    omega, theta = _buffers(numbers)
    powers = _powers(theta, steps - 1)
    c = np.concatenate([[1.0], omega @ powers])
    inverse = _geometric(*_reciprocal(omega, theta), steps)
    b = np.cumsum(inverse)
    value, sensitivity, error = log_mean_square(c, b)
    weighted = np.arange(steps, 0, -1.0) / steps * b
    moved = correlated(weighted, fftconvolve(inverse, b)[:steps], steps)
    slope = (2.0 * c / sensitivity - 2.0 * moved / error)[1:]
    by_theta = omega * ((np.arange(steps - 1) * slope) @ powers.T) / theta
    return value, np.concatenate([omega * (powers @ slope), -by_theta * theta * (1.0 - theta)])
