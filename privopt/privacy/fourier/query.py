"""Queries of a privacy curve: epsilon at a delta, delta at an epsilon; for one release exactly.

The curve of a single release needs no lattice. With ``A`` the outcomes of a loss above epsilon,
``delta(eps) = P(A) - e^eps Q(A)``. Any other set of outcomes gives a smaller value. A set that
includes losses down to ``eps - 2b`` gives a value that is smaller by about ``2b P(A)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from privopt.privacy.fourier.composition import Composition
from privopt.privacy.fourier.window import Saddle, Sketch
from privopt.privacy.numbers import Array
from privopt.privacy.pairs import Pair

_ROUNDING = 2.0**-40  # relative; sums of a few products


@dataclass(frozen=True)
class AtDelta:
    """The smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``.

    ``worst`` is a valid upper bound of every result.
    """

    delta: float
    infinite: float
    worst = math.inf

    def saddle(self, sketch: Sketch) -> Saddle:
        """Return the tilt whose estimate of delta, minus the infinite mass, is the given one."""
        return sketch.with_delta(math.log(self.delta - self.infinite))

    def reached(self, saddle: Saddle) -> bool:
        """Return True if the sketch contains the saddle point."""
        return True

    def estimate(self, saddle: Saddle) -> float:
        """Return the saddle-point approximation: the centre of the window."""
        return saddle.mean

    def most(self, largest: float) -> float:
        """Return an upper bound of the result if no loss exceeds ``largest``."""
        return max(0.0, largest) * (1.0 + _ROUNDING)

    def scale(self, saddle: Saddle, answer: float) -> float:
        """Return the unit of the accuracy: the result or, near 0, a fraction of the deviation."""
        return max(answer, 0.05 * saddle.deviation)

    def slope(self, saddle: Saddle, fall: float) -> float:
        """Return the relative change of the result per unit change of every loss: ``1 / scale``."""
        return 1.0 / self.scale(saddle, saddle.mean)

    def place(self, answer: float) -> tuple[float, float]:
        """Return the point of the curve that belongs to a result: ``epsilon`` and ``ln delta``."""
        return answer, math.log(self.delta - self.infinite)

    def read(self, composition: Composition, sign: float, blur: float) -> float:
        """Return the epsilon at which the curve crosses delta, from above or below (``sign``)."""
        return max(0.0, composition.epsilon(self.delta, sign) + sign * blur)


@dataclass(frozen=True)
class AtEpsilon:
    """``delta(epsilon)``. The methods have the meaning of those of ``AtDelta``."""

    epsilon: float
    worst = 1.0

    def saddle(self, sketch: Sketch) -> Saddle:
        return sketch.with_mean(self.epsilon)

    def reached(self, saddle: Saddle) -> bool:
        return saddle.mean >= self.epsilon - 0.1 * saddle.deviation

    def estimate(self, saddle: Saddle) -> float:
        return math.exp(max(saddle.log_delta, -700.0))

    def most(self, largest: float) -> float:
        excess = max(0.0, largest) * (1.0 + _ROUNDING) - self.epsilon
        return min(1.0, -math.expm1(-max(0.0, excess)) * (1.0 + _ROUNDING))

    def scale(self, saddle: Saddle, answer: float) -> float:
        return answer

    def slope(self, saddle: Saddle, fall: float) -> float:
        # As steep as the curve falls; little beyond it
        return 1.0 if saddle.mean < self.epsilon - 3.0 * saddle.deviation else fall

    def place(self, answer: float) -> tuple[float, float]:
        return self.epsilon, math.log(answer) if answer > 0.0 else -math.inf

    def read(self, composition: Composition, sign: float, blur: float) -> float:
        return composition.delta(self.epsilon - sign * blur, sign)


Query: TypeAlias = AtDelta | AtEpsilon


_U = 2.0**-53  # unit roundoff of float64
_POINTS = 48  # of a grid
_GRIDS = 12  # each within a cell of the previous one
_CLOSE = 1e-9  # relative accuracy of the ends
_MAX_EPSILON = 600.0  # beyond it probabilities under Q underflow
_UNDERFLOW = 1e-300


def bound_single_release(pair: Pair, query: Query) -> tuple[float, float]:
    """Return bounds of the result for a pair; 0 and the worst case beyond the range of floats."""
    if isinstance(query, AtEpsilon):
        lower, upper = single_release_curve(pair, np.array([query.epsilon]))
        return float(lower[0]), float(upper[0])
    # From P(L > eps) <= delta on.
    reach = float(pair.losses(max(0.1 * (query.delta - query.infinite), _UNDERFLOW), _POINTS)[-1])
    low, high = 0.0, min(max(reach, 0.0) * (1.0 + 1e-6), _MAX_EPSILON)
    best_lower, best_upper = 0.0, query.worst
    for _ in range(_GRIDS):
        grid = np.unique(np.linspace(low, high, _POINTS))
        lower, upper = single_release_curve(pair, grid)
        sufficient, insufficient = grid[upper <= query.delta], grid[lower > query.delta]
        best_upper = min(best_upper, float(sufficient.min(initial=math.inf)))
        best_lower = max(best_lower, float(insufficient.max(initial=0.0)))
        ends = max(low, best_lower), min(high, best_upper)
        if best_upper - best_lower <= _CLOSE * best_upper or ends == (low, high):
            break
        low, high = ends
    return best_lower, best_upper


def single_release_curve(pair: Pair, epsilons: Array) -> tuple[Array, Array]:
    """Return bounds of ``delta`` of a pair at increasing ``epsilons``."""
    blur = pair.bins(epsilons).blur
    infinite = pair.infinite()[0]
    curves = []
    for sign, edges in ((-1.0, epsilons), (1.0, epsilons - blur)):
        bins = pair.bins(edges)
        p, q, p_error, q_error = (
            np.cumsum(each[:0:-1])[::-1] for each in (bins.p, bins.q, bins.p_error, bins.q_error)
        )
        ratio = np.exp(np.minimum(epsilons, _MAX_EPSILON))
        ratio *= 1.0 - sign * 4 * _U * (1.0 + epsilons)
        q = np.maximum(q - sign * (q_error + (epsilons.size + 4) * _U * q + _UNDERFLOW), 0.0)
        p = p + infinite + sign * (p_error + (epsilons.size + 4) * _U * p + _UNDERFLOW)
        value = p - ratio * q + (4.0 * blur * np.maximum(p, 0.0) if sign > 0.0 else 0.0)
        curves.append(np.clip(value + sign * 8 * _U * np.abs(p), 0.0, 1.0))
    lower, upper = curves
    return np.where(epsilons <= _MAX_EPSILON, lower, 0.0), upper
