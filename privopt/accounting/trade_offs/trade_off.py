"""The interface of every trade-off function."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

__all__ = ["TradeOff"]


class TradeOff(ABC):
    """``f = T(P, Q)``: the smallest type-II error of a test of ``P`` against ``Q``, by its type-I.

    Convex and non-increasing on ``[0, 1]``, with ``f(alpha) <= 1 - alpha``. Its dual is the
    privacy profile, ``delta(epsilon) = 1 + f*(-e^epsilon)``, the hockey-stick divergence
    ``sup_R Q(R) - e^epsilon P(R)``; the inverse ``f^{-1} = T(Q, P)`` has the profile of the other
    order. A mechanism is ``f``-DP if no test of any two neighbours does better than ``f``.

    Formal guarantee
    ----------------
    With ``f`` the function that an object stands for, calling it gives numbers not above ``f``,
    and ``delta`` and ``delta_reversed`` numbers not below the two profiles, rounding included.

    Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383).
    """

    @abstractmethod
    def __call__(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``f(alpha)`` from below, in the shape of ``alpha``; ValueError outside ``[0, 1]``."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """``1 + f*(-e^epsilon)`` from above, for any real ``epsilon`` or infinity."""

    @abstractmethod
    def delta_reversed(self, epsilon: float) -> float:
        """The profile of ``f^{-1}``, from above."""

    @abstractmethod
    def inverse(self) -> TradeOff:
        """``f^{-1}(alpha) = inf {t : f(t) <= alpha}``: the two distributions change places."""
