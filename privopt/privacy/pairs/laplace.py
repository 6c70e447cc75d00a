"""Laplace noise: two Laplace distributions a given distance apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["LaplacePair"]

_U = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class LaplacePair:
    """``P = Lap(mu, 1)`` against ``Q = Lap(0, 1)``, for finite ``mu > 0``; its own reverse.

    Under ``P`` the loss is ``mu`` with probability 1/2, ``-mu`` with ``e^-mu / 2``, and has
    density ``e^((l - mu) / 2) / 4`` between.

    Formal guarantee
    ----------------
    Dominates Laplace noise on a *vector* whose l1 norm moves by at most ``mu``, too. Let
    ``Y = e^(mu - L)`` under ``P``; then ``E Y = e^mu`` and ``H_gamma`` is the mean of a convex
    function of ``Y``. One coordinate has ``P(Y > y) = y^(-1/2) / 2`` on ``[1, e^(2 mu))``. For two
    that move by ``a <= b``, ``a + b = mu``, the ratio of ``P(Y_a Y_b > y)`` to this is at
    ``y = e^t`` equal to ``3/2 + t/4`` for ``t < 2a``, ``1 + a/2`` for ``t < 2b`` and
    ``1/2 + (2 mu - t) / 4`` after that, so it passes 1 once, from above: with equal means, the
    product is smaller in convex order. More coordinates follow one by one.
    """

    mu: float

    @property
    def attained(self) -> Pair | None:
        """Itself."""
        return self

    def infinite(self) -> tuple[float, float]:
        """Nothing is certain."""
        return 0.0, 0.0

    def range(self) -> tuple[float, float]:
        """``-mu`` to ``mu``."""
        return -self.mu, self.mu

    def losses(self, tail: float, count: int) -> Array:
        """Equally spaced, the atoms apart."""
        inner = np.linspace(-self.mu, self.mu, count) * (1.0 - 1e-9)
        return np.concatenate([[-self.mu], inner, [self.mu]])

    def bins(self, edges: Array) -> Bins:
        """The density integrated, with the atoms at both ends."""
        inner = np.clip(edges, -self.mu, self.mu)
        inner = np.concatenate([[-self.mu], inner, [self.mu]])
        gap = np.diff(inner)
        p = 0.5 * np.exp(0.5 * (inner[1:] - self.mu)) * -np.expm1(-0.5 * gap)
        q = 0.5 * np.exp(-0.5 * (inner[:-1] + self.mu)) * -np.expm1(-0.5 * gap)
        # The distance of two edges is known to a few roundings of the edges themselves; beyond
        # the largest losses there is nothing, exactly.
        moved = np.where(gap > 0.0, 4 * _U * (1.0 + self.mu), 0.0)
        p_error = 0.25 * np.exp(0.5 * (inner[1:] - self.mu)) * moved
        q_error = 0.25 * np.exp(-0.5 * (inner[:-1] + self.mu)) * moved
        for loss, of_p, of_q in (
            (self.mu, 0.5, 0.5 * np.exp(-self.mu)),
            (-self.mu, 0.5 * np.exp(-self.mu), 0.5),
        ):
            where = int(np.searchsorted(edges, loss, side="left"))
            p[where] += of_p
            q[where] += of_q
        return Bins(p, q, p_error + 8 * _U * p, q_error + 8 * _U * q, blur=4 * _U * (1 + self.mu))
