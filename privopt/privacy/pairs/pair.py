"""What the Fourier accountant asks of a pair of distributions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Bins(NamedTuple):
    """Probabilities of a privacy loss under ``P`` and ``Q``, bin by bin.

    Entry ``i`` of the arrays belongs to losses in ``(edges[i - 1], edges[i]]``; the first and the
    last to what lies beyond the edges, infinite losses apart.

    Attributes
    ----------
    p, q : ndarray, shape (n + 1,)
        Probabilities for ``n`` edges.
    p_error, q_error : ndarray, shape (n + 1,)
        Bounds of their absolute errors.
    blur : float
        An outcome may stand in the next bin if its loss is this close to the edge.
    """

    p: Array
    q: Array
    p_error: Array
    q_error: Array
    blur: float = 0.0


class Pair(ABC):
    """An ordered pair ``(P, Q)`` of distributions, known through its privacy loss.

    The loss of an outcome ``o`` is ``ln P(o) / Q(o)``. The pair *dominates* a mechanism in one
    order of neighbours if ``H_gamma(M(D) || M(D')) <= H_gamma(P || Q)`` for every ``gamma > 0``
    and all such ``D, D'``. Products of dominating pairs dominate adaptive composition: Zhu, Dong
    and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022 (arXiv:2106.08567), Theorem 10.
    """

    symmetric: ClassVar[bool] = False  # whether the pair is its own reverse

    @property
    def attained(self) -> Pair | None:
        """A pair that one pair of neighbours has in every step; by default the pair itself."""
        return self

    def range(self) -> tuple[float, float]:
        """Essential infimum of the loss under ``Q`` and supremum under ``P``; by default none."""
        return -math.inf, math.inf

    def infinite(self) -> tuple[float, float]:
        """Mass of ``P`` at loss ``+inf``, of ``Q`` at ``-inf``; by default nothing is certain."""
        return 0.0, 0.0

    @abstractmethod
    def losses(self, tail: float, count: int) -> Array:
        """About ``count`` increasing losses that follow the shape of the distribution.

        Outside of them ``P`` and ``Q`` have mass of order ``tail`` on either side, infinite
        losses apart.
        """

    @abstractmethod
    def bins(self, edges: Array) -> Bins:
        """Probabilities of the loss between increasing finite ``edges``."""

    def reverse(self) -> Pair:
        """``(Q, P)``: the other order of neighbours, where losses change sign."""
        return self if self.symmetric else Reversed(self)


@dataclass(frozen=True)
class Reversed(Pair):
    """``(Q, P)`` for the pair ``(P, Q)``: losses change sign."""

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
