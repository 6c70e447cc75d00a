"""The exact privacy profile of Gaussian noise, with certified rounding.

Two outputs that differ by ``mu`` standard deviations, ``N(0, 1)`` against ``N(mu, 1)``, have the
hockey-stick divergence

    delta(epsilon; mu) = Phi(-a) - e^epsilon Phi(-b),   a, b = epsilon / mu -+ mu / 2.

A mechanism is ``mu``-GDP if its outputs on neighbours are no easier to distinguish. The two terms
cancel and the second one overflows. The profile is therefore evaluated through the Mills ratio
``R(x) = Phi(-x) / phi(x)``. Since ``e^epsilon phi(b) = phi(a)``,

    delta = phi(a) [R(a) - R(b)] = phi(a) int_a^b (1 - x R(x)) dx,

a product of positive numbers. The integral (Gauss-Legendre) is used for small ``mu``, for which
the difference would cancel.

Sources: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018,
Theorem 8; Dong, Roth and Su 2022 (arXiv:1905.02383, Corollary 2.13).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, ndtr, ndtri

from privopt.arguments import checked
from privopt.privacy.numbers import (
    SMALLEST,
    Array,
    Interval,
    U,
    check_alpha,
    check_delta,
    check_epsilon,
    check_non_negative,
    false_position,
    real,
)

_CLOSE = 2.0**-50  # relative accuracy of inverses
_NEAR = 1e-9  # relative distance of the ends of an inverse, usually
_ROOT_OF_TWO, _MILLS_FACTOR = math.sqrt(2.0), math.sqrt(0.5 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS  # on [0, 1]


@checked
def gaussian_delta(epsilon: float, *, mu: float) -> Interval:
    """Return ``delta(epsilon; mu)`` of ``N(0, 1)`` against ``N(mu, 1)``.

    Parameters
    ----------
    epsilon : float
        Any real number or infinity. Negative values give the hockey-stick divergence of an order
        below one, which dominating pairs use.
    mu : float
        Sensitivity divided by the noise standard deviation, in ``[0, inf]``.

    Returns
    -------
    Interval
        Contains the true value. The relative width is about
        ``2e-15 [(2 + |a|)(2 + b) + |ln delta|]``, below 1e-10 for ``mu <= 1e3`` and
        ``delta >= 1e-300``.

    Examples
    --------
    >>> round(gaussian_delta(1.0, mu=1.0).upper, 6)
    0.126937
    """
    epsilon, mu = real("epsilon", epsilon), check_non_negative("mu", mu)
    if epsilon < 0.0:  # both orders of the pair have the same curve
        rest = gaussian_delta(-epsilon, mu=mu)
        gap, ratio = -math.expm1(epsilon), math.exp(epsilon)
        return Interval(
            (gap + ratio * rest.lower) * (1.0 - 8 * U),
            min(1.0, (gap + ratio * rest.upper) * (1.0 + 8 * U)),
        )
    if mu == 0.0 or (math.isinf(epsilon) and not math.isinf(mu)):
        return Interval(0.0, 0.0)
    if math.isinf(mu):
        return Interval(1.0, 1.0)
    lower, upper = log_delta_bounds(epsilon, mu)
    return Interval(max(0.0, math.nextafter(math.exp(lower), -1.0)), _exp_up(upper))


def _exp_up(log_delta: float) -> float:
    """Return a probability that is at least ``exp(log_delta)``."""
    return min(1.0, math.nextafter(math.exp(log_delta), 2.0))


@checked
def gaussian_epsilon(delta: float, *, mu: float) -> Interval:
    """Return the smallest ``epsilon >= 0`` with ``delta(epsilon; mu) <= delta``.

    It is zero once ``delta`` reaches the total variation distance ``delta(0; mu)``, and infinite
    for ``delta = 0`` unless ``mu = 0``. The certified profile was evaluated at both ends.

    Examples
    --------
    >>> round(gaussian_epsilon(1e-6, mu=1.0).upper, 4)
    4.8866
    """
    delta, mu = check_delta(delta), check_non_negative("mu", mu)
    return Interval(smallest_epsilon(delta, mu), largest_epsilon(delta, mu))


@lru_cache(maxsize=4096)  # plans with the same noise ask for the same epsilon
def largest_epsilon(delta: float, mu: float) -> float:
    """Return an epsilon at which the certified ``delta(epsilon; mu)`` does not exceed ``delta``."""
    if mu == 0.0:
        return 0.0
    if delta == 0.0 or math.isinf(mu):
        return math.inf
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        return log_delta_bounds(epsilon, mu)[1] - target

    if excess(0.0) <= 0.0:
        return 0.0
    # delta(epsilon; mu) <= exp(-a^2 / 2), so this suffices up to rounding.
    largest = mu * (math.sqrt(-2.0 * target) + 0.5 * mu)
    while excess(largest) > 0.0:
        largest *= 2.0
    return false_position(excess, largest, 0.0, relative=_CLOSE)[0]


@lru_cache(maxsize=4096)
def smallest_epsilon(delta: float, mu: float) -> float:
    """Return an epsilon below which ``delta(epsilon; mu)`` is certified to exceed ``delta``."""
    upper = largest_epsilon(delta, mu)
    if mu == 0.0 or delta == 0.0 or math.isinf(mu):
        return upper
    target = math.log(delta)

    def missing(epsilon: float) -> float:
        return target - log_delta_bounds(epsilon, mu)[0]

    if not missing(0.0) <= 0.0 < missing(upper):
        return 0.0
    close = upper * (1.0 - _NEAR)
    lower = close if missing(close) <= 0.0 else 0.0
    return false_position(missing, lower, upper, relative=_CLOSE)[0]


@checked
@lru_cache(maxsize=4096, typed=True)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest ``mu`` whose certified ``delta(epsilon; mu)`` does not exceed ``delta``.

    The noise standard deviation that meets ``(epsilon, delta)`` at sensitivity ``Delta`` is
    ``Delta / mu``.

    Formal guarantee
    ----------------
    ``gaussian_delta(epsilon, mu=result).upper <= delta``.

    Examples
    --------
    >>> round(gaussian_mu(1.0, 1e-6), 4)
    0.2367
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    return 0.0 if delta == 0.0 else _largest_mu(epsilon, delta)


@lru_cache(maxsize=1024)
def _largest_mu(epsilon: float, delta: float) -> float:
    def excess(mu: float) -> float:
        upper = _exp_up(log_delta_bounds(epsilon, mu)[1])
        size = abs(math.log(upper / delta)) if upper > 0.0 else math.inf
        return -size if upper <= delta else max(size, SMALLEST)

    # delta(epsilon; mu) is at most mu / 2, and at most exp(-a^2 / 2).
    tail = math.sqrt(-2.0 * math.log(delta))
    inside = max(delta, 2.0 * epsilon / (tail + math.sqrt(tail * tail + 2.0 * epsilon)))
    while excess(inside) > 0.0:
        inside *= 0.5
    outside = 2.0 * inside
    while excess(outside) <= 0.0:
        outside *= 2.0
    return false_position(excess, inside, outside, relative=_CLOSE)[0]


@checked
def gaussian_trade_off(alpha: npt.ArrayLike, mu: float) -> Array:
    """Return ``G_mu(alpha) = Phi(Phi^{-1}(1 - alpha) - mu)``, rounded down.

    It is the smallest type-II error of a test of ``N(0, 1)`` against ``N(mu, 1)`` with type-I error
    ``alpha``. The values are below the exact curve by a relative error of about
    ``2e-15 (2 + |y|)(2 + |q| + mu)`` with ``q = Phi^{-1}(alpha)`` and ``y = -q - mu``.

    Examples
    --------
    >>> gaussian_trade_off([0.0, 0.05, 1.0], 1.0).round(4).tolist()
    [1.0, 0.7405, 0.0]
    """
    alpha, mu = check_alpha(alpha), check_non_negative("mu", mu)
    if math.isinf(mu):
        return np.zeros_like(alpha)
    quantile = ndtri(alpha)
    y = -quantile - mu
    error = 16 * U * (2.0 + np.clip(-y, 0.0, 40.0)) * (2.0 + np.clip(abs(quantile), 0, 40) + mu)
    curve = np.nextafter(ndtr(y) * (1.0 - np.minimum(error, 1.0)), -1.0)
    return np.where(alpha == 0.0, 1.0, np.maximum(curve, 0.0))


def log_delta_bounds(epsilon: float, mu: float) -> tuple[float, float]:
    """Return bounds of ``ln delta(epsilon; mu)`` for finite ``epsilon >= 0`` and ``mu > 0``.

    The error bound ``8u [(2 + |a|)(2 + b) + |ln delta|]`` covers the rounding of ``a`` (``2ub``,
    multiplied by ``a``), the Mills ratio and its cancellation (of order ``1 + a^2``), and the
    logarithms here and in comparisons of the caller.
    """
    a, b = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
    slack = 4 * U * b  # more than twice the rounding error of a
    if math.isinf(a) or a - slack > 39.0:  # delta < Phi(-39) < e^-764, below every float64
        return -math.inf, -750.0
    if a + slack < -20.0:  # 1 - delta < 2 Phi(-20) < e^-202
        return -U, 0.0
    if slack > 1.0:
        return -math.inf, 0.0
    if mu <= 1.0:
        x = a + mu * _NODES
        mills = mu * float(_WEIGHTS @ (1.0 - x * _mills_ratio(x)))
    else:
        mills = float(_mills_ratio(a) - _mills_ratio(b))
    value = math.log(mills) - 0.5 * a * a - 0.5 * math.log(2.0 * math.pi)
    error = 8 * U * ((2.0 + abs(a)) * (2.0 + b) - value)
    return value - error, min(0.0, value + error)


def _mills_ratio(x: float | Array) -> float | Array:
    """Return ``R(x) = Phi(-x) / phi(x)``, positive and decreasing, for ``x > -37``."""
    return _MILLS_FACTOR * erfcx(x / _ROOT_OF_TWO)
