"""Group privacy: neighbours that differ in several records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.composition import check_count, coarsen
from privopt.accounting.trade_offs.polygons import Polygon
from privopt.accounting.trade_offs.shifts import Gaussian, Laplace
from privopt.accounting.trade_offs.tangents import polygon
from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.sums import times

__all__ = ["group"]

Array = npt.NDArray[np.float64]

_U = 2.0**-53


def group(f: TradeOff, k: int, size: int = 1000) -> TradeOff:
    """``1 - (1 - f)^{o k}``: what an ``f``-DP mechanism promises for ``k`` changed records.

    The power ``1 - f`` of the best test is applied ``k`` times in a row. Shifted noise has ``mu``
    replaced by ``k mu``; otherwise the result is a polygon.

    Parameters
    ----------
    f : TradeOff
        Of single records, in the order of the ``k`` steps from one data set to the other.
    k : int
        Positive.
    size : int
        Largest number of segments of a polygon.

    Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
    Section 2).

    Raises
    ------
    ValueError
        If ``k`` is not a positive integer, or ``size`` not an integer of at least 2.
    """
    k, size = check_count("k", k, 1), check_count("size", size, 2)
    if k == 1:
        return f
    if isinstance(f, Gaussian | Laplace):
        mu = times(k, f.mu)
        return type(f)(mu * (1.0 + 4 * _U) if 0.0 < mu < np.inf else mu)
    x, y = _power(coarsen(polygon(f), size))
    alpha, power = x, y
    for _ in range(k - 1):
        # Corners: where one was, and where the argument of the last step reaches one.
        met = x[(x > power[0]) & (x < 1.0)]
        new = _interpolate(met, power, alpha) * (1.0 - 16 * _U)
        corners = np.concatenate([alpha, new])
        powers = np.concatenate([_rise(power, x, y), _rise(met, x, y)])
        order = np.argsort(corners, kind="stable")
        alpha, power = corners[order], np.maximum.accumulate(powers[order])
    return coarsen(Polygon(np.diff(alpha), np.diff(power), q_only=float(power[0])), size)


def _power(f: Polygon) -> tuple[Array, Array]:
    """Corners ``(alpha, 1 - f(alpha))``, left and up of the true ones, from 0 to ``(1, 1)``."""
    up = 1.0 + f.slack
    alpha = np.concatenate([[0.0], np.cumsum(f.p) / up / up])
    power = (f.q_only + np.concatenate([[0.0], np.cumsum(f.q)])) * up * up
    power[-1] = 1.0
    return np.append(alpha, 1.0), np.append(np.minimum(power, 1.0), 1.0)


def _rise(at: Array, x: Array, y: Array) -> Array:
    """The power at ``at``, rounded up."""
    return np.minimum(_interpolate(at, x, y) * (1.0 + 16 * _U), 1.0)


def _interpolate(at: Array, x: Array, y: Array) -> Array:
    """Between the corners ``(x, y)`` by a weighted mean, so that small values stay accurate."""
    i = np.clip(np.searchsorted(x, at, side="right"), 1, x.size - 1)
    width = x[i] - x[i - 1]
    with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
        mean = ((x[i] - at) * y[i - 1] + (at - x[i - 1]) * y[i]) / width
    return np.where(width > 0.0, mean, y[i])
