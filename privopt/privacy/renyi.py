"""Conversion of Rényi divergences and zCDP to epsilon and delta, rounded outwards.

A mechanism with ``D_alpha <= rho`` between neighbours has, for every ``epsilon >= 0``,

    ln delta <= (alpha - 1)(rho - epsilon) + (alpha - 1) ln(alpha - 1) - alpha ln alpha.

Solved for epsilon:

    epsilon = rho + ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1),

or zero if that is negative. Mironov's earlier conversion omits all terms in ``alpha`` alone. The
lossless conversion of one order also uses ``E_Q dP/dQ = 1``: with ``r = ln(1 + 1/beta)``,

    delta <= beta (expm1((alpha - 1)(rho - ln x_0)) / alpha - (1 - 1/alpha)(1 - x_0)),
    x_0 = min(1, e^epsilon alpha / ((alpha - 1) e^s (1 + beta (1 - e^-s)))),   s = r / (alpha - 1),

for every ``beta >= 0``. Proof and sources: :ref:`Accountants, Theorem 9 <theory-accountants-9>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from privopt.arguments import shown
from privopt.privacy.numbers import (
    Array,
    check_delta,
    check_epsilon,
    check_non_negative,
    real_array,
)

_LARGEST = 700.0  # largest epsilon whose exponential is a float
_SLACK = 2.0**-50  # relative, of every term of a sum: each is within four units of 2^-53


def renyi_epsilons(
    orders: Array, divergences: Array, delta: npt.ArrayLike, *, improved: bool = True
) -> Array:
    """Return the ``epsilon`` that each order proves, not clipped; ``delta > 0`` may broadcast."""
    power = orders - 1.0
    log_delta = np.log(delta)
    cost = -log_delta / power
    if not improved:
        return divergences + cost + _SLACK * (divergences + cost)
    gain, entropy = np.log1p(1.0 / power), np.log1p(power) / power
    size = divergences + cost + gain + entropy
    return divergences + (cost - entropy) - gain + _SLACK * size


def renyi_log_deltas(
    orders: Array, divergences: Array, epsilon: npt.ArrayLike, *, improved: bool = True
) -> Array:
    """Return the ``ln delta`` that each order proves; ``epsilon`` may broadcast."""
    power = orders - 1.0
    loss = np.minimum(np.asarray(epsilon, dtype=np.float64), 1e100)
    with np.errstate(over="ignore", invalid="ignore"):
        value, size = power * (divergences - loss), power * (divergences + loss)
        if improved:
            gain, entropy = power * np.log(power), orders * np.log1p(power)
            value, size = value + gain - entropy, size + np.abs(gain) + entropy
        value += _SLACK * size
    return np.where(np.isnan(value), math.inf, value)


def renyi_epsilon(orders: npt.ArrayLike, divergences: npt.ArrayLike, delta: float) -> float:
    """Return the smallest ``epsilon`` at ``delta`` that a single order implies.

    The conversion is lossless: some pair of distributions with that divergence attains it.

    Parameters
    ----------
    orders : array_like
        Increasing, above one.
    divergences : array_like
        Upper bounds of ``D_alpha``, one for each order, in ``[0, inf]``.
    delta : float
        In ``[0, 1)``. The result for zero is infinite, unless a divergence is zero.

    Formal guarantee
    ----------------
    ``(epsilon, delta)``-DP under the relation of the divergences, rounding included.

    Examples
    --------
    >>> round(renyi_epsilon([10.0], [1.0], 1e-5), 4)
    1.918
    """
    alphas, bounds = _check(orders, divergences)
    delta = check_delta(delta)
    if np.min(bounds) == 0.0:
        return 0.0
    if delta == 0.0:
        return math.inf
    highest = max(0.0, float(np.min(renyi_epsilons(alphas, bounds, delta))))
    target = math.log(delta) * (1.0 + _SLACK)  # below ln delta, rounding included

    def excess(epsilon: float) -> float:
        return float(np.min(_lossless(alphas, bounds, epsilon))) - target

    if highest in (0.0, math.inf):
        return highest
    if excess(0.0) <= 0.0:
        return 0.0
    largest = min(highest, _LARGEST)
    if excess(largest) >= 0.0:
        return highest
    root = float(brentq(excess, 0.0, largest, xtol=1e-13 * largest, rtol=1e-14))
    upper = min(highest, root * (1.0 + 1e-12))
    return upper if excess(upper) <= 0.0 else highest


def renyi_delta(orders: npt.ArrayLike, divergences: npt.ArrayLike, epsilon: float) -> float:
    """Return the smallest ``delta`` at ``epsilon`` that an order implies; see ``renyi_epsilon``."""
    alphas, bounds = _check(orders, divergences)
    epsilon = check_epsilon(epsilon)
    if np.min(bounds) == 0.0:
        return 0.0
    return round_delta(float(np.min(_lossless(alphas, bounds, epsilon))))


def zcdp_epsilon(rho: float, delta: float, xi: float = 0.0) -> float:
    """Return ``epsilon`` at ``delta`` of a mechanism with ``D_alpha <= xi + rho alpha``.

    The bound holds at every order ``alpha > 1``. The result is the minimum over the orders of the
    conversion of Rényi divergences, and at most Mironov's
    ``xi + rho + 2 sqrt(rho ln(1/delta))``. For ``rho = 0`` it is ``xi``.

    Source: Bun and Steinke 2016 (arXiv:1605.02065), Proposition 1.3, for the second form.
    """
    rho, xi, delta = (
        check_non_negative("rho", rho),
        check_non_negative("xi", xi),
        check_delta(delta),
    )
    if rho == 0.0 or math.isinf(rho + xi):
        return rho + xi
    if delta == 0.0:
        return math.inf
    log_delta = math.log(delta)
    simple = (xi + rho + 2.0 * math.sqrt(rho) * math.sqrt(-log_delta)) * (1.0 + _SLACK)
    centre = min(max(math.sqrt(-log_delta / rho), 1e-6), 1e100)
    with np.errstate(over="ignore"):
        best = minimise_over_orders(
            lambda orders: renyi_epsilons(orders, xi + rho * orders, delta), _around(centre), 5
        )
    return max(0.0, min(simple, best))


def zcdp_delta(rho: float, epsilon: float, xi: float = 0.0) -> float:
    """Return ``delta`` at ``epsilon`` of a mechanism with ``D_alpha <= xi + rho alpha``."""
    rho, xi, epsilon = (
        check_non_negative("rho", rho),
        check_non_negative("xi", xi),
        check_epsilon(epsilon),
    )
    if rho == 0.0 and epsilon >= xi:
        return 0.0
    if math.isinf(rho + xi):
        return 1.0
    centre = min(max((epsilon - xi - rho) / (2.0 * rho), 1e-3), 1e100) if rho > 0.0 else 1e-3
    with np.errstate(over="ignore"):
        best = minimise_over_orders(
            lambda orders: renyi_log_deltas(orders, xi + rho * orders, epsilon), _around(centre), 5
        )
    return round_delta(best)


def round_delta(log_delta: float) -> float:
    """Return ``e^log_delta``, rounded up, in ``(0, 1]``."""
    return min(1.0, math.nextafter(math.exp(min(log_delta, 0.0)), 2.0))


def envelope(losses: Array, deltas: Array, alphas: Array) -> Array:
    """Return a lower bound of the trade-off curve from proved points ``(epsilon, delta)``.

    It is the maximum over the points of
    ``max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))``, rounded down.
    """
    curve = np.zeros_like(alphas)
    for epsilon, delta in zip(losses, deltas, strict=True):
        if epsilon > 700.0:
            continue
        steep = 1.0 - delta - math.exp(epsilon) * alphas * (1.0 + 8 * _SLACK) - _SLACK
        flat = math.exp(-epsilon) * (1.0 - 8 * _SLACK) * (1.0 - delta - alphas) - _SLACK
        curve = np.maximum(curve, np.maximum(steep, flat))
    return np.asarray(curve)


def _lossless(orders: Array, divergences: Array, epsilon: float) -> Array:
    """Return the ``ln delta`` that each order implies: the minimum of the bounds of this module."""
    best = renyi_log_deltas(orders, divergences, epsilon)
    finite = np.isfinite(divergences)
    if epsilon > _LARGEST or not finite.any():
        return best
    order, rho = orders[finite, None], divergences[finite, None]
    power = order - 1.0
    ratio = np.log1p(1.0 / power)

    def growth(r: Array) -> Array:
        beta = 1.0 / np.expm1(r)
        return np.asarray(r / power + np.log1p(beta * -np.expm1(-r / power)))

    def proved(r: Array) -> Array:
        growth_rate = growth(r)
        size = 4.0 + epsilon + growth_rate + r / power + ratio
        log_x = np.minimum(0.0, epsilon + ratio - growth_rate - _SLACK * size)
        exponent = power * (rho - log_x)
        gain = np.expm1(exponent) / order * (1.0 + _SLACK * (4.0 + exponent))
        gain += power / order * np.expm1(log_x) * (1.0 - 4.0 * _SLACK)
        value = np.log(gain) - (r + np.log(-np.expm1(-r)))
        value += _SLACK * (4.0 + np.abs(np.log(gain)) + r)
        return np.where(np.isnan(value), math.inf, value)

    with np.errstate(all="ignore"):
        high = power * (epsilon + ratio)  # growth(r) >= r / power
        low = 1e-12 * high
        for _ in range(60):  # the smallest r with x_0 <= 1
            middle = np.sqrt(low * high)
            growing = growth(middle) < epsilon + ratio
            low, high = np.where(growing, middle, low), np.where(growing, high, middle)
        r = high + power * (epsilon + ratio) * np.append(0.0, np.geomspace(1e-12, 1e4, 129))
        for _ in range(4):
            value = proved(r)
            best[finite] = np.minimum(best[finite], value.min(axis=1))
            i = np.argmin(value, axis=1)[:, None]
            start = np.take_along_axis(r, np.maximum(i - 1, 0), axis=1)
            end = np.take_along_axis(r, np.minimum(i + 1, r.shape[1] - 1), axis=1)
            r = start + (end - start) * np.linspace(0.0, 1.0, 21)
        difference = (divergences - epsilon) + _SLACK * (divergences + epsilon)
        certain = np.log(-np.expm1(-difference)) + _SLACK
    applies = difference >= np.log1p(1.0 / (orders - 1.0)) + 4.0 * _SLACK * (divergences + epsilon)
    return np.where(applies, np.minimum(best, certain), best)


def _around(centre: float) -> Array:
    return 1.0 + centre * np.geomspace(1e-3, 1e3, 121)


def _check(orders: npt.ArrayLike, divergences: npt.ArrayLike) -> tuple[Array, Array]:
    alphas = check_orders(orders)
    bounds = real_array("divergences", divergences)
    if bounds.shape != alphas.shape or not np.all(bounds >= 0.0):
        raise ValueError(
            f"divergences must be non-negative, one for each order, got {shown(divergences)}"
        )
    return alphas, bounds


_POINTS = 9

ORDERS: tuple[float, ...] = (
    *(1.0 + np.geomspace(1e-4, 9.0, 40)).tolist(),
    *(float(order) for order in range(11, 20)),
    *np.round(np.geomspace(20.0, 1e6, 76)).tolist(),
)
"""Real orders, dense near 1 for little noise, then integers in steps of 15 % up to a million for
much noise. Minima over these orders are refined between them."""


def check_orders(orders: npt.ArrayLike) -> Array:
    """Return finite real orders above one, increasing, as a float64 vector."""
    values = real_array("orders", orders)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"orders must be a non-empty sequence, got {shown(orders)}")
    if not (np.all(np.diff(values) > 0.0) and values[0] > 1.0 and values[-1] < np.inf):
        raise ValueError(f"orders must be increasing, finite and above 1, got {shown(orders)}")
    return values


def minimise_over_orders(
    objective: Callable[[Array], Array], orders: Array, rounds: int = 3
) -> float:
    """Return the minimum of ``objective`` on ``orders`` and on finer grids around the minimiser.

    The result is a value of the objective, for any shape of it.
    """
    values = objective(orders)
    best = float(np.min(values))
    for _ in range(rounds):
        i = int(np.argmin(values))
        start, end = orders[max(i - 1, 0)], orders[min(i + 1, orders.size - 1)]
        if not start < end or not np.isfinite(best):
            break
        orders = np.unique(1.0 + np.geomspace(start - 1.0, end - 1.0, _POINTS + 2))
        values = objective(orders)
        best = min(best, float(np.min(values)))
    return best
