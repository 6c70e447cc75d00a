"""The profile of objective perturbation.

With the loss ``U = c + s^2 / 2 + s |Z|``, ``Z ~ N(0, 1)``,

    delta(epsilon) = E (1 - e^(epsilon - U))_+ = 2 delta_G(epsilon - c; s)   from c + s^2 / 2 on,

twice the curve of the Gaussian mechanism, and ``1 - 2 e^(epsilon - c) Phi(-s)`` below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import log_ndtr

from privopt.privacy.gaussian import gaussian_delta, gaussian_epsilon
from privopt.privacy.interval import Interval

__all__ = ["Objective"]

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53


@dataclass(frozen=True)
class Objective:
    """Upper ends by the loss ``U``; lower ends are the Gaussian mechanism's, of a linear loss."""

    s: Interval
    c: float

    def delta(self, epsilon: float) -> Interval:
        """In closed form; the doubled Gaussian curve is never below, and taken where it is less."""
        s, x = self.s.upper, _below(epsilon, self.c)
        lower = gaussian_delta(epsilon, self.s.lower).lower
        upper = min(1.0, 2.0 * gaussian_delta(x, s).upper)
        if x < 0.5 * s * s:
            inside = x + self._log_bottom
            inside -= _ROUNDING * (abs(x) + abs(self._log_bottom) + s + 1.0)
            upper = min(upper, -math.expm1(min(inside, 0.0)) * (1.0 + _ROUNDING))
        return Interval(min(lower, upper), upper)

    def epsilon(self, delta: float) -> Interval:
        """The inverse of ``delta``."""
        if delta == 0.0:
            return Interval(math.inf, math.inf)
        lower = gaussian_epsilon(delta, self.s.lower).lower
        upper = gaussian_epsilon(0.5 * delta, self.s.upper).upper
        near = math.log1p(-delta) - self._log_bottom
        near += _ROUNDING * (abs(math.log1p(-delta)) + abs(self._log_bottom) + self.s.upper + 1.0)
        if near <= 0.5 * self.s.upper * self.s.upper:
            upper = min(upper, near)
        upper = max(0.0, upper + self.c + _ROUNDING * (abs(upper) + self.c))
        return Interval(min(lower, upper), upper)

    @property
    def _log_bottom(self) -> float:
        """``ln 2 Phi(-s)``, to a few units of itself and of one."""
        return math.log(2.0) + float(log_ndtr(-self.s.upper))


def _below(epsilon: float, c: float) -> float:
    return epsilon - c - _ROUNDING * (epsilon + c) if math.isfinite(epsilon) else epsilon
