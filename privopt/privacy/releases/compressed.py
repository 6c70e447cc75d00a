"""Gaussian noise on random measurements: ``CompressedGaussianDpEvent``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from privopt.privacy.events import CompressedGaussianDpEvent
from privopt.privacy.numbers import SMALLEST
from privopt.privacy.pairs import EVERYTHING, NOTHING, Array, CompressedPair, Pair
from privopt.privacy.parameters import is_count, is_noise
from privopt.privacy.releases.release import MIN_DISTANCE, UP, Curve, Release
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64
_MAX_DISTANCE = 32.0  # standard deviations, beyond which everything is taken to be seen
_MAX_MEASUREMENTS = 2**40


@dataclass(frozen=True)
class Compressed(Release, event=CompressedGaussianDpEvent):
    """Noise of standard deviation ``noise``, over the bound of one contribution."""

    noise: float
    measurements: int

    @classmethod
    def read(cls, event: CompressedGaussianDpEvent) -> Compressed | None:
        noise, count = event.noise_multiplier, event.measurements
        if not is_noise(noise) or not is_count(count) or not 1 <= count <= _MAX_MEASUREMENTS:
            return None
        return cls(float(noise), int(count))

    def _distance(self, relation: Relation) -> float:
        """``mu``, rounded up."""
        return relation.multiple / self.noise * UP if self.noise > 0.0 else math.inf

    def pair(self, relation: Relation) -> Pair | None:
        mu = self._distance(relation)
        if mu == 0.0:
            return NOTHING
        if mu < MIN_DISTANCE:
            return None
        if mu > _MAX_DISTANCE:
            return replace(EVERYTHING, exact=self.noise == 0.0)
        return CompressedPair(relation.multiple / self.noise, self.measurements)

    def renyi(self, relation: Relation) -> Curve | None:
        return partial(compressed_divergence, self._distance(relation), self.measurements)

    def exported(self, relation: Relation) -> CompressedGaussianDpEvent:
        return CompressedGaussianDpEvent(self.noise / relation.multiple, self.measurements)


def compressed_divergence(mu: float, measurements: int, orders: Array) -> Array:
    """``-(m / (2 (a - 1))) ln(1 - a (a - 1) mu^2 / m)``, and infinity from where that ends.

    ``E e^(a (a - 1) S^2 / 2)`` is the moment generating function of ``chi^2_m``.
    """
    rate = orders - 1.0
    with np.errstate(over="ignore", divide="ignore"):
        spent = orders * rate * (mu / measurements) * mu * (1.0 + 16 * _U)
        known = spent < 1.0
        moment = -0.5 * measurements * np.log1p(-np.where(known, spent, 0.0))
        divergence = np.where(known, moment / rate * (1.0 + 16 * _U), math.inf)
    return np.asarray(np.maximum(divergence, SMALLEST if mu > 0.0 else 0.0))
