"""Certified answers about a composition of pairs, to an accuracy asked for.

The mesh follows from the accuracy: a lattice of spacing ``h`` changes epsilon by about
``T h^2 (lambda + 1) / 8`` on either side, ``lambda`` the tilt at the saddle point. Where the
certificate comes out wider than asked, the mesh is refined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privopt.privacy.fourier.composition import Composition, compose
from privopt.privacy.fourier.lattice import discretise_above, discretise_below
from privopt.privacy.fourier.query import (
    AtEpsilon,
    Query,
    bound_single_release,
    single_release_curve,
)
from privopt.privacy.fourier.window import Place, Sketch
from privopt.privacy.pairs import Pair
from privopt.privacy.pairs.pair import Array

Parts = tuple[tuple[Pair, int], ...]

_U = 2.0**-53  # unit roundoff of float64
_MAX_POINTS = 2**20  # points of one transform, for an accuracy of 1e-3
_WORK = 2**23  # points of all transforms and products of one search, for the same
_WORK_FACTOR = 4.0  # of it, at most, where more is asked
_MAX_BINS = 2**20  # of all losses
_BIN = 4  # points for which one is as much work
_ROUNDS = 8
_MESH = 3.5  # of a smooth loss nearly eight; where one begins, bins balance less well
_MANY = 16  # kinds of release: the answer about fewer says where to look
_ROUGH = 1e-2  # accuracy at first
_MUCH_FINER = 0.1  # factor of a mesh that shows nothing
_FIRST_POINTS = 2**16  # of the first transform
_DROWNED = -1.0  # in logarithms: errors of so much of delta that are not the mesh's
_MOST_KINDS = 8  # of release, asked one by one
_MAX_RELEASES = 10**11  # releases; rounding alone would leave nothing beyond
_COUNTLESS = "more than 1e11 releases"
_COARSE = "the largest transform has too coarse a mesh"
_ROUNDED = "rounding and what the window leaves out weigh too much beside delta"
_UNATTAINED = "no pair of data sets is known to attain what dominates"
_ALONE = 1e-3  # of a spacing, around an atom
_GUESS = 1e-6  # of an unknown delta
_TAIL = 1e-13  # of a whole curve
_SKETCHES = 7  # each for a better estimate of delta
_MIN_TAIL_MASS = 1e-290  # floats describe no tail below this
_MIN_ANSWER = 1e-280  # answers of less are not worth a finer mesh


@dataclass(frozen=True)
class Order:
    """A composition in one order of neighbours: what dominates it, and what data sets attain.

    ``attained`` is ``None`` where nothing is known from below; often it is what dominates.
    """

    dominating: Parts
    attained: Parts | None


def infinite_mass(parts: Parts) -> float:
    """Probability of an infinite loss, ``1 - prod (1 - m_j)^T_j``."""
    masses = [(pair.infinite()[0], count) for pair, count in parts]
    if any(mass == 1.0 for mass, _ in masses):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-mass) for mass, count in masses))


def estimate(orders: Sequence[Order], query: Query) -> float:
    """The saddle-point approximation, typically within a few percent."""
    return max(_Search(order.dominating, query, 1e-2).estimate for order in orders)


def bounds(
    orders: Sequence[Order], query: Query, accuracy: float, two_sided: bool
) -> tuple[float, float, str]:
    """Bounds of the largest answer of all orders, to a relative ``accuracy`` if it can be had.

    And why it cannot, or nothing. Not ``two_sided``, the lower bound may be zero.
    """
    if any(sum(count for _, count in order.dominating) > _MAX_RELEASES for order in orders):
        return 0.0, query.worst, _COUNTLESS
    singles = [_single(order, query) for order in orders]
    lower, upper = (max(ends) for ends in zip(*singles, strict=True))
    if upper - lower <= accuracy * upper < math.inf:
        return lower, upper, ""
    searches = [(_Search(order.dominating, query, accuracy), order) for order in orders]
    searches.sort(key=lambda each: (-infinite_mass(each[1].dominating), -each[0].estimate))
    known, most, reason = upper, 0.0, ""
    for search, order in searches:
        largest = query.most(_largest_loss(order.dominating))
        if largest <= most:
            continue
        found = min(largest, search.from_above(most)) if most or not two_sided else math.inf
        if found > most and two_sided:
            low, found, reason = _from_both_sides(search, order)
            lower, found = max(lower, low), min(largest, found)
        most = max(most, found)
    upper = min(known, most)
    if two_sided and reason:  # any release tells less than all
        lower = max(lower, *(_attained(order, query) for order in orders))
    return min(lower, upper), upper, reason if two_sided else ""


def _from_both_sides(search: _Search, order: Order) -> tuple[float, float, str]:
    """Bounds by one order, and why they are not as close as was asked."""
    if order.attained == order.dominating:
        lower, upper = search.from_both_sides()
        return lower, upper, "" if search.close(lower, upper) else search.limit
    lower, upper = 0.0, search.from_both_sides()[1]  # its own lower bound says how fine to be
    if order.attained is not None:
        lower = _Search(order.attained, search.query, search.accuracy).from_both_sides()[0]
    return lower, upper, "" if search.close(lower, upper) else _UNATTAINED


def _single(order: Order, query: Query) -> tuple[float, float]:
    """Bounds by one release, if there is only one."""
    if sum(count for _, count in order.dominating) > 1:
        return 0.0, query.worst
    upper = bound_single_release(order.dominating[0][0], query)[1]
    return min(_attained(order, query), upper), upper


def _attained(order: Order, query: Query) -> float:
    """The most that one release tells, of the first few kinds."""
    parts = order.attained or ()
    return max(
        (bound_single_release(pair, query)[0] for pair, _ in parts[:_MOST_KINDS]), default=0.0
    )


def upper_curve(orders: Sequence[Order], epsilons: Array, accuracy: float) -> Array:
    """Upper bounds of the largest delta of all orders, at increasing epsilons, all at once.

    Accurate to a relative ``accuracy`` in the bulk, and to 1e-13 in the tails; of one release
    alone closer.
    """
    deltas = np.zeros_like(epsilons)
    for order in orders:
        if sum(count for _, count in order.dominating) == 1:
            deltas = np.maximum(deltas, single_release_curve(order.dominating[0][0], epsilons)[1])
            continue
        search = _Search(order.dominating, AtEpsilon(0.0), accuracy)
        search.fall = 1.0 + 1.0 / search.saddle.deviation
        search.window = search.sketch.window(search.place, _TAIL)
        ((composition, blur),) = search.compositions(search.first(accuracy), (1.0,))
        most = _largest_loss(order.dominating)
        for k, epsilon in enumerate(epsilons.tolist()):
            delta = min(composition.delta(epsilon - blur, 1.0), AtEpsilon(epsilon).most(most))
            deltas[k] = max(deltas[k], delta)
    return deltas


def _largest_loss(parts: Parts) -> float:
    """The essential supremum of the sum."""
    return math.fsum(count * pair.range()[1] for pair, count in parts)


class _Search:
    """One order of neighbours: where its answer lies, and bounds of it by ever finer meshes."""

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
        self._look(*query.place(self.estimate))
        if len(parts) >= _MANY:
            rough = _Search(self._few(), query, _ROUGH)
            self._aim(rough.from_both_sides()[1])
            self.fall = rough.fall

    def from_both_sides(self) -> tuple[float, float]:
        """Lower and upper bound, refined until they are close.

        A coarse mesh says where the answer lies, and what a finer one will be worth: the gap is of
        the order of the square of the mesh.
        """
        lower, upper, before, stalled = 0.0, math.inf, math.inf, 0
        known = len(self.parts) >= _MANY
        spacing = self.first(self.accuracy if known else min(_ROUGH, 100.0 * self.accuracy))
        for rounds in range(_ROUNDS):
            found, noise = self._answers(spacing, (-1.0, 1.0))
            lower, upper = max(lower, found[0]), min(upper, found[1])
            if self.close(lower, upper) or upper < _MIN_ANSWER or self.work <= 0.0:
                break
            if upper == math.inf and spacing > self._finest():
                # The losses of many rare releases lie within one coarse bin, whose mean from above
                # is far off: no upper bound yet, and no reason to stop.
                spacing = self._fitting(_MUCH_FINER * spacing)
                continue
            stalled = 0 if upper - lower <= 0.7 * before < math.inf or rounds == 0 else stalled + 1
            if stalled > 1 or (stalled and (spacing <= self._finest() or noise > _DROWNED)):
                break  # the mesh is not what limits, or no finer one can be had
            before = upper - lower
            between = lower > 0.0 and upper < math.inf
            self._aim(math.sqrt(lower * upper) if between else max(lower, found[1]))
            wanted = self.accuracy * self.query.scale(self.saddle, upper)
            gap = max(found[1] - found[0], 1e-300) if found[1] < math.inf else math.inf
            finer = spacing * math.sqrt(max(1e-4, 0.6 * wanted / gap))
            if upper > 1.1 * lower:  # and neither the place nor the gap tells much
                finer = max(finer, 0.25 * spacing)
            elif rounds == 0:  # and the gap alone does not
                finer = min(max(finer, self.spacing(self.accuracy)), 3.0 * finer)
            spacing = self._fitting(min(finer, 0.9 * spacing))
        if noise > math.log(0.1 * self.accuracy):
            self.limit = _ROUNDED
        return lower, upper

    def close(self, lower: float, upper: float) -> bool:
        """Whether two bounds are as close as was asked."""
        wanted = self.accuracy * self.query.scale(self.saddle, upper)
        return lower == upper or upper - lower <= wanted < math.inf

    def from_above(self, rival: float) -> float:
        """An upper bound: below ``rival`` if that can be had, else to the accuracy asked for."""
        upper, before, spacing = math.inf, (math.inf, math.inf), self.first(0.1)
        for _ in range(_ROUNDS):
            (found,), noise = self._answers(spacing, (1.0,))
            if found == upper == math.inf and spacing > self._finest() and self.work > 0.0:
                spacing = self._fitting(_MUCH_FINER * spacing)
                continue
            if found <= rival or self.work <= 0.0 or not (found < 0.99 * upper or noise < _DROWNED):
                return min(found, upper)
            upper = min(found, upper)
            self._aim(upper)
            finer = 0.3 * spacing
            if found < before[1] < math.inf:
                # As the square of the mesh: where it would end, and where half way to the rival.
                slope = (before[1] - found) / (before[0] - spacing**2)
                room = rival - (found - slope * spacing**2)
                wanted = max(0.5 * room, 0.3 * self.accuracy * self.query.scale(self.saddle, upper))
                if slope * spacing**2 <= wanted:
                    break
                finer = min(0.9 * spacing, max(0.1 * spacing, math.sqrt(wanted / slope)))
            before, spacing = (spacing**2, found), self._fitting(finer)
        return upper

    def compositions(
        self, spacing: float, signs: tuple[float, ...]
    ) -> list[tuple[Composition, float]]:
        """The composition from above (``1``) or below (``-1``), and the blur of its losses."""
        most = _MAX_BINS // len(self.parts)
        found = []
        for sign in signs:
            chosen, blur = [], 0.0
            for part, (pair, count) in enumerate(self.parts):
                edges = self.sketch.edges(part, self.place, self.window, spacing, most)
                ends = edges.astype(np.float64)
                if sign < 0.0:
                    centre, atoms = self.sketch.centre(part, self.place, spacing, self.ranges[part])
                    ends = _centred(ends, centre / spacing, np.array(atoms) / spacing)
                bins, infinite = pair.bins(spacing * ends), pair.infinite()[0]
                self.work -= _BIN * edges.size
                blur += count * (bins.blur + 8 * _U * spacing * float(np.abs(ends[[0, -1]]).max()))
                lattice = (
                    discretise_above(bins, edges, spacing, infinite)
                    if sign > 0.0
                    else discretise_below(
                        bins, ends, spacing, infinite, self.saddle.tilt, centre / spacing
                    )
                )
                chosen.append((lattice, count))
            found.append((compose(chosen, self.window, self.largest, pessimistic=sign > 0.0), blur))
            self.work -= found[-1][0].size * (len(self.parts) + 3)
        return found

    def spacing(self, accuracy: float) -> float:
        """The mesh for a relative accuracy."""
        # A law that moves by more than its deviation leaves the window.
        slope = max(self.query.slope(self.saddle, self.fall), 1e-300)
        gap = min(accuracy / slope, self.saddle.deviation)
        spacing = math.sqrt(_MESH * gap / (self.total * (self.fall + 1.0)))
        widest = max(last - first for first, last in self.sketch.ends)
        return self._fitting(min(spacing, max(0.5 * self.saddle.deviation, 1e-3 * widest)))

    def _few(self) -> Parts:
        """A composition much like this one, of few kinds: each stands for those that vary alike."""
        groups = np.array_split(np.argsort(self.sketch.variances()), _MANY // 2)
        counts = [sum(self.parts[part][1] for part in group) for group in groups]
        middles = (self.parts[group[group.size // 2]][0] for group in groups)
        return tuple(zip(middles, counts, strict=True))

    def first(self, accuracy: float) -> float:
        """A coarse mesh, for a small transform; the final one if the place is known."""
        if len(self.parts) >= _MANY:
            return self.spacing(accuracy)
        least = self._span() * len(self.parts) / _FIRST_POINTS
        return self._fitting(max(self.spacing(max(accuracy, self.accuracy)), least))

    def _fitting(self, spacing: float) -> float:
        """A mesh that can be had, and on which the ends of a bounded loss, often atoms, fall."""
        spacing = max(spacing, self._finest())
        halves = [
            (count, 0.5 * (most - least))
            for (_, count), (least, most) in zip(self.parts, self.ranges, strict=True)
        ]
        _, half = max((each for each in halves if each[1] < math.inf), default=(0, 0.0))
        return half / math.ceil(half / spacing) if half >= self._finest() else spacing

    def _answers(self, spacing: float, signs: tuple[float, ...]) -> tuple[list[float], float]:
        """What was found, and the error of delta that is not the mesh's, relative to delta."""
        found = self.compositions(spacing, signs)
        answers = [
            self.query.read(composition, sign, blur)
            for (composition, blur), sign in zip(found, signs, strict=True)
        ]
        epsilon, log_delta = self.query.place(answers[-1])
        if not (math.isfinite(epsilon) and math.isfinite(log_delta)):
            return answers, math.inf
        self.fall = found[-1][0].fall(epsilon) or self.fall
        return answers, max(each.log_error(epsilon) for each, _ in found) - log_delta

    def _look(self, epsilon: float, log_delta: float) -> None:
        """Lay the window around a point of the curve."""
        self.place = Place(self.saddle, epsilon, log_delta)
        self.window = self.sketch.window(self.place, 1e-3 * self.accuracy)

    def _aim(self, answer: float) -> None:
        """Look around an answer."""
        epsilon, log_delta = self.query.place(answer)
        if math.isfinite(epsilon) and math.isfinite(log_delta):
            self.saddle = self.sketch.with_mean(epsilon)
            self._look(epsilon, log_delta)

    def _finest(self) -> float:
        return 1.01 * self._span() / self.largest

    def _span(self) -> float:
        """What has to be covered: by the window, or half as densely by one loss."""
        widest = max(last - first for first, last in self.sketch.ends)
        return max(self.window.top - self.window.bottom, 0.5 * widest)


def _centred(edges: Array, centre: float, atoms: Array) -> Array:
    """Edges between lattice points, one of which is ``centre``; atoms stand alone."""
    between = edges + centre % 1.0 - 0.5
    between = between[(np.abs(between[:, None] - atoms) >= 1.0).all(axis=1)]
    return np.union1d(between, np.concatenate([atoms - _ALONE, atoms + _ALONE]))
