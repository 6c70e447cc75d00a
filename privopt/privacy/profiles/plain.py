"""Profiles that several kinds of release share.

Gaussian noise has the curve of ``privopt.privacy.gaussian``; randomised response that tells the
truth with probability ``h`` has ``h (1 - e^(epsilon - t))_+``, which bounds every pure release.

Sources: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018;
Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", IEEE Trans. Inf.
Theory 2017 (arXiv:1311.0776).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privopt.privacy.gaussian import gaussian_delta
from privopt.privacy.interval import Interval
from privopt.privacy.profiles.profile import Profile, inverse

__all__ = [
    "ALL_TOLD",
    "NOTHING_TOLD",
    "Gaussian",
    "RandomisedResponse",
    "Revealed",
    "around",
    "gaussian_profile",
    "missing",
    "pure_profile",
    "reduced",
]

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53, more than any line below takes
_MAX_FLOAT = math.nextafter(math.inf, 0.0)


@dataclass(frozen=True)
class Revealed:
    """With some probability everything is told, else nothing: ``delta = probability`` throughout.

    Probability 0 is a release that tells nothing, and 1 one without any privacy.
    """

    probability: Interval

    def delta(self, epsilon: float) -> Interval:
        """The probability, at every ``epsilon``."""
        return self.probability

    def epsilon(self, delta: float) -> Interval:
        """Zero once ``delta`` allows for the probability, else infinity."""
        return Interval(
            math.inf if delta < self.probability.lower else 0.0,
            0.0 if delta >= self.probability.upper else math.inf,
        )


@dataclass(frozen=True)
class Gaussian:
    """``N(0, 1)`` against ``N(mu, 1)``."""

    mu: Interval

    def delta(self, epsilon: float) -> Interval:
        """``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``."""
        return Interval(
            gaussian_delta(epsilon, self.mu.lower).lower,
            gaussian_delta(epsilon, self.mu.upper).upper,
        )

    def epsilon(self, delta: float) -> Interval:
        """The inverse of ``delta``."""
        if delta == 0.0:
            return Interval(math.inf, math.inf)
        return inverse(self.delta, delta)


@dataclass(frozen=True)
class RandomisedResponse:
    """The true answer with probability ``truth``, any other ``e^loss`` times less likely each.

    ``binary`` if there is one other answer: then the pair dominates every ``loss``-DP release.
    """

    loss: Interval
    truth: Interval
    binary: bool

    def delta(self, epsilon: float) -> Interval:
        """``truth (1 - e^(epsilon - loss))_+``."""
        lower = self.truth.lower * missing(epsilon - self.loss.lower)
        upper = self.truth.upper * missing(epsilon - self.loss.upper)
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def epsilon(self, delta: float) -> Interval:
        """``(loss + ln(1 - delta / truth))_+``."""
        spent = Interval(
            delta / self.truth.upper * (1.0 - _ROUNDING),
            delta / self.truth.lower * (1.0 + _ROUNDING),
        )
        return reduced(self.loss, spent, 1.0)


def missing(x: float) -> float:
    """``(1 - e^x)_+``."""
    return -math.expm1(x) if x < 0.0 else 0.0


def reduced(loss: Interval, spent: Interval, times: float) -> Interval:
    """``(loss + times ln(1 - spent))_+``."""
    if spent.lower >= 1.0:
        return Interval(0.0, 0.0)
    least = -times * math.log1p(-spent.lower) * (1.0 - _ROUNDING)
    most = -times * math.log1p(-spent.upper) * (1.0 + _ROUNDING) if spent.upper < 1.0 else math.inf
    upper = max(0.0, loss.upper * (1.0 + _ROUNDING) - least)
    lower = max(0.0, loss.lower * (1.0 - _ROUNDING) - most) if most < math.inf else 0.0
    return Interval(lower, upper)


NOTHING_TOLD = Revealed(Interval(0.0, 0.0))
ALL_TOLD = Revealed(Interval(1.0, 1.0))


def around(x: float) -> Interval:
    """``x`` up to a few roundings; a positive number stays one."""
    if x == 0.0:
        return Interval(0.0, 0.0)
    return Interval(
        math.nextafter(min(x * (1.0 - _ROUNDING), _MAX_FLOAT), 0.0),
        math.nextafter(x * (1.0 + _ROUNDING), math.inf),
    )


def gaussian_profile(distance: float, *, noiseless: bool) -> Profile:
    """Gaussian releases whose distances have this root of the sum of squares."""
    if noiseless:
        return ALL_TOLD
    mu = around(distance)
    return Gaussian(mu) if 0.0 < mu.lower < math.inf else NOTHING_TOLD


def pure_profile(loss: Interval, truth: float, *, binary: bool = False) -> Profile:
    """A release whose largest loss lies in ``loss``, with a chance of ``truth`` or more."""
    if loss.upper == 0.0:
        return NOTHING_TOLD
    if loss.lower == math.inf:
        return ALL_TOLD
    if loss.upper == math.inf:
        return Revealed(Interval(0.0, 1.0))
    most = around(1.0 / (1.0 + math.exp(-loss.upper))).upper  # that of one bit
    return RandomisedResponse(loss, Interval(min(around(truth).lower, most), most), binary)
