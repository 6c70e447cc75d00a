"""Gaussian differential privacy of any release: certified bounds of the smallest ``mu``."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import dp_accounting as dp
from scipy.special import ndtr

from privopt.privacy.accountants import GaussianDP
from privopt.privacy.flatten import flatten
from privopt.privacy.gaussian import gaussian_mu, log_delta_bounds
from privopt.privacy.mechanisms.base import COST_UP, gaussian_cost, round_up_cost
from privopt.privacy.numbers import Interval, U, weighted_sum
from privopt.spec import Relation

_MAX_EXPONENT = 700.0  # the exponential is a float64
_SMALL_DELTAS = (1e-200, 1e-100, 1e-12)
_UNBOUNDED = "the privacy loss is unbounded; the upper end ignores sampling"
_TAIL_ERROR = 2.0**-36  # relative, of ndtr at -40 and above
_RELATIVE = 1e-3  # distance of the ends
_MAX_POINTS = 60
_SEGMENTS = 8  # of a profile, before the first is halved
_NOT_CLOSE = "the bounds of the privacy profile are farther apart"
_MAX_MU = 1e4  # a larger mu is reported as infinite

_Bounds: TypeAlias = Callable[[float], Interval]
_Corner: TypeAlias = tuple[float, float]  # epsilon, upper bound of delta


def smallest_mu(
    event: dp.DpEvent, relation: Relation, floor: float, epsilon: _Bounds, delta: _Bounds
) -> Interval:
    """Return bounds of the smallest ``mu``, as ``Guarantee.mu`` states them, at ``floor``.

    ``epsilon`` and ``delta`` return certified bounds for the event.
    """
    gaussian = GaussianDP()
    if floor == 0.0 and gaussian.supports(event, relation):
        return gaussian.distance(event, relation)
    largest = epsilon(floor).upper
    if largest <= _MAX_EXPONENT:
        result = covering_mu(delta, largest, floor)
    elif epsilon(floor or _SMALL_DELTAS[0]).lower == math.inf:
        return Interval(math.inf, math.inf)
    else:  # the profile is bounded from below at a few points, and above a larger floor
        points = [(epsilon(each).lower, each) for each in _SMALL_DELTAS if each > floor]
        proofs = [gaussian_mu(x, each - floor) for x, each in points if x > 0.0]
        if floor < _SMALL_DELTAS[-1]:
            above = smallest_mu(event, relation, _SMALL_DELTAS[-1], epsilon, delta)
            proofs.append(above.lower)
        result = Interval(max(proofs, default=0.0), math.inf, _UNBOUNDED)
    upper = min(result.upper, unsampled_mu(event, relation))
    lower = min(result.lower, upper)
    return Interval(lower, upper, result.reason if upper > 1.001 * lower else "")


def unsampled_mu(event: dp.DpEvent, relation: Relation) -> float:
    """Return a ``mu`` for which the event is ``mu``-GDP, or infinity if none is known.

    It is that of the event without sampling. Given the batch, a sampled release is the release
    itself or does not depend on the record, and hockey-stick divergences are jointly convex.
    Batches of fixed size change by one record only if the number of records is fixed.
    """
    squares = []
    for leaf, count in flatten(event):
        fixed_size = isinstance(leaf, dp.SampledWithoutReplacementDpEvent)
        if isinstance(leaf, dp.PoissonSampledDpEvent) or (
            fixed_size and relation is not Relation.ADD_OR_REMOVE_ONE
        ):
            square = unsampled_mu(leaf.event, relation) ** 2 * COST_UP
        else:
            cost = gaussian_cost(leaf, relation)
            square = math.inf if cost is None else round_up_cost(cost)
        squares.append((square, count))
    return math.sqrt(weighted_sum(squares)) * COST_UP


def covering_mu(profile: _Bounds, largest: float, floor: float = 0.0) -> Interval:
    """Return bounds of the smallest ``mu`` with ``profile(x) <= delta(x; mu) + floor``, ``x >= 0``.

    ``profile`` returns certified bounds of a privacy profile. It is at most ``floor`` at
    ``largest``, where ``largest <= 700``. The ends differ by a factor of about 1.001, unless 60
    points are evaluated. Proof: :ref:`Accountants, Theorem 4 <theory-accountants-4>`.
    """
    lower = limit = 0.0  # limit: no number of points brings the upper end below it

    def evaluate(x: float) -> float:
        nonlocal lower, limit
        bounds = profile(x)
        least, most = (min((end - floor) * (1.0 - 4 * U), 1.0 - U) for end in bounds)
        lower = max(lower, gaussian_mu(x, least)) if least > 0.0 else lower
        limit = max(limit, gaussian_mu(x, most)) if most > 0.0 else limit
        return bounds.upper

    grid = [largest * i / _SEGMENTS for i in range(_SEGMENTS + 1)]
    tops = [evaluate(x) for x in grid[:-1]] + [floor]
    corners = list(zip(grid, tops, strict=True))
    heap = [(-_segment_mu(*ends, floor), *ends) for ends in pairwise(corners)]
    heapq.heapify(heap)
    for _ in range(_MAX_POINTS - _SEGMENTS):
        upper, start, end = heap[0]
        middle = 0.5 * (start[0] + end[0])
        if -upper <= limit * (1.0 + _RELATIVE) or middle in (start[0], end[0]):
            break
        corner = middle, min(evaluate(middle), start[1])
        heapq.heapreplace(heap, (-_segment_mu(start, corner, floor), start, corner))
        heapq.heappush(heap, (-_segment_mu(corner, end, floor), corner, end))
    upper = -heap[0][0]
    close = upper <= lower * (1.0 + 2.0 * _RELATIVE)
    return Interval(min(lower, upper), upper, "" if close else _NOT_CLOSE)


def _segment_mu(left: _Corner, right: _Corner, floor: float) -> float:
    """Return a ``mu`` that is proved between two corners, within 1e-6 of the smallest such one."""
    if left[1] <= floor:
        return 0.0
    outside, inside = 0.0, 1e-8
    while not _covers(inside, left, right, floor):
        outside, inside = inside, 2.0 * inside
        if inside > _MAX_MU:
            return math.inf
    while inside > outside * (1.0 + 1e-6) and inside > 1e-8:
        middle = 0.5 * (inside + outside)
        if _covers(middle, left, right, floor):
            inside = middle
        else:
            outside = middle
    return inside


def _covers(mu: float, left: _Corner, right: _Corner, floor: float) -> bool:
    """Return True if two tangents of ``delta(.; mu) + floor`` prove that it is above the chord."""
    (a, top_a), (b, top_b) = left, right
    above_a, above_b = (
        (math.exp(log_delta_bounds(x, mu)[0]) + floor) * (1.0 - 8 * U) - top * (1.0 + 8 * U)
        for x, top in (left, right)
    )
    if above_a < 0.0 or above_b < 0.0:
        return False
    width = math.exp(a) * math.expm1(b - a)
    tail_a, tail_b = (float(ndtr(-(x / mu + 0.5 * mu))) for x in (a, b))
    slope_a = -tail_a * (1.0 + _TAIL_ERROR) - 1e-300  # rounded away from zero,
    slope_b = -max(0.0, tail_b * (1.0 - _TAIL_ERROR) - 1e-300)  # and towards zero
    chord = (top_b - top_a) / width
    fall, rise = slope_a - chord, slope_b - chord
    if fall >= 0.0 or rise <= 0.0:
        return True
    crossing = min(max((above_a - above_b + rise * width) / (rise - fall), 0.0), width)
    rounding = _TAIL_ERROR * (top_a + (abs(slope_a) + abs(chord)) * crossing)
    return above_a + fall * crossing >= rounding
