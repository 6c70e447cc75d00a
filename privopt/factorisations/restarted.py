"""Factorisation that restarts after every epoch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from privopt.arguments import described
from privopt.factorisations.factorisation import (
    MAX_DENSE,
    Factorisation,
    Patterns,
    largest_total,
)

MAX_ALLOCATED = 64  # participations in an epoch up to which allocations are compared
MAX_WORK = 2**28  # additions

_Floats = NDArray[np.float64]


class RestartedFactorisation(Factorisation):
    """Block diagonal ``C`` that repeats one factorisation; the last block may be incomplete.

    ``factorisation`` covers one epoch, ``steps`` all epochs. The epochs have independent noise, so
    their variances add.

    *Sensitivity*. Squares add over the epochs. With the square ``f(m)`` for ``m`` participations in
    one epoch, the best allocation ``max sum_e f(m_e)``, ``sum_e m_e <= times``, bounds the square.
    It is attained if all participations are ``period`` or a multiple of it apart and the first
    column of ``C`` is the longest, and if a record participates in every step. Up to ``MAX_DENSE``
    steps the Gram matrix is used too, which is exact if there are few patterns. See
    :ref:`Mechanisms, Theorem 4 <theory-mechanisms-4>`.

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
        square = self._allocated(allowed)
        if allowed.times > 1 and self.steps <= MAX_DENSE:
            encoder = self.encoder()
            square = min(square, largest_total(encoder.T @ encoder, allowed))
        return math.sqrt(square)

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
