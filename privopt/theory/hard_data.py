"""Hard data: priors over data sets of which private answers can tell little.

Every prior has a direction ``v`` in ``R^D``, ``D <= d`` coordinates in ``g`` groups of ``b``, and
``K`` informative records a group, each ``x/sqrt(b)`` on the coordinates of its group, ``x`` in
``{-1, 1}^b``; the other records are null. With ``t = K sqrt(g)/n`` the mean of all ``n`` records is
``t v/sqrt(D)``, where ``v`` in a group is the mean of its ``x``. What matters of a prior is, in
units of ``D``, how long ``v`` is and how much of it the answers explain:

    E|v| >= norm sqrt(D),   E|v|^2 = spread D,   E <w, v> <= told sqrt(D) for |w| <= 1,
    E|E[v | answers]|^2 <= explained D.

For data that are a sample, ``v = p``, the mean of their distribution. Packings (:class:`Packing`)
are what pure privacy cannot tell apart.

Sources: Bun, Steinke and Ullman 2017 (the fingerprinting lemma); Cai, Wang and Zhang 2021
(arXiv:1902.04495; score attacks); Hardt and Talwar 2010 and Ghazi, Guzman, Kamath, Kumar and
Manurangsi 2024 (arXiv:2404.10881; packings of sparse points, and blocks of them). The constants are
ours. As ``a``, ``K`` and ``D`` grow, ``p`` is Gaussian and ``s`` what the mean plus Gaussian noise
explains: nothing is lost then.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

from privopt.spec import Budget, Relation
from privopt.theory.advantage import Advantage

Array = NDArray[np.float64]

_EXPONENTS = np.geomspace(0.02, 1e4, 24) - 1.0  # a, from almost signs to almost normal
_SIZE = 513  # points of a packing's curve


class HardData(NamedTuple):
    """A family of priors, one an entry, by the numbers of the module."""

    strength: Array
    norm: Array
    told: Array
    spread: Array
    explained: Array

    def linear(self) -> float:
        """``max t (norm - told)``: of linear losses on the unit ball."""
        return max(0.0, float(np.max(self.strength * (self.norm - self.told), initial=0.0)))

    def quadratic(self, reach: float, radius: float) -> float:
        """``max (t rho)^2 (spread - explained)`` over ``rho <= reach`` with ``t rho <= radius``."""
        mean = np.minimum(self.strength * reach, radius)
        return max(0.0, float(np.max(mean**2 * (self.spread - self.explained), initial=0.0)))


def hidden_signs(n: int, dim: int, advantage: Advantage) -> HardData:
    """One sign a coordinate, in ``K`` copies: ``b = 1``.

    Then ``norm = spread = 1`` and ``told^2 = explained = T_K^2``, the advantage between groups of
    ``K``, by its definition (Le Cam 1973; Assouad 1983).
    """
    coordinates, copies = _sizes(n, dim)
    told = advantage.sign(copies)
    one = np.ones_like(told)
    return HardData(copies * np.sqrt(coordinates) / n, one, told, one, told**2)


def hidden_counts(n: int, dim: int, advantage: Advantage) -> HardData:
    """A count a coordinate, spread over all of ``0..K`` like the square of a sine: ``b = 1``.

    Here ``m`` of the ``K`` records of a coordinate are +1, so that ``v = 2 m/K - 1``. An edge ``(j,
    j + 1)`` is drawn with chance ``(2/K) sin^2(pi (j + 1/2)/K)``, and ``m`` is one of its ends in
    equal chance: ``v = c + s/K``, ``c`` the middle and ``s`` a sign. Let ``e = E[s | answers,
    edge]``, ``E e^2 <= T^2``, and ``r = E[s | m]``, ``E r^2 <= sin^2(pi/K)``. For any ``q`` of the
    answers

        E (q - c)(e - r) = E c r = E (v - s/K) r = (1 - E r^2)/K,

    and ``E e r >= 0``, as ``r`` rises with ``m``. So ``K^2 E (q - c)^2 >= X^2``, ``X = (1 -
    sin^2(pi/K))/sqrt(T^2 + sin^2(pi/K))``, and ``K^2 E (q - v)^2 >= X^2 - 2 T X + 1``, where ``X >=
    T``. For large ``K`` this is ``1/T^2 - 1``, about ``4/mu^2``: what Gaussian noise costs.
    ``spread`` is in closed form; ``norm = spread``, as ``|v| <= sqrt(D)``.
    """
    coordinates, k = _sizes(n, dim)
    coordinates, k = coordinates[k > 1.0], k[k > 1.0]
    told = float(advantage.sign(np.ones(1))[0])
    rough = np.sin(math.pi / k) ** 2
    middle = (1.0 - rough) / np.sqrt(told**2 + rough)
    error = np.where(middle >= told, middle**2 - 2.0 * told * middle + 1.0, 0.0) / k**2
    spread = (1.0 + 2.0 / k**2) / 3.0 - 2.0 * np.cos(math.pi / k) / (k**2 * rough)
    explained = spread - np.minimum(error, spread)
    return HardData(k * np.sqrt(coordinates) / n, spread, np.sqrt(explained), spread, explained)


def hidden_supports(n: int, dim: int, sparsity: int, advantage: Advantage) -> HardData:
    """``s`` of the coordinates of a group, in ``K`` copies, over ``K`` and numbers of groups.

    A group owns ``c >= s`` coordinates, and its ``K`` records are one and the same ``x``: signs
    over ``sqrt(s)`` on ``s`` of them, drawn at random. Then ``norm = spread = 1`` in units of one
    for the whole length, and for any answers of which ``I`` nats are told of a group,

        E |E[x | answers]|^2 <= I/(s a(c/s)),   a(r) = asinh(r) - (sqrt(1 + r^2) - 1)/r,

    ``a(r)`` being about ``ln(2 r) - 1``. For let ``f`` be the posterior density of ``x`` and ``y =
    E f x``, no entry of which is above ``1/sqrt(s)``. By Donsker and Varadhan along ``y/|y|``, with
    Maclaurin's inequality for the mean over supports of a product,

        l |y| <= KL(f) + (s/c) sum_j (cosh(l y_j/(|y| sqrt(s))) - 1)
              <= KL(f) + (s^2 |y|^2/c) (cosh(l/(s |y|)) - 1),

    the sum being largest where ``s |y|^2`` entries are as large as they may be. The best ``l``
    gives ``s |y|^2 a(c/s) <= KL(f)``, whose mean over the answers is ``I``.
    """
    most, copies = _sizes(n, dim // sparsity)
    shares = 2.0 ** -np.arange(8.0)[:, None]
    groups = np.maximum(1.0, np.floor(shares * most))
    ratio = np.floor(dim / groups) / sparsity
    cost = sparsity * (np.arcsinh(ratio) - (np.sqrt(1.0 + ratio**2) - 1.0) / ratio)
    told = np.minimum(1.0, advantage.information(copies) / cost)
    one = np.ones_like(told)
    return HardData(copies * np.sqrt(groups) / n, one, np.sqrt(told), one, told)


def fingerprints(
    n: int, dim: int, advantage: Advantage, *, width: int = 1, sampled: bool = False
) -> HardData:
    """Beta(a + 1, a + 1) means, over ``a`` and ``K``, for the arguments of :func:`fingerprint`."""
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
    """Beta(a + 1, a + 1) means: ``g`` groups of ``K`` records of ``b`` coordinates, ``width``.

    Coordinates of records are independent of mean ``p_j``, and ``p_j`` has the density ``(1 -
    p^2)^a`` on ``[-1, 1]``, Beta(a + 1, a + 1). Let ``G = 2 (a + 1)``, ``u = E p^2 = 1/(2 a + 3)``,
    so that ``E (1 - p^2) = 1 - u = G u``, and ``S = sum_i (x_i - p)`` over the records of a group.

    1. For any ``q`` of the records, ``d/dp E q = E q S/(1 - p^2)``; by parts against ``(1 - p^2)^(a
       + 1)``, ``E <q, S> = G E <q, p>`` (the fingerprinting lemma as an identity). So ``E[S |
       answers] = G ph``, ``ph = E[p | answers]``, and ``v = p + S/K`` has ``E[v | answers] = (1 +
       G/K) ph``.
    2. Let ``e = E[S | answers, p]``. As ``E <p, S> = 0``, 1 gives ``E <ph - p, S - G p> = G E |p|^2
       = G u b``. Here ``S`` may be replaced by ``e``, and ``E <e, p> = 0``; so by Cauchy and
       Schwarz (van Trees' inequality, ``E |e|^2`` being the information of the records)

           E |ph|^2 <= b u s,   s = h^2/(h^2 + G^2 u),   h^2 = E |e|^2/b.

    3. If ``E |E[x_i - p | answers, p]|^2 <= c^2`` for each record, ``h^2 <= K^2 c^2/b``; and ``h^2
       <= E |S|^2/b = K G u``, which the records themselves tell. ``c`` is the advantage's
       ``record``; or ``c^2 = E (1 - p^2) T^2 = G u T^2`` for ``b = 1``, without symmetry times ``1
       + 1/sqrt(2 a + 5)``, at least ``1 + E |p|`` where ``p`` is weighted by ``1 - p^2``.
    4. So ``spread = u (1 + G/K)``, ``explained = (1 + G/K)^2 u s``, ``told^2 = explained``. For ``g
       = 1`` also ``told <= (1 + G/K)(K/G) c'/sqrt(D)`` by 1 alone, ``c'`` the advantage's
       ``removal``.
    5. ``E |v| >= (E |v|^2)^(3/2)/(E |v|^4)^(1/2)`` (Hoelder), coordinates being independent.

    Where the data are ``sampled``, ``v = p``: the factors ``1 + G/K`` become 1, the fourth moment
    that of ``p``, and the number of records in a group is random, of mean ``K`` and mean square at
    most ``K^2 + K``, over which ``s`` is concave.

    The arrays ``groups``, ``copies`` and ``a > -1`` broadcast, with ``g K <= n``.
    """
    gain, u = 2.0 * (a + 1.0), 1.0 / (2.0 * a + 3.0)
    if width == 1:
        skew = 1.0 if advantage.symmetric else 1.0 + 1.0 / np.sqrt(2.0 * a + 5.0)
        one = gain * u * skew * float(advantage.sign(np.ones(1))[0]) ** 2
    else:
        one = np.full_like(a, advantage.record(width) ** 2 / width)
    records = copies**2 + copies if sampled else copies**2
    learnt = np.minimum(records * one, copies * gain * u)
    seen = np.ones_like(gain / copies) if sampled else 1.0 + gain / copies
    explained = seen**2 * u * learnt / (learnt + gain**2 * u)
    spread = u * seen
    fourth = 3.0 * u / (2.0 * a + 5.0) if sampled else _fourth_moment(a, copies)
    norm = np.sqrt(spread / (1.0 + (fourth / spread**2 - 1.0) / (groups * width)))
    removed = seen * copies / gain * advantage.removal(width) / math.sqrt(width)
    told = np.minimum(np.where(groups > 1, np.inf, removed), np.sqrt(explained))
    return HardData(copies * np.sqrt(groups) / n, norm, told, spread, explained)


def _fourth_moment(a: Array, k: Array) -> Array:
    """``E (p + S/k)^4``, from the central moments of ``k`` signs of mean ``p``."""
    p2 = 1.0 / (2.0 * a + 3.0)
    p4 = 3.0 * p2 / (2.0 * a + 5.0)
    variance, square = 1.0 - p2, 1.0 - 2.0 * p2 + p4  # E (1 - p^2), E (1 - p^2)^2
    mixed = p2 - p4  # E p^2 (1 - p^2)
    own = variance + 3.0 * mixed  # E (x - p)^4
    pairs = 3.0 * (k - 1.0) * square + own
    return np.asarray(p4 + 6.0 * mixed / k - 8.0 * mixed / k**2 + pairs / k**3)


def _sizes(n: int, most: int) -> tuple[Array, Array]:
    """Numbers of records in a group, over a geometric grid; and of groups, as many as there may."""
    copies = np.unique(np.floor(np.geomspace(1.0, n, 192)))
    return np.minimum(most, n // copies), copies


class Packing(NamedTuple):
    """``cost`` where the group's epsilon is ``replaced``, or ``removed_cost`` where ``removed``.

    ``K`` of ``n`` records are copies of one record, at a point ``x`` drawn at random; the others
    are null. Under epsilon-DP the laws ``P_x`` of the answer satisfy ``P_x <= exp(z) P_y``, ``z = K
    epsilon`` times the steps that it takes to replace a record. So for each answer ``w`` the
    density ``f(x) = P_x(w)/E P_y(w)`` has mean 1 and lies in some ``[l, exp(z) l]``. ``E (r - c)
    f``, of a cost ``r(w, x)``, is least where ``f`` is high exactly on ``r < c``; so the mean cost
    is at least ``c`` if

        (exp(z) - 1) E max(c - r, 0) = E r - c.

    Where a record may be removed, ``P_x(w)/P_null(w)`` lies in ``[exp(-z), exp(z)]``, ``z = K
    epsilon``: the mean cost is least where it is high on the least costs, with chance ``1/(1 +
    exp(z))``. The cost falls in ``z``, so at any smaller ``z`` it is no less.

    Source: Hardt and Talwar 2010 (arXiv:0907.3754); Bassily, Smith and Thakurta 2014
    (arXiv:1405.7085), Theorem 5.2, for packings. The continuous prior and the constants are ours.
    """

    replaced: Array
    cost: Array
    removed: Array
    removed_cost: Array

    def best(
        self, n: int, budget: Budget, *, groups: int = 1, cap: float = math.inf, power: float = 1.0
    ) -> float:
        """``max_K min(K sqrt(g)/n, cap)^power cost`` under epsilon-DP, whole ``K`` in ``1..n``.

        ``g`` groups of ``K`` records, as many as there may be, each at a point on coordinates of
        its own; given the others, a group is a packing by itself.
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

    The centre is the best ``w``: ``P(|x| <= y) = y^d``. With ``c = y^p``, ``E max(c - r, 0) = y^(d
    + p) p/(d + p)`` and ``E r = d/(d + p)``.
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

    The longest ``w`` is the best, and ``t = <w, x>`` has density in proportion to ``(1 - t^2)^((d -
    3)/2)``. With ``c = 1 - s``, ``exp(z) - 1 = s/E max(t - s, 0)``.
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
