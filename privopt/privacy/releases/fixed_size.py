"""A batch of fixed size, drawn without replacement: the theorem speaks of a replaced record."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import dp_accounting as dp
import numpy as np

from privopt.privacy.pairs import NOTHING, Array, Bins, Pair
from privopt.privacy.parameters import is_batch
from privopt.privacy.releases.gaussian import one_release
from privopt.privacy.releases.poisson import Sampled, sampled_curve
from privopt.privacy.releases.release import Curve, Release
from privopt.privacy.renyi.sampled import fixed_size_gaussian
from privopt.spec import Relation

_U = 2.0**-53  # unit roundoff of float64


@dataclass(frozen=True)
class FixedSize(Release, event=dp.SampledWithoutReplacementDpEvent):
    """``inner`` on ``batch`` of ``size`` records, under ``replace_one``.

    Whatever has a pair, but a sample; what is known from below is known of additive noise alone.
    """

    size: int
    batch: int
    inner: dp.DpEvent

    @classmethod
    def read(cls, event: dp.SampledWithoutReplacementDpEvent) -> FixedSize | None:
        size, batch = event.source_dataset_size, event.sample_size
        return cls(int(size), int(batch), event.event) if is_batch(size, batch) else None

    def pair(self, relation: Relation) -> Pair | None:
        inner = one_release(self.inner)
        if relation is not Relation.REPLACE_ONE or inner is None or not inner.samples:
            return None
        whole = inner.pair(relation)
        if whole is None or whole != whole.reverse():
            return None
        if whole is NOTHING or self.batch == self.size:
            return whole
        if self.batch == 0:
            return NOTHING
        sampled = Sampled.of(whole, self.batch / self.size)
        if not inner.additive:
            sampled = replace(sampled, exact=False)
        return SampledWithoutReplacement(sampled)

    def renyi(self, relation: Relation) -> Curve | None:
        if relation is not Relation.REPLACE_ONE:
            return None
        rate = math.nextafter(self.batch / self.size, 1.0) if self.batch else 0.0
        return sampled_curve(rate, self.inner, _replaced)


@dataclass(frozen=True)
class SampledWithoutReplacement(Pair):
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
    symmetric = True

    @property
    def attained(self) -> Pair | None:
        """``sampled``, without its mirror image.

        All other records pull one way with their full norm, one record turns from that way to
        the other.
        """
        return self.sampled.attained

    def infinite(self) -> tuple[float, float]:
        mass = self.sampled.infinite()[0]
        return mass, mass

    def range(self) -> tuple[float, float]:
        largest = self.sampled.range()[1]
        return -largest, largest

    def losses(self, tail: float, count: int) -> Array:
        losses = self.sampled.losses(tail, count)
        losses = losses[losses > 0.0]
        return np.concatenate([-losses[::-1], [0.0], losses])

    def bins(self, edges: Array) -> Bins:
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


def _replaced(rate: float, shift: float, orders: tuple[float, ...]) -> Array:
    """Neighbouring samples lie two contributions apart."""
    return fixed_size_gaussian(rate, 2.0 * shift, orders)
