"""Buffered Toeplitz factorisations: ``c_k`` is a sum of a few geometric sequences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from privopt.arguments import shown
from privopt.factorisations.toeplitz import (
    ToeplitzFactorisation,
    correlated,
    log_mean_square,
    minimise_error,
)

_REACHES = (0.25, 2.0, 16.0)  # starts for the slowest buffer, in units of 1/T: minima are local
MAX_BUFFERS = 32  # further buffers change the error by less than round-off
COARSE = 4096  # steps above which a shorter stream is optimised first
_SHORTER = 4
_TABLE = 512

_Floats = NDArray[np.float64]


def buffered(steps: int, buffers: int, *, optimise: bool = False) -> BufferedFactorisation:
    """Return the factorisation ``c_0 = 1, c_k = sum_i omega_i theta_i^(k-1)`` with few ``buffers``.

    Streaming needs one past vector per buffer. In closed form ``omega`` and ``theta`` are a
    quadrature of the coefficients of the square root (:ref:`Mechanisms, Theorem 6
    <theory-mechanisms-6>`), with nodes equidistant in ``log((1 - theta)/theta)`` from ``1/(4T)``
    on. With ``optimise``, positive ``omega`` and ``theta`` minimise the mean squared error at one
    participation.

    Source: McMahan, Xu and Zhang 2024 (arXiv:2408.08868); Dvijotham, McMahan, Pillutla, Steinke and
    Thakurta 2024 (arXiv:2404.16706).

    Examples
    --------
    >>> round(buffered(100, 3, optimise=True).rmse(), 5)
    2.32004
    """
    if buffers > MAX_BUFFERS:
        raise ValueError(f"band must be at most {MAX_BUFFERS} buffers, got {buffers}")
    parameters = _optimum(steps, buffers) if optimise else _quadrature(steps, buffers)
    return BufferedFactorisation(steps, *_buffers(parameters))


def _optimum(steps: int, buffers: int) -> _Floats:
    """Return the best local minimum of several starts; long streams start from shorter ones."""
    if steps > COARSE and buffers > 1:
        shorter = steps // _SHORTER
        starts = [_stretched(_optimum(shorter, buffers), steps / shorter)]
    else:
        starts = [_quadrature(steps, buffers, reach) for reach in _REACHES]
    minima = [minimise_error(_error, start, steps) for start in starts]
    return min(minima, key=lambda parameters: _error(parameters, steps)[0])


def _stretched(parameters: _Floats, factor: float) -> _Floats:
    """Return parameters for a stream ``factor`` times as long.

    The slowest buffer is slowed by the factor and the fastest is kept. The others keep their
    relative position in log-odds, and ``omega`` its ratio to a quadrature.
    """
    log_omega, log_odds = np.split(parameters, 2)
    fastest, slowest = log_odds.max(), log_odds.min()
    stretch = 1.0 + math.log(factor) / (fastest - slowest)
    stretched = fastest - stretch * (fastest - log_odds)
    change = _log_density(stretched) - _log_density(log_odds) + math.log(stretch)
    return np.concatenate([log_omega + change, stretched])


def _log_density(log_odds: _Floats) -> _Floats:
    """Return ``log(theta sqrt(theta (1 - theta))/pi)`` as a function of the log-odds."""
    return 0.5 * log_odds - 2.0 * np.logaddexp(0.0, log_odds) - math.log(math.pi)


def _quadrature(steps: int, buffers: int, reach: float = _REACHES[0]) -> _Floats:
    """Return ``log omega`` and the log-odds of ``1 - theta``, from ``reach/T`` on."""
    log_odds = np.linspace(math.log(reach / steps), math.log(4.0), buffers)
    width = abs(log_odds[1] - log_odds[0]) if buffers > 1 else 2.0
    return np.concatenate([math.log(width) + _log_density(log_odds), log_odds])


def _buffers(parameters: _Floats) -> tuple[_Floats, _Floats]:
    """Return ``omega`` and ``theta``."""
    log_omega, log_odds = np.split(parameters, 2)
    return np.exp(log_omega), 1.0 / (1.0 + np.exp(log_odds))


class BufferedFactorisation(ToeplitzFactorisation):
    """Encoder ``c = 1 + x sum_i omega_i/(1 - theta_i x)``, ``omega >= 0`` and ``0 <= theta <= 1``.

    The inverse has the same form with negative weights: its poles are the eigenvalues of
    ``diag(theta) - v v^T``, ``v = sqrt(omega)``
    (:ref:`Mechanisms, Theorem 6 <theory-mechanisms-6>`). Eigenvalues are used instead of
    polynomials, which would cancel because poles are within ``1/T`` of each other.
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
    """Return ``1, sum_i omega_i, sum_i omega_i theta_i, ...``."""
    return np.concatenate([[1.0], omega @ _powers(theta, steps - 1)])


def _powers(theta: _Floats, count: int) -> _Floats:
    """Return ``theta^k`` for ``k < count``, as products of two short tables."""
    near = np.power.outer(theta, np.arange(min(count, _TABLE)))
    far = np.power.outer(theta, np.arange(0, count, _TABLE))
    return (far[:, :, None] * near[:, None, :]).reshape(len(theta), -1)[:, :count]


def _reciprocal(omega: _Floats, theta: _Floats) -> tuple[_Floats, _Floats]:
    """Return ``omega`` and ``theta`` of the inverse series."""
    v = np.sqrt(omega)
    poles, vectors = np.linalg.eigh(np.diag(theta) - np.outer(v, v))
    return -((v @ vectors) ** 2), poles


def _error(parameters: _Floats, steps: int) -> tuple[float, _Floats]:
    """Return the log mean squared error and its gradient in ``log omega`` and the log-odds."""
    omega, theta = _buffers(parameters)
    powers = _powers(theta, steps - 1)
    c = np.concatenate([[1.0], omega @ powers])
    inverse = _geometric(*_reciprocal(omega, theta), steps)
    b = np.cumsum(inverse)
    value, sensitivity, error = log_mean_square(c, b)
    weighted = np.arange(steps, 0, -1.0) / steps * b
    by_c = correlated(weighted, fftconvolve(inverse, b)[:steps], steps)
    slope = (2.0 * c / sensitivity - 2.0 * by_c / error)[1:]
    by_theta = omega * ((np.arange(steps - 1) * slope) @ powers.T) / theta
    return value, np.concatenate([omega * (powers @ slope), -by_theta * theta * (1.0 - theta)])
