"""The moment ``ln int P^a Q^(1-a)`` of a weighted list of outcomes, without cancellation.

With ``L = ln(P/Q)`` the moment exceeds one by sums of non-negative terms alone:

    int P^a Q^(1-a) - 1 = (a - 1) int Q chi(P/Q) + int P psi((a - 1) L),
    chi(r) = r ln r - r + 1,    psi(x) = e^x - 1 - x,

so a divergence of 1e-20 is known as well as one of order one: neither the outcomes that balance
each other nor orders close to one lose digits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import SMALLEST

Array = npt.NDArray[np.float64]

_U = 2.0**-53  # unit roundoff of float64
_MAX_EXPONENT = 500.0  # larger ones are summed in log space; what exceeds one is then everything
_CELLS = 500_000
# chi(1 + u) = u^2 sum_k (-u)^k / ((k + 1)(k + 2)), and psi(x) = x^2 sum_k x^k / (k + 2)!
_CHI = np.array([1.0 / ((k + 1) * (k + 2)) for k in range(28)])
_PSI = np.array([1.0 / math.factorial(k + 2) for k in range(13)])


def upper_log_moment(
    orders: Array,
    log_base: Array,
    log_ratio: Array,
    excess: Array,
    *,
    slack: float,
    error: float = 0.0,
    factor: float = 1.0,
) -> Array:
    """Upper bounds of ``ln(1 + factor * (M - 1))``, where ``M = int P^a Q^(1-a)``.

    Parameters
    ----------
    orders : Array
        The ``a > 1``.
    log_base : Array
        ``ln(Q)`` of every outcome, or of every node of a quadrature with its weight.
    log_ratio, excess : Array
        ``ln(P/Q)``, and ``P/Q - 1``; the latter is read where it is below 1/4 in modulus.
    slack : float
        Bound of the relative rounding error of any term.
    error : float
        Bound of what the nodes miss, in units of ``M + 1 + 2a``.
    factor : float
        At least one.
    """
    small = np.abs(excess) <= 0.25
    u = np.where(small, excess, 0.0)
    base, top = np.exp(log_base), np.exp(log_base + log_ratio)
    chi = base * u * u * np.polynomial.polynomial.polyval(-u, _CHI)
    divergence = float(np.sum(np.where(small, chi, top * log_ratio - top + base)))
    rows = max(1, _CELLS // log_base.size)
    return np.concatenate(
        [
            _rows(orders[i : i + rows], log_base, log_ratio, top, divergence, slack, error, factor)
            for i in range(0, orders.size, rows)
        ]
    )


def _rows(
    orders: Array,
    log_base: Array,
    log_ratio: Array,
    top: Array,
    divergence: float,
    slack: float,
    error: float,
    factor: float,
) -> Array:
    x = (orders - 1.0)[:, None] * log_ratio
    exponent = x + (log_base + log_ratio)
    peak = np.max(exponent, axis=1)
    large = peak > _MAX_EXPONENT
    moment = np.empty_like(orders)
    if np.any(large):
        peaks = peak[large]
        total = np.sum(np.exp(exponent[large] - peaks[:, None]), axis=1)
        moment[large] = math.log(factor) + peaks + np.log(total) + slack + 2.0 * error
        x, exponent = x[~large], exponent[~large]
    some = orders[~large]
    near = np.abs(x) <= 0.5
    values = np.exp(exponent) - top * (1.0 + x)
    values[near] = np.broadcast_to(top, x.shape)[near] * _near_psi(x[near])
    above_one = (some - 1.0) * divergence + np.sum(values, axis=1)
    missed = error * (above_one + 2.0 + 2.0 * some)
    moment[~large] = np.log1p(factor * (above_one * (1.0 + slack) + missed))
    return moment


def psi(x: Array) -> Array:
    """``e^x - 1 - x`` to full relative precision."""
    near = np.abs(x) <= 0.5
    return np.where(near, _near_psi(np.where(near, x, 0.0)), np.expm1(x) - x)


def _near_psi(x: Array) -> Array:
    """The same by its series, for ``|x| <= 1/2``."""
    value = np.full_like(x, _PSI[-1])
    for coefficient in _PSI[-2::-1]:
        value *= x
        value += coefficient
    return value * x * x


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
