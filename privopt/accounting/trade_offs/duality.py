"""Trade-off functions and privacy profiles are dual: ``delta(epsilon) = 1 + f*(-e^epsilon)``."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.polygons import Polygon
from privopt.accounting.trade_offs.tangents import check_losses, envelope
from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.arguments import check_delta, real
from privopt.privacy.bracketing import bisect

__all__ = ["epsilon", "from_profile", "minimum_total_error", "profile", "total_variation"]


def profile(f: TradeOff, epsilons: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """``delta(epsilon) = 1 + f*(-e^epsilon)`` from above, in the shape of ``epsilons``.

    Formal guarantee
    ----------------
    What has trade-off ``f`` between two data sets, in both orders, is
    ``(epsilon, delta(epsilon))``-DP for every ``epsilon >= 0``. If ``f`` holds in one order only,
    take the profile of ``symmetrise(f)``.

    Parameters
    ----------
    f : TradeOff
        Any.
    epsilons : array_like
        Real numbers, infinities included; negative ones are needed to know an asymmetric ``f``.

    Raises
    ------
    ValueError
        If one of the ``epsilons`` is NaN.
    """
    array = np.asarray(epsilons, dtype=np.float64)
    deltas = [f.delta(real("epsilon", float(each))) for each in array.ravel()]
    return np.array(deltas, dtype=np.float64).reshape(array.shape)


def epsilon(f: TradeOff, delta: float) -> float:
    """The smallest ``epsilon >= 0`` with ``1 + f*(-e^epsilon) <= delta``, from above.

    Infinite where no ``epsilon`` up to 1e300 suffices.

    Raises
    ------
    ValueError
        If ``delta`` is outside ``[0, 1)``.
    """
    delta = check_delta(delta)

    def enough(loss: float) -> bool:
        return f.delta(loss) <= delta

    if enough(0.0):
        return 0.0
    largest = 1.0
    while not enough(largest):
        largest *= 2.0
        if largest > 1e300:
            return math.inf
    return bisect(enough, largest, 0.0)


def from_profile(epsilons: npt.ArrayLike, deltas: npt.ArrayLike) -> Polygon:
    """The largest trade-off function that ``(epsilon_i, delta_i)``-DP for all ``i`` proves.

    ``f(alpha) = max_i max(0, 1 - delta_i - e^epsilon_i alpha, e^-epsilon_i (1 - delta_i - alpha))``

    Parameters
    ----------
    epsilons : array_like
        In ``[0, 700]``, in any order.
    deltas : array_like
        In ``[0, 1]``, one for each of the ``epsilons``.

    Formal guarantee
    ----------------
    A mechanism that is ``(epsilon_i, delta_i)``-DP for every ``i`` is ``f``-DP.

    Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
    Section 2), the dual view of ``f``-DP.

    Raises
    ------
    ValueError
        If a number is outside its range, or the lengths differ, or are zero.
    """
    losses = check_losses("epsilons", epsilons)
    values = np.asarray(deltas, dtype=np.float64)
    if values.ndim != 1 or not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"deltas must be a list of numbers in [0, 1], got {deltas!r}")
    if losses.size != values.size or not losses.size:
        raise ValueError(
            f"epsilons and deltas must be of equal positive length, got {losses.size} "
            f"and {values.size}"
        )
    losses, values = np.append(losses, 0.0), np.append(values, 1.0)
    order = np.lexsort((values, losses))
    losses, first = np.unique(losses[order], return_index=True)
    values = values[order][first]
    return envelope(losses, values, values)


def total_variation(f: TradeOff) -> float:
    """``max_alpha 1 - alpha - f(alpha) = delta(0)``, from above."""
    return f.delta(0.0)


def minimum_total_error(f: TradeOff) -> float:
    """``min_alpha alpha + f(alpha)``, one minus the total variation distance, from below."""
    return max(0.0, math.nextafter(1.0 - f.delta(0.0), -1.0))
