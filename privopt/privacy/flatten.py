"""A composition seen as a bag: which releases were made, and how often each.

Close steps taken together: an event of few distinct releases above, and one below.

A release tells less with more noise, and with a smaller rate. So a group of releases of one kind
tells no more than as many with the least noise and the largest rate among them, and no less than
as many with the most noise and the smallest rate. More Gaussian or Laplace noise is
post-processing: their laws are those of less noise plus something independent. For the rate,
``H_gamma`` of ``(1 - q) Q + q P`` against ``Q``, in either order, and of the pair that replaces a
record, is the mean of the positive part of an affine function of ``q``: convex, and at ``q = 0``
as small as it can be. Domination of every step carries over to the composition.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any, NamedTuple, TypeAlias

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.privacy.events import PublicMixtureDpEvent
from privopt.privacy.numbers import Interval, check_probabilities, is_multiplicity

_COMPOSITIONS = (
    dp.NoOpDpEvent,
    dp.ComposedDpEvent,
    dp.SelfComposedDpEvent,
    PublicMixtureDpEvent,
)

_Parts: TypeAlias = tuple[Sequence[dp.DpEvent], int]


def flatten(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, int]]:
    """The events left when composition is taken apart, each with its multiplicity.

    Adaptive composition depends on nothing else. No-ops and zero-fold compositions vanish; an
    event that is not understood, such as a composition with a malformed count, is itself a leaf,
    so that no accountant will claim to support it. An object that stands at several places is
    looked at once: thirty doublings are thirty steps.

    What all sides of a public coin release is taken out of the mixture: hockey-stick divergences
    of ``sum_k p_k (P_k x P)`` are those of ``(sum_k p_k P_k) x P``.
    """
    order = list(_parts_first(event))
    multiplicity: dict[int, int] = defaultdict(int, {id(event): 1})
    for whole, apart in reversed(order):
        if apart is None:
            continue
        parts, times = apart
        times *= multiplicity[id(whole)]
        for part in parts:
            multiplicity[id(part)] += times
    for each, apart in order:
        count = multiplicity[id(each)]
        if count and apart is None:
            yield each, count


def first_unsupported(event: dp.DpEvent, supports: Callable[[dp.DpEvent], bool]) -> dp.DpEvent:
    """The first leaf that is not supported; the event itself if its leaves are, one by one."""
    return next((leaf for leaf, _ in flatten(event) if not supports(leaf)), event)


def _parts_first(event: dp.DpEvent) -> Iterator[tuple[dp.DpEvent, _Parts | None]]:
    """Every object in the tree once, with its parts, before the whole, from left to right."""
    seen: set[int] = set()
    stack: list[tuple[dp.DpEvent, bool, _Parts | None]] = [(event, False, None)]
    while stack:
        each, finished, apart = stack.pop()
        if finished:
            yield each, apart
        elif id(each) not in seen:
            seen.add(id(each))
            apart = _taken_apart(each) if isinstance(each, _COMPOSITIONS) else None
            if apart is None:
                yield each, None
                continue
            stack.append((each, True, apart))
            stack.extend([(part, False, None) for part in reversed(apart[0])])


def _taken_apart(event: dp.DpEvent) -> _Parts | None:
    """The parts of a composition and how often they are repeated; None if it is none."""
    match event:
        case dp.NoOpDpEvent():
            return (), 0
        case dp.ComposedDpEvent(events=list() | tuple() as events):
            return events, 1
        case dp.SelfComposedDpEvent(event=part, count=count) if is_multiplicity(count):
            return (part,), int(count)
        case PublicMixtureDpEvent(events=list() | tuple() as events, probabilities=law):
            return _shared(events, law)
    return None


def _shared(events: Sequence[dp.DpEvent], law: Sequence[float]) -> _Parts | None:
    """What every side of a coin releases, and a mixture of the rest; None if they share nothing."""
    found = check_probabilities(law)
    if found is None or len(law) != len(events):
        return None
    known: dict[Hashable, dp.DpEvent] = {}

    def bag(event: dp.DpEvent) -> Counter[Hashable]:
        counts: Counter[Hashable] = Counter()
        for leaf, count in flatten(event):
            counts[key := _key(leaf)] += count
            known[key] = leaf
        return counts

    def composed(counts: Counter[Hashable]) -> dp.DpEvent:
        parts = [repeat(known[key], count) for key, count in counts.items()]
        return parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)

    sides = [(bag(each), share) for each, share in zip(events, law, strict=True) if share > 0.0]
    bags, shares = zip(*sides, strict=True)
    common = reduce(and_, bags)
    if not common:
        return None
    rest = [each - common for each in bags]
    if not any(rest) and found[1] == 0.0:
        return (composed(common),), 1
    return (composed(common), PublicMixtureDpEvent(tuple(map(composed, rest)), shares)), 1


def _key(leaf: dp.DpEvent) -> Hashable:
    """Equal for equal leaves; of what holds lists or arrays, for one object alone."""
    try:
        hash(leaf)
    except TypeError:
        return id(leaf)
    return leaf


def repeat(event: dp.DpEvent, count: int) -> dp.DpEvent:
    """The event so many times; once is itself."""
    return event if count == 1 else dp.SelfComposedDpEvent(event, count)


_MAX_RELEASES = 200  # distinct releases; of these each is looked at
_RELATIVE_WIDTH = 2e-3  # as accurate as others are
_REASON = "close steps were taken together"

_NOISES = (dp.GaussianDpEvent, dp.LaplaceDpEvent)

Array: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.object_]  # multiplicities have no bound
Kind: TypeAlias = tuple[Any, ...]


class _Group(NamedTuple):
    """Releases of one kind: those with these numbers among all of the kind."""

    kind: Kind
    noise: Array
    rate: Array
    times: Counts


def bounding_events(event: dp.DpEvent) -> tuple[dp.DpEvent, dp.DpEvent]:
    """What tells at least as much as ``event``, and what tells at most as much.

    The event itself, twice, if it has few distinct releases. Groups are split where their
    spread costs most, until there are as many as the accountants can look at.
    """
    bag = list(flatten(event))
    if len(bag) <= _MAX_RELEASES:
        return event, event
    counts: dict[tuple[Kind, float, float], int] = defaultdict(int)
    rest: list[dp.DpEvent] = []
    for leaf, count in bag:
        place = _place(leaf)
        if place is None:
            rest.append(repeat(leaf, count))
        else:
            counts[place] += count
    groups = _split(_groups(counts), max(1, _MAX_RELEASES - len(rest)))
    above, below = (
        dp.ComposedDpEvent(
            [
                repeat(_release(each.kind, noise(each.noise), rate(each.rate)), each.times.sum())
                for each in groups
            ]
            + rest
        )
        for noise, rate in ((np.min, np.max), (np.max, np.min))
    )
    return above, above if len(counts) == len(groups) else below


def combine_bounds(
    ask: Callable[[dp.DpEvent], Interval], ends: tuple[dp.DpEvent, dp.DpEvent]
) -> Interval:
    """The answer about an event, from those about the two ends of its ``bracket``."""
    above, below = ends
    upper = ask(above)
    if below is above:
        return upper
    found = Interval(min(ask(below).lower, upper.upper), upper.upper)
    if found.width <= _RELATIVE_WIDTH * found.upper < math.inf:
        return found
    return replace(found, reason=upper.reason or _REASON)


def _place(leaf: dp.DpEvent) -> tuple[Kind, float, float] | None:
    """Kind, noise and rate of a release; None if it cannot be taken together with others."""
    kind: Kind = (type(leaf),)
    inner, rate = leaf, 1.0
    if isinstance(leaf, dp.PoissonSampledDpEvent):
        inner, rate = leaf.event, leaf.sampling_probability
        kind = dp.PoissonSampledDpEvent, type(inner)
    elif isinstance(leaf, dp.SampledWithoutReplacementDpEvent):
        inner = leaf.event
        batch = leaf.source_dataset_size, leaf.sample_size
        kind = dp.SampledWithoutReplacementDpEvent, type(inner), *batch
    if type(inner) not in _NOISES:
        return None
    noise = inner.noise_multiplier
    return (kind, noise, rate) if _is_number(noise) and _is_number(rate) and rate <= 1.0 else None


def _release(kind: Kind, noise: np.float64, rate: np.float64) -> dp.DpEvent:
    """One release of a kind."""
    if kind[0] is dp.PoissonSampledDpEvent:
        return dp.PoissonSampledDpEvent(float(rate), kind[1](float(noise)))
    if kind[0] is dp.SampledWithoutReplacementDpEvent:
        return dp.SampledWithoutReplacementDpEvent(kind[2], kind[3], kind[1](float(noise)))
    return kind[0](float(noise))


def _is_number(x: object) -> bool:
    return isinstance(x, float) and 0.0 < x < math.inf


def _groups(counts: dict[tuple[Kind, float, float], int]) -> list[_Group]:
    """One group a kind."""
    rows: dict[Kind, list[tuple[float, float, int]]] = defaultdict(list)
    for (kind, noise, rate), count in counts.items():
        rows[kind].append((noise, rate, count))
    groups = []
    for kind, each in rows.items():
        noises, rates, times = zip(*each, strict=True)
        groups.append(
            _Group(kind, np.array(noises), np.array(rates), np.array(times, dtype=object))
        )
    return groups


def _split(groups: list[_Group], most: int) -> list[_Group]:
    """Halve the costliest group along the longer of its logarithmic sides, again and again."""
    heap = [(-_cost(each), number, each) for number, each in enumerate(groups)]
    heapq.heapify(heap)
    number = len(heap)
    while heap[0][0] < 0.0 and len(heap) < most:
        _, _, widest = heapq.heappop(heap)
        sides = widest.noise, widest.rate
        side = max(sides, key=lambda each: float(each.max() / each.min()))
        low = side <= math.sqrt(float(side.min())) * math.sqrt(float(side.max()))
        if low.all() or not low.any():  # neighbouring floats
            low = side == side.min()
        for half in (low, ~low):
            part = widest._replace(
                noise=widest.noise[half], rate=widest.rate[half], times=widest.times[half]
            )
            heapq.heappush(heap, (-_cost(part), number, part))
            number += 1
    return [each for _, _, each in heap]


def _cost(group: _Group) -> float:
    """About what a group adds to the squared loss, times its spread; zero for a single point."""
    spread = math.log(group.noise.max()) - math.log(group.noise.min())
    spread += math.log(group.rate.max()) - math.log(group.rate.min())
    if group.noise.max() == group.noise.min() and group.rate.max() == group.rate.min():
        return 0.0
    count = np.minimum(group.times, 10**15).astype(np.float64)
    weight = float(count @ np.minimum(group.rate / group.noise, 1e50) ** 2)
    return max(spread * weight, 1e-300)
