"""Certified bounds for a composition of pairs, to a requested accuracy.

The mesh follows from the accuracy: a lattice of spacing ``h`` changes epsilon by about
``T h^2 (lambda + 1) / 8`` on either side, where ``lambda`` is the tilt at the saddle point. If the
certified interval is wider than requested, the mesh is refined.

The curve of a single release needs no lattice. With ``A`` the outcomes of a loss above epsilon,
``delta(eps) = P(A) - e^eps Q(A)``. Any other set of outcomes gives a smaller value. A set that
includes losses down to ``eps - 2b`` gives a value that is smaller by about ``2b P(A)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from privopt.privacy.fourier.composition import Composition, compose
from privopt.privacy.fourier.lattice import LatticeLoss, discretise_above, discretise_below
from privopt.privacy.fourier.window import Place, Saddle, Sketch
from privopt.privacy.numbers import Array, U
from privopt.privacy.pairs import Pair

Parts = tuple[tuple[Pair, int], ...]

_MAX_POINTS = 2**20  # points of one transform, for an accuracy of 1e-3
_WORK = 10**7  # points of all transforms and products of one search, for the same
_WORK_FACTOR = 4.0  # largest multiple of it for a higher accuracy
_MAX_BINS = 2**20  # of all losses
_BIN = 4  # cost of a bin in points
_ROUNDS = 8
_MESH = 3.5  # almost eight for a smooth loss; bins balance less well at the end of a loss
_MANY = 16  # kinds of release: a composition of fewer kinds locates the result
_ROUGH = 1e-2  # first accuracy
_FIRST_SLOPE = 0.1  # accuracy of a mesh for the slope of the curve
_MUCH_FINER = 0.1  # factor of a mesh without an upper bound
_FIRST_POINTS = 2**18  # of the first transform
_SMALL_POINTS = 2**19  # of a transform that is about as fast as one of a coarser mesh
_DROWNED = -1.0  # log of the relative error of delta above which a finer mesh does not help
_MOST_KINDS = 8  # kinds of release that are evaluated one by one
_MAX_RELEASES = 10**11  # beyond it rounding errors exceed the result
_COUNTLESS = "more than 1e11 releases"
_COARSE = "the mesh of the largest transform is too coarse"
_ROUNDED = "the errors of rounding and of the window are too large relative to delta"
_UNATTAINED = "no pair of data sets is known to attain the dominating pairs"
_ALONE = 1e-3  # of a spacing, around an atom
_GUESS = 1e-6  # first guess of delta
_TAIL = 1e-13  # of a whole curve
_SKETCHES = 7  # each with a better estimate of delta
_MIN_TAIL_MASS = 1e-290  # the range of float64
_MIN_ANSWER = 1e-280  # smaller results are not refined
_ROUNDING = 2.0**-40  # relative; sums of a few products
_GRID_POINTS = 48  # of a grid
_GRIDS = 12  # each within a cell of the previous one
_CLOSE = 1e-9  # relative accuracy of the ends
_MAX_EPSILON = 600.0  # beyond it probabilities under Q underflow
_UNDERFLOW = 1e-300


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


def bound_single_release(pair: Pair, query: Query) -> tuple[float, float]:
    """Return bounds of the result for a pair; 0 and the worst case beyond the range of floats."""
    if isinstance(query, AtEpsilon):
        lower, upper = single_release_curve(pair, np.array([query.epsilon]))
        return float(lower[0]), float(upper[0])
    # From P(L > eps) <= delta on.
    reach = float(
        pair.losses(max(0.1 * (query.delta - query.infinite), _UNDERFLOW), _GRID_POINTS)[-1]
    )
    low, high = 0.0, min(max(reach, 0.0) * (1.0 + 1e-6), _MAX_EPSILON)
    best_lower, best_upper = 0.0, query.worst
    for _ in range(_GRIDS):
        grid = np.unique(np.linspace(low, high, _GRID_POINTS))
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
        ratio *= 1.0 - sign * 4 * U * (1.0 + epsilons)
        q = np.maximum(q - sign * (q_error + (epsilons.size + 4) * U * q + _UNDERFLOW), 0.0)
        p = p + infinite + sign * (p_error + (epsilons.size + 4) * U * p + _UNDERFLOW)
        value = p - ratio * q + (4.0 * blur * np.maximum(p, 0.0) if sign > 0.0 else 0.0)
        curves.append(np.clip(value + sign * 8 * U * np.abs(p), 0.0, 1.0))
    lower, upper = curves
    return np.where(epsilons <= _MAX_EPSILON, lower, 0.0), upper


@dataclass(frozen=True)
class NeighbourOrder:
    """A composition in one order of neighbours: dominating pairs and attained pairs.

    ``attained`` is ``None`` if no lower bound is known. It is often equal to ``dominating``.
    """

    dominating: Parts
    attained: Parts | None


def infinite_mass(parts: Parts) -> float:
    """Return the probability of an infinite loss, ``1 - prod (1 - m_j)^T_j``."""
    masses = [(pair.infinite()[0], count) for pair, count in parts]
    if any(mass == 1.0 for mass, _ in masses):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in masses))


def estimate(orders: Sequence[NeighbourOrder], query: Query) -> float:
    """Return the saddle-point approximation, typically within a few percent."""
    return max(_Search(order.dominating, query, 1e-2).estimate for order in orders)


def bounds(
    orders: Sequence[NeighbourOrder], query: Query, accuracy: float, two_sided: bool
) -> tuple[float, float, str]:
    """Return bounds of the largest result of all orders, and the reason if they are not close.

    The requested relative width is ``accuracy``. If not ``two_sided``, the lower bound may be zero.
    """
    if any(sum(count for _, count in order.dominating) > _MAX_RELEASES for order in orders):
        return 0.0, query.worst, _COUNTLESS
    singles = [_single(order, query) for order in orders]
    lower, upper = (max(ends) for ends in zip(*singles, strict=True))
    if upper - lower <= accuracy * upper < math.inf:
        return lower, upper, ""
    searches = [(_Search(order.dominating, query, accuracy), order) for order in orders]
    searches.sort(key=lambda each: (-infinite_mass(each[1].dominating), -each[0].estimate))
    upper_single, most, reason = upper, 0.0, ""
    for search, order in searches:
        largest = query.most(largest_loss(order.dominating))
        if largest <= most:
            continue
        upper_order = min(largest, search.bound_above(most)) if most or not two_sided else math.inf
        if upper_order > most and two_sided:
            low, upper_order, reason = _bound_order(search, order)
            lower, upper_order = max(lower, low), min(largest, upper_order)
        most = max(most, upper_order)
    upper = min(upper_single, most)
    if two_sided and reason:  # any release alone is more private than all
        lower = max(lower, *(_attained(order, query) for order in orders))
    return min(lower, upper), upper, reason if two_sided else ""


def _bound_order(search: _Search, order: NeighbourOrder) -> tuple[float, float, str]:
    """Return bounds for one order, and the reason if they are not as close as requested."""
    if order.attained == order.dominating:
        lower, upper = search.bound_both_sides()
        return lower, upper, "" if search.is_close(lower, upper) else search.limit
    lower, upper = 0.0, search.bound_both_sides()[1]  # its own lower bound determines the mesh
    if order.attained is not None:
        lower = _Search(order.attained, search.query, search.accuracy).bound_both_sides()[0]
    return lower, upper, "" if search.is_close(lower, upper) else _UNATTAINED


def _single(order: NeighbourOrder, query: Query) -> tuple[float, float]:
    """Return bounds for a single release, or trivial bounds for several."""
    if sum(count for _, count in order.dominating) > 1:
        return 0.0, query.worst
    upper = bound_single_release(order.dominating[0][0], query)[1]
    return min(_attained(order, query), upper), upper


def _attained(order: NeighbourOrder, query: Query) -> float:
    """Return the largest lower bound of one release among the first few kinds."""
    parts = order.attained or ()
    return max(
        (bound_single_release(pair, query)[0] for pair, _ in parts[:_MOST_KINDS]), default=0.0
    )


def upper_curve(orders: Sequence[NeighbourOrder], epsilons: Array, accuracy: float) -> Array:
    """Return upper bounds of the largest delta of all orders, at all increasing epsilons.

    They have a relative ``accuracy`` in the bulk, and an absolute one of 1e-13 in the tails. A
    single release is more accurate.
    """
    deltas = np.zeros_like(epsilons)
    for order in orders:
        if sum(count for _, count in order.dominating) == 1:
            deltas = np.maximum(deltas, single_release_curve(order.dominating[0][0], epsilons)[1])
            continue
        search = _Search(order.dominating, AtEpsilon(0.0), accuracy)
        search.fall = 1.0 + 1.0 / search.saddle.deviation
        search.window = search.sketch.window(search.place, _TAIL)
        ((composition, blur),) = search.compositions(search.first_spacing(accuracy), (1.0,))
        most = largest_loss(order.dominating)
        for k, epsilon in enumerate(epsilons.tolist()):
            delta = min(composition.delta(epsilon - blur, 1.0), AtEpsilon(epsilon).most(most))
            deltas[k] = max(deltas[k], delta)
    return deltas


def largest_loss(parts: Parts) -> float:
    """Return the essential supremum of the sum."""
    return math.fsum(count * pair.range()[1] for pair, count in parts)


class _Search:
    """The search for one order of neighbours: the location of the result, and refined bounds."""

    def __init__(self, parts: Parts, query: Query, accuracy: float) -> None:
        self.parts, self.query, self.accuracy = parts, query, accuracy
        self.total = sum(count for _, count in parts)
        self.ranges = [pair.range() for pair, _ in parts]
        self.work = _WORK * min(_WORK_FACTOR, max(1.0, 1e-3 / accuracy))
        self.largest = int(self.work * _MAX_POINTS / _WORK) * 4 // (len(parts) + 3)
        log_delta = query.place(_GUESS)[1]
        for _ in range(_SKETCHES):
            tail = math.exp(max(log_delta, -700.0)) * 1e-2 * accuracy / self.total
            self.sketch = Sketch(parts, max(tail, _MIN_TAIL_MASS))
            self.saddle = query.saddle(self.sketch)
            if not query.reached(self.saddle):
                log_delta *= 3.0
            elif self.saddle.log_delta < log_delta - 1.0:
                log_delta = self.saddle.log_delta
            else:
                break
        self.estimate = query.estimate(self.saddle)
        self.limit, self.fall = _COARSE, self.saddle.tilt
        self._set_window(*query.place(self.estimate))
        if len(parts) >= _MANY:
            rough = _Search(self._representatives(), query, _ROUGH)
            self._recentre(rough.bound_both_sides()[1])
            self.fall = rough.fall

    def bound_both_sides(self) -> tuple[float, float]:
        """Return a lower and an upper bound, refined until they are close.

        If the final mesh is expensive, a coarse one locates the result and predicts the gain of a
        finer one: the gap is of the order of the square of the mesh.
        """
        lower, upper, before, stalled = 0.0, math.inf, math.inf, 0
        if self.saddle.mean < self.saddle.deviation and len(self.parts) < _MANY:
            # The saddle point is not accurate: a coarse mesh gives the slope of the curve.
            (upper,), _ = self._evaluate(self.first_spacing(_FIRST_SLOPE), (1.0,))
            self._recentre(upper)
        spacing = self.first_spacing(self._first_accuracy())
        for rounds in range(_ROUNDS):
            results, noise = self._evaluate(spacing, (-1.0, 1.0))
            lower, upper = max(lower, results[0]), min(upper, results[1])
            if self.is_close(lower, upper) or upper < _MIN_ANSWER or self.work <= 0.0:
                break
            if upper == math.inf and spacing > self._min_spacing():
                # The losses of many rare releases share one coarse bin, whose mean from above is
                # too large: there is no upper bound yet, but a finer mesh gives one.
                spacing = self._admissible(_MUCH_FINER * spacing)
                continue
            stalled = 0 if upper - lower <= 0.7 * before < math.inf or rounds == 0 else stalled + 1
            if stalled > 1 or (stalled and (spacing <= self._min_spacing() or noise > _DROWNED)):
                break  # the mesh is not the limit, or there is no finer one
            before = upper - lower
            bracketed = lower > 0.0 and upper < math.inf
            self._recentre(math.sqrt(lower * upper) if bracketed else max(lower, results[1]))
            target = self.accuracy * self.query.scale(self.saddle, upper)
            gap = max(results[1] - results[0], 1e-300) if results[1] < math.inf else math.inf
            finer = spacing * math.sqrt(max(1e-4, 0.6 * target / gap))
            if upper > 1.1 * lower:  # the location and the gap are inaccurate
                finer = max(finer, 0.25 * spacing)
            elif rounds == 0:  # the gap is inaccurate
                finer = min(max(finer, self.spacing(self.accuracy)), 3.0 * finer)
            spacing = self._admissible(min(finer, 0.9 * spacing))
        if noise > math.log(0.1 * self.accuracy):
            self.limit = _ROUNDED
        return lower, upper

    def is_close(self, lower: float, upper: float) -> bool:
        """Return True if two bounds are as close as requested."""
        target = self.accuracy * self.query.scale(self.saddle, upper)
        return lower == upper or upper - lower <= target < math.inf

    def bound_above(self, rival: float) -> float:
        """Return an upper bound: below ``rival`` if possible, else to the requested accuracy."""
        upper, before, spacing = math.inf, (math.inf, math.inf), self.first_spacing(0.1)
        for _ in range(_ROUNDS):
            (result,), noise = self._evaluate(spacing, (1.0,))
            if result == upper == math.inf and spacing > self._min_spacing() and self.work > 0.0:
                spacing = self._admissible(_MUCH_FINER * spacing)
                continue
            if (
                result <= rival
                or self.work <= 0.0
                or not (result < 0.99 * upper or noise < _DROWNED)
            ):
                return min(result, upper)
            upper = min(result, upper)
            self._recentre(upper)
            finer = 0.3 * spacing
            if result < before[1] < math.inf:
                # The error is a multiple of the square of the mesh: extrapolate to the rival.
                slope = (before[1] - result) / (before[0] - spacing**2)
                room = rival - (result - slope * spacing**2)
                target = max(0.5 * room, 0.3 * self.accuracy * self.query.scale(self.saddle, upper))
                if slope * spacing**2 <= target:
                    break
                finer = min(0.9 * spacing, max(0.1 * spacing, math.sqrt(target / slope)))
            before, spacing = (spacing**2, result), self._admissible(finer)
        return upper

    def compositions(
        self, spacing: float, signs: tuple[float, ...]
    ) -> list[tuple[Composition, float]]:
        """Return the composition from above (``1``) or below (``-1``), and its blur."""
        most = _MAX_BINS // len(self.parts)
        all_edges = [
            self.sketch.edges(part, self.place, self.window, spacing, most)
            for part in range(len(self.parts))
        ]
        results = []
        for sign in signs:
            lattices, blur = [], 0.0
            for part, edges in enumerate(all_edges):
                lattice, part_blur = self._lattice(part, edges, spacing, sign)
                lattices.append((lattice, self.parts[part][1]))
                blur += part_blur
            results.append(
                (compose(lattices, self.window, self.largest, pessimistic=sign > 0.0), blur)
            )
            self.work -= results[-1][0].size * (len(self.parts) + 3)
        return results

    def _lattice(
        self, part: int, edges: npt.NDArray[np.int64], spacing: float, sign: float
    ) -> tuple[LatticeLoss, float]:
        """Return the loss of a kind of release on the lattice, and the blur of all its releases."""
        pair, count = self.parts[part]
        ends, centre = edges.astype(np.float64), 0.0
        if sign < 0.0:
            centre, atoms = self.sketch.centre(part, self.place, spacing, self.ranges[part])
            centre /= spacing
            ends = _centred(ends, centre, np.array(atoms) / spacing)
        bins, infinite = pair.bins(spacing * ends), pair.infinite()[0]
        self.work -= _BIN * edges.size
        blur = count * (bins.blur + 8 * U * spacing * float(np.abs(ends[[0, -1]]).max()))
        if sign > 0.0:
            return discretise_above(bins, edges, spacing, infinite), blur
        tilt = self.saddle.tilt
        return discretise_below(bins, ends, spacing, infinite, tilt, centre), blur

    def spacing(self, accuracy: float) -> float:
        """Return the mesh for a relative accuracy."""
        # A shift by more than the deviation would leave the window.
        slope = max(self.query.slope(self.saddle, self.fall), 1e-300)
        gap = min(accuracy / slope, self.saddle.deviation)
        spacing = math.sqrt(_MESH * gap / (self.total * (self.fall + 1.0)))
        widest = max(last - first for first, last in self.sketch.ends)
        return self._admissible(min(spacing, max(0.5 * self.saddle.deviation, 1e-3 * widest)))

    def _representatives(self) -> Parts:
        """Return a similar composition in which each kind represents kinds of similar variance."""
        groups = np.array_split(np.argsort(self.sketch.variances()), _MANY // 2)
        counts = [sum(self.parts[part][1] for part in group) for group in groups]
        middles = (self.parts[group[group.size // 2]][0] for group in groups)
        return tuple(zip(middles, counts, strict=True))

    def _first_accuracy(self) -> float:
        """Return the accuracy of the first mesh: the requested one if its transform is small."""
        points = self._width() * len(self.parts) / self.spacing(self.accuracy)
        small = len(self.parts) >= _MANY or points <= _SMALL_POINTS
        return self.accuracy if small else min(_ROUGH, 100.0 * self.accuracy)

    def first_spacing(self, accuracy: float) -> float:
        """Return a coarse mesh for a small transform, or the final one if the location is known."""
        if len(self.parts) >= _MANY:
            return self.spacing(accuracy)
        least = self._width() * len(self.parts) / _FIRST_POINTS
        return self._admissible(max(self.spacing(max(accuracy, self.accuracy)), least))

    def _admissible(self, spacing: float) -> float:
        """Return an admissible mesh that contains the ends of a bounded loss, often atoms."""
        spacing = max(spacing, self._min_spacing())
        halves = [
            (count, 0.5 * (most - least))
            for (_, count), (least, most) in zip(self.parts, self.ranges, strict=True)
        ]
        _, half = max((each for each in halves if each[1] < math.inf), default=(0, 0.0))
        return half / math.ceil(half / spacing) if half >= self._min_spacing() else spacing

    def _evaluate(self, spacing: float, signs: tuple[float, ...]) -> tuple[list[float], float]:
        """Return the results, and the log of the relative error of delta not due to the mesh."""
        results = self.compositions(spacing, signs)
        answers = [
            self.query.read(composition, sign, blur)
            for (composition, blur), sign in zip(results, signs, strict=True)
        ]
        epsilon, log_delta = self.query.place(answers[-1])
        if not (math.isfinite(epsilon) and math.isfinite(log_delta)):
            return answers, math.inf
        self.fall = results[-1][0].fall(epsilon) or self.fall
        return answers, max(each.log_error(epsilon) for each, _ in results) - log_delta

    def _set_window(self, epsilon: float, log_delta: float) -> None:
        """Set the window around a point of the curve."""
        self.place = Place(self.saddle, epsilon, log_delta)
        self.window = self.sketch.window(self.place, 1e-3 * self.accuracy)

    def _recentre(self, answer: float) -> None:
        """Set the window around a result."""
        epsilon, log_delta = self.query.place(answer)
        if math.isfinite(epsilon) and math.isfinite(log_delta):
            self.saddle = self.sketch.with_mean(epsilon)
            self._set_window(epsilon, log_delta)

    def _min_spacing(self) -> float:
        return 1.01 * self._width() / self.largest

    def _width(self) -> float:
        """Return the width to cover: that of the window, or half of that of one loss."""
        widest = max(last - first for first, last in self.sketch.ends)
        return max(self.window.top - self.window.bottom, 0.5 * widest)


def _centred(edges: Array, centre: float, atoms: Array) -> Array:
    """Return edges between lattice points, including ``centre``, with own bins for atoms."""
    middles = edges + centre % 1.0 - 0.5
    middles = middles[(np.abs(middles[:, None] - atoms) >= 1.0).all(axis=1)]
    return np.union1d(middles, np.concatenate([atoms - _ALONE, atoms + _ALONE]))
