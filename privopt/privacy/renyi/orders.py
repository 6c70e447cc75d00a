"""Orders of Rényi divergences: the default grid, its checks, and minimisation over orders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from privopt.arguments import shown
from privopt.privacy.numbers import real_array

_POINTS = 9

ORDERS: tuple[float, ...] = (
    *(1.0 + np.geomspace(1e-4, 9.0, 40)).tolist(),
    *(float(order) for order in range(11, 20)),
    *np.round(np.geomspace(20.0, 1e6, 76)).tolist(),
)
"""Real orders, dense near 1 (they serve little noise), then integers in steps of 15 %, up to a
million (which serves much noise). What is minimised over them is refined between them."""


def check_orders(orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Finite real orders above one, increasing, as a float64 vector."""
    values = real_array("orders", orders)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"orders must be a non-empty sequence, got {shown(orders)}")
    if not (np.all(np.diff(values) > 0.0) and values[0] > 1.0 and values[-1] < np.inf):
        raise ValueError(f"orders must be increasing, finite and above 1, got {shown(orders)}")
    return values


def lowest(
    objective: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    orders: npt.NDArray[np.float64],
    rounds: int = 3,
) -> float:
    """The lowest value of ``objective`` on ``orders`` and on finer grids around the best of them.

    Every value tried counts, so the answer is a value of the objective whatever its shape.
    """
    values = objective(orders)
    best = float(np.min(values))
    for _ in range(rounds):
        i = int(np.argmin(values))
        left, right = orders[max(i - 1, 0)], orders[min(i + 1, orders.size - 1)]
        if not left < right or not np.isfinite(best):
            break
        orders = np.unique(1.0 + np.geomspace(left - 1.0, right - 1.0, _POINTS + 2))
        values = objective(orders)
        best = min(best, float(np.min(values)))
    return best
