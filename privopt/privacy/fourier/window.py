"""Where to look at a composed loss, and how finely: estimates that nothing rests on.

A sketch of each loss, some hundred points, gives its cumulants under any tilt. The saddle point
places the window; the certificate is computed afterwards, on the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from privopt.privacy.pairs import Pair
from privopt.privacy.pairs.pair import Array

__all__ = ["Saddle", "Sketch", "Window"]

_POINTS = 200
_MAX_LEVEL = 14
_STEPS = 40
_MAX_DEVIATION_TILT = 1e3  # tilt in units of the standard deviation: deltas below exp(-1e6 / 2)
_MAX_EPSILON_TILT = 1e6  # tilt in units of epsilon: closer to the largest loss nobody looks
_CHERNOFF = np.geomspace(0.05, 4.0, 24)  # rates tried, in units of the normal optimum


class Window(NamedTuple):
    """The sums to be computed, under which tilt, and Chernoff rates for what lies outside."""

    tilt: float
    centre: float
    bottom: float
    top: float
    below_rate: float
    above_rate: float


@dataclass(frozen=True)
class Saddle:
    """The tilted normal approximation of a composed loss.

    ``log_scale`` is ``K``, ``mean`` and ``deviation`` those of ``S`` under the tilt, and
    ``log_delta`` the estimate at ``eps = mean``.
    """

    tilt: float
    mean: float
    deviation: float
    log_scale: float

    @property
    def log_delta(self) -> float:
        """``K + ln [B(tilt s) - B((tilt + 1) s)]``, ``B(x) = e^(x^2 / 2) Phi(-x)``."""
        s = self.deviation / math.sqrt(2.0)
        part = 0.5 * float(erfcx(self.tilt * s) - erfcx((self.tilt + 1.0) * s))
        return self.log_scale + math.log(part) if part > 0.0 else -math.inf


class Sketch:
    """A few hundred points of every loss in a composition, with multiplicities."""

    def __init__(self, parts: Sequence[tuple[Pair, int]], tail: float) -> None:
        self.parts, self.ends = [], []
        for pair, count in parts:
            edges = pair.losses(tail, _POINTS)
            size = 1.0 + abs(edges[0]) + abs(edges[-1])
            margin = 1e-9 * min(size, max(edges[-1] - edges[0], 1e-6))  # atoms belong inside
            edges = np.concatenate([[edges[0] - margin], edges, [edges[-1] + margin]])
            self.ends.append((edges[0], edges[-1]))
            bins = pair.bins(edges)
            mass, other = bins.p[1:-1], bins.q[1:-1]
            keep = mass > 0.0
            with np.errstate(divide="ignore"):
                loss = np.clip(
                    np.log(mass[keep]) - np.log(other[keep]), edges[:-1][keep], edges[1:][keep]
                )
            self.parts.append((np.log(mass[keep]), loss, count))

    def at(self, tilt: float) -> Saddle:
        """The approximation under one tilt."""
        log_moment = mean = variance = 0.0
        for log_mass, loss, count in self.parts:
            exponent = log_mass + tilt * loss
            largest = float(exponent.max())
            weight = np.exp(exponent - largest)
            norm = float(weight.sum())
            centre = float(weight @ loss) / norm
            log_moment += count * (largest + math.log(norm))
            mean += count * centre
            variance += count * float(weight @ (loss - centre) ** 2) / norm
        deviation = max(math.sqrt(variance), 1e-6 * abs(mean), 1e-12)  # of an atom, too
        return Saddle(tilt, mean, deviation, log_moment - tilt * mean)

    def with_mean(self, epsilon: float) -> Saddle:
        """The tilt ``>= 0`` that centres the sum at ``epsilon``, or as near as it can."""
        return self._solve(lambda saddle: (saddle.mean - epsilon) / saddle.deviation)

    def with_delta(self, log_delta: float) -> Saddle:
        """The tilt ``>= 0`` whose estimate of delta is the given one, or as near as it can."""
        wanted = math.sqrt(-log_delta)
        return self._solve(lambda saddle: math.sqrt(max(0.0, -saddle.log_delta)) - wanted)

    def window(self, saddle: Saddle, tolerance: float) -> Window:
        """Ends beyond which the tilted sum has mass ``tolerance`` by Chernoff's inequality."""
        needed = -math.log(tolerance)
        rates = _CHERNOFF * math.sqrt(2.0 * needed) / saddle.deviation
        start = self._log_moments(np.array([saddle.tilt]))
        tops = (self._log_moments(saddle.tilt + rates) - start + needed) / rates
        bottoms = (start - self._log_moments(saddle.tilt - rates) - needed) / rates
        above, below = int(tops.argmin()), int(bottoms.argmax())
        bottom, top = float(bottoms[below]), float(tops[above])
        if not bottom < top:  # the moments drown in rounding
            bottom, top = saddle.mean - saddle.deviation, saddle.mean + saddle.deviation
        return Window(
            saddle.tilt, saddle.mean, bottom, top, float(rates[below]), float(rates[above])
        )

    def edges(self, part: int, window: Window, spacing: float, most: int) -> npt.NDArray[np.int64]:
        """Edges of the bins of one loss in units of ``spacing``: one apart, more in the tails.

        A width of ``w`` units costs ``w^2`` times as much as one; together with the tilted mass
        beyond, that is kept to a twentieth of the whole. There are about ``most`` of them at most.
        """
        log_mass, loss, _ = self.parts[part]
        exponent = log_mass + window.tilt * loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        beyond = np.minimum(np.cumsum(weight), np.cumsum(weight[::-1])[::-1])
        width = np.sqrt(0.05 / np.maximum(beyond, 1e-100))
        steepest = 1.0 + window.tilt + window.above_rate  # exponentials stay smooth within a bin
        width = np.minimum(width, 1.0 / (spacing * steepest))
        level = np.clip(np.log(np.maximum(width, 1.0)) / math.log(2.0), 0, _MAX_LEVEL).astype(int)
        level = np.minimum(level[:-1], level[1:]) if level.size > 1 else np.zeros_like(level)
        first, last = self.ends[part]
        changes = np.flatnonzero(np.diff(level)) + 1
        start, stop = math.floor(first / spacing) - 1, math.ceil(last / spacing) + 1
        coarser = np.diff(level)[changes - 1] > 0  # a step that holds much is not widened
        ends = np.floor(loss[changes] / spacing) + np.where(coarser, 2.0, -1.0)
        stops = np.append(np.clip(ends, start, stop), stop).astype(np.int64)
        levels = level[np.append(0, changes)]
        bins = float((np.diff(stops, prepend=start) / 2.0**levels).sum())
        return _steps(start, stops, levels + max(0, math.ceil(math.log2(bins / max(most, 1024)))))

    def _log_moments(self, tilts: Array) -> Array:
        total = np.zeros_like(tilts)
        for log_mass, loss, count in self.parts:
            exponent = log_mass + tilts[:, None] * loss
            largest = exponent.max(axis=1)
            total += count * (largest + np.log(np.exp(exponent - largest[:, None]).sum(axis=1)))
        return total

    def _solve(self, excess: Callable[[Saddle], float]) -> Saddle:
        """Root of an increasing function of the tilt: secant steps kept inside a bracket."""
        low = self.at(0.0)
        below = excess(low)
        if below >= 0.0:
            return low
        high = self.at(1.0 / low.deviation)
        above = excess(high)
        while above < 0.0 and high.tilt < min(
            _MAX_DEVIATION_TILT / high.deviation,
            _MAX_EPSILON_TILT / max(abs(high.mean), 1e-300),
        ):
            low, below = high, above
            high = self.at(2.0 * high.tilt)
            above = excess(high)
        if above < 0.0:
            return high
        for _ in range(_STEPS):
            step = low.tilt + (high.tilt - low.tilt) * below / (below - above)
            margin = 0.05 * (high.tilt - low.tilt)
            middle = self.at(min(max(step, low.tilt + margin), high.tilt - margin))
            value = excess(middle)
            if abs(value) < 1e-4:
                return middle
            if value < 0.0:
                low, below = middle, value
            else:
                high, above = middle, value
        return middle


def _steps(
    start: int, stops: npt.NDArray[np.int64], levels: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Integers from ``start``, in steps of ``2^level`` while they fit before each stop in turn."""
    pieces, position = [np.array([start])], start
    for stop, level in zip(stops.tolist(), levels.tolist(), strict=True):
        step = 2**level
        count = max(0, (stop - position) // step)
        pieces.append(position + step * np.arange(1, count + 1))
        position += step * count
    pieces.append(np.arange(position + 1, stops[-1] + 1))
    return np.concatenate(pieces).astype(np.int64)
