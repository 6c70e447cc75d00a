"""Discrete Laplace noise: two-sided geometric distributions some integers apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from privopt.privacy.pairs import NOTHING, Array, Bins, Pair
from privopt.privacy.parameters import is_count, is_noise
from privopt.privacy.releases.release import UP, Loss, Release
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64
_ROUNDING = 2.0**-50  # relative; eight units of it


@dataclass(frozen=True)
class DiscreteLaplace(Release, event=DiscreteLaplaceDpEvent):
    """Noise ``~ e^(-a |x|)`` on the integers, which a record moves by at most ``sensitivity``."""

    parameter: float
    sensitivity: int
    additive = True

    @classmethod
    def read(cls, event: DiscreteLaplaceDpEvent) -> DiscreteLaplace | None:
        a, size = event.noise_parameter, event.sensitivity
        known = is_noise(a) and a > 0.0 and is_count(size)
        return cls(float(a), int(size)) if known else None

    def loss(self, relation: Relation) -> Loss:
        # m a s, of the values on the near side of the true one
        if self.sensitivity == 0:
            return Loss(0.0)
        if math.isinf(self.parameter):
            return Loss(math.inf, math.inf, 1.0)
        largest = self.parameter * (self.sensitivity * relation.multiple)
        typical = 1.0 / (1.0 + math.exp(-self.parameter))
        return Loss(largest * UP, min(largest, math.nextafter(math.inf, 0.0)), typical)

    def pair(self, relation: Relation) -> Pair | None:
        moved = relation.multiple * self.sensitivity
        if moved and not (self.parameter > 1e-6 and moved * self.parameter <= 700.0):
            return super().pair(relation)
        return DiscreteLaplacePair(self.parameter, moved) if moved else NOTHING

    def exported(self, relation: Relation) -> DiscreteLaplaceDpEvent:
        return DiscreteLaplaceDpEvent(self.parameter, relation.multiple * self.sensitivity)


@dataclass(frozen=True)
class DiscreteLaplacePair(Pair):
    """Probabilities ``tanh(a / 2) e^(-a |x|)`` on the integers, moved by ``s``; its own reverse.

    ``a = parameter > 0``, ``s = sensitivity >= 1``. Under ``P`` the loss is ``a (s - 2 k)`` with
    ``k`` the noise's excess towards the other side: zero with probability ``1 / (1 + e^-a)``, at
    least ``k >= 1`` with ``e^(-a k) / (1 + e^-a)``, cut at ``s``; under ``Q`` the excess is
    ``s - k``. However many the outcomes, those between two losses are a geometric sum.

    Formal guarantee
    ----------------
    Dominates such noise on an integer vector whose l1 norm moves by at most ``s``, too: as for
    Laplace noise, the ratio of the tails passes one only once.
    """

    parameter: float
    sensitivity: int
    symmetric = True

    def range(self) -> tuple[float, float]:
        largest = self.parameter * self.sensitivity
        return -largest, largest

    def losses(self, tail: float, count: int) -> Array:
        smallest, largest = self.range()
        losses = np.linspace(smallest, largest, min(count, self.sensitivity + 1))
        margin = 1e-9 * (1.0 + largest)
        return np.unique(np.concatenate([losses - margin, losses + margin]))

    def bins(self, edges: Array) -> Bins:
        a, s = self.parameter, float(self.sensitivity)
        first = np.clip(np.ceil(0.5 * (s - edges / a)), 0.0, s + 1.0)
        first = np.concatenate([[s + 1.0], first, [0.0]])
        stop, start = first[:-1], first[1:]
        p, q = self._between(start, stop), self._between(s + 1.0 - stop, s + 1.0 - start)
        unit = 128 * _U * (1.0 + a * s)
        return Bins(p, q, unit * p, unit * q, blur=2.0 * unit)

    def _between(self, start: Array, stop: Array) -> Array:
        """``P(start <= k < stop)`` for ``0 <= start <= stop <= s + 1``."""
        a, s = self.parameter, float(self.sensitivity)
        low = np.maximum(start, 1.0)
        count = np.where(stop > s, math.inf, np.maximum(stop - low, 0.0))
        beyond = np.where(start > s, 0.0, np.exp(-a * low) * -np.expm1(-a * count))
        return np.asarray(((start == 0.0) & (stop > 0.0)) + beyond) / (1.0 + math.exp(-a))
