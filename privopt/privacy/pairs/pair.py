"""Dominating pairs: the interface of the Fourier accountant, and pairs with a few outcomes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from privopt.privacy.numbers import Array


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

    @property
    def attained(self) -> Pair | None:
        """The pair of one fixed pair of neighbours in every step, by default this pair."""
        return self

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


_U = 2.0**-53  # unit roundoff of float64
_MIN_LOSS = 1e-12  # smaller losses are below the resolution of a mesh


@dataclass(frozen=True)
class DiscretePair(Pair):
    """Outcomes with probabilities ``p[k]`` and ``q[k]``, in increasing order of the loss.

    Probabilities are accurate to a relative ``64u (1 + l)``, where ``u = 2^-53`` and ``l`` is the
    largest finite loss. If one of the two is zero the loss is infinite.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    exact: bool = True

    @property
    def attained(self) -> Pair | None:
        return self if self.exact else None

    def infinite(self) -> tuple[float, float]:
        losses = self._losses()
        return (
            math.fsum(p for p, loss in zip(self.p, losses, strict=True) if loss == math.inf),
            math.fsum(q for q, loss in zip(self.q, losses, strict=True) if loss == -math.inf),
        )

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
        unit = 128 * _U * (1.0 + largest)
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

    @property
    def attained(self) -> Pair | None:
        return self if self.exact else None

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
        return Bins(p, q, 8 * _U * p + least, 8 * _U * q + least)


def add_atoms(p: Array, q: Array, edges: Array, loss: float, likely: float, rare: float) -> None:
    """Add the masses at ``loss`` and, with both laws exchanged, at ``-loss`` to bins."""
    for at, of_p, of_q in ((loss, likely, rare), (-loss, rare, likely)):
        where = int(np.searchsorted(edges, at, side="left"))
        p[where] += of_p
        q[where] += of_q
