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
import numpy.typing as npt
from scipy.signal import lfilter

from privopt.privacy.pairs.pair import Array

__all__ = ["DenseTails", "Frequencies", "Lattice", "ModalTails", "Tails"]

Complex = npt.NDArray[np.complex128]

_U = 2.0**-53  # unit roundoff of float64
_BLOCK = 300.0  # exponentials of differences this small neither overflow nor lose digits


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

    ``terms`` bounds how many terms a sum has in effect: partial sums from the top are at most
    ``e^(-lambda (s_j - centre))``, so that their roundings add up to a geometric sum.
    """

    lattice: Lattice
    mass: Array
    image: Array
    terms: float

    @classmethod
    def of(cls, law: Array, lattice: Lattice, tilt: float, centre: float) -> DenseTails:
        """From ``P_lambda(S = s_k)``."""
        sums: Array = (lattice.origin + np.arange(law.size, dtype=np.float64)) * lattice.spacing
        weighted = law * np.exp(-tilt * (sums - centre))
        fall = -math.expm1(-tilt * lattice.spacing)
        return cls(
            lattice,
            np.cumsum(weighted[::-1])[::-1],
            _discounted(weighted, lattice.spacing),
            terms=1.0 / max(fall, 1.0 / law.size),
        )

    @property
    def error(self) -> float:
        """Rounding of ``mass_k - e^(eps - s_k) image_k``, over ``e^(-lambda (s_k - centre))``.

        A relative ``u`` for every term of a sum, and of the exponents.
        """
        return 8 * _U * (self.terms + _BLOCK)

    def at(self, k: int) -> tuple[float, float]:
        """``mass_k`` and ``image_k``, looked up; zero at ``k = count``."""
        if k >= self.lattice.count:
            return 0.0, 0.0
        return float(self.mass[k]), float(self.image[k])


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


class ModalTails:
    """Geometric sums, one a frequency: ``sum_j r^j = (1 - r^n) / (1 - r)``.

    A smooth law of many points has few frequencies, and each question costs no more than these.
    Phases are reduced exactly, as integers, so that ``1 - r^n`` is wrong by some ``u`` of one,
    and ``1 - r`` by as much of itself; by Cauchy and Schwarz the whole is wrong by some ``u`` of
    ``|p|`` times the euclidean mean of ``1 / |1 - r|``.
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

    @property
    def error(self) -> float:
        """As in the description of the class, and ``30u`` for the weight at ``s_k``."""
        size, count = self._law.size, float(self.lattice.count)
        most = np.minimum(1.0 / np.maximum(np.abs(self._gaps[0]), 1.0 / count), count)
        mean = math.sqrt(float(self._law.weights @ most**2) / size)
        return 64 * _U * (2.0 * self._law.length * mean + 1.0)

    def at(self, k: int) -> tuple[float, float]:
        """``mass_k`` and ``image_k``, summed over the frequencies."""
        left = self.lattice.count - k
        if left <= 0:
            return 0.0, 0.0
        size, modes = self._law.size, self._law.modes
        turned = self._shares * np.exp(
            2j * math.pi / size * (modes * ((self._start + k) % size) % size)
        )
        angle = 2.0 * math.pi / size * (modes * left % size)
        weight = math.exp(-self._tilt * (self.lattice.sum_at(k) - self._centre))
        sums = []
        for rate, gap in zip((self._tilt, self._tilt + 1.0), self._gaps, strict=True):
            whole = -np.expm1(-rate * self.lattice.spacing * left + 1j * angle)
            flat = gap == 0.0
            ratio = np.where(flat, left, whole / np.where(flat, 1.0, gap))
            sums.append(weight * float((turned * ratio).real.sum()))
        return sums[0], sums[1]


Tails: TypeAlias = DenseTails | ModalTails


def _discounted(weighted: Array, spacing: float) -> Array:
    """``sum_{j >= k} v_j e^(s_k - s_j)``, one product and one sum a step from above.

    The rounding of ``j - k`` steps weighs no more than ``terms`` do beside ``v_j e^(s_k - s_j)``.
    """
    image = lfilter([1.0], [1.0, -math.exp(-spacing)], weighted[::-1])[::-1]
    return np.asarray(image, dtype=np.float64)
