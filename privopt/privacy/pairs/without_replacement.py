"""Sampling a batch of fixed size: a profile that dominates, made into a pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privopt.privacy.pairs.pair import Array, Bins, Pair
from privopt.privacy.pairs.sampled import Sampled

__all__ = ["SampledWithoutReplacement"]

_U = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class SampledWithoutReplacement:
    """The pair whose curve is that of ``sampled`` for positive losses, and mirrored for others.

    ``sampled`` is ``((1 - rate) Q + rate P, Q)`` with ``(P, Q)`` dominating the mechanism on a
    batch when one record of the batch is *replaced*. Orders ``gamma >= 1`` are covered by
    ``sampled``, those below one by its mirror image. Mass that is left over has loss zero. It is
    its own reverse.

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling: tight analyses via
    couplings and divergences", NeurIPS 2018 (arXiv:1807.01647), Theorem 9, for ``gamma >= 1``;
    Zhu, Dong and Wang (arXiv:2106.08567), Proposition 30, for the mirrored orders.
    """

    sampled: Sampled

    @property
    def attained(self) -> Pair | None:
        """``sampled``, without its mirror image.

        All other records pull one way with their full norm, one record turns from that way to
        the other.
        """
        return self.sampled.attained

    def infinite(self) -> tuple[float, float]:
        """As ``sampled``, on both sides."""
        mass = self.sampled.infinite()[0]
        return mass, mass

    def range(self) -> tuple[float, float]:
        """Symmetric about zero."""
        largest = self.sampled.range()[1]
        return -largest, largest

    def losses(self, tail: float, count: int) -> Array:
        """The positive losses of ``sampled``, mirrored, with zero between."""
        losses = self.sampled.losses(tail, count)
        losses = losses[losses > 0.0]
        return np.concatenate([-losses[::-1], [0.0], losses])

    def bins(self, edges: Array) -> Bins:
        """The bins of ``sampled`` above zero, mirrored below, the rest at zero."""
        zero = int(np.searchsorted(edges, 0.0, side="left"))
        above = self.sampled.bins(np.concatenate([[0.0], edges[zero:]]))
        below = self.sampled.bins(np.concatenate([[0.0], -edges[:zero][::-1]]))

        def joined(up: Array, down: Array) -> Array:
            whole = np.zeros(edges.size + 1)
            whole[zero:] += up[1:]
            whole[: zero + 1] += down[:0:-1]
            return whole

        p, q = joined(above.p, below.q), joined(above.q, below.p)
        p_error = joined(above.p_error, below.q_error)
        q_error = joined(above.q_error, below.p_error)
        for mass, error in ((p, p_error), (q, q_error)):
            error[zero] += float(error.sum()) + 8 * _U
            mass[zero] += max(0.0, 1.0 - float(mass.sum()))
        return Bins(p, q, p_error, q_error, blur=above.blur + below.blur)
