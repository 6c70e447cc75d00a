"""Profiles of releases that see a random sample.

A record that takes part with probability ``q`` turns ``P`` against ``Q`` into
``(1 - q) Q + q P`` against ``Q``, whose hockey-stick divergence at ``1 + q (e^epsilon - 1)`` is
``q`` times that of ``P`` against ``Q`` at ``e^epsilon``. The other order is never worse at
``epsilon >= 0`` if the plain release is taken at the worse of its own orders.

Sources: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018
(arXiv:1807.01647). ``ReplacedGaussian`` is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privopt.privacy.gaussian import gaussian_delta
from privopt.privacy.interval import Interval
from privopt.privacy.profiles.plain import NOTHING_TOLD, Revealed
from privopt.privacy.profiles.profile import Profile, inverse

__all__ = ["ReplacedGaussian", "Sampled", "sampled_profile"]

_U = 2.0**-53
_ROUNDING = 2.0**-50  # relative; eight units of 2^-53


@dataclass(frozen=True)
class Sampled:
    """``whole`` on a sample that holds the record with probability ``rate``."""

    whole: Profile
    rate: Interval

    def delta(self, epsilon: float) -> Interval:
        """``q delta_whole(ln(1 + (e^epsilon - 1) / q))``."""
        few, many = self.rate
        lower = self.whole.delta(_undiluted(epsilon, few) * (1.0 + _ROUNDING)).lower
        upper = self.whole.delta(_undiluted(epsilon, many) * (1.0 - _ROUNDING)).upper
        return Interval(_below(few * lower), _above(many * upper) if upper > 0.0 else 0.0)

    def epsilon(self, delta: float) -> Interval:
        """``ln(1 + q (e^x - 1))`` at the ``x`` where the whole release has ``delta / q``."""
        few, many = self.rate
        lower = upper = 0.0
        if (share := delta / many * (1.0 - _ROUNDING)) < 1.0:
            upper = _diluted(self.whole.epsilon(share).upper, many)[1]
        if (share := delta / few * (1.0 + _ROUNDING)) < 1.0:
            lower = _diluted(self.whole.epsilon(share).lower, few)[0]
        return Interval(lower, upper)


@dataclass(frozen=True)
class ReplacedGaussian:
    """A replaced record in a Poisson sample of rate ``q``, under Gaussian noise.

    The pair is ``P = (1 - q) N(0, 1) + q N(mu, 1)`` and ``Q = (1 - q) N(0, 1) + q N(-mu, 1)``,
    with ``mu`` the bound of one contribution in standard deviations. With
    ``A = q e^(-mu^2/2)`` and ``B = 1 - q`` the loss at ``x = y / mu`` is
    ``ln [(B + A e^y) / (B + A e^-y)]``, which is ``epsilon`` at

        y = epsilon / 2 + asinh(B sinh(epsilon / 2) / A).

    There ``B + A e^y = e^epsilon (B + A e^-y)``, by which the part of ``N(0, 1)`` in
    ``P(x > y/mu) - e^epsilon Q(x > y/mu)`` splits so that only differences of *neighbouring*
    Gaussians remain: with ``delta_G(.; mu)`` the Gaussian curve and ``h = mu^2 / 2``,

        delta(epsilon) = q [delta_G(y - h) + e^(epsilon - y - h) delta_G(y + h)],

    a sum of positive numbers, each decreasing in ``y``. (Opposite contributions of full norm are
    the worst, in any dimension, and attained.)
    """

    rate: float
    mu: Interval

    def delta(self, epsilon: float) -> Interval:
        """The formula above, between the ends of ``mu``."""
        if math.isinf(epsilon):
            return Interval(0.0, 0.0)
        return Interval(
            self._bounds(epsilon, self.mu.lower).lower, self._bounds(epsilon, self.mu.upper).upper
        )

    def epsilon(self, delta: float) -> Interval:
        """The inverse of ``delta``."""
        if delta == 0.0:
            return Interval(math.inf, math.inf)
        return inverse(self.delta, delta)

    def _bounds(self, epsilon: float, mu: float) -> Interval:
        h = 0.5 * mu * mu
        if h > 1e300:
            return Interval(0.0, self.rate)
        y, error = self._threshold(epsilon, h)
        error += 8 * _U * (y + h)  # of y - h and y + h as well
        low, high = y - error, y + error
        first = Interval(gaussian_delta(high - h, mu).lower, gaussian_delta(low - h, mu).upper)
        second = Interval(
            _weighted(epsilon, high + h, gaussian_delta(high + h, mu).lower, -1.0),
            _weighted(epsilon, low + h, gaussian_delta(low + h, mu).upper, 1.0),
        )
        return Interval(
            _below(self.rate * _below(first.lower + second.lower)),
            min(self.rate, _above(self.rate * _above(first.upper + second.upper))),
        )

    def _threshold(self, epsilon: float, h: float) -> tuple[float, float]:
        """``y`` and a bound of its error, by way of ``ln [B sinh(epsilon / 2) / A]``."""
        if epsilon == 0.0:
            return 0.0, 0.0
        x = 0.5 * epsilon
        sinh = math.log(math.sinh(x)) if x < 300.0 else x - math.log(2.0)
        left, taken = math.log1p(-self.rate), math.log(self.rate)
        log_w = left - taken + h + sinh
        error = 8 * _U * (4.0 - left - taken + h + abs(sinh))
        y = log_w + math.log(2.0) if log_w > 300.0 else math.asinh(math.exp(log_w))
        # asinh has the slope w / sqrt(1 + w^2) in ln w, at most min(1, asinh w).
        return x + y, error * min(1.0, 2.0 * y) + 8 * _U * (x + y)


def sampled_profile(whole: Profile, rate: Interval) -> Profile:
    """``whole`` on a sample that holds the record with probability ``rate``, in closed form."""
    if not isinstance(whole, Revealed):
        return Sampled(whole, rate)
    lower, upper = whole.probability
    if lower == upper and upper in (0.0, 1.0):
        return Revealed(rate) if upper == 1.0 else NOTHING_TOLD
    most = min(1.0, math.nextafter(upper * rate.upper, 2.0))
    return Revealed(Interval(math.nextafter(lower * rate.lower, 0.0), most))


def _undiluted(epsilon: float, rate: float) -> float:
    """``ln(1 + (e^epsilon - 1) / rate)``, to a relative ``2^-50``."""
    if epsilon > 40.0:  # 1 - rate is lost beside e^40
        return epsilon - math.log(rate)
    ratio = math.expm1(epsilon) / rate
    if ratio < 1e300:
        return math.log1p(ratio)
    return math.log(math.expm1(epsilon)) - math.log(rate)


def _diluted(epsilon: float, rate: float) -> tuple[float, float]:
    """Bounds of ``ln(1 + rate (e^epsilon - 1))``."""
    if math.isinf(epsilon):
        return math.inf, math.inf
    if epsilon <= 700.0:
        value = math.log1p(rate * math.expm1(epsilon))
        return _below(value * (1.0 - _ROUNDING)), _above(value * (1.0 + _ROUNDING))
    shift = epsilon + math.log(rate)
    value = max(shift, 0.0) + math.log1p(math.exp(-abs(shift)) - (rate if shift < 0.0 else 0.0))
    error = _ROUNDING * (epsilon - math.log(rate) + 1.0) + math.exp(-max(shift, 0.0)) * (
        rate if shift >= 0.0 else 0.0
    )
    return max(0.0, value - error), value + error


def _weighted(epsilon: float, s: float, delta: float, side: float) -> float:
    """``e^(epsilon - s) delta``, rounded to the given side."""
    if delta == 0.0:
        return 0.0
    size = math.log(delta)
    exponent = epsilon - s + size
    exponent += side * 8 * _U * (abs(epsilon) + abs(s) + abs(size) + 1.0)
    if exponent > 1.0:
        return 1.0 if side < 0.0 else math.e
    return _above(math.exp(exponent)) if side > 0.0 else _below(math.exp(exponent))


def _above(x: float) -> float:
    return math.nextafter(x, math.inf)


def _below(x: float) -> float:
    return max(0.0, math.nextafter(x, -math.inf))
