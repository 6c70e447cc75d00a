"""From one pair of neighbours to others: groups, other relations, disjoint parts.

Statements about pairs ``(epsilon, delta)`` and profiles, all rounded up.

Sources: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorem 2.2,
and Vadhan, "The complexity of differential privacy", 2017, Lemma 2.2, for groups; McSherry,
"Privacy integrated queries", SIGMOD 2009, for disjoint parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from privopt.privacy.arguments import (
    check_count,
    check_delta,
    check_epsilon,
    check_mu,
    real,
)
from privopt.privacy.sums import times
from privopt.spec import Relation

__all__ = ["group", "group_gaussian", "parallel", "triangle", "under_relation"]

_ROUNDING = 2.0**-50  # relative; eight units of 2^-53, more than any formula below takes


def group(epsilon: float, delta: float, k: int) -> tuple[float, float]:
    """``(k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1))``: data sets ``k`` steps apart.

    Formal guarantee
    ----------------
    If a release is ``(epsilon, delta)``-DP under a relation, outputs on data sets that ``k``
    steps of it connect are this close.

    Raises
    ------
    ValueError
        If ``epsilon`` or ``delta`` is out of range, or ``k`` not a non-negative integer.
    """
    epsilon, delta, k = check_epsilon(epsilon), check_delta(delta), check_count("k", k)
    if k <= 1:
        return (epsilon, delta) if k else (0.0, 0.0)
    log_sum = math.log(k)  # of the sum of e^{i epsilon}, i < k
    if epsilon > 0.0:
        log_sum = times(k - 1, epsilon)
        log_sum += math.log(math.expm1(-times(k, epsilon)) / math.expm1(-epsilon))
    loss = times(k, epsilon)
    if delta == 0.0:
        return _up(loss), 0.0
    exponent = math.log(delta) + log_sum
    exponent += _ROUNDING * (abs(math.log(delta)) + loss + abs(log_sum) + 1.0)
    return _up(loss), min(1.0, _up(math.exp(min(exponent, 1.0))))


def group_gaussian(mu: float, k: int) -> float:
    """``k mu``: a ``mu``-GDP release on data sets ``k`` steps apart, exactly.

    Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383).

    Raises
    ------
    ValueError
        If ``mu`` is NaN or negative, or ``k`` not a non-negative integer.
    """
    mu, k = check_mu(mu), check_count("k", k)
    return mu if k == 1 else _up(times(k, mu) * (1.0 + 2.0**-51))


def triangle(
    first: Callable[[float], float], second: Callable[[float], float], epsilon: float
) -> float:
    """``min over a + b = epsilon of first(a) + e^a second(b)``: two steps of different kinds.

    With ``first`` and ``second`` the profile under ``add_or_remove_one`` this is a profile
    under ``replace_one``: a record is removed, and another added. Every split is valid, so the
    search for the best one (65 points, then golden section) need not be exact.

    Parameters
    ----------
    first, second : callable
        Upper bounds of ``delta`` at any ``epsilon >= 0``, of the step from ``D`` to ``D'`` and
        of that from ``D'`` to ``D''``.
    epsilon : float
        At which the two steps together are asked for.

    Formal guarantee
    ----------------
    ``H(M(D), M(D''))`` of order ``e^epsilon`` is at most the number returned, by
    ``(P - e^{a + b} R) = (P - e^a Q) + e^a (Q - e^b R)``.

    Raises
    ------
    ValueError
        If ``epsilon`` is outside ``[0, inf)``.
    """
    epsilon = check_epsilon(epsilon)

    def bound(a: float) -> float:
        a = min(max(a, 0.0), epsilon)
        here, there = real("first", first(a)), real("second", second(_down(epsilon - a)))
        if there == 0.0:
            return here
        size = math.log(there)
        exponent = a + size + 4 * _ROUNDING * (a + abs(size) + 1.0)
        return _up(here + _up(math.exp(min(exponent, 1.0))))  # above one says nothing

    grid = [epsilon * i / 64 for i in range(65)]
    best = min(grid, key=bound)
    step = epsilon / 64
    left, right = best - step, best + step
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    smallest = bound(best)
    for _ in range(40):
        low, high = right - ratio * (right - left), left + ratio * (right - left)
        at_low, at_high = bound(low), bound(high)
        smallest = min(smallest, at_low, at_high)
        left, right = (left, high) if at_low <= at_high else (low, right)
    return min(1.0, smallest)


def under_relation(
    epsilon: float,
    delta: float,
    source: Relation | str,
    target: Relation | str,
    *,
    null_is_a_record: bool = False,
    null_is_absence: bool = False,
) -> tuple[float, float]:
    """A guarantee under one relation, said under another.

    Replacing is removing and adding, or going through the null record: two steps. Zeroing out
    is a replacement if the null record is a legitimate one, and a removal if a null record is
    as good as none. Nothing follows from ``replace_one`` about data sets of other sizes.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee under ``source``.
    source, target : Relation or str
        From which relation to which.
    null_is_a_record : bool
        The null record of ``zero_out`` is in the domain of records.
    null_is_absence : bool
        The release does not tell a null record from none at all (so it cannot depend on ``n``).

    Formal guarantee
    ----------------
    A release that is ``(epsilon, delta)``-DP under ``source`` and of which the two assertions
    are true is DP with the pair returned under ``target``.

    Raises
    ------
    ValueError
        If a number is out of range, or the target does not follow from the source.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    source = Relation.named("source", source)
    target = Relation.named("target", target)
    add, zero, replace = Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT, Relation.REPLACE_ONE
    steps = {(add, replace): 2, (zero, replace): 2}
    if null_is_a_record:
        steps |= {(replace, zero): 1, (add, zero): 2}
    if null_is_absence:
        steps |= {(add, zero): 1, (zero, add): 1}
    if source is not target and (source, target) not in steps:
        raise ValueError(
            f"target must follow from {source.value}, got {target.value} with "
            f"null_is_a_record={null_is_a_record} and null_is_absence={null_is_absence}"
        )
    return group(epsilon, delta, steps.get((source, target), 1))


def parallel(
    parts: Iterable[tuple[float, float]], *, relation: Relation | str, fixed_places: bool
) -> tuple[float, float]:
    """Releases from disjoint parts of the data: the largest ``epsilon``, the largest ``delta``.

    Parameters
    ----------
    parts : iterable of (epsilon, delta)
        Guarantees of the releases, each from its own part: under ``relation`` if places are
        fixed, else under ``add_or_remove_one``.
    relation : Relation or str
        The relation of the result.
    fixed_places : bool
        Whether the part of a record is public and independent of its value, such as a split by
        index. If not, a record that is replaced, be it by a null record, may leave one part and
        enter another: a removal and an addition, in one part or in two.

    Formal guarantee
    ----------------
    All releases together are DP with the pair returned, under ``relation``. (Of two steps in
    different parts, basic composition gives ``(e_i + e_j, d_i + d_j)``, which is covered.)

    Raises
    ------
    ValueError
        If a number is out of range, or the relation unknown.
    """
    moves = Relation.named("relation", relation) is not Relation.ADD_OR_REMOVE_ONE
    steps = 2 if moves and not fixed_places else 1
    each = [group(epsilon, delta, steps) for epsilon, delta in parts]
    return max((e for e, _ in each), default=0.0), max((d for _, d in each), default=0.0)


def _up(x: float) -> float:
    return math.nextafter(x, math.inf) if x else 0.0


def _down(x: float) -> float:
    return max(0.0, math.nextafter(x, -math.inf))
