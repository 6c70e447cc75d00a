"""Rényi divergences of releases with pure differential privacy, rounded up."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import SMALLEST
from privopt.privacy.renyi.moment import upper_log_moment

Array = npt.NDArray[np.float64]

_U = 2.0**-53


def pure(epsilon: float, orders: Array) -> Array:
    """``D_alpha`` of any ``epsilon``-DP release: at most that of randomised response on one bit.

    ``(alpha - 1) D = ln[(e^(alpha epsilon) + e^((1-alpha) epsilon)) / (1 + e^epsilon)]``, below
    both ``epsilon`` and ``alpha epsilon^2 / 2``.

    Source: domination by randomised response, Kairouz, Oh and Viswanath, "The composition theorem
    for differential privacy", IEEE Trans. Inf. Theory 2017 (arXiv:1311.0776).
    """
    if epsilon == 0.0 or epsilon > 1e100:
        return np.full_like(orders, epsilon)
    rare = -epsilon - math.log1p(math.exp(-epsilon))
    return swapped(epsilon, rare, rare + epsilon, math.expm1(-epsilon), orders)


def swapped(loss: float, rare: float, common: float, deficit: float, orders: Array) -> Array:
    """Two outcomes with the log-probabilities ``rare`` and ``common``, against the reverse."""
    loss *= 1.0 + 8 * _U
    moment = upper_log_moment(
        orders,
        np.array([rare, common]),
        np.array([loss, -loss]),
        np.array([math.expm1(min(loss, 1.0)), deficit]),
        slack=_U * (64.0 + 8.0 * float(np.max(orders)) * min(loss, 800.0)),
    )
    divergence = np.minimum(moment / (orders - 1.0) * (1.0 + 8 * _U), loss)
    return np.maximum(divergence, SMALLEST)
