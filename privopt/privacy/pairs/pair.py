"""What the Fourier accountant asks of a pair of distributions."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Bins", "Pair"]

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


class Pair(Protocol):
    """An ordered pair ``(P, Q)`` of distributions, known through its privacy loss.

    The loss of an outcome ``o`` is ``ln P(o) / Q(o)``. The pair *dominates* a mechanism in one
    order of neighbours if ``H_gamma(M(D) || M(D')) <= H_gamma(P || Q)`` for every ``gamma > 0``
    and all such ``D, D'``. Products of dominating pairs dominate adaptive composition: Zhu, Dong
    and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022 (arXiv:2106.08567), Theorem 10.
    """

    @property
    def attained(self) -> Pair | None:
        """A pair that one pair of neighbours has in every step; often the pair itself."""
        ...

    def range(self) -> tuple[float, float]:
        """Essential infimum of the loss under ``Q`` and supremum under ``P``; may be infinite."""
        ...

    def infinite(self) -> tuple[float, float]:
        """Mass of ``P`` at loss ``+inf``, of ``Q`` at ``-inf``."""
        ...

    def losses(self, tail: float, count: int) -> Array:
        """About ``count`` increasing losses that follow the shape of the distribution.

        Outside of them ``P`` and ``Q`` have mass of order ``tail`` on either side, infinite
        losses apart.
        """
        ...

    def bins(self, edges: Array) -> Bins:
        """Probabilities of the loss between increasing finite ``edges``."""
        ...
