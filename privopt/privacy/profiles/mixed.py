"""The profile of a release that a public coin has chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privopt.privacy.interval import Interval
from privopt.privacy.profiles.plain import NOTHING_TOLD
from privopt.privacy.profiles.profile import Profile, inverse

__all__ = ["Mixed", "mixed_profile"]

_ROUNDING = 2.0**-50  # relative, of a sum of positive numbers


@dataclass(frozen=True)
class Mixed:
    """``delta(epsilon) = sum_k p_k delta_k(epsilon)``, exact if one order is the worse in all."""

    parts: tuple[Profile, ...]
    weights: tuple[float, ...]

    def delta(self, epsilon: float) -> Interval:
        """The mixture of the profiles."""
        found = [part.delta(epsilon) for part in self.parts]
        lower, upper = (
            math.fsum(share * end for share, end in zip(self.weights, ends, strict=True))
            for ends in zip(*found, strict=True)
        )
        ends = [end for each in found for end in each if end > 0.0]
        if ends == [1.0, 1.0]:  # one share, and all of it
            return Interval(lower, upper)
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def epsilon(self, delta: float) -> Interval:
        """The inverse of ``delta``; at what is told in full the largest loss of all other parts."""
        told = self.delta(math.inf)
        if told.lower > delta:
            return Interval(math.inf, math.inf)
        if told.lower == told.upper == delta:
            rest = [part for part in self.parts if part.delta(math.inf).upper == 0.0]
            ends = [part.epsilon(0.0) for part in rest]
            return Interval(max(end.lower for end in ends), max(end.upper for end in ends))
        return inverse(self.delta, delta)


def mixed_profile(parts: Sequence[Profile], weights: Sequence[float]) -> Profile:
    """The mixture, with equal profiles taken together."""
    shares: dict[Profile, float] = {}
    for part, share in zip(parts, weights, strict=True):
        shares[part] = shares.get(part, 0.0) + share
    if len(shares) == 1:
        return next(iter(shares), NOTHING_TOLD)
    return Mixed(tuple(shares), tuple(shares.values()))
