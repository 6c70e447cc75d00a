"""Hard data: priors over data sets about which private outputs contain little information.

A prior has a random direction ``v`` in ``R^D``, ``D <= d`` coordinates in ``g`` groups of ``b``.
Each group has ``K`` informative records ``x/sqrt(b)`` on its coordinates, ``x`` in ``{-1, 1}^b``;
the other records are null. With ``t = K sqrt(g)/n``, the mean of all ``n`` records is ``t
v/sqrt(D)``, where ``v`` in a group is the mean of its ``x``. A prior is described by::

    E|v| >= norm sqrt(D),   E|v|^2 = square D,   E <w, v> <= correlation sqrt(D) for |w| <= 1,
    E|E[v | output]|^2 <= explained D.

If the data are a sample, ``v = p`` is the mean of their distribution. Proofs:
:doc:`/theory/lower_bounds`; the constants are derived there. Sources: Bun, Steinke and Ullman 2017;
Steinke and Ullman 2016 (arXiv:1501.06095); Cai, Wang and Zhang 2021 (arXiv:1902.04495); Hardt and
Talwar 2010 (arXiv:0907.3754); Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln, wrightomega

from privopt.spec import Relation
from privopt.theory.advantage import Advantage, ApproximateAdvantage, replacement_steps

Array = NDArray[np.float64]

_EXPONENTS = np.geomspace(0.02, 1e4, 24) - 1.0  # a, from nearly signs to nearly normal
_SIZE = 513  # points of the curve of a packing


class HardData(NamedTuple):
    """A family of priors, one per array entry, by the quantities of the module."""

    strength: Array
    norm: Array
    correlation: Array
    square: Array
    explained: Array

    def linear(self) -> float:
        """Return ``max t (norm - correlation)``, for linear losses on the unit ball."""
        return max(0.0, float(np.max(self.strength * (self.norm - self.correlation), initial=0.0)))

    def quadratic(self, reach: float, radius: float) -> float:
        """Return ``max (t rho)^2 (square - explained)``, ``rho <= reach``, ``t rho <= radius``."""
        mean = np.minimum(self.strength * reach, radius)
        return max(0.0, float(np.max(mean**2 * (self.square - self.explained), initial=0.0)))


def hidden_signs(n: int, dim: int, advantage: Advantage) -> HardData:
    """Return hidden signs: one sign per coordinate in ``K`` copies, ``b = 1``.

    ``norm = square = 1`` and ``correlation^2 = explained = T_K^2``, the squared advantage between
    groups of ``K``, by its definition.
    """
    coordinates, copies = _sizes(n, dim)
    correlation = advantage.sign(copies)
    one = np.ones_like(correlation)
    strength = copies * np.sqrt(coordinates) / n
    return HardData(strength, one, correlation, one, correlation**2)


def hidden_counts(n: int, dim: int, advantage: Advantage) -> HardData:
    """Return hidden counts: one count per coordinate with a squared-sine distribution, ``b = 1``.

    ``m`` of the ``K`` records of a coordinate are +1, and ``v = 2 m/K - 1``. For any estimate
    ``q``::

        K^2 E (q - v)^2 >= X^2 - 2 T X + 1,   X = (1 - sin^2(pi/K))/sqrt(T^2 + sin^2(pi/K)),

    if ``X >= T``. ``norm = square``, because ``|v| <= sqrt(D)``. Proof: :ref:`Lower bounds, Theorem
    3 <theory-lower-3>`.
    """
    coordinates, k = _sizes(n, dim)
    coordinates, k = coordinates[k > 1.0], k[k > 1.0]
    t = float(advantage.sign(np.ones(1))[0])
    sine = np.sin(math.pi / k) ** 2
    x = (1.0 - sine) / np.sqrt(t**2 + sine)
    error = np.where(x >= t, x**2 - 2.0 * t * x + 1.0, 0.0) / k**2
    square = (1.0 + 2.0 / k**2) / 3.0 - 2.0 * np.cos(math.pi / k) / (k**2 * sine)
    explained = square - np.minimum(error, square)
    return HardData(k * np.sqrt(coordinates) / n, square, np.sqrt(explained), square, explained)


def hidden_supports(n: int, dim: int, sparsity: int, advantage: Advantage) -> HardData:
    """Return hidden supports of sparse records, over ``K`` and numbers of groups.

    The ``K`` records of a group of ``c >= s`` coordinates equal one ``x``: random signs over
    ``sqrt(s)`` on ``s`` random coordinates. ``norm = square = 1``, and for ``I`` nats of
    information about a group ``explained`` is ``I/(s a(c/s))``, ``a(r) = asinh(r) - (sqrt(1 + r^2)
    - 1)/r``. Proof: :ref:`Lower bounds, Theorem 4 <theory-lower-4>`.
    """
    max_groups, copies = _sizes(n, dim // sparsity)
    shares = 2.0 ** -np.arange(8.0)[:, None]
    groups = np.maximum(1.0, np.floor(shares * max_groups))
    ratio = np.floor(dim / groups) / sparsity
    cost = sparsity * (np.arcsinh(ratio) - (np.sqrt(1.0 + ratio**2) - 1.0) / ratio)
    explained = np.minimum(1.0, advantage.information(copies) / cost)
    one = np.ones_like(explained)
    return HardData(copies * np.sqrt(groups) / n, one, np.sqrt(explained), one, explained)


def fingerprints(
    n: int, dim: int, advantage: Advantage, *, width: int = 1, sampled: bool = False
) -> HardData:
    """Return :func:`fingerprint` priors over grids of ``a`` and ``K``."""
    groups, copies = _sizes(n, dim // width)
    return fingerprint(
        n, groups, copies, _EXPONENTS[:, None], advantage, width=width, sampled=sampled
    )


def fingerprint(
    n: int,
    groups: Array,
    copies: Array,
    a: Array,
    advantage: Advantage,
    *,
    width: int = 1,
    sampled: bool = False,
) -> HardData:
    """Return priors with Beta(a + 1, a + 1) means: ``g`` groups of ``K`` records.

    Records have ``b = width`` independent coordinates with mean ``p_j``, of density proportional to
    ``(1 - p^2)^a`` on ``[-1, 1]``. With ``G = 2 (a + 1)`` and ``u = E p^2 = 1/(2 a + 3)``::

        square = u (1 + G/K),   explained = correlation^2 = (1 + G/K)^2 u h^2/(h^2 + G^2 u),
        h^2 = min(K^2 c^2/b, K G u),

    where ``c`` is the ``record`` of the advantage, or ``c^2 = G u T^2`` for ``b = 1``. For ``g =
    1`` the ``removal`` of the advantage also bounds the correlation. If the data are ``sampled``,
    ``v = p`` and the number of records in a group is random with mean ``K``. Proof: :ref:`Lower
    bounds, Theorem 2 <theory-lower-2>`.

    The arrays ``groups``, ``copies`` and ``a > -1`` broadcast, with ``g K <= n``.
    """
    gain, u = 2.0 * (a + 1.0), 1.0 / (2.0 * a + 3.0)
    if width == 1:
        skew = 1.0 if advantage.symmetric else 1.0 + 1.0 / np.sqrt(2.0 * a + 5.0)
        one = gain * u * skew * float(advantage.sign(np.ones(1))[0]) ** 2
    else:
        one = np.full_like(a, advantage.record(width) ** 2 / width)
    records = copies**2 + copies if sampled else copies**2
    h2 = np.minimum(records * one, copies * gain * u)
    factor = np.ones_like(gain / copies) if sampled else 1.0 + gain / copies
    explained = factor**2 * u * h2 / (h2 + gain**2 * u)
    square = u * factor
    fourth = 3.0 * u / (2.0 * a + 5.0) if sampled else _fourth_moment(a, copies)
    norm = np.sqrt(square / (1.0 + (fourth / square**2 - 1.0) / (groups * width)))
    removed = factor * copies / gain * advantage.removal(width) / math.sqrt(width)
    correlation = np.minimum(np.where(groups > 1, np.inf, removed), np.sqrt(explained))
    return HardData(copies * np.sqrt(groups) / n, norm, correlation, square, explained)


def _fourth_moment(a: Array, k: Array) -> Array:
    """Return ``E (p + S/k)^4`` from the central moments of ``k`` signs of mean ``p``."""
    p2 = 1.0 / (2.0 * a + 3.0)
    p4 = 3.0 * p2 / (2.0 * a + 5.0)
    variance, square = 1.0 - p2, 1.0 - 2.0 * p2 + p4  # E (1 - p^2), E (1 - p^2)^2
    mixed = p2 - p4  # E p^2 (1 - p^2)
    own = variance + 3.0 * mixed  # E (x - p)^4
    pairs = 3.0 * (k - 1.0) * square + own
    return np.asarray(p4 + 6.0 * mixed / k - 8.0 * mixed / k**2 + pairs / k**3)


def _sizes(n: int, max_groups: int) -> tuple[Array, Array]:
    """Return the largest numbers of groups, and a geometric grid of group sizes."""
    copies = np.unique(np.floor(np.geomspace(1.0, n, 192)))
    return np.minimum(max_groups, n // copies), copies


class Directions(NamedTuple):
    """Largest ``E <w, x>`` of private ``|w| <= 1`` with a hidden point ``x`` of the unit sphere.

    If all pairs of outputs are (z, delta)-close, it is ``mean + leak delta`` at ``z = replaced``.
    If the output is so close to that without ``x``, it is ``removed_mean + 2 delta`` at ``z =
    removed``. The arrays increase but for ``leak``. Proof: :ref:`Lower bounds, Theorem 5
    <theory-lower-5>`.
    """

    replaced: Array
    mean: Array
    leak: Array
    removed: Array
    removed_mean: Array


@lru_cache(maxsize=256)
def directions(dim: int) -> Directions:
    """Return the bounds for ``x`` uniform on the unit sphere of ``R^d``, ``d >= 2``.

    ``t = <w, x>`` has a density proportional to ``(1 - t^2)^((d - 3)/2)``. The ``mean`` is ``s``
    and the ``leak`` is ``1/(2 (s + u))`` with ``u = E max(t - s, 0) = s/(exp(z) - 1)``.
    """
    s = np.linspace(0.0, 1.0, _SIZE + 1)[1:-1]
    half = 0.5 * (dim - 1)
    tail = 0.5 * betainc(half, 0.5, 1.0 - s**2)  # P(t > s)
    scale = math.exp(gammaln(0.5 * dim) - gammaln(half)) / math.sqrt(math.pi) / (dim - 1)
    mean_tail = scale * (1.0 - s**2) ** half  # E t 1{t > s}
    nonzero = mean_tail > 1e-290
    s, tail, mean_tail = s[nonzero], tail[nonzero], mean_tail[nonzero]
    part = mean_tail - s * tail  # E max(t - s, 0)
    accurate = part > 1e-9 * mean_tail
    mean, part = s[accurate], part[accurate]
    removed = np.log1p(-tail) - np.log(tail)
    removed_mean = np.minimum(2.0 * np.sinh(removed) * mean_tail, 1.0)
    return Directions(
        np.log1p(mean / part),
        mean,
        0.5 / (mean + part),
        removed,
        np.maximum.accumulate(removed_mean),
    )


def hidden_points(n: int, dim: int, width: int, advantage: ApproximateAdvantage) -> HardData:
    """Return hidden points: the ``K`` records of a group equal one point of a sphere in ``R^b``.

    ``norm = square = 1``. With the bounds of :func:`directions` for the group privacy of ``K``
    records, ``explained`` is the square of the root of ``c^2 = c mean + leak delta``, and the
    correlation is ``c``. For one group the bounds of :func:`directions` also bound the correlation.
    With ``b`` and ``K epsilon`` of order ``ln(1/delta)`` they give the factor ``sqrt(ln 1/delta)``.
    Proof: :ref:`Lower bounds, Theorem 5 <theory-lower-5>`.
    """
    groups, copies = _sizes(n, dim // width)
    table = directions(width)
    z, delta = advantage.group(replacement_steps(advantage.relation) * copies)
    mean, lost = _at(table.replaced, table.mean, z), delta * _at(table.replaced, table.leak, z)
    z, delta = advantage.group(copies)
    removed = _at(table.removed, table.removed_mean, z) + 2.0 * delta
    return _unit_points(n, groups, copies, mean, lost, np.minimum(mean + lost, removed))


def hidden_positions(
    n: int, dim: int, sparsity: int, choices: int, advantage: ApproximateAdvantage
) -> HardData:
    """Return hidden positions: hidden points with one of ``r`` coordinates in each of ``s`` blocks.

    The entries are random signs over ``sqrt(s)``. ``E exp(l <w, x>) <= M(l)`` for unit vectors
    ``w``, and the bound ``mean`` of ``E <w, x>`` for group privacy ``(z, delta)`` is::

        min_l W((exp(z) - 1) M(l)/e)/l,    ln M(l) = max_q ln(1 + (cosh(l sqrt(q/s)) - 1)/r)/q

    with Lambert's ``W`` and ``q`` in ``(0, 1]``. The rest is as in :func:`hidden_points`, with the
    leak ``1/(2 mean)``. Proof: :ref:`Lower bounds, Theorem 5 <theory-lower-5>`.
    """
    groups, copies = _sizes(n, dim // (sparsity * choices))
    z, delta = advantage.group(replacement_steps(advantage.relation) * copies)
    slopes, log_m = _log_moments(sparsity, choices)
    log_odds = z + np.log(-np.expm1(-z))
    levels = wrightomega(log_odds[:, None] + log_m - 1.0) / slopes
    mean = np.minimum(levels.min(axis=1), 1.0)
    lost = 0.5 * delta / mean
    return _unit_points(n, groups, copies, mean, lost, mean + lost)


@lru_cache(maxsize=1024)
def _log_moments(sparsity: int, choices: int) -> tuple[Array, Array]:
    """Return a grid of ``l``, and ``ln M(l)`` of :func:`hidden_positions`."""
    q = np.geomspace(1e-6, 1.0, 2048)
    slopes = np.geomspace(0.05, 60.0, 64)  # l/sqrt(s)
    rates = np.log1p((np.cosh(slopes[:, None] * np.sqrt(q)) - 1.0) / choices) / q
    # The logarithm increases in q. Below 1e-6 the rate is larger by at most a relative 1e-3.
    log_m = q[1] / q[0] * rates.max(axis=1)
    return slopes * math.sqrt(sparsity), log_m


def _unit_points(
    n: int, groups: Array, copies: Array, mean: Array, lost: Array, single: Array
) -> HardData:
    """Return points with the bound ``mean |w| + lost``, and ``single`` for one group."""
    root = np.minimum(0.5 * mean + np.sqrt(0.25 * mean**2 + lost), 1.0)
    one = np.ones_like(root)
    correlation = np.where(groups > 1, root, np.minimum(single, root))
    return HardData(copies * np.sqrt(groups) / n, one, correlation, one, root**2)


def _at(levels: Array, values: Array, z: Array) -> Array:
    """Return the value at the first level that is at least ``z``, or 1 beyond the last."""
    return np.append(values, 1.0)[np.searchsorted(levels, z)]


class Packing(NamedTuple):
    """Mean cost of a packing: ``cost`` at epsilon ``replaced``, ``removed_cost`` at ``removed``.

    ``K`` of ``n`` records are copies of one record at a random point ``x``; the others are null.
    ``replaced`` is ``z = K epsilon`` times the number of steps that replace a record, with::

        (exp(z) - 1) E max(c - r, 0) = E r - c

    for the mean ``c`` of a cost ``r(w, x)``. The cost decreases in ``z``. If a record may be
    removed, ``removed`` is ``K epsilon``. If the group privacy has ``delta``, the costs decrease by
    ``leak delta`` and ``delta``. Proof and sources: :ref:`Lower bounds, Theorem 5
    <theory-lower-5>`.
    """

    replaced: Array
    cost: Array
    leak: Array
    removed: Array
    removed_cost: Array

    def best(
        self,
        n: int,
        advantage: ApproximateAdvantage,
        *,
        groups: int = 1,
        cap: float = math.inf,
        power: float = 1.0,
    ) -> float:
        """Return ``max_K min(K sqrt(g)/n, cap)^power (cost - leak delta)``, ``K`` in ``1..n``.

        The ``g`` groups of ``K`` records, as many as fit, are packings on separate coordinates.
        """

        def best(z: Array, steps: int, cost: Array, leak: Array | float) -> float:
            whole = np.minimum(np.floor(z / (steps * advantage.budget.epsilon)), float(n))
            cost = cost - leak * advantage.group(steps * whole)[1]
            count = np.minimum(n // np.maximum(whole, 1.0), groups)
            strength = np.minimum(whole * np.sqrt(count) / n, cap)
            return max(0.0, float(np.max(strength**power * cost)))

        steps = replacement_steps(advantage.relation)
        value = best(self.replaced, steps, self.cost, self.leak)
        if advantage.relation is Relation.REPLACE_ONE:
            return value
        return max(value, best(self.removed, 1, self.removed_cost, 1.0))


@lru_cache(maxsize=256)
def distances(dim: int, power: float) -> Packing:
    """Return the packing with cost ``|w - x|^power``, ``x`` uniform on the unit ball of ``R^d``.

    With ``c = y^power`` the ``leak`` is ``c (1 - c)/E max(r - c, 0)``, the mean at ``w = 0``.
    """
    mean = dim / (dim + power)
    log_y = math.log(mean) / power - np.geomspace(8.0, 1e-6, _SIZE)
    gap = -np.expm1(power * (log_y - math.log(mean) / power))  # 1 - c/mean
    z = np.logaddexp(0.0, np.log(dim * gap / power) - (dim + power) * log_y)
    cost = np.exp(power * log_y)
    leak = cost * (1.0 - cost) * -np.expm1(-z) / (mean * gap)
    log_high = -np.logaddexp(0.0, z)  # log probability of the high value
    removed = mean * (np.exp(-z) + np.exp(z + log_high * (1.0 + power / dim)) * -np.expm1(-2.0 * z))
    return Packing(z, cost, leak, z, removed)
