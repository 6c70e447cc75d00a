"""Poisson sampling: the record takes part with a public probability."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["Sampled"]

_U = 2.0**-53  # unit roundoff of float64
_RAREST = 1e-12  # losses of less drown in the rounding of their exponentials


@dataclass(frozen=True)
class Sampled:
    """``(1 - rate) Q + rate P`` against ``Q``, for a pair ``(P, Q)`` and ``rate`` in ``(0, 1]``.

    If ``(P, Q)`` dominates a mechanism when a record is removed, this pair dominates the
    mechanism run on a Poisson sample; its reverse does so when a record is added. The loss
    ``l`` of the pair becomes ``ln(1 - rate + rate e^l)``, which ends at ``ln(1 - rate)``.

    Source: Zhu, Dong and Wang (arXiv:2106.08567), Theorem 11.
    """

    pair: Pair
    rate: float
    exact: bool = True

    @classmethod
    def of(cls, pair: Pair, rate: float) -> Sampled:
        """At a rate that floats can tell from zero: a larger one dominates."""
        return cls(pair, max(rate, _RAREST), exact=rate >= _RAREST)

    @property
    def attained(self) -> Pair | None:
        """What the pair attains, sampled, unless the rate only stands for a smaller one."""
        attained = self.pair.attained
        return None if attained is None or not self.exact else Sampled(attained, self.rate)

    def infinite(self) -> tuple[float, float]:
        """What is impossible under ``Q``, if the record takes part; nothing is under ``P``."""
        p, q = self.pair.infinite()
        return self.rate * p, q if self.rate == 1.0 else 0.0

    def range(self) -> tuple[float, float]:
        """The range of the pair, sampled."""
        smallest, largest = self.pair.range()
        return float(self._sample(smallest)), float(self._sample(largest))

    def losses(self, tail: float, count: int) -> Array:
        """The losses of the pair, sampled, where they still differ."""
        losses = self._sample(self.pair.losses(tail, count))
        if self.pair.infinite()[1] > 0.0 and self.rate < 1.0:
            losses = np.append(losses, math.log1p(-self.rate))
        return np.unique(losses)

    def bins(self, edges: Array) -> Bins:
        """Mixtures of the bins of the pair at ``ln((e^edges - 1 + rate) / rate)``."""
        if self.rate == 1.0:
            return self.pair.bins(edges)
        smallest, log_rate = math.log1p(-self.rate), math.log(self.rate)
        inside = int(np.searchsorted(edges, smallest, side="right"))
        above = edges[inside:]
        base = self.pair.bins(above + np.log(-np.expm1(smallest - above)) - log_rate)
        q, q_error = (np.pad(each, (inside, 0)) for each in (base.q, base.q_error))
        p, p_error = (
            self.rate * np.pad(of_p, (inside, 0)) + (1.0 - self.rate) * of_q
            for of_p, of_q in ((base.p, q), (base.p_error, q_error))
        )
        # What is impossible under P is seen when the record was left out.
        at_smallest = int(np.searchsorted(edges, smallest, side="left"))
        certain = self.pair.infinite()[1]
        q[at_smallest] += certain
        p[at_smallest] += (1.0 - self.rate) * certain
        size = 1.0 + float(np.abs(edges[[0, -1]]).max()) - smallest - log_rate
        return Bins(
            p,
            q,
            p_error + 4 * _U * p,
            q_error + 4 * _U * q,
            blur=base.blur + 16 * _U * size,
        )

    def _sample(self, loss: Array | float) -> Array:
        """Accurate beside the loss itself, however small."""
        with np.errstate(over="ignore", divide="ignore"):
            gain = self.rate * np.expm1(loss)
            large = np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + loss)
            return np.where(np.abs(gain) < 0.5, np.log1p(np.maximum(gain, -0.5)), large)
