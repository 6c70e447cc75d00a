"""Laws of integers: their transforms with rounding errors, and their tails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dtbsv

from privopt.privacy.numbers import Array, U, dot

Complex = npt.NDArray[np.complex128]
Points = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_MAX_GROWTH = 300.0
_MIN_SQUARE = 1e-300  # of |1 + x|, in a logarithm
_OCTAVES = 64  # of lattice points
_MAX_DISTANCE = 2**9  # of lattice points in an autocorrelation
_DISTANCES = 64  # of an autocorrelation, the others are rounded down to them
_PER_OCTAVE = 6  # intervals of frequencies
_MANY_POINTS = 2**14  # from this size on, a few frequencies may cost less than all
_BLOCK = 64  # terms of a sum by BLAS
_TERMS_PER_POINT = 8  # up to this many terms, sums cost less than a transform
_CUTOFF_EXPONENT = 80.0  # frequencies of weight e^-80 and less are omitted
LEFT_OUT = math.exp(-_CUTOFF_EXPONENT)


@dataclass(frozen=True)
class Frequencies:
    """The transform ``sum_k p_k e^(-2 pi i m k / size)`` at a few ``m >= 0``; elsewhere it is zero.

    ``p`` is real and ``m <= size / 2``, so that each ``m`` between the ends represents two.
    """

    values: Complex
    modes: npt.NDArray[np.int64]
    size: int

    @property
    def length(self) -> float:
        """Euclidean norm of ``p``."""
        return math.sqrt(dot(self.weights, np.abs(self.values) ** 2) / self.size)

    @property
    def weights(self) -> Array:
        """The number of frequencies that each ``m`` represents."""
        return np.where(2 * self.modes % self.size == 0, 1.0, 2.0)


class Characteristic(NamedTuple):
    """``phi - 1 = sum_k w_k (z^k - 1)`` at ``z = e^(-i omega)``, with error bounds.

    Attributes
    ----------
    value : ndarray
        ``phi - 1`` at the first frequencies ``omega = 2 pi m / N``, ``m <= N / 2``.
    rounding : ndarray
        Bound of the rounding error at each frequency, without that of fast transforms.
    steep, flat : float
        The euclidean errors of fast transforms are ``4 sin^2(omega / 2) steep + flat``.
    """

    value: Complex
    rounding: Array
    steep: float = 0.0
    flat: float = 0.0

    @classmethod
    def of_all(cls, weight: Array, points: Points, near: Flags, size: int) -> Characteristic:
        """Return the characteristic at all frequencies, by fast transforms.

        Losses close to the median form a cluster, ``near`` (``cluster_radii``). For them
        ``z^k - 1`` is very small at all relevant frequencies, and the rounding of a transform of
        ``w`` would exceed it. With the mean ``m`` and the potential ``H_i = E (|k| - |i|)_+`` on
        the side of ``k``, half of ``E |k|`` at 0, and ``w`` the second difference of ``H``,

            sum_k w_k (z^k - 1) = -i m sin omega - 4 sin^2(omega / 2) H^(omega).

        All rounding errors are then multiplied by ``omega^2``. Other losses are transformed
        directly.
        """
        reach, eta = int(np.abs(points[near]).max(initial=0)), 8 * U * math.log2(size)
        potential, mean = _potential(weight[near], points[near], reach)
        folded = np.bincount(np.arange(-reach, reach + 1) % size, potential, size)
        four_squares, sine = _sines(size, size // 2 + 1)
        value = -four_squares * np.fft.rfft(folded) - 1j * mean * sine
        steep, flat, far = eta * math.sqrt(dot(folded, folded)), 0.0, weight[~near]
        if far.size:
            folded = np.bincount(points[~near] % size, far, size)
            value += np.fft.rfft(folded) - far.sum()
            flat = eta * math.sqrt(dot(folded, folded))
        unit = 64 * U + 8 * reach * float(np.finfo(np.longdouble).eps)
        moment, beyond = float(potential.sum()), float(far.sum())
        rounding = unit * (abs(mean) * sine + moment * four_squares + 2.0 * beyond)
        return cls(value, rounding, steep, flat)

    @classmethod
    def of_first(cls, weight: Array, points: Points, size: int, modes: int) -> Characteristic:
        """Return the characteristic at the first ``modes`` frequencies, by sums over the points.

        With ``m = a + b n``, ``z^m - 1 = (z^a - 1) (z^bn - 1) + (z^a - 1) + (z^bn - 1)``: a product
        of two matrices. The errors of phases, factors and sums in blocks are at most 320 ``u`` and
        one ``u`` per block, relative to ``sum_k w_k |omega k|``.
        """
        step, rows = 2.0 * math.pi / size, math.isqrt(modes - 1) + 1
        padding = -points.size % _BLOCK
        weight, points = np.pad(weight, (0, padding)), np.pad(points, (0, padding))
        coarse = np.arange(-(-modes // rows), dtype=np.float64) * rows
        low = _rotations(step * np.arange(rows, dtype=np.float64), points)
        high = weight * _rotations(step * coarse, points)
        first, second = (each.reshape(len(each), -1, _BLOCK).swapaxes(0, 1) for each in (high, low))
        value = (first @ second.swapaxes(1, 2)).sum(axis=0)
        value += high.sum(axis=1)[:, None] + (weight * low).sum(axis=1)
        unit = (320 + points.size // _BLOCK) * U * step * float(weight @ np.abs(points))
        return cls(value.ravel()[:modes], unit * np.arange(modes, dtype=np.float64))


def _rotations(omegas: Array, points: Points) -> Complex:
    """Return ``z^k - 1 = -2 sin x (sin x + i cos x)``, ``x = omega k / 2``."""
    half = np.multiply.outer(omegas, 0.5 * points)
    rotations, sine = np.empty(half.shape, dtype=np.complex128), np.sin(half)
    rotations.real = -2.0 * sine * sine
    rotations.imag = -2.0 * sine * np.cos(half)
    return rotations


def characteristics(
    laws: Sequence[tuple[Array, Points, int]], size: int
) -> tuple[list[tuple[Characteristic, int]], int]:
    """Return the characteristics at all frequencies of laws around 0, and the sum of their shifts.

    Each cluster is moved to have a mean close to 0.
    """
    results, shift = [], 0
    for (weight, points, count), reach in zip(laws, cluster_radii(laws), strict=True):
        near = np.abs(points) <= reach
        centre = round(float(weight[near] @ points[near]))
        shift += count * centre
        results.append((Characteristic.of_all(weight, points - centre, near, size), count))
    return results, shift


def count_relevant(laws: Sequence[tuple[Array, Points, int]], size: int) -> int:
    """Return a number of frequencies outside of which all factors but one are below ``e^-80``.

    With the autocorrelation ``r_d = sum_k w_k w_{k+d}`` of a law of mass one,

        -ln |phi| >= (1 - |phi|^2) / 2 = sum_{d > 0} r_d (1 - cos omega d).

    The smallest value of a term in an interval of frequencies is at an end, or zero if a multiple
    of ``2 pi`` is between. Up to ``pi`` a term increases with ``omega`` and ``d``, so that many
    distances may be replaced by the smallest of them. All frequencies are relevant if a transform
    of them costs less.
    """
    everything = size // 2 + 1
    if size < _MANY_POINTS:
        return everything
    ends = _spread(8, size // 2, _PER_OCTAVE * size.bit_length())
    decays = [_decay(weight, points, ends, size) for weight, points, _ in laws]
    total = sum(count * decay for decay, (*_, count) in zip(decays, laws, strict=True))
    relevant = np.flatnonzero(total - np.max(decays, axis=0) < _CUTOFF_EXPONENT)
    after = int(relevant.max(initial=-1)) + 1
    modes = int(ends[after]) if after < ends.size - 1 else everything
    terms = modes * sum(points.size for _, points, _ in laws)
    return modes if terms <= _TERMS_PER_POINT * size else everything


def _decay(weight: Array, points: Points, ends: Points, size: int) -> Array:
    """Return lower bounds of ``-ln |phi|`` between frequencies ``ends``."""
    close = np.abs(points) <= _MAX_DISTANCE
    first = int(points[close].min(initial=0))
    law = np.bincount(points[close] - first, weight[close])
    length = 2 ** (2 * law.size).bit_length()
    square = np.abs(np.fft.rfft(law, length)) ** 2
    correlation = np.fft.irfft(square, length)[1 : law.size]
    correlation -= 64 * U * math.log2(length) * math.sqrt(dot(law, law))  # its rounding error
    distances = _spread(1, law.size, _DISTANCES)[:-1]
    if not distances.size:
        return np.zeros(ends.size - 1)
    mass = np.add.reduceat(np.maximum(correlation, 0.0), distances - 1)
    last = np.append(distances[1:], law.size) - 1
    angles = np.multiply.outer(ends, distances)  # of 2 pi / size
    terms = 2.0 * np.sin(math.pi / size * angles) ** 2
    mask = np.multiply.outer(ends[1:], 2 * last) <= size  # up to pi
    mask |= (angles[1:] // size == angles[:-1] // size) & (distances == last)  # 2 pi not between
    return np.asarray(np.where(mask, np.minimum(terms[1:], terms[:-1]), 0.0) @ mass)


@lru_cache(maxsize=256)
def _spread(first: int, last: int, count: int) -> Points:
    """Return about ``count`` increasing integers with about equal ratios."""
    return np.unique(np.geomspace(first, last, count).astype(np.int64))


def cluster_radii(laws: Sequence[tuple[Array, Points, int]]) -> list[int]:
    """Return the radii ``B = 2^s - 1`` of the clusters that minimise the error.

    The error of ``H``, whose norm is at most ``sqrt(E |k| E k^2) / 2``, is multiplied by the
    largest ``omega^2 V``, with about ``-ln V = sum_j T_j E min(1, (omega k)^2) / 2``. The error of
    the other losses is multiplied by one.
    """
    scales = np.arange(_OCTAVES)
    sums, decay = [], np.zeros(_OCTAVES)
    for weight, points, count in laws:
        away = np.abs(points).astype(np.float64)
        octave = np.frexp(away)[1]
        mass, first, second, length = (
            np.bincount(octave, weight * each, _OCTAVES).cumsum()
            for each in (1.0, away, away * away, weight)
        )
        decay += count * (second / 4.0**scales + mass[-1] - mass)
        sums.append((np.sqrt(first * second), np.sqrt(np.maximum(length[-1] - length, 0.0))))
    weight_of_near = float((4.0 ** (1.0 - scales) * np.exp(-0.5 * decay)).max())
    return [2 ** int(np.argmin(0.5 * weight_of_near * near + far)) - 1 for near, far in sums]


def _potential(weight: Array, points: Points, reach: int) -> tuple[Array, float]:
    """Return ``H`` from ``-reach`` to ``reach``, and the mean."""
    law = np.bincount(points + reach, weight, 2 * reach + 1)
    # E (|k| - i)_+ for i = reach - 1 ... 0 on either side.
    lower, upper = (
        np.cumsum(np.cumsum(side, dtype=np.longdouble)) for side in (law[:reach], law[:reach:-1])
    )
    if not reach:
        return np.zeros(1), 0.0
    middle = 0.5 * (lower[-1] + upper[-1])
    whole = np.concatenate([[0.0], lower[:-1], [middle], upper[-2::-1], [0.0]])
    return whole.astype(np.float64), float(upper[-1] - lower[-1])


@lru_cache(maxsize=2)
def _sines(size: int, modes: int) -> tuple[Array, Array]:
    """Return ``4 sin^2(omega / 2)`` and ``sin omega`` at the first frequencies of a transform."""
    half = math.pi / size * np.arange(modes, dtype=np.float64)
    sine = np.sin(half)
    return 4.0 * sine * sine, 2.0 * sine * np.cos(half)


def multiply_powers(
    laws: Sequence[tuple[Characteristic, int]], size: int
) -> tuple[Frequencies, float]:
    """Return ``prod phi_j^T_j`` at its relevant frequencies, and the law's euclidean error."""
    steep, _ = _sines(size, laws[0][0].value.size)
    rows = math.sqrt(size)
    most, least = np.zeros((2, steep.size))
    for each, count in laws:
        # ln |phi| <= (|phi|^2 - 1) / 2, including all errors of the transform at one frequency
        a, b = each.value.real, each.value.imag
        log = a + 0.5 * (a * a + b * b)
        log += 1.5 * (rows * each.steep * steep + rows * each.flat + each.rounding)
        most += count * log
        np.minimum(least, log, out=least)
    modes = np.flatnonzero(most - least > -_CUTOFF_EXPONENT)
    selected = slice(None) if modes.size == steep.size else modes
    steep = steep[selected]
    exponent: Complex = np.zeros(modes.size, dtype=np.complex128)
    most, least, rounding = np.zeros((3, modes.size))
    for each, count in laws:
        value = _log1p(each.value[selected])
        wrong = each.rounding[selected]
        log = _log_plus(value.real, wrong + (rows * each.steep) * steep + rows * each.flat)
        exponent += count * value
        most += count * log
        np.minimum(least, log, out=least)
        rounding += count * wrong
    others = np.exp(np.minimum(most - least, _MAX_GROWTH))  # all factors but one
    error = math.fsum(count * each.steep for each, count in laws) * float((steep * others).max())
    error += math.fsum(count * each.flat for each, count in laws) * float(others.max())
    law = Frequencies(np.exp(exponent), modes, size)
    error += math.sqrt(dot(law.weights, (rounding * others) ** 2) / size)
    return law, error


def _log_plus(log: Array, error: Array) -> Array:
    """Return an upper bound of ``ln(e^log + error)``."""
    result = log + 2.0 * error  # from 1/2 on
    small = np.flatnonzero(log < -math.log(2.0))
    result[small] = np.log(np.exp(log[small]) + error[small] + _MIN_SQUARE)
    return result


def _log1p(x: Complex) -> Complex:
    """Return ``ln(1 + x)`` to a few ``u`` of ``|x|``, for ``|1 + x| <= 1`` up to rounding."""
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


_MAX_EXPONENT = 600.0  # of a weight; larger weights have no accuracy


@dataclass(frozen=True)
class Lattice:
    """The sums ``(origin + k) spacing``, ``0 <= k < count``."""

    origin: float
    spacing: float
    count: int

    def sum_at(self, k: int) -> float:
        """Return ``s_k``; infinite beyond the last."""
        return (self.origin + k) * self.spacing if k < self.count else math.inf

    def first_above(self, epsilon: float) -> int:
        """Return the smallest ``k`` in ``[0, count]`` with ``s_k > epsilon``."""
        k = math.floor(min(max(epsilon / self.spacing - self.origin, -1.0), float(self.count)))
        k = min(max(k, 0), self.count)
        while k > 0 and self.sum_at(k - 1) > epsilon:
            k -= 1
        while k < self.count and self.sum_at(k) <= epsilon:
            k += 1
        return k


@dataclass(frozen=True)
class DenseTails:
    """Tails of a law from all its values, summed once from above.

    Tails are defined for the consecutive lattice sums ``s_k`` up to the last one of the window,
    with the tilted weights ``v_j = e^(-lambda (s_j - centre)) P_lambda(S = s_j)``::

        mass_k = sum_{j >= k} v_j,    image_k = sum_{j >= k} v_j e^(s_k - s_j).

    ``running`` is the sum of the partial sums, which bounds their rounding in units of ``u``.
    """

    lattice: Lattice
    mass: Array
    image: Array
    running: Array
    rate: float
    centre: float

    @classmethod
    def of(cls, law: Array, lattice: Lattice, tilt: float, centre: float) -> DenseTails:
        """Return the tails of ``P_lambda(S = s_k) >= 0``."""
        sums: Array = (lattice.origin + np.arange(law.size, dtype=np.float64)) * lattice.spacing
        weighted = (law * np.exp(np.minimum(-tilt * (sums - centre), _MAX_EXPONENT)))[::-1]
        mass = np.cumsum(weighted)
        # The recursion y_k = w_k + e^-spacing y_{k-1}: importing scipy.signal takes half a second.
        band = np.ones((2, law.size), order="F")
        band[1] = -math.exp(-lattice.spacing)
        image = dtbsv(1, band, weighted, lower=1, diag=1)
        running = np.cumsum(mass)
        return cls(lattice, mass[::-1], image[::-1], running[::-1], tilt, centre)

    def at(self, k: int) -> tuple[float, float, float]:
        """Return ``mass_k``, ``image_k`` and a bound of their rounding errors; zero at the end.

        Every term has a relative error ``u`` for each sum that contains it, and for its exponents.
        """
        if k >= self.lattice.count:
            return 0.0, 0.0, 0.0
        mass, running = float(self.mass[k]), float(self.running[k])
        exponent = self.rate * (abs(self.lattice.sum_at(k) - self.centre) + abs(self.centre))
        slack = (4.0 + 4.0 * self.rate * self.lattice.spacing) * running
        return mass, float(self.image[k]), U * (slack + (16.0 + 4.0 * exponent) * mass)


class ModalTails:
    """Tails of a law from a few frequencies, by geometric sums ``sum_j r^j = (1 - r^n) / (1 - r)``.

    A smooth law of many points has few frequencies, and each evaluation costs as many terms. Phases
    are reduced exactly, as integers, so that ``1 - r^n`` has an absolute error of a few ``u``, and
    ``1 - r`` a relative one. By Cauchy and Schwarz the error of the whole is a few ``u`` times
    ``|p|`` times the euclidean mean of ``1 / |1 - r|``, and a few ``u`` of itself.
    """

    def __init__(
        self, law: Frequencies, start: int, lattice: Lattice, tilt: float, centre: float
    ) -> None:
        self.lattice, self._law, self._start = lattice, law, start
        self._tilt, self._centre = tilt, centre
        self._shares = law.weights / law.size * law.values
        angle = 2.0 * math.pi / law.size * law.modes
        self._gaps = [
            -np.expm1(-rate * lattice.spacing + 1j * angle) for rate in (tilt, tilt + 1.0)
        ]
        count = float(lattice.count)
        most = np.minimum(1.0 / np.maximum(np.abs(self._gaps[0]), 1.0 / count), count)
        self._error = 128 * U * law.length * math.sqrt(dot(law.weights, most**2) / law.size)

    def at(self, k: int) -> tuple[float, float, float]:
        """Return ``mass_k``, ``image_k`` and a bound of their rounding errors."""
        remaining = self.lattice.count - k
        if remaining <= 0:
            return 0.0, 0.0, 0.0
        size, modes = self._law.size, self._law.modes
        rotated = self._shares * np.exp(
            2j * math.pi / size * (modes * ((self._start + k) % size) % size)
        )
        angle = 2.0 * math.pi / size * (modes * remaining % size)
        log_weight = -self._tilt * (self.lattice.sum_at(k) - self._centre)
        weight = math.exp(min(log_weight, _MAX_EXPONENT))
        sums = []
        for rate, gap in zip((self._tilt, self._tilt + 1.0), self._gaps, strict=True):
            whole = -np.expm1(-rate * self.lattice.spacing * remaining + 1j * angle)
            flat = gap == 0.0
            ratio = np.where(flat, remaining, whole / np.where(flat, 1.0, gap))
            sums.append(weight * float((rotated * ratio).real.sum()))
        exponent = abs(log_weight) + self._tilt * abs(self._centre)
        slack = (64.0 + 4.0 * exponent) * U * max(sums[0], 0.0)
        return sums[0], sums[1], weight * self._error + slack


Tails: TypeAlias = DenseTails | ModalTails
