"""Any release with a largest loss: one bit, told truly or not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["PurePair"]

_U = 2.0**-53  # unit roundoff of float64
_MIN_LOSS = 1e-12  # losses of less are no finer than a mesh can be


@dataclass(frozen=True)
class PurePair(Pair):
    """The losses ``loss`` and ``-loss``, the first ``e^loss`` times likelier under ``P``.

    For finite ``loss > 0``; its own reverse.

    Formal guarantee
    ----------------
    Dominates every ``loss``-DP release, and is one. Source: Kairouz, Oh and Viswanath, "The
    composition theorem for differential privacy", IEEE Trans. Inf. Theory 2017
    (arXiv:1311.0776), proof of Theorem 3.3.
    """

    loss: float
    exact: bool = True
    symmetric = True

    @classmethod
    def of(cls, loss: float) -> PurePair:
        """At a loss that a mesh can tell from zero: a larger one dominates."""
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
        for loss, of_p, of_q in (
            (self.loss, likely, likely * math.exp(-self.loss)),
            (-self.loss, likely * math.exp(-self.loss), likely),
        ):
            where = int(np.searchsorted(edges, loss, side="left"))
            p[where] += of_p
            q[where] += of_q
        least = np.where(p > 0.0, math.ulp(0.0), 0.0)
        return Bins(p, q, 8 * _U * p + least, 8 * _U * q + least)
