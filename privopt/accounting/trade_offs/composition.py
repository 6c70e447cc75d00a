"""Composition ``f (x) g``: the trade-off function of a product of pairs.

Gaussian with Gaussian is Gaussian. Anything else becomes a polygon, and the product of two
polygons is the product of two finite pairs, sorted by likelihood ratio. It may have many corners,
and is then coarsened, always to a *lower* trade-off function:

choose some likelihood ratios; an outcome ``(p, q)`` between two of them is replaced by two
outcomes at exactly these ratios, of the same total ``p`` and the same total ``q``. Joining the two
would give the old outcome back, so that the new pair is at least as easy to tell apart
(post-processing), and its profile is the chord polygon of the old one. What lies beyond the
largest and smallest chosen ratio, by default not more than 1e-18 in probability, is split
likewise between that ratio and certainty.

Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383,
Section 3); the discretisation is that of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi,
"Connect the dots: tighter discrete approximations of privacy loss distributions", PETS 2022
(arXiv:2207.04380).
"""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.polygons import Polygon, identity
from privopt.accounting.trade_offs.shifts import Gaussian
from privopt.accounting.trade_offs.tangents import polygon
from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.sums import root

__all__ = ["check_count", "coarsen", "compose", "repeat"]

Array = npt.NDArray[np.float64]

_U = 2.0**-53
_TAIL = 1e-18
_SIZE = 1000


def compose(f: TradeOff, g: TradeOff, size: int = _SIZE) -> TradeOff:
    """``f (x) g``: both releases, the second perhaps chosen in the light of the first.

    Parameters
    ----------
    f, g : TradeOff
        ``G_mu`` and ``G_nu`` give ``G`` of ``sqrt(mu^2 + nu^2)``; otherwise the result is a
        polygon.
    size : int
        Largest number of segments of that polygon.

    Formal guarantee
    ----------------
    If one release has trade-off ``f`` and the next, for every outcome of the first, ``g``, in the
    same order of the same two neighbours, the two together have trade-off ``f (x) g``, and what
    is returned is not above it.

    Raises
    ------
    ValueError
        If ``size`` is not an integer of at least 2.
    """
    size = check_count("size", size, 2)
    if isinstance(f, Gaussian) and isinstance(g, Gaussian):
        mu = math.hypot(f.mu, g.mu)
        exact = 0.0 in (f.mu, g.mu) or math.isinf(mu)
        return Gaussian(mu if exact else mu * (1.0 + 4 * _U))
    return _product(coarsen(polygon(f), 4 * size), coarsen(polygon(g), 4 * size), size)


def repeat(f: TradeOff, times: int, size: int = _SIZE) -> TradeOff:
    """``f (x) ... (x) f``, ``times`` of them; the identity for none.

    Parameters
    ----------
    f, size
        As for ``compose``. Squaring needs ``log2(times)`` products, each of which coarsens.
    times : int
        Non-negative.

    Raises
    ------
    ValueError
        If ``times`` is not a non-negative integer, or ``size`` not an integer of at least 2.
    """
    times, size = check_count("times", times, 0), check_count("size", size, 2)
    if times == 0:
        return identity()
    if times == 1:
        return f
    if isinstance(f, Gaussian):
        mu = f.mu * root(times)
        return Gaussian(mu * (1.0 + 8 * _U) if 0.0 < mu < math.inf else mu)
    power, result = coarsen(polygon(f), size), None
    while times:
        if times & 1:
            result = power if result is None else _product(result, power, size)
        times >>= 1
        if times:
            power = _product(power, power, size)
    assert result is not None
    return result


def coarsen(f: Polygon, size: int) -> Polygon:
    """A polygon below ``f`` with at most ``size`` segments; ``f`` itself if it has no more.

    Half of the likelihood ratios that are kept divide the probability evenly, half the privacy
    loss.
    """
    if f.p.size <= size:
        return f
    ratio = (f.q / f.p)[::-1]  # ascending
    p, q = f.p[::-1], f.q[::-1]
    nodes = _nodes(ratio, p, q, size)
    cell = np.clip(np.searchsorted(nodes, ratio, side="right") - 1, -1, nodes.size - 1)
    low, high = cell < 0, ratio > nodes[-1]
    inner = ~(low | high)
    left = cell[inner]
    right = np.minimum(left + 1, nodes.size - 1)
    width = np.where(right > left, nodes[right] - nodes[left], 1.0)
    up = p[inner] * np.where(right > left, (ratio[inner] - nodes[left]) / width, 0.0)
    down = p[inner] * np.where(right > left, (nodes[right] - ratio[inner]) / width, 1.0)
    target = np.concatenate([left, right])
    run = np.concatenate([down, up])
    masses: Array = np.bincount(target, run, nodes.size).astype(np.float64)
    # Below the smallest ratio q stays and part of p is set free; above the largest, part of q.
    masses[0] += float((q[low] / nodes[0]).sum())
    masses[-1] += float(p[high].sum())
    p_free = float((p[low] * (nodes[0] - ratio[low]) / nodes[0]).sum())
    q_free = float((q[high] * (ratio[high] - nodes[-1]) / ratio[high]).sum())
    terms = int(np.bincount(target, minlength=nodes.size).max()) + int(low.sum() + high.sum())
    return Polygon(
        masses,
        masses * nodes,
        f.p_only + p_free,
        f.q_only + q_free,
        f.rounding + (terms + 16) * _U,
    )


def _product(f: Polygon, g: Polygon, size: int) -> Polygon:
    with np.errstate(under="ignore"):
        p, q = np.outer(f.p, g.p).ravel(), np.outer(f.q, g.q).ravel()
    product = Polygon(
        p,
        q,
        f.p_only + g.p_only - f.p_only * g.p_only,
        f.q_only + g.q_only - f.q_only * g.q_only,
        f.rounding + g.rounding + 8 * _U,
    )
    return coarsen(product, size)


def _nodes(ratio: Array, p: Array, q: Array, size: int) -> Array:
    """At most ``size`` likelihood ratios, those with 1e-18 beyond them the outermost."""
    first = int(np.searchsorted(np.cumsum(p), _TAIL))
    last = ratio.size - 1 - int(np.searchsorted(np.cumsum(q[::-1]), _TAIL))
    first, last = min(first, last), max(first, last)
    ratio, mass = ratio[first : last + 1], (p + q)[first : last + 1]
    share = np.cumsum(mass)
    share = share / share[-1]
    half = size // 2
    by_mass = np.searchsorted(share, np.linspace(0.0, 1.0, half), side="left")
    spaced = np.linspace(math.log(ratio[0]), math.log(ratio[-1]), size - half)
    by_loss = np.searchsorted(ratio, np.exp(spaced))
    chosen = np.concatenate([[0, ratio.size - 1], by_mass[1:-1], by_loss[1:-1]])
    return np.unique(ratio[np.clip(chosen, 0, ratio.size - 1)])


def check_count(name: str, value: object, least: int) -> int:
    """An integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)
