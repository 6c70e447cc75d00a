"""Piecewise linear trade-off functions, which are pairs of discrete distributions.

A segment of ``f = T(P, Q)`` with run ``p`` and fall ``q`` is an outcome of probability ``p`` under
``P`` and ``q`` under ``Q``; convexity orders the outcomes by likelihood ratio (Neyman-Pearson).
Outcomes that only one of the two can produce are the gap ``1 - f(0)`` and the part of ``[0, 1]``
where ``f`` is zero. Masses, unlike corners, keep their relative accuracy in both tails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.arguments import check_alpha, real

__all__ = ["Polygon", "epsilon_delta", "identity", "piecewise"]

_U = 2.0**-53


@dataclass(frozen=True, eq=False)
class Polygon(TradeOff):
    """A convex polygon; made by ``piecewise``, ``epsilon_delta``, ``from_profile`` or an operator.

    Parameters
    ----------
    p, q : array of float
        Masses under ``P`` and ``Q`` of the outcomes both can produce, all positive.
    p_only, q_only : float
        Mass of the outcomes that only ``P``, or only ``Q``, can produce.
    rounding : float
        Each mass is known to this relative accuracy.
    """

    p: npt.NDArray[np.float64]
    q: npt.NDArray[np.float64]
    p_only: float = 0.0
    q_only: float = 0.0
    rounding: float = 4 * _U

    def __post_init__(self) -> None:
        p, q = np.asarray(self.p), np.asarray(self.q)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            ratio = q / p
        both = (ratio > 0.0) & (ratio < math.inf)  # what float64 cannot compare is told apart
        object.__setattr__(self, "p_only", self.p_only + float(p[~both].sum()))
        object.__setattr__(self, "q_only", self.q_only + float(q[~both].sum()))
        order = np.argsort(-ratio[both], kind="stable")
        for name, masses in (("p", p[both][order]), ("q", q[both][order])):
            masses.flags.writeable = False
            object.__setattr__(self, name, masses)

    @property
    def slack(self) -> float:
        """Relative accuracy of any sum of masses."""
        return self.rounding + (self.p.size + 8) * _U

    def corners(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """``alpha`` and ``beta`` of the corners, from ``alpha = 0`` on, rounded left and down."""
        alpha = np.concatenate([[0.0], np.cumsum(self.p)])
        beta = np.concatenate([np.cumsum(self.q[::-1])[::-1], [0.0]])
        return alpha * (1.0 - self.slack), beta * (1.0 - self.slack)

    def __call__(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``f(alpha)``, by a weighted mean of the nearest two corners."""
        alpha = check_alpha(alpha)
        x, y = self.corners()
        inside = alpha < x[-1]
        i = np.where(inside, np.searchsorted(x, alpha, side="right"), 0)
        with np.errstate(under="ignore", invalid="ignore"):
            left, right = alpha - x[i - 1], x[i] - alpha
            curve = (right * y[i - 1] + left * y[i]) / (x[i] - x[i - 1]) * (1.0 - 8 * _U)
        return np.where(inside, np.maximum(np.nextafter(curve, -1.0), 0.0), 0.0)

    def delta(self, epsilon: float) -> float:
        """``q_only + sum (q - e^epsilon p)_+``."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gamma = np.exp(np.float64(real("epsilon", epsilon))) * (1.0 - 4 * _U)
            falls = self.q * (1.0 + self.slack)
            gains = np.maximum(falls - gamma * (self.p * (1.0 - self.slack)), 0.0)
        return min(1.0, (float(gains.sum()) + self.q_only) * (1.0 + 2 * self.slack))

    def delta_reversed(self, epsilon: float) -> float:
        """``p_only + sum (p - e^epsilon q)_+``."""
        return self.inverse().delta(epsilon)

    def inverse(self) -> Polygon:
        """The reflection at the diagonal: the masses change places."""
        return Polygon(self.q, self.p, self.q_only, self.p_only, self.rounding)


def piecewise(alphas: npt.ArrayLike, betas: npt.ArrayLike) -> Polygon:
    """The convex envelope (double conjugate) of given points, ``(0, 1)`` and ``(1, 0)``.

    This is the largest convex function that exceeds none of the points, hence a lower bound of
    whatever joins them by straight lines. Of a curve that bends *below* its chords it is none:
    a trade-off function sampled at points is bounded from below by its tangents, which are
    ``from_profile``.

    Parameters
    ----------
    alphas, betas : array_like
        Type-I and type-II errors in ``[0, 1]``, of equal length, in any order.

    Raises
    ------
    ValueError
        If a number lies outside ``[0, 1]``, or the lengths differ.
    """
    x, y = _errors("alphas", alphas), _errors("betas", betas)
    if x.shape != y.shape:
        raise ValueError(f"alphas and betas must be of equal length, got {x.size} and {y.size}")
    x, y = np.append(x, [0.0, 1.0]), np.append(y, [1.0, 0.0])
    order = np.lexsort((y, x))
    kept: list[int] = []
    for i in order:
        if kept and x[kept[-1]] == x[i]:
            continue
        while len(kept) > 1 and _above(x, y, kept[-2], kept[-1], int(i)):
            kept.pop()
        kept.append(int(i))
    x, y = x[kept], y[kept]
    zero = int(np.argmax(y == 0.0))
    p, q = np.diff(x[: zero + 1]), -np.diff(y[: zero + 1])
    return Polygon(p, q, p_only=1.0 - float(x[zero]), q_only=1.0 - float(y[0]))


def epsilon_delta(epsilon: float, delta: float) -> Polygon:
    """``f(alpha) = max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))``.

    The trade-off function of the least private ``(epsilon, delta)``-DP mechanism.

    Raises
    ------
    ValueError
        If ``epsilon`` is outside ``[0, inf]``, or ``delta`` outside ``[0, 1]``.
    """
    epsilon, delta = real("epsilon", epsilon), real("delta", delta)
    if epsilon < 0.0:
        raise ValueError(f"epsilon must be non-negative, got {epsilon!r}")
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must lie in [0, 1], got {delta!r}")
    less = math.exp(-epsilon)
    more = (1.0 - delta) / (1.0 + less)
    masses = np.array([more * less, more])
    gone = delta if less > 0.0 else 1.0
    return Polygon(masses * (less > 0.0), masses[::-1] * (less > 0.0), gone, gone, 8 * _U)


def identity() -> Polygon:
    """``f(alpha) = 1 - alpha``: the two distributions are the same."""
    return epsilon_delta(0.0, 0.0)


def _errors(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.all((array >= 0.0) & (array <= 1.0)):
        raise ValueError(f"{name} must be a list of numbers in [0, 1], got {values!r}")
    return array


def _above(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], i: int, j: int, k: int) -> bool:
    """Whether point ``j`` is above the chord from ``i`` to ``k``, and not by rounding alone."""
    point, chord = (y[j] - y[i]) * (x[k] - x[i]), (y[k] - y[i]) * (x[j] - x[i])
    return bool(point - chord > 8 * _U * (abs(point) + abs(chord)))
