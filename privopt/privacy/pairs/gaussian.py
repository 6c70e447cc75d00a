"""Pairs of normal distributions: a fixed distance, and a replaced record of a Poisson sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from privopt.privacy.numbers import Array
from privopt.privacy.pairs.pair import Bins, Pair

Flags: TypeAlias = npt.NDArray[np.bool_]
_U = 2.0**-53  # unit roundoff of float64


def normal_masses(points: Array, error: Array | float) -> tuple[Array, Array]:
    """Return the masses below, between and above increasing ``points``, with error bounds.

    Differences are taken in the nearer tail, ``t = Phi(-|z|)``. A tail is computed to a relative
    ``16u (2 + z^2)`` (verified with 50 digits). An error ``dz = error`` of the point changes it by
    a relative ``(1 + |z|) dz``; the factor 2 covers the second order.

    Returns
    -------
    masses, errors : ndarray, shape (n + 1,)
        Errors are absolute.
    """
    size = np.abs(points)
    tail = ndtr(-size)
    tail_error = tail * (16 * _U * (2.0 + size * size) + 2.0 * (1.0 + size) * error)
    return masses_between(tail, tail_error, points > 0.0)


def masses_between(tails: Array, wrongs: Array, above: Flags) -> tuple[Array, Array]:
    """Return the masses below, between and above points, from the mass beyond each point.

    Parameters
    ----------
    tails, wrongs : ndarray, shape (n,)
        The mass on the far side of each point, and its absolute error.
    above : ndarray of bool, shape (n,)
        True if the far side is the right one; the true entries are the last ones.
    """
    ends = np.zeros(1)
    tail, wrongs_padded = (np.concatenate([ends, each, ends]) for each in (tails, wrongs))
    right = np.concatenate([[False], above, [True]])
    left_end, right_end = tail[:-1], tail[1:]
    masses = np.where(right[:-1], left_end - right_end, right_end - left_end)
    across = right[1:] & ~right[:-1]
    masses[across] = 1.0 - left_end[across] - right_end[across]
    errors = wrongs_padded[:-1] + wrongs_padded[1:]
    errors[across] += 16 * _U
    return np.maximum(masses, 0.0), errors


def spread_points(centres: Sequence[float], reach: float, count: int) -> Array:
    """Return increasing points for normal masses at ``centres``, ``reach`` deviations wide.

    There are about ``count``, evenly spaced. Far centres have their own points, with a few between.
    """
    first, last = centres[0] - reach, centres[-1] + reach
    if centres[-1] - centres[0] <= 4.0 * reach:
        return np.linspace(first, last, count)
    near = [np.linspace(x - reach, x + reach, count // len(centres)) for x in centres]
    return np.unique(np.concatenate([np.linspace(first, last, count // 4), *near]))


@dataclass(frozen=True)
class GaussianPair(Pair):
    """``P = N(mu, 1)`` against ``Q = N(0, 1)``, for finite ``mu > 0``; its own reverse.

    The loss at ``x`` is ``mu x - mu^2 / 2``. It is normal with variance ``mu^2`` and mean
    ``mu^2 / 2`` under ``P``, ``-mu^2 / 2`` under ``Q``.
    """

    mu: float
    symmetric = True

    def losses(self, tail: float, count: int) -> Array:
        # From -mu z - mu^2 / 2 to mu z + mu^2 / 2, Phi(-z) = tail
        half = 0.5 * self.mu
        return self.mu * spread_points((-half, half), -float(ndtri(tail)), count)

    def bins(self, edges: Array) -> Bins:
        # Normal masses at edges / mu -+ mu / 2
        centred, half = edges / self.mu, 0.5 * self.mu
        point_error = 8 * _U * (np.abs(centred) + half)
        p, p_error = normal_masses(centred - half, point_error)
        q, q_error = normal_masses(centred + half, point_error)
        return Bins(p, q, p_error, q_error)


@dataclass(frozen=True)
class ReplacedGaussian(Pair):
    """``(1-r) N(0, z^2) + r N(1, z^2)`` against ``(1-r) N(0, z^2) + r N(-1, z^2)``.

    ``r = rate`` is in ``(0, 1)``, and ``z = noise > 0`` is in units of one record's bound. The pair
    is its own reverse. The loss increases with ``x`` and equals ``l`` at

        x = z^2 [l / 2 + asinh((1 - r) / r e^(1 / 2z^2) sinh(l / 2))].

    Formal guarantee
    ----------------
    Dominates one Gaussian release on a Poisson sample under ``replace_one``, and is attained. Given
    the rest of the batch, ``P - gamma Q = r [N_g - a N_0 - gamma N_g']`` with
    ``a = (gamma - 1)(1 - r) / r >= 0`` for ``gamma >= 1``. Over sets ``S`` with ``N_g(S)`` given,
    ``N_0(S)`` and ``N_g'(S)`` are smallest on the same half-space if ``0`` and ``g'`` are on one
    ray from ``g`` (Neyman and Pearson). They decrease with the distances, which are at most 1 and
    2. For ``gamma < 1`` exchange ``P`` and ``Q``.
    """

    rate: float
    noise: float
    symmetric = True

    def losses(self, tail: float, count: int) -> Array:
        # At outcomes from -1 - z t to 1 + z t with Phi(-t) = tail
        shift = 1.0 / self.noise
        x = spread_points((-shift, 0.0, shift), -float(ndtri(tail)), count) / self.noise
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
        point_error = 8 * _U * (np.abs(points) + shift)
        middle, middle_error = normal_masses(points, point_error)
        positive, positive_error = normal_masses(points - shift, point_error)
        negative, negative_error = normal_masses(points + shift, point_error)
        absent, rate = 1.0 - self.rate, self.rate
        p, q = absent * middle + rate * positive, absent * middle + rate * negative
        return Bins(
            p,
            q,
            absent * middle_error + rate * positive_error + 4 * _U * p,
            absent * middle_error + rate * negative_error + 4 * _U * q,
            blur=32 * _U * (1.0 + float(size.max()) + abs(odds) + shift * shift),
        )
