"""How much of a composed law lies beyond a sum: from all its values, or from few frequencies.

Both answer, for the consecutive lattice sums ``s_k``, with the tilted weights
``v_j = e^(-lambda (s_j - centre)) P_lambda(S = s_j)`` and the last sum of the window for end,

    mass_k = sum_{j >= k} v_j,    image_k = sum_{j >= k} v_j e^(s_k - s_j).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.signal import lfilter

from privopt.privacy.fourier.characteristic import Frequencies
from privopt.privacy.pairs.pair import Array

_U = 2.0**-53  # unit roundoff of float64
_MAX_EXPONENT = 600.0  # of a weight; one that is larger nobody believes


@dataclass(frozen=True)
class Lattice:
    """The sums ``(origin + k) spacing``, ``0 <= k < count``."""

    origin: float
    spacing: float
    count: int

    def sum_at(self, k: int) -> float:
        """``s_k``; infinite beyond the last."""
        return (self.origin + k) * self.spacing if k < self.count else math.inf

    def first_above(self, epsilon: float) -> int:
        """The smallest ``k`` in ``[0, count]`` with ``s_k > epsilon``."""
        k = math.floor(min(max(epsilon / self.spacing - self.origin, -1.0), float(self.count)))
        k = min(max(k, 0), self.count)
        while k > 0 and self.sum_at(k - 1) > epsilon:
            k -= 1
        while k < self.count and self.sum_at(k) <= epsilon:
            k += 1
        return k


@dataclass(frozen=True)
class DenseTails:
    """All sums, taken once from above.

    ``running`` is the sum of the partial sums: what their roundings add up to, in units of ``u``.
    """

    lattice: Lattice
    mass: Array
    image: Array
    running: Array
    rate: float
    centre: float

    @classmethod
    def of(cls, law: Array, lattice: Lattice, tilt: float, centre: float) -> DenseTails:
        """From ``P_lambda(S = s_k) >= 0``."""
        sums: Array = (lattice.origin + np.arange(law.size, dtype=np.float64)) * lattice.spacing
        weighted = (law * np.exp(np.minimum(-tilt * (sums - centre), _MAX_EXPONENT)))[::-1]
        mass = np.cumsum(weighted)
        image = lfilter([1.0], [1.0, -math.exp(-lattice.spacing)], weighted)
        running = np.cumsum(mass)
        return cls(lattice, mass[::-1], image[::-1], running[::-1], tilt, centre)

    def at(self, k: int) -> tuple[float, float, float]:
        """``mass_k`` and ``image_k``, looked up, and the rounding of either; zero at the end.

        Of each term a relative ``u`` for every sum in which it stands and for its exponents.
        """
        if k >= self.lattice.count:
            return 0.0, 0.0, 0.0
        mass, running = float(self.mass[k]), float(self.running[k])
        exponent = self.rate * (abs(self.lattice.sum_at(k) - self.centre) + abs(self.centre))
        slack = (4.0 + 4.0 * self.rate * self.lattice.spacing) * running
        return mass, float(self.image[k]), _U * (slack + (16.0 + 4.0 * exponent) * mass)


class ModalTails:
    """Geometric sums, one a frequency: ``sum_j r^j = (1 - r^n) / (1 - r)``.

    A smooth law of many points has few frequencies, and each question costs no more than these.
    Phases are reduced exactly, as integers, so that ``1 - r^n`` is wrong by some ``u`` of one,
    and ``1 - r`` by as much of itself; by Cauchy and Schwarz the whole is wrong by some ``u`` of
    ``|p|`` times the euclidean mean of ``1 / |1 - r|``, and by some ``u`` of itself.
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
        self._error = 128 * _U * law.length * math.sqrt(float(law.weights @ most**2) / law.size)

    def at(self, k: int) -> tuple[float, float, float]:
        """``mass_k`` and ``image_k``, summed over the frequencies, and the rounding of either."""
        left = self.lattice.count - k
        if left <= 0:
            return 0.0, 0.0, 0.0
        size, modes = self._law.size, self._law.modes
        turned = self._shares * np.exp(
            2j * math.pi / size * (modes * ((self._start + k) % size) % size)
        )
        angle = 2.0 * math.pi / size * (modes * left % size)
        away = -self._tilt * (self.lattice.sum_at(k) - self._centre)
        weight = math.exp(min(away, _MAX_EXPONENT))
        sums = []
        for rate, gap in zip((self._tilt, self._tilt + 1.0), self._gaps, strict=True):
            whole = -np.expm1(-rate * self.lattice.spacing * left + 1j * angle)
            flat = gap == 0.0
            ratio = np.where(flat, left, whole / np.where(flat, 1.0, gap))
            sums.append(weight * float((turned * ratio).real.sum()))
        exponent = abs(away) + self._tilt * abs(self._centre)
        slack = (64.0 + 4.0 * exponent) * _U * max(sums[0], 0.0)
        return sums[0], sums[1], weight * self._error + slack


Tails: TypeAlias = DenseTails | ModalTails
