"""Packings: what pure differential privacy cannot tell apart, at any size of a group.

``K`` of ``n`` records are copies of one record, at a point ``x`` drawn at random; the others are
null. Under epsilon-DP the laws ``P_x`` of the answer satisfy ``P_x <= exp(z) P_y``, ``z = K
epsilon`` times the steps that it takes to replace a record. So for each answer ``w`` the density
``f(x) = P_x(w)/E P_y(w)`` has mean 1 and lies in some ``[l, exp(z) l]``. For a cost ``r(w, x)`` and
any ``c``, ``E (r - c) f`` is least where ``f`` is high exactly on ``r < c``; and it is 0 then, so
that the mean cost is at least ``c``, if

    (exp(z) - 1) E max(c - r, 0) = E r - c.

Where a record may be removed, ``f(x) = P_x(w)/P_null(w)`` lies in ``[exp(-z), exp(z)]``, ``z = K
epsilon``, and has mean 1 over ``w`` of law ``P_null`` and ``x``. The mean cost is least where ``f``
is high on the least costs, with chance ``1/(1 + exp(z))``. Each family below gives ``z`` and the
least mean cost along a curve; the cost falls in ``z``, so at any smaller ``z`` it is no less.

Source: Hardt and Talwar 2010 (arXiv:0907.3754); Bassily, Smith and Thakurta 2014
(arXiv:1405.7085), Theorem 5.2, for packings. The continuous prior and the constants are ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

from privopt.spec import Budget, Relation

__all__ = ["Packing", "directions", "distances"]

Array = NDArray[np.float64]

_SIZE = 513


class Packing(NamedTuple):
    """``cost`` where the group's epsilon is ``replaced``, or ``removed_cost`` where ``removed``."""

    replaced: Array
    cost: Array
    removed: Array
    removed_cost: Array

    def best(
        self,
        n: int,
        budget: Budget,
        *,
        groups: int = 1,
        cap: float = math.inf,
        power: float = 1.0,
    ) -> float:
        """``max_K min(K sqrt(g)/n, cap)^power cost`` under epsilon-DP, whole ``K`` in ``1..n``.

        ``g`` groups of ``K`` records, as many as there may be, each at a point ``x_k`` on
        coordinates of its own; given the others, a group is a packing by itself. Squares add up;
        with linear losses ``<w, x_1 + ..>`` is at most ``sqrt(g)`` times what one group tells, of a
        sum ``sqrt(g)`` long; distances are those from ``x_k/sqrt(g)``.
        """
        steps = 1 if budget.relation is Relation.REPLACE_ONE else 2

        def best(copies: Array, cost: Array) -> float:
            whole = np.minimum(np.floor(copies), float(n))
            many = np.minimum(n // np.maximum(whole, 1.0), groups)
            share = np.minimum(whole * np.sqrt(many) / n, cap)
            return max(0.0, float(np.max(share**power * cost)))

        found = best(self.replaced / (steps * budget.epsilon), self.cost)
        if steps == 1:
            return found
        return max(found, best(self.removed / budget.epsilon, self.removed_cost))


def distances(dim: int, power: float) -> Packing:
    """``r = |w - x|^power``, ``x`` uniform on the unit ball of ``R^d``.

    Nearness is likeliest at the centre, where ``P(|x| <= y) = y^d``. With ``c = y^p``,
    ``E max(c - r, 0) = y^(d + p) p/(d + p)`` and ``E r = d/(d + p)``, so that ``exp(z) = 1 + (d -
    (d + p) y^p)/(p y^(d + p))``: for ``p = 1`` of order ``y = exp(-z/d)``.

    Examples
    --------
    >>> found = distances(1, 1.0)
    >>> round(float((found.replaced * found.cost).max()), 3)
    0.557
    >>> found = distances(100, 1.0)
    >>> round(float((found.replaced * found.cost).max()), 1)
    38.7
    """
    mean = dim / (dim + power)
    log_y = math.log(mean) / power - np.geomspace(8.0, 1e-6, _SIZE)
    excess = np.log(dim * -np.expm1(power * (log_y - math.log(mean) / power)) / power)
    z = np.logaddexp(0.0, excess - (dim + power) * log_y)
    high = -np.logaddexp(0.0, z)  # the logarithm of the chance of the high value
    removed = mean * (np.exp(-z) + np.exp(z + high * (1.0 + power / dim)) * -np.expm1(-2.0 * z))
    return Packing(z, np.exp(power * log_y), z, removed)


def directions(dim: int) -> Packing:
    """``r = 1 - <w, x>``, ``x`` uniform on the unit sphere and ``|w| <= 1``.

    The longest ``w`` does best, and ``t = <w, x>`` has density in proportion to ``(1 - t^2)^((d -
    3)/2)``. With ``c = 1 - s``, ``E max(c - r, 0) = E max(t - s, 0)`` and ``exp(z) - 1 = s/E max(t
    - s, 0)``.

    Examples
    --------
    >>> found = directions(1)
    >>> round(float((found.replaced * found.cost).max()), 3)
    0.557
    >>> found = directions(100)
    >>> round(float((found.replaced * found.cost).max()), 1)
    12.3
    """
    s = np.linspace(0.0, 1.0, _SIZE + 1)[1:-1]
    if dim == 1:
        z = np.log1p(s) - np.log1p(-s)
        return Packing(z, 1.0 - s, z[:1], np.zeros(1))
    half = 0.5 * (dim - 1)
    above = 0.5 * betainc(half, 0.5, 1.0 - s**2)  # P(t > s)
    scale = math.exp(gammaln(0.5 * dim) - gammaln(half)) / math.sqrt(math.pi) / (dim - 1)
    mean_above = scale * (1.0 - s**2) ** half  # E t 1{t > s}
    kept = mean_above > 1e-290
    s, above, mean_above = s[kept], above[kept], mean_above[kept]
    part = mean_above - s * above
    known = part > 1e-9 * mean_above  # else rounding decides
    z = np.log1p(s[known] / part[known])
    removed = np.log1p(-above) - np.log(above)
    gain = 2.0 * np.sinh(removed) * mean_above
    return Packing(z, 1.0 - s[known], removed, np.maximum(1.0 - gain, 0.0))
