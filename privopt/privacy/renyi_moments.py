"""Rényi divergences by sums and quadrature, with certified errors and without cancellation.

With ``L = ln(P/Q)``, the moment exceeds one by sums of non-negative terms:

    int P^a Q^(1-a) - 1 = (a - 1) int Q chi(P/Q) + int P psi((a - 1) L),
    chi(r) = r ln r - r + 1,    psi(x) = e^x - 1 - x.

For sampled Gaussian noise, in units of the noise, one record shifts the output by ``s``, and
``r(y) = 1 - q + q e^(s y - s^2/2)`` is the ratio of ``(1 - q) N(0, 1) + q N(s, 1)`` to ``N(0, 1)``.
The errors of the quadratures are theorems: :ref:`Accountants, Theorem 10 <theory-accountants-10>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from privopt.privacy.numbers import SMALLEST, Array, U

_MAX_EXPONENT = 500.0  # larger ones are summed in log space, where subtracting one has no effect
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
    """Return upper bounds of ``ln(1 + factor * (M - 1))`` with ``M = int P^a Q^(1-a)``.

    Parameters
    ----------
    orders : Array
        The orders ``a > 1``.
    log_base : Array
        ``ln(Q)`` of every outcome, or of every node of a quadrature with its weight.
    log_ratio, excess : Array
        ``ln(P/Q)``, and ``P/Q - 1``, which is used if its modulus is below 1/4.
    slack : float
        Bound of the relative rounding error of any term.
    error : float
        Bound of the quadrature error, in units of ``M + 1 + 2a``.
    factor : float
        At least one.
    """
    small = np.abs(excess) <= 0.25
    u = np.where(small, excess, 0.0)
    base, top = np.exp(log_base), np.exp(log_base + log_ratio)
    chi = base * u * u * np.polynomial.polynomial.polyval(-u, _CHI)
    divergence = float(np.sum(np.where(small, chi, top * log_ratio - top + base)))

    def moments(orders: Array) -> Array:
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
        rest = orders[~large]
        near = np.abs(x) <= 0.5
        values = np.exp(exponent) - top * (1.0 + x)
        values[near] = np.broadcast_to(top, x.shape)[near] * _near_psi(x[near])
        above_one = (rest - 1.0) * divergence + np.sum(values, axis=1)
        error_term = error * (above_one + 2.0 + 2.0 * rest)
        moment[~large] = np.log1p(factor * (above_one * (1.0 + slack) + error_term))
        return moment

    rows = max(1, _CELLS // log_base.size)
    return np.concatenate([moments(orders[i : i + rows]) for i in range(0, orders.size, rows)])


def psi(x: Array) -> Array:
    """Return ``e^x - 1 - x`` to full relative precision."""
    near = np.abs(x) <= 0.5
    return np.where(near, _near_psi(np.where(near, x, 0.0)), np.expm1(x) - x)


def _near_psi(x: Array) -> Array:
    """Return ``psi`` by its series, for ``|x| <= 1/2``."""
    value = np.full_like(x, _PSI[-1])
    for coefficient in _PSI[-2::-1]:
        value *= x
        value += coefficient
    return value * x * x


def pure_divergence(epsilon: float, orders: Array) -> Array:
    """Return upper bounds of ``D_alpha`` of any ``epsilon``-DP release.

    The worst case is randomised response on one bit:
    ``(alpha - 1) D = ln[(e^(alpha epsilon) + e^((1-alpha) epsilon)) / (1 + e^epsilon)]``, below
    both ``epsilon`` and ``alpha epsilon^2 / 2``.

    Source: domination by randomised response, Kairouz, Oh and Viswanath 2017 (arXiv:1311.0776).
    """
    if epsilon == 0.0 or epsilon > 1e100:
        return np.full_like(orders, epsilon)
    rare = -epsilon - math.log1p(math.exp(-epsilon))
    return swapped_divergence(epsilon, rare, rare + epsilon, math.expm1(-epsilon), orders)


def swapped_divergence(
    loss: float, rare: float, common: float, deficit: float, orders: Array
) -> Array:
    """Return ``D_alpha`` of two outcomes, if the neighbour swaps their probabilities."""
    loss *= 1.0 + 8 * U
    moment = upper_log_moment(
        orders,
        np.array([rare, common]),
        np.array([loss, -loss]),
        np.array([math.expm1(min(loss, 1.0)), deficit]),
        slack=U * (64.0 + 8.0 * float(np.max(orders)) * min(loss, 800.0)),
    )
    divergence = np.minimum(moment / (orders - 1.0) * (1.0 + 8 * U), loss)
    return np.maximum(divergence, SMALLEST)


Method = Callable[[float, float, Array], Array]

_MAX_NODES = 16_384  # at most
_DEGREE = 20
_GAUSS = np.polynomial.legendre.leggauss(_DEGREE)


def upper_log_moments(method: Method, q: float, s: float, alphas: Array) -> Array:
    """Return upper bounds by ``method``, or by its closed form if that is as good."""
    with np.errstate(over="ignore"):
        gap = np.log(alphas) - 0.5 * s * s * (alphas - 1.0) - math.log(q) - math.log1p(-q)
    moment = np.empty_like(alphas)
    large = gap < -28.0  # then the triangle inequality is tight, relative to alpha
    if np.any(large):
        moment[large] = _CLOSED[method](q, s, alphas[large])
    remaining = np.flatnonzero(~large)
    for block in _blocks(alphas[remaining]):
        moment[remaining[block]] = method(q, s, alphas[remaining[block]])
    return moment


def _blocks(orders: Array) -> Iterator[npt.NDArray[np.intp]]:
    """Yield indices of orders for one quadrature: of similar size, and all integers or none."""
    size = np.floor(0.5 * np.log2(orders))
    kind = 2.0 * size + (orders == np.floor(orders))
    for each in np.unique(kind):
        yield np.flatnonzero(kind == each)


def one_sided(q: float, s: float, alphas: Array) -> Array:
    """Return ``ln E[r^alpha]`` for ``N(0, 1)``, by the trapezoid rule."""
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
    """Return ``ln int P^alpha Q^(1 - alpha)`` of the mixture and its mirror image."""
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
    """Return ``ln(1 + 2 E[g_alpha(r) 1{r > 1}])`` for ``N(0, 1)``, by Gauss-Legendre panels."""
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
    """Return multiples of ``step`` from below ``left`` to above ``right``."""
    return step * np.arange(math.floor(left / step), math.ceil(right / step) + 1, dtype=np.float64)


def _ratio(q: float, loss: Array) -> tuple[Array, Array]:
    """Return ``ln r`` and ``r - 1`` (valid only if small) at ``s y - s^2/2 = loss``."""
    excess = q * np.expm1(np.minimum(loss, 700.0))
    close = np.abs(excess) <= 0.5
    far = np.logaddexp(math.log1p(-q), math.log(q) + loss)
    return np.where(close, np.log1p(np.where(close, excess, 0.0)), far), excess


def _digits(q: float, s: float, alphas: Array) -> float:
    """Return the logarithm of the ratio of the moment to the mass that may be neglected."""
    alpha = float(alphas[0])
    least = 0.25 * alpha * (alpha - 1.0) * (q * min(1.0, s)) ** 2
    return 40.0 + math.log(2.0 + 2.0 * float(alphas[-1])) - math.log(min(1.0, max(least, 1e-300)))


def _step(digits: float, strip: float, half_angle: float, power: float) -> float:
    """Return the longest step of the trapezoid rule with the relative error ``e^-digits``."""
    a = np.linspace(0.02, 1.0, 50) * min(strip, 40.0)
    bound = 0.5 * a * a - power * np.log(np.cos(half_angle * a))
    return float(np.max(2.0 * math.pi * a / (digits + math.log(2.0) + bound)))


def _panel_error(half: float, strip: float, length: float) -> float:
    """Return the logarithm of the error of the panels, in units of ``moment + 1 + 2 alpha``.

    On the ellipse of height ``strip`` the integrand is at most ``e^(strip^2/2)`` times its largest
    real value, which is at most ``moment / sqrt(2 pi)``, because the second derivative of its
    logarithm is at least -1.
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
    """Return a bound of the relative rounding error of one term."""
    exponent = 2.0 - math.log(q) - math.log1p(-q) + s * right + s * s
    return U * (8.0 * (float(alphas[-1]) * exponent + right * right) + nodes + 64.0)


def _one_by_one(method: Method, q: float, s: float, alphas: Array) -> Array:
    """Split a block with too many nodes; use the closed form for single orders."""
    if alphas.size == 1:
        return _CLOSED[method](q, s, alphas)
    middle = alphas.size // 2
    return np.concatenate([method(q, s, alphas[:middle]), method(q, s, alphas[middle:])])


def _minkowski(q: float, s: float, alphas: Array) -> Array:
    """Return ``alpha ln(1 - q + q e^((alpha - 1) s^2 / 2))``, a bound by the triangle inequality.

    If a real order cannot be integrated, the two integers around it may be: moments are
    log-convex.
    """
    whole = math.log(q) + (alphas - 1.0) * (0.5 * s * s)
    bound = alphas * np.logaddexp(math.log1p(-q), whole) * (1.0 + 32 * U) + alphas * 32 * U
    floor = math.floor(alphas[0])
    if alphas.size == 1 and floor < alphas[0]:
        at_ceiling = one_sided(q, s, np.array([floor + 1.0]))
        at_floor = one_sided(q, s, np.array([float(floor)])) if floor > 1 else 0.0 * at_ceiling
        chord = (floor + 1.0 - alphas) * at_floor + (alphas - floor) * at_ceiling
        bound = np.minimum(bound, chord * (1.0 + 32 * U))
    return np.asarray(bound)


def _beyond(q: float, s: float, alphas: Array) -> Array:
    """Return a bound for the mirrored pair: omit ``q N(-s, 1)`` below, or use joint convexity."""
    part = _minkowski(q, s, alphas) - (alphas - 1.0) * math.log1p(-q)
    whole = math.log(q) + 2.0 * s * s * alphas * (alphas - 1.0)
    mixed = np.logaddexp(math.log1p(-q), whole)
    return np.asarray(np.minimum(part, mixed) * (1.0 + 32 * U) + 32 * U)


def _doubled(q: float, s: float, alphas: Array) -> Array:
    """Return ``ln(1 + 2 (M - 1))`` for a bound of the moment ``M`` on the whole line."""
    moment = one_sided(q, s, alphas) if alphas.size == 1 else _minkowski(q, s, alphas)
    near = np.log1p(2.0 * np.expm1(np.minimum(moment, 30.0)))
    return np.where(moment > 30.0, moment + math.log(2.0), near) * (1.0 + 32 * U)


_CLOSED: dict[Method, Method] = {one_sided: _minkowski, mirrored: _beyond, half_line: _doubled}


_UP = 1.0 + 2.0**-51


@lru_cache(maxsize=512)
def poisson_gaussian(q: float, s: float, orders: tuple[float, ...], *, replace: bool) -> Array:
    """Return upper bounds of ``D_alpha`` of a Poisson-sampled Gaussian release; read-only.

    Parameters
    ----------
    q : float
        Sampling rate, in ``[0, 1]``.
    s : float
        Shift divided by the noise standard deviation, in ``[0, inf]``: the inverse noise
        multiplier.
    orders : tuple of float
        Above one.
    replace : bool
        True if a record is replaced; False if it is added, removed or zeroed out.

    Formal guarantee
    ----------------
    No Poisson-sampled Gaussian release has a larger Rényi divergence between neighbours, in either
    order. For a replaced record the mirrored pair dominates (``ReplacedGaussian``). Relative slack:
    1e-8 in the worst case, for orders up to a million; 1e-12 for orders below a hundred.

    Source: Mironov, Talwar and Zhang 2019 (arXiv:1908.10530), for the reduction to one dimension
    and the worse order of the first pair.
    """
    alphas = np.asarray(orders)
    whole = _whole((2.0 if replace else 1.0) * s, alphas)
    return _divergence(mirrored if replace else one_sided, q, s, alphas, whole)


@lru_cache(maxsize=512)
def fixed_size_gaussian(q: float, s: float, orders: tuple[float, ...]) -> Array:
    """Return upper bounds of ``D_alpha`` of a Gaussian release on ``q n`` of ``n`` records.

    The result is read-only. ``s`` is the distance between the sums of *neighbouring* samples
    divided by the noise standard deviation: two over the noise multiplier.

    Formal guarantee
    ----------------
    Valid under ``replace_one`` for samples without replacement, for real orders:

        moment <= 1 + 2 E[g_alpha(r) 1{r > 1}],    g_a(r) = r^a - 1 - a (r - 1).

    It is below the bound of Wang, Balle and Kasiviswanathan, AISTATS 2019, by a factor up to four.
    Proof: :ref:`Accountants, Theorem 10 <theory-accountants-10>`.
    """
    alphas = np.asarray(orders)
    whole = _whole(s, alphas)
    divergence = np.minimum(_divergence(half_line, q, s, alphas, whole), whole)
    divergence.setflags(write=False)
    return divergence


def _divergence(method: Method, q: float, s: float, alphas: Array, whole: Array) -> Array:
    """Return the divergence by quadrature, or without sampling for large shifts; read-only."""
    if q == 0.0 or s == 0.0:
        divergence = np.zeros_like(alphas)
    elif q == 1.0 or s > 1e6:
        divergence = whole
    else:
        divergence = upper_log_moments(method, q, s, alphas) * (_UP / (alphas - 1.0))
    divergence.setflags(write=False)
    return divergence


def _whole(s: float, alphas: Array) -> Array:
    """Return the divergence without sampling: an upper bound, as divergences are quasi-convex."""
    return alphas * (0.5 * s * s) * _UP
