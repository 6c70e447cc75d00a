"""Moments of mixtures of Gaussians, by quadrature with proved errors.

In units of the noise, with ``r(y) = 1 - q + q e^(s y - s^2/2)`` the ratio of
``(1 - q) N(0, 1) + q N(s, 1)`` to ``N(0, 1)``.

The trapezoid rule integrates over the line, and its error is a theorem: for ``f`` analytic in the
strip ``|Im y| < a`` with ``int |f(y + ib)| dy <= M`` there, step ``h`` errs by at most
``2M / (e^(2 pi a / h) - 1)``. Since ``|r(y + ib)| <= r(y)`` and
``|phi(y + ib)| <= e^(b^2/2) phi(y)``, the moment itself times ``e^(a^2/2)`` serves as ``M``; a
denominator ``r(-y)^(alpha - 1)`` adds the factor ``cos(a s / 2)^(1 - alpha)``. The strip ends where
``r`` vanishes, at ``a = pi / s``, unless its power is an integer and no denominator.

What lies beyond the nodes is at most ``e^-digits`` of the moment: to the right of ``alpha s`` (of
``(alpha + (alpha - 1) q) s`` for the mirrored pair) the logarithm of the integrand falls at least
as fast as that of a Gaussian, and far to the left the integrand is at most ``alpha phi``.

Source: Trefethen and Weideman, "The exponentially convergent trapezoidal rule", SIAM Review 2014,
Theorem 5.1; Trefethen, "Approximation theory and approximation practice", Theorem 19.3, for the
Gauss-Legendre panels of the half-line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from privopt.privacy.renyi.moment import upper_log_moment

Array = npt.NDArray[np.float64]
Method = Callable[[float, float, Array], Array]

_U = 2.0**-53
_MAX_NODES = 16_384  # at most
_DEGREE = 20
_GAUSS = np.polynomial.legendre.leggauss(_DEGREE)


def upper_log_moments(method: Method, q: float, s: float, alphas: Array) -> Array:
    """What ``method`` bounds, at increasing ``alphas``; by a closed form where it is as good."""
    with np.errstate(over="ignore"):
        gap = np.log(alphas) - 0.5 * s * s * (alphas - 1.0) - math.log(q) - math.log1p(-q)
    moment = np.empty_like(alphas)
    large = gap < -28.0  # what the triangle inequality may lose, relative to alpha
    if np.any(large):
        moment[large] = _CLOSED[method](q, s, alphas[large])
    rest = np.flatnonzero(~large)
    for block in _blocks(alphas[rest]):
        moment[rest[block]] = method(q, s, alphas[rest[block]])
    return moment


def _blocks(orders: Array) -> Iterator[npt.NDArray[np.intp]]:
    """Indices of orders that can share one quadrature: alike in size, all integers or none."""
    size = np.floor(0.5 * np.log2(orders))
    kind = 2.0 * size + (orders == np.floor(orders))
    for each in np.unique(kind):
        yield np.flatnonzero(kind == each)


def one_sided(q: float, s: float, alphas: Array) -> Array:
    """``ln E[r^alpha]`` for ``N(0, 1)``, by the trapezoid rule."""
    digits = _digits(q, s, alphas)
    reach, whole = math.sqrt(2.0 * digits), bool(alphas[0] == math.floor(alphas[0]))
    step = _step(digits, math.inf if whole else math.pi / s, 0.0, 0.0)
    right = float(alphas[-1]) * s + reach
    if right + reach > step * _MAX_NODES:
        return _one_by_one(one_sided, q, s, alphas)
    t = _nodes(step, -reach - 0.5 * s, right)
    log_base = math.log(step / math.sqrt(2.0 * math.pi)) - 0.5 * (t + 0.5 * s) ** 2
    log_ratio, excess = _ratio(q, s * t)
    slack, error = _slack(q, s, alphas, right, t.size), 3.0 * math.exp(-digits)
    return upper_log_moment(alphas, log_base, log_ratio, excess, slack=slack, error=error)


def mirrored(q: float, s: float, alphas: Array) -> Array:
    """``ln int P^alpha Q^(1 - alpha)`` of the mixture and its mirror image, likewise."""
    digits = _digits(q, s, alphas)
    reach, alpha = math.sqrt(2.0 * digits), float(alphas[-1])
    step = _step(digits, 0.999 * math.pi / s, 0.5 * s, alpha - 1.0)
    right = (alpha + (alpha - 1.0) * q) * s + reach
    if right + reach + s > step * _MAX_NODES:
        return _one_by_one(mirrored, q, s, alphas)
    y = _nodes(step, -reach - s, right)
    drift = math.log(q) - 0.5 * s * s
    top = np.logaddexp(math.log1p(-q), drift + s * y)
    bottom = np.logaddexp(math.log1p(-q), drift - s * y)
    size = s * np.abs(y)
    excess = -np.sign(y) * np.exp(np.minimum(drift + size - bottom, 1.0)) * np.expm1(-2.0 * size)
    close = np.abs(excess) <= 0.5
    log_ratio = np.where(close, np.log1p(np.where(close, excess, 0.0)), top - bottom)
    log_base = math.log(step / math.sqrt(2.0 * math.pi)) - 0.5 * y * y + bottom
    slack, error = 2.0 * _slack(q, s, alphas, right, y.size), 3.0 * math.exp(-digits)
    return upper_log_moment(alphas, log_base, log_ratio, excess, slack=slack, error=error)


def half_line(q: float, s: float, alphas: Array) -> Array:
    """``ln(1 + 2 E[g_alpha(r) 1{r > 1}])`` for ``N(0, 1)``, by Gauss-Legendre panels."""
    digits = _digits(q, s, alphas)
    reach = math.sqrt(2.0 * digits)
    length = float(alphas[-1]) * s + reach
    strip = 6.3 if alphas[0] == math.floor(alphas[0]) else min(6.3, math.pi / s)
    half = 1.5
    while _panel_error(half, strip, length) > -digits:
        half *= 0.75
    panels = math.ceil(0.5 * length / half)
    if panels * _DEGREE > _MAX_NODES:
        return _one_by_one(half_line, q, s, alphas)
    t = (half * (2.0 * np.arange(panels)[:, None] + 1.0 + _GAUSS[0])).ravel()
    weights = np.tile(half / math.sqrt(2.0 * math.pi) * _GAUSS[1], panels)
    log_base = np.log(weights) - 0.5 * (t + 0.5 * s) ** 2
    log_ratio, excess = _ratio(q, s * t)
    slack, error = _slack(q, s, alphas, length, t.size), 3.0 * math.exp(-digits)
    return upper_log_moment(
        alphas, log_base, log_ratio, excess, slack=slack, error=error, factor=2.0
    )


def _nodes(step: float, left: float, right: float) -> Array:
    """Multiples of ``step`` that reach beyond both ends."""
    return step * np.arange(math.floor(left / step), math.ceil(right / step) + 1, dtype=np.float64)


def _ratio(q: float, loss: Array) -> tuple[Array, Array]:
    """``ln r`` and ``r - 1`` (read only where small) at ``s y - s^2/2 = loss``."""
    excess = q * np.expm1(np.minimum(loss, 700.0))
    close = np.abs(excess) <= 0.5
    far = np.logaddexp(math.log1p(-q), math.log(q) + loss)
    return np.where(close, np.log1p(np.where(close, excess, 0.0)), far), excess


def _digits(q: float, s: float, alphas: Array) -> float:
    """How far below the moment, in nats, what is left out must lie to be of no account."""
    alpha = float(alphas[0])
    least = 0.25 * alpha * (alpha - 1.0) * (q * min(1.0, s)) ** 2
    return 40.0 + math.log(2.0 + 2.0 * float(alphas[-1])) - math.log(min(1.0, max(least, 1e-300)))


def _step(digits: float, strip: float, half_angle: float, power: float) -> float:
    """The longest step of the trapezoid rule whose relative error is ``e^-digits``."""
    a = np.linspace(0.02, 1.0, 50) * min(strip, 40.0)
    bound = 0.5 * a * a - power * np.log(np.cos(half_angle * a))
    return float(np.max(2.0 * math.pi * a / (digits + math.log(2.0) + bound)))


def _panel_error(half: float, strip: float, length: float) -> float:
    """Log of the error of Gauss-Legendre panels, in units of ``moment + 1 + 2 alpha``.

    On the ellipse of height ``strip`` the integrand is at most ``e^(strip^2/2)`` times its largest
    real value, itself at most ``moment / sqrt(2 pi)``: its logarithm curves down by one at most.
    """
    rho = strip / half + math.hypot(1.0, strip / half)
    total = 64.0 / 15.0 * (0.5 * length + half) / math.sqrt(2.0 * math.pi)
    return (
        math.log(total)
        + 0.5 * strip * strip
        - 2.0 * _DEGREE * math.log(rho)
        - math.log1p(-(rho**-2.0))
    )


def _slack(q: float, s: float, alphas: Array, right: float, nodes: int) -> float:
    """Bound of the relative rounding error of one term: that of its exponent, and a few units."""
    exponent = 2.0 - math.log(q) - math.log1p(-q) + s * right + s * s
    return _U * (8.0 * (float(alphas[-1]) * exponent + right * right) + nodes + 64.0)


def _one_by_one(method: Method, q: float, s: float, alphas: Array) -> Array:
    """A block with too many nodes: its halves, in the end single orders by what is closed."""
    if alphas.size == 1:
        return _CLOSED[method](q, s, alphas)
    middle = alphas.size // 2
    return np.concatenate([method(q, s, alphas[:middle]), method(q, s, alphas[middle:])])


def _minkowski(q: float, s: float, alphas: Array) -> Array:
    """``ln E[r^alpha] <= alpha ln(1 - q + q e^((alpha - 1) s^2 / 2))``, by the triangle inequality.

    Where a real order cannot be integrated the integers beside it may: moments are log-convex.
    """
    whole = math.log(q) + (alphas - 1.0) * (0.5 * s * s)
    bound = alphas * np.logaddexp(math.log1p(-q), whole) * (1.0 + 32 * _U) + alphas * 32 * _U
    floor = math.floor(alphas[0])
    if alphas.size == 1 and floor < alphas[0]:
        right = one_sided(q, s, np.array([floor + 1.0]))
        left = one_sided(q, s, np.array([float(floor)])) if floor > 1 else 0.0 * right
        chord = (floor + 1.0 - alphas) * left + (alphas - floor) * right
        bound = np.minimum(bound, chord * (1.0 + 32 * _U))
    return np.asarray(bound)


def _beyond(q: float, s: float, alphas: Array) -> Array:
    """The mirrored pair: leave out ``q N(-s, 1)`` below; or joint convexity, if less."""
    part = _minkowski(q, s, alphas) - (alphas - 1.0) * math.log1p(-q)
    whole = math.log(q) + 2.0 * s * s * alphas * (alphas - 1.0)
    mixed = np.logaddexp(math.log1p(-q), whole)
    return np.asarray(np.minimum(part, mixed) * (1.0 + 32 * _U) + 32 * _U)


def _doubled(q: float, s: float, alphas: Array) -> Array:
    """``ln(1 + 2 (M - 1))`` of a bound of the moment ``M`` on the whole line."""
    moment = one_sided(q, s, alphas) if alphas.size == 1 else _minkowski(q, s, alphas)
    near = np.log1p(2.0 * np.expm1(np.minimum(moment, 30.0)))
    return np.where(moment > 30.0, moment + math.log(2.0), near) * (1.0 + 32 * _U)


_CLOSED: dict[Method, Method] = {
    one_sided: _minkowski,
    mirrored: _beyond,
    half_line: _doubled,
}
