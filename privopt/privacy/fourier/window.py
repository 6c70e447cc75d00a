"""Window and mesh of a composed loss, from estimates that do not affect the certificate.

A sketch of each loss, some hundred points, gives its cumulants under any tilt. The saddle point
locates the result. The certificate is computed afterwards, on the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from privopt.privacy.numbers import Array
from privopt.privacy.pairs import Pair

_POINTS = 200
_FEW, _FEWER_POINTS = 8, 80  # points of each release if there are more releases
_MAX_LEVEL = 9
_STEPS = 40
_MAX_DEVIATION_TILT = 1e3  # tilt in units of the standard deviation: deltas below exp(-1e6 / 2)
_MAX_EPSILON_TILT = 1e6  # tilt in units of epsilon; larger tilts only occur near the largest loss
_RATES = 32  # candidates of Chernoff's bounds in either direction
_RESOLVED = 1e-15  # relative rounding error of a law
_DECIDED = 40.0  # distance above epsilon beyond which 1 - e^(eps - s) differs from 1 by e^-40
_SHIFTS = 6  # iterations of the common loss of a bin
_NARROW = 1e-3  # of a spacing, around an atom
_MIN_END = 1e-3  # of the tilted law, at an end that matters
_MIN_ATOM = 0.2  # of the tilted law


class Window(NamedTuple):
    """The sums to be computed, their tilt, and the mass that may be outside.

    Attributes
    ----------
    tilt, centre : float
        ``lambda``, and the requested point of the curve.
    bottom, top : float
        Ends according to the sketch; they determine the mesh.
    below_rate, above_rate : float
        Rates of the Chernoff bounds of these ends.
    needed : float
        The tilted sum has mass ``e^-needed`` at most beyond either end.
    """

    tilt: float
    centre: float
    bottom: float
    top: float
    below_rate: float
    above_rate: float
    needed: float


@dataclass(frozen=True)
class Saddle:
    """The tilted normal approximation of a composed loss.

    ``log_scale`` is ``K``, ``mean`` and ``deviation`` are those of ``S`` under the tilt, and
    ``log_delta`` is the estimate at ``eps = mean``.
    """

    tilt: float
    mean: float
    deviation: float
    log_scale: float

    @property
    def log_delta(self) -> float:
        """``K + ln [B(tilt s) - B((tilt + 1) s)]`` with ``B(x) = e^(x^2 / 2) Phi(-x)``."""
        s = self.deviation / math.sqrt(2.0)
        part = 0.5 * float(erfcx(self.tilt * s) - erfcx((self.tilt + 1.0) * s))
        return self.log_scale + math.log(part) if part > 0.0 else -math.inf


class Place(NamedTuple):
    """A point of the curve, and the tilt that centres the sum there."""

    saddle: Saddle
    epsilon: float
    log_delta: float


class Sketch:
    """A few hundred points of every loss in a composition, with multiplicities.

    Losses with a mass of at most ``tail`` beyond them are omitted.
    """

    def __init__(self, parts: Sequence[tuple[Pair, int]], tail: float) -> None:
        self.ends: list[tuple[float, float]] = []
        self.bins: list[tuple[Array, Array]] = []
        points: list[tuple[Array, Array]] = []
        number = _POINTS if len(parts) <= _FEW else _FEWER_POINTS
        for pair, _ in parts:
            edges = pair.losses(tail, number)
            size = 1.0 + abs(edges[0]) + abs(edges[-1])
            margin = 1e-9 * min(size, max(edges[-1] - edges[0], 1e-6))  # to include atoms
            edges = np.concatenate([[edges[0] - margin], edges, [edges[-1] + margin]])
            self.ends.append((edges[0], edges[-1]))
            bins = pair.bins(edges)
            mass, other = bins.p[1:-1], bins.q[1:-1]
            keep = mass > 0.0
            with np.errstate(divide="ignore"):
                loss = np.clip(
                    np.log(mass[keep]) - np.log(other[keep]), edges[:-1][keep], edges[1:][keep]
                )
            points.append((np.log(mass[keep]), loss))
            self.bins.append((edges[:-1][keep], edges[1:][keep]))
        self.counts: Array = np.array([count for _, count in parts], dtype=np.float64)
        most = max(loss.size for _, loss in points)
        self.log_mass: Array = np.full((len(points), most), -math.inf)
        self.loss: Array = np.zeros((len(points), most))
        for row, (log_mass, loss) in enumerate(points):
            self.log_mass[row, : loss.size], self.loss[row, : loss.size] = log_mass, loss

    def at(self, tilt: float) -> Saddle:
        """Return the approximation under one tilt."""
        exponent = self.log_mass + tilt * self.loss
        largest = exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent - largest)
        norm = weight.sum(axis=1)
        centre = (weight * self.loss).sum(axis=1) / norm
        spread = (weight * (self.loss - centre[:, None]) ** 2).sum(axis=1) / norm
        log_moment = float(self.counts @ (largest[:, 0] + np.log(norm)))
        mean, variance = float(self.counts @ centre), float(self.counts @ spread)
        deviation = max(math.sqrt(variance), 1e-6 * abs(mean), 1e-12)  # positive for atoms
        return Saddle(tilt, mean, deviation, log_moment - tilt * mean)

    def variances(self) -> Array:
        """Return the variance of one loss of every kind."""
        weight = np.exp(self.log_mass)
        mean = (weight * self.loss).sum(axis=1)
        return np.asarray((weight * (self.loss - mean[:, None]) ** 2).sum(axis=1))

    def with_mean(self, epsilon: float) -> Saddle:
        """Return the tilt ``>= 0`` that centres the sum at ``epsilon``, or the closest one."""
        return self._solve(lambda saddle: (saddle.mean - epsilon) / saddle.deviation)

    def with_delta(self, log_delta: float) -> Saddle:
        """Return the tilt ``>= 0`` with the given estimate of delta, or the closest one."""
        target = math.sqrt(-log_delta)
        return self._solve(lambda saddle: math.sqrt(max(0.0, -saddle.log_delta)) - target)

    def window(self, place: Place, accuracy: float) -> Window:
        """Return the shortest window around a point of the curve, among tilts up to the saddle's.

        Beyond its ends the tilted sum has mass of at most ``accuracy`` times delta by Chernoff's
        inequality. A smaller tilt keeps rare large losses out of the window. A larger one reduces
        the effect of rounding.
        """
        saddle, epsilon, log_delta = place
        deviations = saddle.deviation, self.at(0.0).deviation
        widest = max(last - first for first, last in self.ends)
        rates = np.geomspace(0.3 / max(*deviations, widest), 20.0 / min(deviations), _RATES)
        tilts = np.sort(np.concatenate([-rates, [0.0], rates, saddle.tilt + rates, [saddle.tilt]]))
        moments = self._log_moments(tilts)
        candidates = np.flatnonzero((tilts >= 0.0) & (tilts <= saddle.tilt))
        # The log of the ratio of the computed sum to delta.
        excess = np.maximum(moments - tilts * epsilon - log_delta, 0.0)[candidates]
        difference = tilts - tilts[candidates, None]
        needed = (excess - math.log(accuracy))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (moments - moments[candidates, None] + needed) / difference
        tops = np.where(difference > 0.0, ends, math.inf)
        bottoms = np.where(difference < 0.0, ends, -math.inf)
        length = tops.min(axis=1) - bottoms.max(axis=1)
        # The effect of rounding on sums whose weights decrease at this rate.
        steep = (
            tilts[candidates] * (2.0 * tilts[candidates] + 1.0) * (2.0 * tilts[candidates] + 2.0)
        )
        spread = np.minimum(length, 1.0 / np.maximum(steep, 1e-300)) / deviations[1]
        rough = np.maximum(excess + 0.5 * np.log(spread) + math.log(_RESOLVED / accuracy), 0.0)
        best = int(np.lexsort((length, rough))[0])
        top_rate, bottom_rate = int(tops[best].argmin()), int(bottoms[best].argmax())
        bottom, top = float(bottoms[best, bottom_rate]), float(tops[best, top_rate])
        if not bottom < top:  # the moments are below rounding errors
            bottom, top = saddle.mean - saddle.deviation, saddle.mean + saddle.deviation
        return Window(
            tilt=float(tilts[candidates[best]]),
            centre=min(max(epsilon, bottom), top),
            bottom=bottom,
            top=top,
            below_rate=float(-difference[best, bottom_rate]),
            above_rate=float(difference[best, top_rate]),
            needed=float(needed[best, 0]),
        )

    def edges(
        self, part: int, place: Place, window: Window, spacing: float, most: int
    ) -> npt.NDArray[np.int64]:
        """Return the bin edges of one loss in units of ``spacing``: one apart, wider in the tails.

        A bin of ``w`` units costs ``w^2`` times the error of one unit. This cost, times the
        probability of a loss beyond the bin, is limited to a twentieth of the whole. Given that the
        sum is large, this probability is the tilted mass. If one large loss decides the result, it
        is the mass relative to delta, at most one step of all. Exponentials are smooth within a
        bin, except where a single loss decides alone. There are about ``most`` edges at most.
        """
        weight, loss = self._weights(part, place.saddle.tilt)
        beyond = np.minimum(np.cumsum(weight), np.cumsum(weight[::-1])[::-1])
        single = np.cumsum(self._weights(part, 0.0)[0][::-1])[::-1]
        single *= math.exp(min(-place.log_delta, 700.0))
        beyond = np.maximum(beyond, np.minimum(single, 1.0 / float(self.counts.sum())))
        width = np.sqrt(0.05 / np.maximum(beyond, 1e-100))
        steepest = 1.0 + max(place.saddle.tilt, window.tilt + window.above_rate)
        decisive = loss > place.epsilon - min(window.bottom, 0.0) + _DECIDED
        width = np.where(decisive, width, np.minimum(width, 1.0 / (spacing * steepest)))
        level = np.clip(np.log(np.maximum(width, 1.0)) / math.log(3.0), 0, _MAX_LEVEL).astype(int)
        first, last = self.ends[part]
        changes = np.flatnonzero(np.diff(level)) + 1
        start, stop = math.floor(first / spacing) - 1, math.ceil(last / spacing) + 1
        coarser = np.diff(level)[changes - 1] > 0  # a step with much mass is not widened
        lows, tops = self.bins[part]
        after, before = np.ceil(tops[changes - 1] / spacing), np.floor(lows[changes] / spacing)
        ends = np.where(coarser, after + 1.0, before - 1.0)
        stops = np.append(np.clip(ends, start, stop), stop).astype(np.int64)
        levels = level[np.append(0, changes)]
        bins = np.diff(stops, prepend=start) / 3.0**levels
        more = math.log(max(1.0, float(bins[levels > 0].sum()) / max(most, 1024)), 3.0)
        return _steps(start, stops, np.where(levels > 0, levels + math.ceil(more), 0))

    def centre(
        self, part: int, place: Place, spacing: float, ends: tuple[float, float]
    ) -> tuple[float, list[float]]:
        """Return a loss for the lattice to contain, and the ends of the loss that are atoms.

        The loss is an atom, or the common loss of all points within half a spacing of an end
        without mass to balance them on the far side, or that of a concentration of mass.
        """
        weight, loss = self._weights(part, place.saddle.tilt)
        lows, tops = self.bins[part]
        narrow = tops - lows < _NARROW * spacing

        def at(end: float, reach: float) -> float:
            return float(weight[np.abs(loss - end) <= reach * spacing].sum())

        on = [narrow & (np.abs(loss - end) <= _NARROW * spacing) for end in ends]
        atoms = [end for end, mask in zip(ends, on, strict=True) if weight[mask].sum() > _MIN_END]
        if atoms:
            return max(atoms, key=lambda end: at(end, _NARROW)), atoms
        mass = np.exp(self.log_mass[part, : loss.size])
        end = max(ends, key=lambda end: at(end, 1.0))
        side = 0.0 if at(end, 1.0) <= _MIN_END else math.copysign(1.0, end - float(loss.mean()))
        centre = end if side else float(loss[weight.argmax()])
        for _ in range(_SHIFTS):
            away = (loss - centre) / spacing
            near = side * away >= -0.5 if side else np.abs(away) <= 0.5
            if not near.any():
                return 0.0, []
            gains = np.expm1(np.minimum(centre - loss[near], _DECIDED))
            gain = float(mass[near] @ gains) / float(mass[near].sum())
            centre -= math.log1p(gain)
        return (centre if side or float(weight[near].sum()) > _MIN_ATOM else 0.0), []

    def _weights(self, part: int, tilt: float) -> tuple[Array, Array]:
        """Return the weights of the points of one loss under a tilt, and the losses."""
        log_mass, loss = self.log_mass[part], self.loss[part]
        loss, log_mass = loss[log_mass > -math.inf], log_mass[log_mass > -math.inf]
        exponent = log_mass + tilt * loss
        weight = np.exp(exponent - exponent.max())
        return weight / weight.sum(), loss

    def _log_moments(self, tilts: Array) -> Array:
        """Return ``ln E e^(tilt S)``."""
        exponent = self.log_mass[:, None] + tilts[:, None] * self.loss[:, None]
        largest = exponent.max(axis=2)
        moments = largest + np.log(np.exp(exponent - largest[..., None]).sum(axis=2))
        return np.asarray(self.counts @ moments)

    def _solve(self, excess: Callable[[Saddle], float]) -> Saddle:
        """Return the root of an increasing function of the tilt, by bracketed secant steps."""
        low = self.at(0.0)
        low_value = excess(low)
        if low_value >= 0.0:
            return low
        high = self.at(1.0 / low.deviation)
        high_value = excess(high)
        while high_value < 0.0 and high.tilt < min(
            _MAX_DEVIATION_TILT / high.deviation, _MAX_EPSILON_TILT / max(abs(high.mean), 1e-300)
        ):
            low, low_value = high, high_value
            high = self.at(2.0 * high.tilt)
            high_value = excess(high)
        if high_value < 0.0:
            return high
        for _ in range(_STEPS):
            step = low.tilt + (high.tilt - low.tilt) * low_value / (low_value - high_value)
            margin = 0.05 * (high.tilt - low.tilt)
            middle = self.at(min(max(step, low.tilt + margin), high.tilt - margin))
            value = excess(middle)
            if abs(value) < 1e-2:
                return middle
            if value < 0.0:
                low, low_value = middle, value
            else:
                high, high_value = middle, value
        return middle


def _steps(
    start: int, stops: npt.NDArray[np.int64], levels: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return integers from ``start``, in steps of ``3^level`` up to each stop in turn."""
    pieces, position = [np.array([start])], start
    for stop, level in zip(stops.tolist(), levels.tolist(), strict=True):
        step = 3**level
        count = max(0, (stop - position) // step)
        pieces.append(position + step * np.arange(1, count + 1))
        position += step * count
    pieces.append(np.arange(position + 1, stops[-1] + 1))
    return np.concatenate(pieces).astype(np.int64)
