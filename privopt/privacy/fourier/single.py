"""One release by itself: its curve needs no lattice.

With ``A`` the outcomes of a loss above epsilon, ``delta(eps) = P(A) - e^eps Q(A)``. Any other set
of outcomes gives less, and one that takes in losses down to ``eps - 2b`` less by ``2b P(A)`` or so.
"""

from __future__ import annotations

import math

import numpy as np

from privopt.privacy.fourier.query import AtEpsilon, Query
from privopt.privacy.pairs import Pair
from privopt.privacy.pairs.pair import Array

_U = 2.0**-53  # unit roundoff of float64
_POINTS = 48  # of a grid
_GRIDS = 12  # each within a cell of the last
_CLOSE = 1e-9  # relative; closer ends are not looked for
_MAX_EPSILON = 600.0  # beyond it probabilities under Q underflow
_UNDERFLOW = 1e-300


def of_one_release(pair: Pair, query: Query) -> tuple[float, float]:
    """Bounds of the answer about a pair; 0 and the worst where floats do not reach."""
    if isinstance(query, AtEpsilon):
        lower, upper = curve_of_one(pair, np.array([query.epsilon]))
        return float(lower[0]), float(upper[0])
    # From P(L > eps) <= delta on.
    reach = float(pair.losses(max(0.1 * (query.delta - query.infinite), _UNDERFLOW), _POINTS)[-1])
    low, high = 0.0, min(max(reach, 0.0) * (1.0 + 1e-6), _MAX_EPSILON)
    found, known = 0.0, query.worst
    for _ in range(_GRIDS):
        grid = np.unique(np.linspace(low, high, _POINTS))
        lower, upper = curve_of_one(pair, grid)
        enough, short = grid[upper <= query.delta], grid[lower > query.delta]
        known = min(known, float(enough.min(initial=math.inf)))
        found = max(found, float(short.max(initial=0.0)))
        ends = max(low, found), min(high, known)
        if known - found <= _CLOSE * known or ends == (low, high):
            break
        low, high = ends
    return found, known


def curve_of_one(pair: Pair, epsilons: Array) -> tuple[Array, Array]:
    """Bounds of ``delta`` of a pair at increasing ``epsilons``."""
    blur = pair.bins(epsilons).blur
    certain = pair.infinite()[0]
    found = []
    for sign, edges in ((-1.0, epsilons), (1.0, epsilons - blur)):
        bins = pair.bins(edges)
        p, q, p_error, q_error = (
            np.cumsum(each[:0:-1])[::-1] for each in (bins.p, bins.q, bins.p_error, bins.q_error)
        )
        ratio = np.exp(np.minimum(epsilons, _MAX_EPSILON))
        ratio *= 1.0 - sign * 4 * _U * (1.0 + epsilons)
        q = np.maximum(q - sign * (q_error + (epsilons.size + 4) * _U * q + _UNDERFLOW), 0.0)
        p = p + certain + sign * (p_error + (epsilons.size + 4) * _U * p + _UNDERFLOW)
        value = p - ratio * q + (4.0 * blur * np.maximum(p, 0.0) if sign > 0.0 else 0.0)
        found.append(np.clip(value + sign * 8 * _U * np.abs(p), 0.0, 1.0))
    lower, upper = found
    return np.where(epsilons <= _MAX_EPSILON, lower, 0.0), upper
