"""Profiles of releases that see every record.

Gaussian noise has the curve of ``privopt.privacy.gaussian``. The others follow from the set on
which the privacy loss exceeds ``epsilon``, here for all ``epsilon >= 0``:

- Laplace noise on a scalar, largest loss ``t``: ``(1 - e^((epsilon - t) / 2))_+``;
- randomised response that tells the truth with probability ``h``: ``h (1 - e^(epsilon - t))_+``;
- discrete Laplace noise (``LatticeLaplace``).

Sources: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018;
Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", IEEE Trans. Inf.
Theory 2017 (arXiv:1311.0776). The other curves are two-line integrals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privopt.privacy.gaussian import gaussian_delta
from privopt.privacy.interval import Interval
from privopt.privacy.profiles.profile import inverse

__all__ = ["Gaussian", "Laplace", "LatticeLaplace", "RandomisedResponse", "Revealed"]

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53, more than any line below takes


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
class Laplace:
    """Laplace noise of scale one at distance ``loss``."""

    loss: Interval

    def delta(self, epsilon: float) -> Interval:
        """``(1 - e^((epsilon - loss) / 2))_+``."""
        return Interval(
            _missing(0.5 * (epsilon - self.loss.lower)) * (1.0 - _ROUNDING),
            min(1.0, _missing(0.5 * (epsilon - self.loss.upper)) * (1.0 + _ROUNDING)),
        )

    def epsilon(self, delta: float) -> Interval:
        """``(loss + 2 ln(1 - delta))_+``."""
        return _reduced(self.loss, Interval(delta, delta), 2.0)


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
        lower = self.truth.lower * _missing(epsilon - self.loss.lower)
        upper = self.truth.upper * _missing(epsilon - self.loss.upper)
        return Interval(lower * (1.0 - _ROUNDING), min(1.0, upper * (1.0 + _ROUNDING)))

    def epsilon(self, delta: float) -> Interval:
        """``(loss + ln(1 - delta / truth))_+``."""
        spent = Interval(
            delta / self.truth.upper * (1.0 - _ROUNDING),
            delta / self.truth.lower * (1.0 + _ROUNDING),
        )
        return _reduced(self.loss, spent, 1.0)


@dataclass(frozen=True)
class LatticeLaplace:
    """Noise ``p(x) ~ e^(-a |x|)`` on the integers, at an integer distance ``shift``.

    The loss of ``x`` exceeds ``epsilon`` below ``j = (shift - epsilon / a) / 2``, and with
    ``r = e^-a`` the set ``x <= j``, ``0 <= j < shift``, has

        P - e^epsilon Q = [1 - e^(epsilon - a (shift - j)) + r (1 - e^(-a j))] / (1 + r).

    The profile is the largest of these, so the integers next to the computed ``j`` are tried.
    """

    a: float
    shift: int

    def delta(self, epsilon: float) -> Interval:
        """The largest ``P(x <= j) - e^epsilon Q(x <= j)`` over integers ``j``."""
        guess = math.floor(min(0.5 * (self.shift - epsilon / self.a), float(self.shift)))
        nearest = {min(max(j, 0), self.shift - 1) for j in range(guess - 2, guess + 2)}
        ends = [self._gain(epsilon, j) for j in nearest]
        return Interval(max(end[0] for end in ends), max(end[1] for end in ends))

    def epsilon(self, delta: float) -> Interval:
        """The inverse of ``delta``; the largest loss ``a shift`` at ``delta = 0``."""
        largest = self.a * self.shift
        if delta == 0.0:
            return Interval(largest * (1.0 - _ROUNDING), largest * (1.0 + _ROUNDING))
        return inverse(self.delta, delta)

    def _gain(self, epsilon: float, j: int) -> tuple[float, float]:
        r, loss = math.exp(-self.a), self.a * (self.shift - j)
        rest = r * -math.expm1(-self.a * j)
        lower = _missing(epsilon - loss * (1.0 - _ROUNDING))  # negative at no best j
        upper = -math.expm1(min(epsilon - loss * (1.0 + _ROUNDING), 1.0))
        return (
            (lower + rest) / (1.0 + r) * (1.0 - 2 * _ROUNDING) if lower > 0.0 else 0.0,
            max(0.0, upper + rest * (1.0 + _ROUNDING)) / (1.0 + r) * (1.0 + 2 * _ROUNDING),
        )


def _missing(x: float) -> float:
    """``(1 - e^x)_+``."""
    return -math.expm1(x) if x < 0.0 else 0.0


def _reduced(loss: Interval, spent: Interval, times: float) -> Interval:
    """``(loss + times ln(1 - spent))_+``."""
    if spent.lower >= 1.0:
        return Interval(0.0, 0.0)
    least = -times * math.log1p(-spent.lower) * (1.0 - _ROUNDING)
    most = -times * math.log1p(-spent.upper) * (1.0 + _ROUNDING) if spent.upper < 1.0 else math.inf
    upper = max(0.0, loss.upper * (1.0 + _ROUNDING) - least)
    lower = max(0.0, loss.lower * (1.0 - _ROUNDING) - most) if most < math.inf else 0.0
    return Interval(lower, upper)
