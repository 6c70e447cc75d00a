"""Batches of bounded size: a sampled record may find its batch full."""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting as dp
from scipy.special import betainc

from privopt.privacy.pairs import Array, Bins, Pair
from privopt.privacy.parameters import is_count, is_noise, is_rate
from privopt.privacy.releases.gaussian import Gaussian
from privopt.privacy.releases.poisson import sampled_pairs
from privopt.privacy.releases.release import Release
from privopt.spec import Relation

_ROUNDING = 1e-9  # relative; more than the incomplete beta function is wrong by


@dataclass(frozen=True)
class TruncatedGaussian(Release, event=dp.TruncatedSubsampledGaussianDpEvent):
    """Gaussian noise on a Poisson sample that is cut at a capacity."""

    event: dp.TruncatedSubsampledGaussianDpEvent

    @classmethod
    def read(cls, event: dp.TruncatedSubsampledGaussianDpEvent) -> TruncatedGaussian | None:
        counts = is_count(event.dataset_size) and is_count(event.truncated_batch_size)
        known = counts and event.truncated_batch_size >= 1 and is_rate(event.sampling_probability)
        return cls(event) if known and is_noise(event.noise_multiplier) else None

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        """Those of the sample, and what is lost where the batch may be full.

        A subset that keeps a record with probability ``1 - lost`` is at least what truncation
        leaves.
        """
        event, rate = self.event, float(self.event.sampling_probability)
        gaussian = Gaussian(float(event.noise_multiplier))
        pairs = sampled_pairs(rate, gaussian, relation)
        lost = chance_of_overflow(
            int(event.dataset_size) - 1, rate, int(event.truncated_batch_size)
        )
        if pairs is None or lost == 0.0:
            return pairs
        least = sampled_pairs(rate * (1.0 - lost), gaussian, relation)
        ends = (None, None) if least is None else (least[0].attained, least[1].attained)
        removed, added = (Truncated(pair, lost, end) for pair, end in zip(pairs, ends, strict=True))
        return removed, added

    def exported(self, relation: Relation) -> dp.DpEvent:
        return self.event


@dataclass(frozen=True)
class Truncated(Pair):
    """``pair`` with probability ``1 - lost``, outcomes that tell everything otherwise.

    Draw the other records first: their number does not depend on the record in question, nor
    on its presence. Unless they alone fill the batch, which has the same probability ``lost`` on
    both data sets, the record takes part as if there were no limit. Given that they do, nothing
    is claimed.
    """

    pair: Pair
    lost: float
    least: Pair | None

    @property
    def attained(self) -> Pair | None:
        # least: what neighbours have if all other records contribute nothing
        return self.least

    def infinite(self) -> tuple[float, float]:
        p, q = self.pair.infinite()
        return self.lost + (1.0 - self.lost) * p, self.lost + (1.0 - self.lost) * q

    def range(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def losses(self, tail: float, count: int) -> Array:
        return self.pair.losses(tail, count)

    def bins(self, edges: Array) -> Bins:
        bins = self.pair.bins(edges)
        kept = 1.0 - self.lost
        return Bins(
            kept * bins.p,
            kept * bins.q,
            bins.p_error + 2.0**-52 * bins.p,
            bins.q_error + 2.0**-52 * bins.q,
            blur=bins.blur,
        )


def chance_of_overflow(others: int, rate: float, capacity: int) -> float:
    """``P(Binomial(others, rate) >= capacity)``, rounded up."""
    if capacity > others:
        return 0.0
    return min(1.0, float(betainc(capacity, others - capacity + 1, rate)) * (1.0 + _ROUNDING))
