"""Inverse and symmetrisation: the two orders of a pair, one at a time and both at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.polygons import Polygon
from privopt.accounting.trade_offs.tangents import check_losses, envelope, mesh
from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.arguments import check_alpha

__all__ = ["Inverse", "inverse", "symmetrise"]

_HALVINGS = 80


@dataclass(frozen=True)
class Inverse(TradeOff):
    """``f^{-1}`` where it has no closed form; made by ``inverse``."""

    f: TradeOff

    def __call__(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The largest ``t`` found by bisection with ``f(t) > alpha``."""
        alpha = check_alpha(alpha)
        low, high = np.zeros_like(alpha), np.ones_like(alpha)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            above = self.f(middle) > alpha
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.asarray(low)

    def delta(self, epsilon: float) -> float:
        """The profile of ``f`` in the other order."""
        return self.f.delta_reversed(epsilon)

    def delta_reversed(self, epsilon: float) -> float:
        """The profile of ``f``."""
        return self.f.delta(epsilon)

    def inverse(self) -> TradeOff:
        """``f``."""
        return self.f


def inverse(f: TradeOff) -> TradeOff:
    """``f^{-1}(alpha) = inf {t : f(t) <= alpha}``, the trade-off function of the other order."""
    return f.inverse()


def symmetrise(f: TradeOff, losses: npt.ArrayLike | None = None) -> TradeOff:
    """``min{f, f^{-1}}**``: the largest trade-off function below ``f`` in either order.

    Its profile is the larger of the two profiles. A symmetric ``f`` is returned as it is; a
    polygon gives the exact polygon, up to rounding; of any other, tangents are taken.

    Parameters
    ----------
    f : TradeOff
        Any.
    losses : array_like, optional
        Slopes ``e^loss`` of the tangents, ``loss`` in ``[0, 700]``; by default ``mesh(f)``.

    Formal guarantee
    ----------------
    What has trade-off ``f`` in one order of each pair of neighbours and ``f^{-1}`` in the other
    is ``min{f, f^{-1}}**``-DP.

    Raises
    ------
    ValueError
        If a loss is not in ``[0, 700]``.
    """
    if f.inverse() is f:
        return f
    if losses is not None:
        chosen = check_losses("losses", losses)
    else:
        chosen = _kinks(f) if isinstance(f, Polygon) else mesh(f)
    chosen = np.unique(np.append(chosen, 0.0))
    deltas = np.array([max(f.delta(x), f.delta_reversed(x)) for x in map(float, chosen)])
    return envelope(chosen, deltas, deltas)


def _kinks(f: Polygon) -> npt.NDArray[np.float64]:
    """Losses between which the larger of the two profiles is linear in ``e^loss``."""
    kinks = np.unique(np.append(mesh(f), 0.0))
    gap = np.array([f.delta(x) - f.delta_reversed(x) for x in map(float, kinks)])
    gamma = np.exp(kinks)
    crossed = np.flatnonzero(gap[:-1] * gap[1:] < 0.0)
    share = gap[crossed] / (gap[crossed] - gap[crossed + 1])
    crossings = gamma[crossed] + share * (gamma[crossed + 1] - gamma[crossed])
    return np.append(kinks, np.log(crossings))
