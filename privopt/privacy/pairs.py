"""Dominating pairs, the interface of the Fourier accountant, and the pairs that mechanisms share.

A pair is represented by its privacy loss. The other pairs are next to their mechanism.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from privopt.privacy.numbers import Array, U

Flags: TypeAlias = npt.NDArray[np.bool_]
_MIN_LOSS = 1e-12  # smaller losses are below the resolution of a mesh


class Bins(NamedTuple):
    """Probabilities of a privacy loss under ``P`` and ``Q``, bin by bin.

    Entry ``i`` belongs to losses in ``(edges[i - 1], edges[i]]``. The first and the last entry
    belong to losses beyond the edges, without infinite losses.

    Attributes
    ----------
    p, q : ndarray, shape (n + 1,)
        Probabilities for ``n`` edges.
    p_error, q_error : ndarray, shape (n + 1,)
        Bounds of their absolute errors.
    blur : float
        An outcome may be counted in the next bin if its loss is this close to the edge.
    """

    p: Array
    q: Array
    p_error: Array
    q_error: Array
    blur: float = 0.0


class Pair(ABC):
    """An ordered pair ``(P, Q)`` of distributions, represented by its privacy loss.

    The loss of an outcome ``o`` is ``ln P(o) / Q(o)``. The pair *dominates* a mechanism in one
    order of neighbours if ``H_gamma(M(D) || M(D')) <= H_gamma(P || Q)`` for every ``gamma > 0`` and
    all such ``D, D'``. Products of dominating pairs dominate adaptive composition: Zhu, Dong and
    Wang 2022 (arXiv:2106.08567), Theorem 10.
    """

    symmetric: ClassVar[bool] = False  # True if the pair is its own reverse
    exact: bool = True  # False if no neighbours are known that attain it

    @property
    def attained(self) -> Pair | None:
        """The pair of one fixed pair of neighbours in every step, by default this pair."""
        return self if self.exact else None

    def range(self) -> tuple[float, float]:
        """Return the essential infimum of the loss under ``Q`` and the supremum under ``P``."""
        return -math.inf, math.inf

    def infinite(self) -> tuple[float, float]:
        """Return the mass of ``P`` at loss ``+inf`` and of ``Q`` at ``-inf``, by default zero."""
        return 0.0, 0.0

    @abstractmethod
    def losses(self, tail: float, count: int) -> Array:
        """Return about ``count`` increasing losses that follow the shape of the distribution.

        Beyond them ``P`` and ``Q`` have mass of order ``tail`` on either side, without infinite
        losses.
        """

    @abstractmethod
    def bins(self, edges: Array) -> Bins:
        """Return the probabilities of the loss between increasing finite ``edges``."""

    def reverse(self) -> Pair:
        """Return ``(Q, P)``, the pair of the other order of neighbours."""
        return self if self.symmetric else Reversed(self)


@dataclass(frozen=True)
class Reversed(Pair):
    """``(Q, P)`` for the pair ``(P, Q)``. Losses change sign."""

    pair: Pair

    @property
    def attained(self) -> Pair | None:
        attained = self.pair.attained
        return None if attained is None else Reversed(attained)

    def infinite(self) -> tuple[float, float]:
        p, q = self.pair.infinite()
        return q, p

    def range(self) -> tuple[float, float]:
        smallest, largest = self.pair.range()
        return -largest, -smallest

    def losses(self, tail: float, count: int) -> Array:
        return -self.pair.losses(tail, count)[::-1]

    def bins(self, edges: Array) -> Bins:
        other = self.pair.bins(-edges[::-1])
        return Bins(
            p=other.q[::-1],
            q=other.p[::-1],
            p_error=other.q_error[::-1],
            q_error=other.p_error[::-1],
            blur=other.blur,
        )

    def reverse(self) -> Pair:
        return self.pair


@dataclass(frozen=True)
class DiscretePair(Pair):
    """Outcomes with probabilities ``p[k]`` and ``q[k]``, in increasing order of the loss.

    Probabilities are accurate to a relative ``64u (1 + l)``, where ``u = 2^-53`` and ``l`` is the
    largest finite loss. If one of the two is zero the loss is infinite.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    exact: bool = True

    def infinite(self) -> tuple[float, float]:
        p, q, losses = np.array(self.p), np.array(self.q), self._losses()
        return math.fsum(p[losses == math.inf]), math.fsum(q[losses == -math.inf])

    def range(self) -> tuple[float, float]:
        losses = self._losses()
        return float(losses.min()), float(losses.max())

    def losses(self, tail: float, count: int) -> Array:
        losses = self._losses()
        losses = losses[np.isfinite(losses)] if np.isfinite(losses).any() else np.zeros(1)
        margin = 1e-9 * (1.0 + np.abs(losses).max())
        return np.unique(np.concatenate([losses - margin, losses + margin]))

    def bins(self, edges: Array) -> Bins:
        p, q, losses = np.array(self.p), np.array(self.q), self._losses()
        finite = np.isfinite(losses)
        where = np.searchsorted(edges, losses[finite], side="left")
        of_p: Array = np.bincount(where, p[finite], edges.size + 1).astype(np.float64)
        of_q: Array = np.bincount(where, q[finite], edges.size + 1).astype(np.float64)
        largest = float(np.abs(losses[finite]).max(initial=0.0))
        unit = 128 * U * (1.0 + largest)
        return Bins(of_p, of_q, unit * of_p, unit * of_q, blur=2.0 * unit)

    def _losses(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.array(self.p)) - np.log(np.array(self.q))

    def reverse(self) -> Pair:
        return DiscretePair(self.q[::-1], self.p[::-1], self.exact)


NOTHING = DiscretePair((1.0,), (1.0,))
EVERYTHING = DiscretePair((0.0, 1.0), (1.0, 0.0))


@dataclass(frozen=True)
class PurePair(Pair):
    """The losses ``loss`` and ``-loss``; the first is ``e^loss`` times likelier under ``P``.

    It is defined for finite ``loss > 0`` and is its own reverse.

    Formal guarantee
    ----------------
    Dominates every ``loss``-DP release, and is one. Source: Kairouz, Oh and Viswanath 2017
    (arXiv:1311.0776), proof of Theorem 3.3.
    """

    loss: float
    exact: bool = True
    symmetric = True

    @classmethod
    def of(cls, loss: float) -> PurePair:
        """Return the pair at ``loss``, or at the smallest loss that a mesh resolves."""
        return cls(max(loss, _MIN_LOSS), exact=loss >= _MIN_LOSS)

    def range(self) -> tuple[float, float]:
        return -self.loss, self.loss

    def losses(self, tail: float, count: int) -> Array:
        margin = 1e-9 * (1.0 + self.loss)
        return np.unique([s * self.loss + t * margin for s in (-1.0, 1.0) for t in (-1.0, 1.0)])

    def bins(self, edges: Array) -> Bins:
        likely = 1.0 / (1.0 + math.exp(-self.loss))
        p, q = np.zeros(edges.size + 1), np.zeros(edges.size + 1)
        add_atoms(p, q, edges, self.loss, likely, likely * math.exp(-self.loss))
        least = np.where(p > 0.0, math.ulp(0.0), 0.0)
        return Bins(p, q, 8 * U * p + least, 8 * U * q + least)


def exponential_bins(
    edges: Array, end: float, whole: float, edge_error: float
) -> tuple[Array, Array, Array, Array]:
    """Return masses and errors of losses with density ``e^((l - end)/2) / (2 whole)`` under ``P``.

    The losses are between ``-end`` and ``end``; those under ``Q`` are mirrored. The distance of two
    edges has an error of a few roundings of the edges themselves, ``edge_error``. Beyond the ends
    there is exactly no mass.
    """
    inner = np.concatenate([[-end], np.clip(edges, -end, end), [end]])
    gap = np.diff(inner)
    likely, rare = np.exp(0.5 * (inner[1:] - end)), np.exp(-0.5 * (inner[:-1] + end))
    error = np.where(gap > 0.0, edge_error, 0.0)
    p, q = (each * -np.expm1(-0.5 * gap) / whole for each in (likely, rare))
    return p, q, 0.5 * likely * error / whole, 0.5 * rare * error / whole


def add_atoms(p: Array, q: Array, edges: Array, loss: float, likely: float, rare: float) -> None:
    """Add the masses at ``loss`` and, with both laws exchanged, at ``-loss`` to bins."""
    for at, of_p, of_q in ((loss, likely, rare), (-loss, rare, likely)):
        where = int(np.searchsorted(edges, at, side="left"))
        p[where] += of_p
        q[where] += of_q


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
    tail_error = tail * (16 * U * (2.0 + size * size) + 2.0 * (1.0 + size) * error)
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
    errors[across] += 16 * U
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
        point_error = 8 * U * (np.abs(centred) + half)
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
    Dominates one Gaussian release on a Poisson sample under ``replace_one``, and is attained.
    Proof: :ref:`Accountants, Theorem 11 <theory-accountants-11>`.
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
        point_error = 8 * U * (np.abs(points) + shift)
        middle, middle_error = normal_masses(points, point_error)
        positive, positive_error = normal_masses(points - shift, point_error)
        negative, negative_error = normal_masses(points + shift, point_error)
        absent, rate = 1.0 - self.rate, self.rate
        p, q = absent * middle + rate * positive, absent * middle + rate * negative
        return Bins(
            p,
            q,
            absent * middle_error + rate * positive_error + 4 * U * p,
            absent * middle_error + rate * negative_error + 4 * U * q,
            blur=32 * U * (1.0 + float(size.max()) + abs(odds) + shift * shift),
        )
