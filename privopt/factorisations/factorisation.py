"""A factorisation ``A = B C`` of the matrix of prefix sums, ``A_ti = 1`` for ``i <= t``.

A run adds ``B z`` to the prefix sums of its gradients, ``z`` independent normals: it releases
``C g + z`` (in truth or in effect) and decodes it. Privacy pays for ``C``, error for ``B``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from privopt.arguments import count
from privopt.factorisations.participation import Patterns, patterns

_Floats = NDArray[np.float64]


class Factorisation(ABC):
    """``A = B C`` over ``steps`` steps.

    Attributes
    ----------
    name : str
    steps : int
        ``T``.

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

        Under ``replace_one`` it is at most twice as far.

        Parameters
        ----------
        epochs : int
            The record takes part at most so often.
        gap : int, optional
            Any two of its steps are at least so far apart; default ``steps // epochs``.
        even : bool
            Whether successive ones are exactly so far apart, as in epochs of one order: fewer
            patterns, hence no larger a sensitivity.

        Returns
        -------
        float
            Exact where the docstring of the kind says so, never below the truth.

        Raises
        ------
        ValueError
            If a count is not positive, so many participations do not fit, or ``C`` overflows.
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
