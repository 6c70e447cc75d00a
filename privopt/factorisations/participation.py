"""How often, and how far apart, one record may take part; and what that does to a sensitivity.

A *pattern* is a set of steps, at most ``times`` of them and any two at least ``gap`` apart; an even
one has each exactly ``gap`` after the one before. A record that takes part in the pattern ``pi``
with unit vectors ``g_i`` changes the encoded answers by ``sum_(i in pi) C_i g_i^T``, of square norm
``sum_(i, j in pi) X_ij <g_i, g_j>``, ``X = C^T C``. That is at most ``sum_(i, j in pi) |X_ij|``,
attained (all ``g_i`` equal) where ``X >= 0``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import count

MAX_ENUMERATED = 50_000  # patterns

_Floats = NDArray[np.float64]


class Patterns(NamedTuple):
    """The steps in which one record may take part.

    Attributes
    ----------
    times : int
        At most so often.
    gap : int
        Any two of these steps are at least so far apart.
    even : bool
        Whether successive ones are exactly ``gap`` apart: epochs in one order.
    """

    times: int
    gap: int
    even: bool = False

    def starts(self, steps: int) -> range:
        """The first steps of even patterns that no other one of ``steps`` steps contains."""
        return range(min(steps, max(self.gap, steps - (self.times - 1) * self.gap)))


def patterns(steps: int, epochs: int, gap: int | None, even: bool = False) -> Patterns:
    """At most ``epochs`` of ``steps``, ``gap`` apart; by default as far as epochs of one order are.

    Examples
    --------
    >>> patterns(1024, 4, None)
    Patterns(times=4, gap=256, even=False)
    """
    count("epochs", epochs)
    if gap is None:
        gap = max(1, steps // epochs)
    count("gap", gap)
    if (epochs - 1) * gap >= steps:
        raise ValueError(
            f"epochs must fit into {steps} steps with {gap} between participations, got {epochs}"
        )
    return Patterns(epochs, gap, even)


def largest_total(gram: _Floats, allowed: Patterns) -> float:
    """The largest ``sum_(i, j in pi) |X_ij|`` over the patterns, or a bound on it.

    Even patterns are looked at one by one, one for each start. Others by enumeration where there
    are at most ``MAX_ENUMERATED`` of them. Else every step ``i``
    gets the most that a pattern through ``i`` has in row ``i``, and these weights the largest sum
    over one pattern: both by dynamic programming, and never below the truth.

    Parameters
    ----------
    gram : ndarray
        ``X``, shape ``(steps, steps)``.
    allowed : Patterns

    Examples
    --------
    >>> largest_total(np.ones((4, 4)), Patterns(2, 3))
    4.0
    """
    weights = np.abs(gram)
    steps = len(weights)
    if allowed.even:
        length = (allowed.times - 1) * allowed.gap + 1
        chosen = (slice(s, s + length, allowed.gap) for s in allowed.starts(steps))
        return float(max(weights[steps_of, steps_of].sum() for steps_of in chosen))
    number = sum(
        math.comb(max(0, steps - (size - 1) * (allowed.gap - 1)), size)
        for size in range(1, allowed.times + 1)
    )
    if number <= MAX_ENUMERATED:
        return _enumerated(weights, allowed)
    near = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) < allowed.gap
    others = np.where(near, 0.0, weights)
    rest = allowed._replace(times=allowed.times - 1)
    rows = np.diag(weights) + (largest_weight(others, rest) if rest.times else 0.0)
    return float(largest_weight(rows[None], allowed)[0])


def largest_weight(weights: _Floats, allowed: Patterns) -> _Floats:
    """The largest sum of weights over a pattern, for every row of ``weights``; all are ``>= 0``.

    ``f_m(t) = max(f_m(t - 1), weight_t + f_(m-1)(t - gap))``.

    Examples
    --------
    >>> largest_weight(np.array([[1.0, 5.0, 1.0, 3.0]]), Patterns(2, 2))
    array([8.])
    """
    rows, steps = weights.shape
    best = np.zeros((rows, steps + 1))
    for _ in range(allowed.times):
        before = np.zeros_like(best)
        before[:, allowed.gap :] = best[:, : max(0, steps + 1 - allowed.gap)]
        taken = weights + before[:, 1:]  # the last step taken is t; those before end at t - gap
        best = np.maximum.accumulate(np.pad(taken, ((0, 0), (1, 0))), axis=1)
    return best[:, -1]


def _enumerated(weights: _Floats, allowed: Patterns) -> float:
    """The maximum over every pattern, grown by one step at a time."""
    steps = len(weights)

    def grown(total: float, row: _Floats, first: int, times: int) -> float:
        """The most that patterns grown from these steps reach; ``row`` sums their rows."""
        most = total
        if times:
            for t in range(first, steps):
                with_t = total + weights[t, t] + 2.0 * row[t]
                most = max(most, grown(with_t, row + weights[t], t + allowed.gap, times - 1))
        return most

    return float(grown(0.0, np.zeros(steps), 0, allowed.times))
