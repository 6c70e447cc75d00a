"""Gaussian pairs: two normal distributions a given distance apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privopt.privacy.pairs.normal import normal_masses, spread
from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["GaussianPair"]

_U = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class GaussianPair(Pair):
    """``P = N(mu, 1)`` against ``Q = N(0, 1)``, for finite ``mu > 0``; its own reverse.

    The loss at ``x`` is ``mu x - mu^2 / 2``: normal with mean ``+-mu^2 / 2`` under ``P`` and
    ``Q``, and variance ``mu^2``.
    """

    mu: float
    symmetric = True

    def losses(self, tail: float, count: int) -> Array:
        # From -mu z - mu^2 / 2 to mu z + mu^2 / 2, Phi(-z) = tail
        half = 0.5 * self.mu
        return self.mu * spread((-half, half), -float(ndtri(tail)), count)

    def bins(self, edges: Array) -> Bins:
        # Normal masses at edges / mu -+ mu / 2
        centred, half = edges / self.mu, 0.5 * self.mu
        moved = 8 * _U * (np.abs(centred) + half)
        p, p_error = normal_masses(centred - half, moved)
        q, q_error = normal_masses(centred + half, moved)
        return Bins(p, q, p_error, q_error)
