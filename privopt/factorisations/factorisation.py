"""A factorisation ``A = B C`` of the matrix of prefix sums, ``A_ti = 1`` for ``i <= t``.

A run adds ``B z`` to the prefix sums of its gradients, with independent normal ``z``: it releases
``C g + z`` (or an equivalent) and decodes it. ``C`` determines the sensitivity, ``B`` the error.

A *pattern* is the set of steps in which one record participates: at most ``times`` steps, any two
at least ``gap`` apart. In an even pattern consecutive steps are exactly ``gap`` apart. The squared
sensitivity for records of unit norm is at most ``sum_(i, j in pi) |X_ij|``, ``X = C^T C``, with
equality if ``X >= 0`` (:ref:`Mechanisms, Theorem 1 <theory-mechanisms-1>`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from privopt.arguments import checked, count, described

MAX_ENUMERATED = 50_000  # patterns
MAX_DENSE = 512  # steps up to which the Gram matrix is used for general patterns
MAX_ALLOCATED = 64  # participations in an epoch up to which allocations are compared
MAX_WORK = 2**28  # additions

_Floats = NDArray[np.float64]


class Patterns(NamedTuple):
    """Patterns of at most ``times`` steps, at least (if ``even`` exactly) ``gap`` apart."""

    times: int
    gap: int
    even: bool = False

    def starts(self, steps: int) -> range:
        """Return the first steps of the maximal even patterns over ``steps`` steps."""
        return range(min(steps, max(self.gap, steps - (self.times - 1) * self.gap)))


@checked
def patterns(steps: int, epochs: int, gap: int | None, even: bool = False) -> Patterns:
    """Return patterns of at most ``epochs`` steps with a ``gap``, by default ``steps // epochs``.

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
    """Return an upper bound of ``sum_(i, j in pi) |X_ij|`` over the patterns, ``X = gram``.

    Exact for even patterns and if there are at most ``MAX_ENUMERATED`` patterns. Otherwise step
    ``i`` receives the largest sum of row ``i`` over a pattern through ``i``, and the weights are
    maximised over one pattern, both by dynamic programming.
    """
    weights = np.abs(gram)
    steps = len(weights)
    if allowed.even:
        length = (allowed.times - 1) * allowed.gap + 1
        slices = (slice(s, s + length, allowed.gap) for s in allowed.starts(steps))
        return float(max(weights[each, each].sum() for each in slices))
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
    """Return the largest sum of non-negative weights over a pattern, for every row of ``weights``.

    ``f_m(t) = max(f_m(t - 1), weight_t + f_(m-1)(t - gap))``.
    """
    rows, steps = weights.shape
    best = np.zeros((rows, steps + 1))
    for _ in range(allowed.times):
        before = np.zeros_like(best)
        before[:, allowed.gap :] = best[:, : max(0, steps + 1 - allowed.gap)]
        ending = weights + before[:, 1:]  # last participation at t, earlier ones up to t - gap
        best = np.maximum.accumulate(np.pad(ending, ((0, 0), (1, 0))), axis=1)
    return best[:, -1]


def _enumerated(weights: _Floats, allowed: Patterns) -> float:
    """Return the maximum over all patterns by enumeration."""
    steps = len(weights)

    def extend(total: float, row: _Floats, first: int, times: int) -> float:
        """Return the maximum over extensions of a pattern; ``row`` is the sum of its rows."""
        largest = total
        if times:
            for t in range(first, steps):
                with_t = total + weights[t, t] + 2.0 * row[t]
                extended = extend(with_t, row + weights[t], t + allowed.gap, times - 1)
                largest = max(largest, extended)
        return largest

    return float(extend(0.0, np.zeros(steps), 0, allowed.times))


class Factorisation(ABC):
    """Factorisation ``A = B C`` over ``T = steps`` steps.

    Source: Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv:2202.08312); with more
    participations Choquette-Choo, McMahan, Rush and Thakurta 2023 (arXiv:2211.06530).
    """

    def __init__(self, name: str, steps: int) -> None:
        self.name = name
        self.steps = count("steps", steps)

    @abstractmethod
    def encoder(self) -> _Floats:
        """Return ``C``, shape ``(rows, steps)``; for a few thousand steps at most."""

    @abstractmethod
    def decoder(self) -> _Floats:
        """Return ``B``, shape ``(steps, rows)``; for a few thousand steps at most."""

    @property
    def band(self) -> int:
        """Bandwidth: rows of ``C`` that contain step ``i`` end before ``i + band``.

        ``steps`` if no smaller value is known.
        """
        return self.steps

    @abstractmethod
    def variances(self) -> _Floats:
        """Return ``(B B^T)_tt``, variances of the prefix sums at unit noise, shape ``(steps,)``."""

    @abstractmethod
    def _sensitivity(self, allowed: Patterns) -> float:
        """Return the sensitivity for patterns within ``steps``."""

    def sensitivity(self, epochs: int = 1, gap: int | None = None, even: bool = False) -> float:
        """Return the l2 sensitivity of ``C g`` to one record of unit norm under zero-out.

        Under ``replace_one`` the sensitivity is at most twice as large. The record participates at
        most ``epochs`` times, any two of its steps at least ``gap`` apart (default ``steps //
        epochs``). If ``even``, consecutive steps are exactly ``gap`` apart, as in epochs with a
        fixed order; the sensitivity is then not larger. The value is an upper bound, exact if the
        docstring of the class states so.
        """
        sensitivity = self._sensitivity(patterns(self.steps, epochs, gap, even))
        if not math.isfinite(sensitivity):
            raise ValueError(
                f"{self.name} must have finite coefficients over {self.steps} steps, got a "
                f"sensitivity of {sensitivity}"
            )
        return sensitivity

    def _with_gram(self, square: float, allowed: Patterns) -> float:
        """Return the root of a bound on the square, or of that by the Gram matrix if smaller."""
        if allowed.times > 1 and self.steps <= MAX_DENSE:
            encoder = self.encoder()
            square = min(square, largest_total(encoder.T @ encoder, allowed))
        return math.sqrt(square)

    def rmse(self) -> float:
        """Return the root mean squared error of the prefix sums at noise multiplier 1.

        ``sensitivity() * |B|_F / sqrt(T)`` at one participation; it compares factorisations of
        equal privacy.
        """
        variance = self.variances().mean()  # infinite or NaN if B overflows
        return self.sensitivity() * (math.sqrt(variance) if math.isfinite(variance) else math.inf)

    def covariance(self) -> _Floats:
        """Return ``B B^T``, the covariance of the prefix sums at unit noise."""
        decoder = self.decoder()
        return decoder @ decoder.T

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.steps} steps>"


class RestartedFactorisation(Factorisation):
    """Block diagonal ``C`` that repeats one factorisation; the last block may be incomplete.

    ``factorisation`` covers one epoch, ``steps`` all epochs. The epochs have independent noise, so
    their variances add.

    *Sensitivity*. Squares add over the epochs. With the square ``f(m)`` for ``m`` participations in
    one epoch, the best allocation ``max sum_e f(m_e)``, ``sum_e m_e <= times``, bounds the square;
    cases in which it is attained: :ref:`Mechanisms, Theorem 4 <theory-mechanisms-4>`. Up to
    ``MAX_DENSE`` steps the Gram matrix is used too, which is exact if there are few patterns.

    Examples
    --------
    >>> from privopt.factorisations import TreeFactorisation
    >>> epochs = RestartedFactorisation(TreeFactorisation(4), 10)
    >>> epochs.variances()
    array([1., 1., 2., 1., 2., 2., 3., 2., 3., 3.])
    >>> round(epochs.sensitivity(3, 4, even=True) ** 2, 12)  # blocks: 3 + 3 + 2
    8.0
    """

    def __init__(self, factorisation: Factorisation, steps: int) -> None:
        super().__init__("restarted", steps)
        if not isinstance(factorisation, Factorisation):
            raise ValueError(f"factorisation must be one, got {described(factorisation)}")
        self.factorisation = factorisation
        self.period = factorisation.steps
        self.epochs, self._rest = divmod(self.steps, self.period)

    @property
    def band(self) -> int:
        return min(self.steps, self.factorisation.band)

    def encoder(self) -> _Floats:
        encoder = self.factorisation.encoder()
        within = self._ends_within(encoder)
        return block_diag(*[encoder] * self.epochs, encoder[within, : self._rest])

    def decoder(self) -> _Floats:
        encoder, decoder = self.factorisation.encoder(), self.factorisation.decoder()
        within = self._ends_within(encoder)
        whole = np.tile(decoder[-1], (self.steps, self.epochs))
        epoch_of = np.repeat(np.arange(self.epochs), decoder.shape[1])
        whole *= epoch_of < np.arange(self.steps)[:, None] // self.period
        own = block_diag(*[decoder] * self.epochs, decoder[: self._rest, within])
        own[:, : whole.shape[1]] += whole
        return own

    def variances(self) -> _Floats:
        one = self.factorisation.variances()
        epoch, place = np.divmod(np.arange(self.steps), self.period)
        total: _Floats = epoch * one[-1] + one[place]
        return total

    def _ends_within(self, encoder: _Floats) -> NDArray[np.bool_]:
        return np.logical_not(np.any(encoder[:, self._rest :], axis=1))

    def _sensitivity(self, allowed: Patterns) -> float:
        return self._with_gram(self._allocated(allowed), allowed)

    def _allocated(self, allowed: Patterns) -> float:
        """Return ``max sum_e f(m_e)``, or a bound if there are many participations."""
        lengths = [self.period] * self.epochs + [self._rest] * (self._rest > 0)
        fits = [min(allowed.times, -(-length // allowed.gap)) for length in lengths]
        fits = fits[: allowed.times]
        if fits[0] > MAX_ALLOCATED or sum(fits) * allowed.times > MAX_WORK:
            return len(fits) * self._square(fits[0], allowed)
        squares = [self._square(times, allowed) for times in range(fits[0] + 1)]
        best = np.zeros(allowed.times + 1)
        for limit in fits:
            before = np.pad(best, (limit, 0), constant_values=-np.inf)
            sums = [squares[m] + before[limit - m :][: len(best)] for m in range(limit + 1)]
            best = np.max(sums, axis=0)
        return float(best[-1])

    def _square(self, times: int, allowed: Patterns) -> float:
        """Return ``f(times)``."""
        return self.factorisation._sensitivity(allowed._replace(times=times)) ** 2 if times else 0.0
