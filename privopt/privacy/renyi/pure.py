"""Rényi divergences of releases with pure differential privacy, rounded up."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from privopt.privacy.renyi.moment import psi, upper_log_moment
from privopt.privacy.sums import SMALLEST, half_square

__all__ = ["bounded_range", "laplace", "pure", "randomised_response", "response_loss"]

Array = npt.NDArray[np.float64]

_U = 2.0**-53


def laplace(t: float, orders: Array) -> Array:
    """``D_alpha`` of Laplace noise under a shift of ``t`` scales, both ways alike.

    ``(alpha - 1) D = ln[alpha e^((alpha-1)t) + (alpha-1) e^(-alpha t)] - ln(2 alpha - 1)``; near
    zero as ``ln(1 + [alpha psi((alpha-1)t) + (alpha-1) psi(-alpha t)] / (2 alpha - 1))`` with
    ``psi(x) = e^x - 1 - x``, where nothing cancels.

    Source: Mironov, "Rényi differential privacy", CSF 2017 (arXiv:1702.07476), Proposition 6.
    """
    if t == 0.0 or math.isinf(t):
        return np.full_like(orders, t)
    t *= 1.0 + 2 * _U
    power = orders - 1.0
    x = np.minimum(power * t, 500.0)
    slack = _U * (64.0 + 8.0 * orders * t)
    above_one = (orders * psi(x) + power * psi(-orders * t)) / (2.0 * orders - 1.0)
    near = np.log1p(above_one * (1.0 + slack))
    # ln(alpha / (2 alpha - 1)) < 0; the second exponential is at most e^(-alpha t) of the first.
    far = power * t + np.log(orders / (2.0 * orders - 1.0)) + np.exp(-orders * t) + slack
    divergence = np.where(power * t < 500.0, near, far) / power * (1.0 + 8 * _U)
    return np.maximum(np.minimum(divergence, t), SMALLEST)


def randomised_response(p: float, k: int, orders: Array) -> Array:
    """``D_alpha`` of ``k`` buckets and noise ``p`` between two buckets, exact up to rounding.

    The outcomes ``1 - p + p/k`` and ``p/k`` change places, so both orders agree.
    """
    if p in (0.0, 1.0):
        return np.full_like(orders, math.inf if p == 0.0 else 0.0)
    rare, common = p / k, 1.0 - p + p / k
    if rare < 1e-290:
        return np.full_like(orders, (math.log(k) - math.log(p)) * (1.0 + 8 * _U))
    loss = response_loss(p, k)
    return _swapped(loss, math.log(rare), math.log(common), -(1.0 - p) / common, orders)


def response_loss(p: float, k: int) -> float:
    """The loss ``ln(1 + (1 - p) k / p)`` of randomised response, to a relative ``2^-50``."""
    if p == 0.0:
        return math.inf
    odds = (1.0 - p) * (k / p)
    return math.log1p(odds) if odds < 1e300 else math.log((1.0 - p) * k) - math.log(p)


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
    return _swapped(epsilon, rare, rare + epsilon, math.expm1(-epsilon), orders)


def bounded_range(span: float, orders: Array) -> Array:
    """``D_alpha`` of any release whose losses span at most ``epsilon``.

    With losses in ``[t - epsilon, t]`` the moment is largest for two outcomes. Over ``t``,
    ``e^t = (alpha - 1) A / (alpha B)`` is the worst, of ``A = 1 - e^(-alpha epsilon)`` and
    ``B = e^-epsilon - e^(-alpha epsilon)``, where

        D = t + ln[A / (alpha (1 - e^-epsilon))] / (alpha - 1).

    It is at most ``epsilon``, and at most ``alpha epsilon^2 / 8``: ``ln E_Q e^(alpha L)`` is zero
    at ``alpha = 0`` and ``1``, and its second derivative, a variance, at most ``epsilon^2 / 4``.

    Source: Cesar and Rogers, "Bounding, concentrating, and truncating", ALT 2021
    (arXiv:2004.07223), for the second bound; Dong, Durfee and Rogers, ICML 2020
    (arXiv:1909.13830), for the worst two outcomes.
    """
    if span == 0.0 or span > 1e100:
        return np.full_like(orders, span)
    power = orders - 1.0
    smooth = np.maximum(orders * (0.25 * half_square(span)) * (1.0 + 8 * _U), SMALLEST)
    a, b = -np.expm1(-orders * span), -np.expm1(-power * span)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        t = span + np.log(power) - np.log(orders) + np.log(a) - np.log(b)
        rest = (np.log(a) - np.log(orders) - math.log(-math.expm1(-span))) / power
        size = (span + np.log1p(orders) + np.abs(np.log(a))) * (1.0 + 1.0 / power)
        size += np.abs(np.log(power)) + np.abs(np.log(b)) + abs(math.log(span)) / power
        exact = t + rest + 32 * _U * (size + 1.0)
    exact = np.where(np.isnan(exact), math.inf, exact)
    return np.asarray(np.minimum(np.minimum(exact, smooth), span * (1.0 + 8 * _U)))


def _swapped(loss: float, rare: float, common: float, deficit: float, orders: Array) -> Array:
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
