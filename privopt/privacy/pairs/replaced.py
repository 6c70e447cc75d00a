"""Poisson sampling when a record is replaced by another: Gaussians on opposite sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privopt.privacy.pairs.normal import normal_masses, spread
from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["ReplacedGaussian"]

_U = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class ReplacedGaussian(Pair):
    """``(1-r) N(0, z^2) + r N(1, z^2)`` against ``(1-r) N(0, z^2) + r N(-1, z^2)``.

    ``r = rate`` in ``(0, 1)``, ``z = noise > 0`` in units of one record's bound. The pair is its
    own reverse. The loss increases with ``x``; it is ``l`` at

        x = z^2 [l / 2 + asinh((1 - r) / r e^(1 / 2z^2) sinh(l / 2))].

    Formal guarantee
    ----------------
    Dominates one Gaussian release from a Poisson sample under ``replace_one``, and attained:
    given the rest of the batch ``P - gamma Q = r [N_g - a N_0 - gamma N_g']`` with
    ``a = (gamma - 1)(1 - r) / r >= 0`` for ``gamma >= 1``. Over sets ``S`` with ``N_g(S)`` given,
    ``N_0(S)`` and ``N_g'(S)`` are smallest on one and the same half-space when ``0`` and ``g'``
    lie on one ray from ``g`` (Neyman and Pearson), and decrease with the distances, which are at
    most 1 and 2. For ``gamma < 1`` exchange the two.
    """

    rate: float
    noise: float
    symmetric = True

    def losses(self, tail: float, count: int) -> Array:
        # At outcomes from -1 - z t to 1 + z t with Phi(-t) = tail
        shift = 1.0 / self.noise
        x = spread((-shift, 0.0, shift), -float(ndtri(tail)), count) / self.noise
        present, absent = math.log(self.rate) - 0.5 / self.noise**2, math.log1p(-self.rate)
        return np.unique(np.logaddexp(absent, present + x) - np.logaddexp(absent, present - x))

    def bins(self, edges: Array) -> Bins:
        # Mixtures of normal masses between the outcomes where the loss meets the edges
        size = np.abs(edges)
        odds = math.log1p(-self.rate) - math.log(self.rate) + 0.5 / self.noise**2
        with np.errstate(divide="ignore"):
            log_sinh = 0.5 * size + np.log(-np.expm1(-size)) - math.log(2.0)
        log_slope = odds + log_sinh
        with np.errstate(over="ignore"):
            asinh = np.where(log_slope > 20.0, log_slope + math.log(2.0), 0.0)
            near = log_slope <= 20.0
            asinh[near] = np.arcsinh(np.exp(log_slope[near]))
        points = self.noise * (0.5 * edges + np.sign(edges) * asinh)
        shift = 1.0 / self.noise
        moved = 8 * _U * (np.abs(points) + shift)
        middle, middle_error = normal_masses(points, moved)
        right, right_error = normal_masses(points - shift, moved)
        left, left_error = normal_masses(points + shift, moved)
        kept, rate = 1.0 - self.rate, self.rate
        p, q = kept * middle + rate * right, kept * middle + rate * left
        return Bins(
            p,
            q,
            kept * middle_error + rate * right_error + 4 * _U * p,
            kept * middle_error + rate * left_error + 4 * _U * q,
            blur=32 * _U * (1.0 + float(size.max()) + abs(odds) + shift * shift),
        )
