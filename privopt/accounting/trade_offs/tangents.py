"""Lower bounds by supporting lines: from the dual side every bound is safe.

If ``delta(epsilon)`` is an upper bound of the profile, ``f(alpha) >= 1 - delta - e^epsilon alpha``,
whatever ``epsilon`` is chosen. The largest of many such lines is a convex polygon below ``f``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.polygons import Polygon
from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.bracketing import bisect

__all__ = ["check_losses", "envelope", "mesh", "needed", "polygon"]

Array = npt.NDArray[np.float64]

_U = 2.0**-53
_POINTS = 1000
_TAIL = 1e-18
_BEND = 8.0  # the mesh is e^8 / 16, two hundred times, finer around zero than at its end
_MAX_LOSS = 700.0
_MIN_LOSS = 1e-9  # smaller ones are as good as zero, and corners next to it are ill-defined


def polygon(f: TradeOff, losses: npt.ArrayLike | None = None) -> Polygon:
    """A convex polygon below ``f``, tangent to it where its slope is ``-e^loss``.

    Parameters
    ----------
    f : TradeOff
        A polygon is returned as it is, unless ``losses`` are given.
    losses : array_like, optional
        Non-negative numbers; each is used for both orders of the pair. By default ``mesh(f)``.

    Raises
    ------
    ValueError
        If a loss is not in ``[0, 700]``.
    """
    if isinstance(f, Polygon) and losses is None:
        return f
    chosen = mesh(f) if losses is None else check_losses("losses", losses)
    chosen = np.unique(np.append(chosen, 0.0))
    deltas = np.array([f.delta(float(loss)) for loss in chosen])
    reversed_deltas = np.array([f.delta_reversed(float(loss)) for loss in chosen])
    return envelope(chosen, deltas, reversed_deltas)


def mesh(f: TradeOff) -> Array:
    """Losses that resolve ``f``: the corners of a polygon; otherwise 1000 for either order.

    These are dense near zero and end where the profile falls below 1e-18, exactly at the largest
    loss if there is one.
    """
    if isinstance(f, Polygon):
        with np.errstate(divide="ignore"):
            kinks = np.abs(np.log(f.q) - np.log(f.p))
        return np.unique(kinks[kinks <= _MAX_LOSS])
    return np.union1d(_losses(f.delta), _losses(f.delta_reversed))


def envelope(losses: Array, deltas: Array, reversed_deltas: Array) -> Polygon:
    """The largest of all lines ``beta = 1 - delta - gamma alpha`` and ``alpha = 1 - .. beta``.

    ``losses`` ascend from zero, where both profiles are the total variation distance: the line
    of slope minus one is where the steep side, kept as ``(alpha, 1 - beta)``, and the flat side,
    kept as ``(beta, 1 - alpha)``, meet. Where the two lines of one loss meet they, too, bound
    that distance, by ``(gamma - 1 + delta + delta') / (gamma + 1)``.
    """
    excess = np.expm1(losses) * (1.0 + 4 * _U)
    distances = (excess + deltas + reversed_deltas) / (excess + 2.0) * (1.0 + 16 * _U)
    distance = min(1.0, deltas[0], reversed_deltas[0], float(distances.min()))
    distinct = losses >= _MIN_LOSS
    losses = np.append(0.0, losses[distinct])
    alpha, fall = _corners(losses, np.append(distance, deltas[distinct]))
    beta, rise = _corners(losses, np.append(distance, reversed_deltas[distinct]))
    # Moving a corner left and down is safe. At multiples of 2^-53 both complements are exact.
    fall[-1], rise[-1] = _up(fall[-1]), _up(rise[-1])
    alpha = np.minimum(alpha, 1.0 - rise[-1])
    beta = np.minimum(beta, 1.0 - fall[-1])
    run, drop = (1.0 - rise[-1]) - alpha[-1], (1.0 - fall[-1]) - beta[-1]
    return Polygon(
        np.concatenate([np.diff(alpha), [run], np.diff(rise)]),
        np.concatenate([np.diff(fall), [drop], np.diff(beta)]),
        p_only=float(rise[0]),
        q_only=float(fall[0]),
    )


def _losses(delta: Callable[[float], float]) -> Array:
    def ended(loss: float) -> bool:
        return delta(loss) <= _TAIL

    end = bisect(ended, _MAX_LOSS, 0.0) if ended(_MAX_LOSS) else _MAX_LOSS
    return end * np.sinh(np.linspace(0.0, _BEND, _POINTS)) / math.sinh(_BEND)


def check_losses(name: str, values: npt.ArrayLike) -> Array:
    """Privacy losses in ``[0, 700]``, as an array of one dimension."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.all((array >= 0.0) & (array <= _MAX_LOSS)):
        raise ValueError(f"{name} must be a list of numbers in [0, 700], got {values!r}")
    return array


def needed(gammas: Array, deltas: Array) -> list[int]:
    """Which lines ``1 - delta - gamma alpha`` are the highest somewhere, in ascending order.

    That is the lower convex hull of the points ``(gamma, delta)``, up to its lowest point.
    ``gammas`` ascend; of equal ones the first must have the smallest ``delta``.
    """
    x, y = gammas.tolist(), deltas.tolist()
    kept: list[int] = []
    for i in range(len(x)):
        if kept and y[i] >= y[kept[-1]]:  # steeper and no higher at zero: lower everywhere
            continue
        while len(kept) > 1 and (
            (y[kept[-2]] - y[kept[-1]]) * (x[i] - x[kept[-1]])
            <= (y[kept[-1]] - y[i]) * (x[kept[-1]] - x[kept[-2]])
        ):
            kept.pop()
        kept.append(i)
    return kept


def _corners(losses: Array, deltas: Array) -> tuple[Array, Array]:
    """Where neighbouring lines meet: ``alpha`` (left), and ``1 - f(alpha)`` (up), from 0 on."""
    gammas = np.where(losses > 0.0, np.exp(losses) * (1.0 + 4 * _U), 1.0)  # steeper is lower
    kept = needed(gammas, deltas)[::-1]
    gammas, deltas = gammas[kept], deltas[kept]
    with np.errstate(under="ignore"):
        met = np.diff(deltas) / -np.diff(gammas) * (1.0 - 8 * _U)
        alpha = np.concatenate([[0.0], met])
        fall = np.minimum((deltas + gammas * alpha) * (1.0 + 16 * _U), 1.0)
    fall[0] = deltas[0]
    return np.maximum.accumulate(alpha), np.maximum.accumulate(fall)


def _up(x: float) -> float:
    """The next multiple of ``2^-53``, at most one."""
    return min(1.0, math.ceil(x / _U) * _U)
