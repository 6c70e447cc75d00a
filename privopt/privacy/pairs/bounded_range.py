"""Losses of a bounded range: the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privopt.privacy.pairs.pair import Array, Bins, Pair
from privopt.privacy.pairs.pure import PurePair

__all__ = ["BoundedRangePair"]

_U = 2.0**-53  # unit roundoff of float64
_LEAST = 1e-12  # spans of less are no finer than a mesh can be


@dataclass(frozen=True)
class BoundedRangePair:
    """Losses between ``-r`` and ``r`` with ``P(L > x) = (1 - e^((x - r)/2)) / (1 - e^-r)``.

    ``r = span`` is finite and positive. ``L`` has the law of ``-L`` under ``Q``: the pair is its
    own reverse, ``e^(x/2)`` being its density under ``P``, and ``e^(-x/2)`` under ``Q``, up to
    a constant.

    Formal guarantee
    ----------------
    Dominates every release whose losses span at most ``r``. If they lie in ``[t - r, t]``, two
    outcomes with these losses tell as much or more, the ratio having mean one under ``Q``: the
    larger has probability ``p_t = (1 - e^(t - r)) / (1 - e^-r)`` under ``P``, and

        H_gamma = p_t (1 - gamma e^-t),    e^(t - r) <= gamma <= e^t.

    Over ``t`` this is largest at ``t = (r + ln gamma) / 2``, namely
    ``(1 - sqrt(gamma e^-r))^2 / (1 - e^-r)`` for ``gamma`` in ``[e^-r, e^r]``, of which the pair
    is the derivative. No one ``t`` is the worst for all ``gamma``, and none is attained in every
    step but by losses of one ``t``; here ``r / 2``, asymptotically the worst.

    Source: Dong, Durfee and Rogers, "Optimal differential privacy composition for exponential
    mechanisms", ICML 2020 (arXiv:1909.13830), for the two outcomes; the envelope over ``t``,
    which adaptive choices of it need, is derived here.
    """

    span: float

    @classmethod
    def of(cls, span: float) -> BoundedRangePair:
        """At a span that a mesh can tell from zero: a larger one dominates."""
        return cls(max(span, _LEAST))

    @property
    def attained(self) -> Pair | None:
        """Two outcomes with the losses ``+-r / 2``."""
        return PurePair.of(0.5 * self.span).attained

    def infinite(self) -> tuple[float, float]:
        """Nothing is certain."""
        return 0.0, 0.0

    def range(self) -> tuple[float, float]:
        """``-r`` to ``r``."""
        return -self.span, self.span

    def losses(self, tail: float, count: int) -> Array:
        """Equally spaced."""
        return np.linspace(-self.span, self.span, count)

    def bins(self, edges: Array) -> Bins:
        """The densities integrated."""
        inner = np.concatenate([[-self.span], np.clip(edges, -self.span, self.span), [self.span]])
        gap = np.diff(inner)
        whole = -math.expm1(-self.span)
        p = np.exp(0.5 * (inner[1:] - self.span)) * -np.expm1(-0.5 * gap) / whole
        q = np.exp(-0.5 * (inner[:-1] + self.span)) * -np.expm1(-0.5 * gap) / whole
        # The distance of two edges is known to a few roundings of the edges themselves.
        moved = np.where(gap > 0.0, 4 * _U * self.span, 0.0)
        p_error = 0.5 * np.exp(0.5 * (inner[1:] - self.span)) * moved / whole
        q_error = 0.5 * np.exp(-0.5 * (inner[:-1] + self.span)) * moved / whole
        unit = 8 * _U * (2.0 + self.span)
        return Bins(p, q, p_error + unit * p, q_error + unit * q, blur=4 * _U * self.span)
