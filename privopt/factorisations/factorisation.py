"""A factorisation ``A = B C`` of the matrix of prefix sums, ``A_ti = 1`` for ``i <= t``.

A run adds ``B z`` to the prefix sums of its gradients, ``z`` independent normals: it releases
``C g + z`` (in truth or in effect) and decodes it. Privacy pays for ``C``, error for ``B``.

A *pattern* is a set of steps in which one record takes part, at most ``times`` of them and any two
at least ``gap`` apart; an even one has each exactly ``gap`` after the one before. With unit vectors
``g_i`` it changes the encoded answers by ``sum_(i in pi) C_i g_i^T``, of square norm ``sum_(i, j in
pi) X_ij <g_i, g_j>``, ``X = C^T C``. That is at most ``sum_(i, j in pi) |X_ij|``, attained (all
``g_i`` equal) where ``X >= 0``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import checked, count

MAX_ENUMERATED = 50_000  # patterns

_Floats = NDArray[np.float64]


class Patterns(NamedTuple):
    """At most ``times`` steps, any two at least ``gap`` apart; ``even``: exactly, in a row."""

    times: int
    gap: int
    even: bool = False

    def starts(self, steps: int) -> range:
        """The first steps of even patterns that no other one of ``steps`` steps contains."""
        return range(min(steps, max(self.gap, steps - (self.times - 1) * self.gap)))


@checked
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
    """The largest ``sum_(i, j in pi) |X_ij|`` over the patterns, or a bound on it; ``X = gram``.

    Even patterns are looked at one by one, others by enumeration where there are at most
    ``MAX_ENUMERATED`` of them. Else every step ``i`` gets the most that a pattern through ``i`` has
    in row ``i``, and these weights the largest sum over one pattern: both by dynamic programming,
    and never below the truth.
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


class Factorisation(ABC):
    """``A = B C`` over ``T = steps`` steps.

    Source: Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv:2202.08312); with more
    participations Choquette-Choo, McMahan, Rush and Thakurta 2023 (arXiv:2211.06530).
    """

    def __init__(self, name: str, steps: int) -> None:
        self.name = name
        self.steps = count("steps", steps)

    @abstractmethod
    def encoder(self) -> _Floats:
        """``C``, shape ``(rows, steps)``; for a few thousand steps at most."""

    @abstractmethod
    def decoder(self) -> _Floats:
        """``B``, shape ``(steps, rows)``; for a few thousand steps at most."""

    @property
    def band(self) -> int:
        """Over how many steps ``C`` spreads one: rows that hold step ``i`` end before ``i + band``.

        ``steps`` where no less is known.
        """
        return self.steps

    @abstractmethod
    def variances(self) -> _Floats:
        """``(B B^T)_tt``: the variance of every prefix sum at unit noise, shape ``(steps,)``."""

    @abstractmethod
    def _sensitivity(self, allowed: Patterns) -> float:
        """For patterns that fit."""

    def sensitivity(self, epochs: int = 1, gap: int | None = None, even: bool = False) -> float:
        """How far one record of unit norm moves ``C g``, in the Euclidean norm, under zero-out.

        Under ``replace_one`` it is at most twice as far. The record takes part at most ``epochs``
        times, any two of its steps at least ``gap`` apart (default ``steps // epochs``), or exactly
        so where ``even``, as in epochs of one order: fewer patterns, hence no larger a sensitivity.
        Exact where the docstring of the kind says so, never below the truth.
        """
        found = self._sensitivity(patterns(self.steps, epochs, gap, even))
        if not math.isfinite(found):
            raise ValueError(
                f"{self.name} must have finite coefficients over {self.steps} steps, got a "
                f"sensitivity of {found}"
            )
        return found

    def rmse(self) -> float:
        """Root mean square error of the prefix sums per noise multiplier, at one participation.

        ``sensitivity() * |B|_F / sqrt(T)``: what factorisations of equal privacy are compared by.
        """
        return self.sensitivity() * _root(self.variances().mean())

    def max_error(self) -> float:
        """The largest standard error of a prefix sum per noise multiplier, at one participation."""
        return self.sensitivity() * _root(self.variances().max())

    def covariance(self) -> _Floats:
        """``B B^T``, of the errors of the prefix sums at unit noise."""
        decoder = self.decoder()
        return decoder @ decoder.T

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.steps} steps>"


def _root(variance: np.float64) -> float:
    """Infinite where ``B`` overflows."""
    return math.sqrt(variance) if math.isfinite(variance) else math.inf
