"""Batches of bounded size: a sampled record may find its batch full."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betainc

from privopt.privacy.pairs.pair import Array, Bins, Pair

__all__ = ["Truncated", "chance_of_overflow"]

_ROUNDING = 1e-9  # relative; more than the incomplete beta function is wrong by


@dataclass(frozen=True)
class Truncated:
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
        """``least``: what neighbours have if all other records contribute nothing."""
        return self.least

    def infinite(self) -> tuple[float, float]:
        """What was infinite, and all that is lost."""
        p, q = self.pair.infinite()
        return self.lost + (1.0 - self.lost) * p, self.lost + (1.0 - self.lost) * q

    def range(self) -> tuple[float, float]:
        """Everything."""
        return -math.inf, math.inf

    def losses(self, tail: float, count: int) -> Array:
        """The finite losses of the pair."""
        return self.pair.losses(tail, count)

    def bins(self, edges: Array) -> Bins:
        """The bins of the pair, scaled down."""
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
