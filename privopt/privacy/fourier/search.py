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
from privopt.privacy.fourier.lattice import LatticeLoss, above, below
from privopt.privacy.fourier.query import AtEpsilon, Query
from privopt.privacy.fourier.window import Sketch
from privopt.privacy.pairs import Pair
from privopt.privacy.pairs.pair import Array

__all__ = ["Order", "Parts", "bounds", "curve", "estimate", "infinite_mass"]

Parts = tuple[tuple[Pair, int], ...]

_U = 2.0**-53  # unit roundoff of float64
_MAX_POINTS = 2**20  # points of one transform, for an accuracy of 1e-3
_WORK = 2**23  # points of all transforms and products of one search, for the same
_WORK_FACTOR = 4.0  # of it, at most, where more is asked
_MAX_BINS = 2**18  # of all losses
_ROUNDS = 8
_MAX_AIMS = 3  # windows placed anew around an answer
_COARSE_ACCURACY = 1.01e-3  # accuracy tried where a finer one drowns in rounding
_MIN_MESH_FACTOR = 2.0**-8  # of the mesh that should suffice
_MAX_RELEASES = 10**11  # releases; rounding alone would leave nothing beyond
_COUNTLESS = "more than 1e11 releases"
_COARSE = "the largest transform has too coarse a mesh"
_ROUNDED = "rounding and what the window leaves out weigh too much beside delta"
_UNATTAINED = "no pair of data sets is known to attain what dominates"
_MIN_TAIL_MASS = 1e-290  # floats describe no tail below this
_MIN_ANSWER = 1e-280  # answers of less are not worth a finer mesh
_MIN_TAIL = 1e-15  # left out of a window; rounding is as much


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

    And why it cannot, or nothing. Not ``two_sided``, the lower bound is zero. Where rounding
    leaves little of a fine mesh, whose many points each have some, a coarser one is asked too.
    """
    lower, upper, reason = _bounds(orders, query, accuracy, two_sided)
    coarser = 10.0 * accuracy
    if coarser <= _COARSE_ACCURACY and (
        reason == _ROUNDED or (reason != _COUNTLESS and upper == query.worst)
    ):
        again = bounds(orders, query, coarser, two_sided)
        lower, upper = max(lower, again[0]), min(upper, again[1])
    return min(lower, upper), upper, reason


def _bounds(
    orders: Sequence[Order], query: Query, accuracy: float, two_sided: bool
) -> tuple[float, float, str]:
    """By one accuracy."""
    if any(sum(count for _, count in order.dominating) > _MAX_RELEASES for order in orders):
        return 0.0, query.worst, _COUNTLESS
    searches = [(_Search(order.dominating, query, accuracy), order) for order in orders]
    searches.sort(key=lambda each: (-infinite_mass(each[1].dominating), -each[0].estimate))
    lower, upper, reason = 0.0, 0.0, ""
    for rank, (search, order) in enumerate(searches):
        most = query.most(_largest_loss(order.dominating))
        if rank:  # this order costs less, and need only be shown to
            if most > upper:
                upper = max(upper, min(most, search.from_above(upper)))
        elif two_sided and order.attained == order.dominating:
            lower, upper = search.from_both_sides()
            upper = min(upper, most)
            reason = "" if search.close(lower, upper) else search.limit
        elif two_sided:  # the pair's own lower bound tells how fine the mesh must be
            upper = min(most, search.from_both_sides()[1])
            if order.attained is not None:
                lower = _Search(order.attained, query, accuracy).from_both_sides()[0]
            reason = "" if search.close(lower, upper) else _UNATTAINED
        else:
            upper = min(most, search.from_above(-math.inf))
    return lower, upper, reason


def curve(orders: Sequence[Order], epsilons: Array, accuracy: float) -> Array:
    """Upper bounds of the largest delta of all orders, at many epsilons from one composition.

    Accurate to a relative ``accuracy`` in the bulk, and to 1e-13 in the tails.
    """
    deltas = np.zeros_like(epsilons)
    for order in orders:
        search = _Search(order.dominating, AtEpsilon(0.0), accuracy)
        ((composition, blur),) = search.compositions(search.spacing(accuracy), (1.0,))
        most = _largest_loss(order.dominating)
        for k, epsilon in enumerate(epsilons.tolist()):
            delta = min(composition.delta(epsilon - blur, 1.0), AtEpsilon(epsilon).most(most))
            deltas[k] = max(deltas[k], delta)
    return deltas


def _largest_loss(parts: Parts) -> float:
    """The essential supremum of the sum."""
    return math.fsum(count * pair.range()[1] for pair, count in parts)


class _Search:
    def __init__(self, parts: Parts, query: Query, accuracy: float) -> None:
        self.parts, self.query, self.accuracy = parts, query, accuracy
        self.total = sum(count for _, count in parts)
        self.work = _WORK * min(_WORK_FACTOR, max(1.0, 1e-3 / accuracy))
        self.largest = int(self.work * _MAX_POINTS / _WORK) * 4 // (len(parts) + 3)
        share = 1e-2 * accuracy / self.total
        for tail in (1e-20, 1e-60, 1e-120, _MIN_TAIL_MASS):
            self.sketch = Sketch(parts, tail)
            self.saddle = query.saddle(self.sketch)
            if tail <= share * math.exp(self.saddle.log_delta):
                break
        self.estimate = query.estimate(self.saddle)
        self.aims, self.limit = 0, _COARSE
        self._look(self.saddle.log_delta - self.saddle.log_scale)

    def from_both_sides(self) -> tuple[float, float]:
        """Lower and upper bound, refined until they are close."""
        lower, upper, factor, before, stalled = 0.0, math.inf, 1.0, math.inf, 0
        for _ in range(_ROUNDS):
            spacing = self.spacing(self.accuracy, factor)
            found, noise = self._answers(spacing, (-1.0, 1.0))
            lower, upper = max(lower, found[0]), min(upper, found[1])
            if self.close(lower, upper) or upper < _MIN_ANSWER:
                break
            if self.work > 0.0 and self._aim(found[1], noise):
                continue
            stalled = stalled + 1 if upper - lower > 0.7 * before else 0
            if spacing <= self._finest() or stalled > 1 or self.work <= 0.0:
                break  # the mesh is not what limits, or no finer one can be had
            before = upper - lower
            wanted = self.accuracy * self.query.scale(self.saddle, upper)
            factor *= math.sqrt(min(0.9, max(0.05, 0.8 * wanted / (upper - lower))))
        if noise > math.log(0.1 * self.accuracy):
            self.limit = _ROUNDED
        return lower, upper

    def close(self, lower: float, upper: float) -> bool:
        """Whether two bounds are as close as was asked."""
        wanted = self.accuracy * self.query.scale(self.saddle, upper)
        return lower == upper or upper - lower <= wanted < math.inf

    def from_above(self, rival: float) -> float:
        """An upper bound: below ``rival`` if that is easy, else to the accuracy asked for."""
        lead = (rival - self.estimate) / self.query.scale(self.saddle, max(rival, 1e-300))
        easy, upper = min(0.1, 0.3 * lead), math.inf
        for accuracy in (easy, self.accuracy) if easy > self.accuracy else (self.accuracy,):
            (upper,), noise = self._answers(self.spacing(accuracy), (1.0,))
            if upper > rival and self.work > 0.0 and self._aim(upper, noise):
                (again,), _ = self._answers(self.spacing(accuracy), (1.0,))
                upper = min(upper, again)
            if upper <= rival:
                return upper
        factor = 1.0
        while 0.0 <= rival < upper < math.inf and factor > _MIN_MESH_FACTOR and self.work > 0.0:
            factor, before = 0.5 * factor, upper
            (again,), _ = self._answers(self.spacing(self.accuracy, factor), (1.0,))
            upper = min(upper, again)
            if before - upper < 0.1 * self.accuracy * self.query.scale(self.saddle, upper):
                break
        return upper

    def compositions(
        self, spacing: float, signs: tuple[float, ...]
    ) -> list[tuple[Composition, float]]:
        """The composition from above (``1``) or below (``-1``), and the blur of its losses."""
        size = _transform_size((self.window.top - self.window.bottom) / spacing + 4.0)
        self.work -= size * (len(self.parts) + 3) * len(signs)
        blur = 0.0
        lattices: dict[float, list[tuple[LatticeLoss, int]]] = {sign: [] for sign in signs}
        for part, (pair, count) in enumerate(self.parts):
            edges = self.sketch.edges(part, self.window, spacing, _MAX_BINS // len(self.parts))
            bins, infinite = pair.bins(spacing * edges.astype(np.float64)), pair.infinite()[0]
            blur += count * (bins.blur + 8 * _U * spacing * float(np.abs(edges[[0, -1]]).max()))
            for sign, chosen in lattices.items():
                lattice = (
                    above(bins, edges, spacing, infinite)
                    if sign > 0.0
                    else below(bins, edges, spacing, infinite, self.saddle.tilt)
                )
                chosen.append((lattice, count))
        return [
            (compose(chosen, self.window, size, pessimistic=sign > 0.0), blur)
            for sign, chosen in lattices.items()
        ]

    def spacing(self, accuracy: float, factor: float = 1.0) -> float:
        """The mesh for a relative accuracy, or a part of it."""
        # A law that moves by more than its deviation leaves the window.
        gap = min(accuracy / self.query.slope(self.saddle), self.saddle.deviation)
        spacing = math.sqrt(2.8 * gap / (self.total * (self.saddle.tilt + 1.0)))
        widest = max(last - first for first, last in self.sketch.ends)
        spacing = min(spacing, max(0.5 * self.saddle.deviation, 1e-3 * widest))
        spacing = max(factor * spacing, self._finest())
        smallest, largest = self.parts[0][0].range()
        half = 0.5 * (largest - smallest)
        if len(self.parts) == 1 and self._finest() <= half < math.inf:
            # The ends of a bounded loss, often atoms, become lattice points.
            return half / math.ceil(half / spacing)
        return spacing

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
        return answers, max(each.log_error(epsilon) for each, _ in found) - log_delta

    def _look(self, log_part: float) -> None:
        """Lay the window around the saddle, where ``delta = e^(log_part + K)``."""
        self.window = self.sketch.window(
            self.saddle, max(1e-3 * self.accuracy * math.exp(min(log_part, 0.0)), _MIN_TAIL)
        )

    def _aim(self, answer: float, noise: float) -> bool:
        """Look around an answer, if that is not where the window was, or what it left out counts.

        ``noise`` is the logarithm of the error that the window may be to blame for, over delta.
        """
        epsilon, log_delta = self.query.place(answer)
        away = abs(epsilon - self.saddle.mean) > 3.0 * self.saddle.deviation
        if self.aims == _MAX_AIMS or not (away or noise > math.log(0.1 * self.accuracy)):
            return False
        if not (math.isfinite(epsilon) and math.isfinite(log_delta)):
            return False
        self.aims, self.saddle = self.aims + 1, self.sketch.with_mean(epsilon)
        at_epsilon = self.saddle.log_scale + self.saddle.tilt * (self.saddle.mean - epsilon)
        self._look(log_delta - at_epsilon)
        return True

    def _finest(self) -> float:
        widest = max(last - first for first, last in self.sketch.ends)
        return 1.01 * max(self.window.top - self.window.bottom, 0.5 * widest) / self.largest


def _transform_size(points: float) -> int:
    """The smallest of ``2^k``, ``5/8 2^k`` and ``3/4 2^k`` that is large enough, at least 16."""
    power = 2 ** max(4, math.ceil(math.log2(points)))
    return next(size for size in (power * 5 // 8, power * 3 // 4, power) if size >= points)
