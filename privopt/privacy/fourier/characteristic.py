"""Laws of integers by their transforms, with what rounding may add at every frequency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privopt.privacy.pairs.pair import Array

Complex = npt.NDArray[np.complex128]
Points = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_U = 2.0**-53  # unit roundoff of float64
_MAX_GROWTH = 300.0
_MIN_SQUARE = 1e-300  # of |1 + x|, in a logarithm
_OCTAVES = 64  # of lattice points
_CUTOFF_EXPONENT = 80.0  # a frequency of weight e^-80 is not missed
LEFT_OUT = math.exp(-_CUTOFF_EXPONENT)


@dataclass(frozen=True)
class Frequencies:
    """The transform ``sum_k p_k e^(-2 pi i m k / size)`` at few ``m >= 0``; elsewhere it is zero.

    ``p`` is real and ``m <= size / 2``, so that each ``m`` between the ends stands for two.
    """

    values: Complex
    modes: npt.NDArray[np.int64]
    size: int

    @property
    def length(self) -> float:
        """Euclidean norm of ``p``."""
        return math.sqrt(float(self.weights @ np.abs(self.values) ** 2) / self.size)

    @property
    def weights(self) -> Array:
        """How many frequencies each stands for."""
        return np.where(2 * self.modes % self.size == 0, 1.0, 2.0)


class Characteristic(NamedTuple):
    """``phi - 1 = sum_k w_k (z^k - 1)`` at ``z = e^(-i omega)``, and how far off it may be.

    Losses close to the median are a cluster (``reaches``): there ``z^k - 1`` is next to nothing
    at all frequencies that matter, and a transform of ``w`` would drown it in its rounding. With
    the mean ``m`` and the potential ``H_i = E (|k| - |i|)_+`` on the side of ``k``, half of
    ``E |k|`` at 0, of which ``w`` is the second difference,

        sum_k w_k (z^k - 1) = -i m sin omega - 4 sin^2(omega / 2) H^(omega):

    all that is rounded is multiplied by ``omega^2``. Other losses are transformed as they are.

    Attributes
    ----------
    value : ndarray
        ``phi - 1`` at ``omega = 2 pi m / N``, ``m <= N / 2``.
    steep, flat : float
        The transforms' euclidean errors are ``4 sin^2(omega / 2) steep + flat``.
    mean, moment, rare, unit : float
        Rounding adds at most ``unit (mean sin omega + 4 sin^2(omega / 2) moment + 2 rare)``.
    """

    value: Complex
    steep: float
    flat: float
    mean: float
    moment: float
    rare: float
    unit: float

    @classmethod
    def of(cls, weight: Array, points: Points, near: Flags, size: int) -> Characteristic:
        """Of a law, with the points of its cluster."""
        reach, eta = int(np.abs(points[near]).max(initial=0)), 8 * _U * math.log2(size)
        potential, mean = _potential(weight[near], points[near], reach)
        folded = np.bincount(np.arange(-reach, reach + 1) % size, potential, size)
        four_squares, sine = _sines(size)
        value = -four_squares * np.fft.rfft(folded) - 1j * mean * sine
        steep, flat, far = eta * float(np.sqrt(folded @ folded)), 0.0, weight[~near]
        if far.size:
            folded = np.bincount(points[~near] % size, far, size)
            value += np.fft.rfft(folded) - far.sum()
            flat = eta * float(np.sqrt(folded @ folded))
        unit = 64 * _U + 8 * reach * float(np.finfo(np.longdouble).eps)
        moment, beyond = float(potential.sum()), float(far.sum())
        return cls(value, steep, flat, abs(mean), moment, beyond, unit)


def reaches(laws: Sequence[tuple[Array, Points, int]]) -> list[int]:
    """How far the clusters reach, ``B = 2^s - 1``, for the least error.

    That of ``H``, of length ``sqrt(E |k| E k^2) / 2`` at most, is felt times the largest
    ``omega^2 V``, with about ``-ln V = sum_j T_j E min(1, (omega k)^2) / 2``; that of the rest
    times one.
    """
    scales = np.arange(_OCTAVES)
    sums, dead = [], np.zeros(_OCTAVES)
    for weight, points, count in laws:
        away = np.abs(points).astype(np.float64)
        octave = np.frexp(away)[1]
        mass, first, second, length = (
            np.bincount(octave, weight * each, _OCTAVES).cumsum()
            for each in (1.0, away, away * away, weight)
        )
        dead += count * (second / 4.0**scales + mass[-1] - mass)
        sums.append((np.sqrt(first * second), np.sqrt(np.maximum(length[-1] - length, 0.0))))
    felt = float((4.0 ** (1.0 - scales) * np.exp(-0.5 * dead)).max())
    return [2 ** int(np.argmin(0.5 * felt * near + far)) - 1 for near, far in sums]


def _potential(weight: Array, points: Points, reach: int) -> tuple[Array, float]:
    """``H`` from ``-reach`` to ``reach``, and the mean."""
    law = np.bincount(points + reach, weight, 2 * reach + 1)
    # E (|k| - i)_+ for i = reach - 1 ... 0 on either side.
    left, right = (
        np.cumsum(np.cumsum(side, dtype=np.longdouble)) for side in (law[:reach], law[:reach:-1])
    )
    if not reach:
        return np.zeros(1), 0.0
    middle = 0.5 * (left[-1] + right[-1])
    whole = np.concatenate([[0.0], left[:-1], [middle], right[-2::-1], [0.0]])
    return whole.astype(np.float64), float(right[-1] - left[-1])


@lru_cache(maxsize=2)
def _sines(size: int) -> tuple[Array, Array]:
    """``4 sin^2(omega / 2)`` and ``sin omega`` at the frequencies of a transform."""
    half = math.pi / size * np.arange(size // 2 + 1, dtype=np.float64)
    sine = np.sin(half)
    return 4.0 * sine * sine, 2.0 * sine * np.cos(half)


def power(laws: Sequence[tuple[Characteristic, int]], size: int) -> tuple[Frequencies, float]:
    """``prod phi_j^T_j`` where it is not next to nothing, and the law's euclidean error."""
    steep, sine = _sines(size)
    rows = math.sqrt(size)
    most, least = np.zeros((2, steep.size))
    for each, count in laws:
        # ln |phi| <= (|phi|^2 - 1) / 2, all errors of the transform at one frequency included
        a, b = each.value.real, each.value.imag
        log = a + 0.5 * (a * a + b * b)
        log += (1.5 * rows * each.steep) * steep + 1.5 * rows * each.flat
        most += count * log
        np.minimum(least, log, out=least)
    modes = np.flatnonzero(most - least > -_CUTOFF_EXPONENT)
    kept = slice(None) if modes.size == steep.size else modes
    steep, sine = steep[kept], np.abs(sine[kept])
    exponent: Complex = np.zeros(modes.size, dtype=np.complex128)
    most, least, rounding = np.zeros((3, modes.size))
    for each, count in laws:
        value = _log1p(each.value[kept])
        wrong = each.unit * (each.mean * sine + each.moment * steep + 2.0 * each.rare)
        log = _log_plus(value.real, wrong + (rows * each.steep) * steep + rows * each.flat)
        exponent += count * value
        most += count * log
        np.minimum(least, log, out=least)
        rounding += count * wrong
    rest = np.exp(np.minimum(most - least, _MAX_GROWTH))  # all factors but one
    error = math.fsum(count * each.steep for each, count in laws) * float((steep * rest).max())
    error += math.fsum(count * each.flat for each, count in laws) * float(rest.max())
    law = Frequencies(np.exp(exponent), modes, size)
    error += math.sqrt(float(law.weights @ (rounding * rest) ** 2) / size)
    return law, error


def _log_plus(log: Array, error: Array) -> Array:
    """``ln(e^log + error)``, or a little more."""
    found = log + 2.0 * error  # from 1/2 on
    small = np.flatnonzero(log < -math.log(2.0))
    found[small] = np.log(np.exp(log[small]) + error[small] + _MIN_SQUARE)
    return found


def _log1p(x: Complex) -> Complex:
    """``ln(1 + x)`` to some ``u`` of ``|x|``, for ``|1 + x| <= 1`` but for rounding."""
    a, b = x.real, x.imag
    log = np.empty(x.shape, dtype=np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):
        log.real = 0.5 * np.log1p(np.maximum(2.0 * a + (a * a + b * b), -0.9))
        log.imag = np.arctan(b / (1.0 + a))
    far = np.flatnonzero(a < -0.5)
    a, b = 1.0 + a[far], b[far]
    log.real[far] = 0.5 * np.log(np.maximum(a * a + b * b, _MIN_SQUARE))
    log.imag[far] = np.arctan2(b, a)
    return log
