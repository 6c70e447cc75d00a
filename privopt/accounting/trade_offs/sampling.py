"""Subsampling: what a mechanism on a random part of the data amounts to.

If a record is used with probability ``rate``, and the mechanism on what is used is ``f``-DP, then
between the data without the record and with it lies ``f_p = rate f + (1 - rate) Id`` at least:
``T(P, (1 - rate) P + rate Q)``. The other order is ``f_p^{-1}``, which is a different function;
both at once are ``C_p(f) = min{f_p, f_p^{-1}}**``. To account for many steps, compose ``f_p`` and
symmetrise at the end: composing ``C_p(f)`` is valid but gives away more.

Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
Section 4); for Poisson sampling and the order of operations, Bu, Dong, Long and Su, "Deep learning
with Gaussian differential privacy", HDSR 2020 (arXiv:1911.11607).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.polygons import Polygon, identity
from privopt.accounting.trade_offs.symmetry import Inverse, symmetrise
from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.arguments import check_alpha, real

__all__ = ["Sampled", "sample", "subsample"]

_U = 2.0**-53


@dataclass(frozen=True)
class Sampled(TradeOff):
    """``T(P, (1 - rate) P + rate Q)`` with ``f = T(P, Q)``; made by ``sample``."""

    f: TradeOff
    rate: float

    def __call__(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``rate f(alpha) + (1 - rate)(1 - alpha)``."""
        alpha = check_alpha(alpha)
        curve = self.rate * self.f(alpha) + (1.0 - self.rate) * (1.0 - alpha)
        return np.asarray(np.maximum(np.nextafter(curve * (1.0 - 8 * _U), -1.0), 0.0))

    def delta(self, epsilon: float) -> float:
        """``rate delta_f(ln(1 + (e^epsilon - 1) / rate))``, or ``1 - e^epsilon`` if that is less.

        The logarithm does not exist for ``e^epsilon <= 1 - rate``, where ``1 - e^epsilon`` holds.
        """
        epsilon = real("epsilon", epsilon)
        p = self.rate
        if math.isinf(epsilon):
            return p * self.f.delta(epsilon) if epsilon > 0.0 else 1.0
        if epsilon > 40.0:
            loss = epsilon - math.log(p) + math.log1p(-(1.0 - p) * math.exp(-epsilon))
            loss -= 8 * _U * (epsilon - math.log(p))
        else:
            gain = math.expm1(epsilon) / p
            gain -= 8 * _U * abs(gain)
            if gain <= -1.0:
                return min(1.0, -math.expm1(epsilon) * (1.0 + 8 * _U))
            loss = math.log1p(gain)
            loss -= 8 * _U * abs(loss)
        return min(1.0, p * self.f.delta(loss) * (1.0 + 8 * _U))

    def delta_reversed(self, epsilon: float) -> float:
        """``a delta'(ln(rate e^epsilon / a))`` with ``a = 1 - (1 - rate) e^epsilon``, if positive.

        ``delta'`` is the profile of ``f^{-1}``. Zero from ``epsilon = -ln(1 - rate)`` on.
        """
        epsilon = real("epsilon", epsilon)
        p = self.rate
        if epsilon > 40.0 and p < 1.0:
            return 0.0
        if p == 1.0:
            return self.f.delta_reversed(epsilon)
        gamma = math.exp(epsilon)
        a = 1.0 - gamma * (1.0 - p) + 8 * _U * (1.0 + gamma)
        if a <= 0.0:
            return 0.0
        loss = epsilon + math.log(p / a)
        if math.isfinite(loss):
            loss -= 8 * _U * (abs(epsilon) + abs(loss) + 1.0)
        return min(1.0, a * self.f.delta_reversed(loss) * (1.0 + 8 * _U))

    def inverse(self) -> TradeOff:
        """``f_p^{-1}``, by bisection."""
        return Inverse(self)


def sample(f: TradeOff, rate: float) -> TradeOff:
    """``f_p = rate f + (1 - rate) Id``: the data without a record against the data with it.

    Formal guarantee
    ----------------
    If every record is used with probability ``rate``, independently (Poisson), and the mechanism
    on the sample has trade-off ``f`` between a sample without and with a record, then the whole
    has trade-off ``f_p`` between data without and with it, under ``add_or_remove_one``.

    Parameters
    ----------
    f : TradeOff
        A polygon gives a polygon.
    rate : float
        In ``[0, 1]``.

    Raises
    ------
    ValueError
        If ``rate`` is outside ``[0, 1]``.
    """
    rate = real("rate", rate)
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate must lie in [0, 1], got {rate!r}")
    if rate == 0.0:
        return identity()
    if rate == 1.0:
        return f
    if not isinstance(f, Polygon):
        return Sampled(f, rate)
    return Polygon(
        np.append(f.p, f.p_only),
        np.append((1.0 - rate) * f.p + rate * f.q, (1.0 - rate) * f.p_only),
        q_only=rate * f.q_only,
        rounding=f.rounding + 8 * _U,
    )


def subsample(f: TradeOff, rate: float, losses: npt.ArrayLike | None = None) -> TradeOff:
    """``C_p(f) = min{f_p, f_p^{-1}}**``: both orders of one subsampled step.

    Parameters
    ----------
    f, rate
        As for ``sample``.
    losses : array_like, optional
        As for ``symmetrise``.

    Formal guarantee
    ----------------
    If ``f`` is symmetric, one step is ``C_p(f)``-DP: with Poisson sampling under
    ``add_or_remove_one``; with ``rate n`` of ``n`` records, drawn without replacement, under
    ``replace_one`` if the mechanism is ``f``-DP under ``replace_one``.
    """
    return symmetrise(sample(f, rate), losses)
